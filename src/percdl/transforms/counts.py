"""Check the number of parameters of a transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError

# IPU solves systems with this many unknowns; practical models have fewer than half.
MOST_PARAMS = 2**16


def check_count(transform: str, name: str, value: Any) -> None:
    """Raise if an argument of a transform is not a valid number of parameters.

    >>> check_count("Modulation", "knots", 8)
    """
    if not isinstance(value, int | np.integer) or not 1 <= value <= MOST_PARAMS:
        raise InvalidParameterError(
            f"`{transform}({name}={value!r})` must be an integer of at least 1 and at most "
            f"{MOST_PARAMS}."
        )
