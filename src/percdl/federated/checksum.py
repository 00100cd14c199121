"""One checksum for whatever crosses: facts as JSON knows them, and arrays by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from percdl.federated.keys import frame


def checksum(facts: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Return 64 hexadecimal digits that nothing else has: two that have them mean the same.

    >>> one = checksum({"a": 1, "b": 2}, {"x": np.zeros(2)})
    >>> one == checksum({"b": 2, "a": 1}, {"x": np.zeros(2)})
    True
    >>> one == checksum({"a": 1, "b": 2}, {"x": np.zeros((2, 1))})
    False
    """
    total = hashlib.sha256(frame(json.dumps(facts, sort_keys=True)))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(frame(name, array.dtype.str, str(arrays[name].shape), array.tobytes()))
    return total.hexdigest()
