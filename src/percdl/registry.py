"""Functions of higher layers, registered by the top of the package: imports form no circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_finders: dict[str, Callable[[], Callable[..., Any]]] = {}


def register(name: str, find: Callable[[], Callable[..., Any]]) -> None:
    """Register a function under a name; ``find`` imports and returns it on first use."""
    _finders[name] = find


def look_up(name: str) -> Callable[..., Any]:
    """Return a registered function."""
    return _finders[name]()
