"""How many parameters a transform may be asked to have."""

from __future__ import annotations

from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError

# IPU solves systems of as many unknowns: nobody has fitted half as many.
MOST_PARAMS = 2**16


def check_count(transform: str, name: str, value: Any) -> None:
    """Raise where an argument of a transform is no number of parameters.

    >>> check_count("Modulation", "knots", 8)
    """
    if not isinstance(value, int | np.integer) or not 1 <= value <= MOST_PARAMS:
        raise InvalidParameterError(
            f"`{transform}({name}={value!r})` must be an integer of at least 1 and at most "
            f"{MOST_PARAMS}."
        )
