"""A method and an argument of one name: ``PerCDL(transform=f)`` and ``model.transform(X)``."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any


class SharedName:
    """Give the method on reading, store the argument on writing.

    scikit-learn fixes the name of the method, the paper's vocabulary that of the argument.
    The argument lies in the instance's ``__dict__``, where `argument` finds it.
    """

    def __init__(self, method: Callable[..., Any], name: str):
        self.method = method
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.method if instance is None else MethodType(self.method, instance)

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self.name] = value


def argument(instance: Any, name: str) -> Any:
    """Return the constructor argument behind a shared name."""
    return vars(instance)[name]
