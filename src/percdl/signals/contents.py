"""What a file must hold, written down as data: kinds of JSON values and of arrays.

A description is a value of the classes below, and reads like the file it describes. Whoever reads
a file checks it whole before anything in it is used, so that names select from tables, sizes
agree and numbers are in range; a `ValueError` says where they do not.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

# JSON numbers beyond it are not exact everywhere.
MOST_WHOLE = 2**53
LARGEST = sys.float_info.max
# What a person or a command writes is not nested deeper.
MOST_NESTED = 8


@runtime_checkable
class Kind(Protocol):
    """Something a JSON value can be."""

    def check(self, value: Any, where: str) -> None:
        """Raise `ValueError`, naming the place, where a value is something else."""
        ...


@dataclass(frozen=True)
class Text:
    """A string; with a pattern, one that matches it as a whole."""

    pattern: str | None = None

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such string."""
        _need(isinstance(value, str), value, where, "text")
        if self.pattern is not None:
            _need(re.fullmatch(self.pattern, value), value, where, f"text like {self.pattern}")


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is neither."""
        _need(isinstance(value, bool), value, where, "true or false")


@dataclass(frozen=True)
class Whole:
    """An integer within bounds."""

    least: int = 0
    most: int = MOST_WHOLE

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such integer."""
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        words = f"an integer from {self.least} to {self.most}"
        _need(is_whole and self.least <= value <= self.most, value, where, words)


@dataclass(frozen=True)
class Number:
    """A number within bounds; by default any that is finite. With ``gaps``, NaN as well."""

    least: float = -LARGEST
    most: float = LARGEST
    gaps: bool = False

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such number."""
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        words = f"a number from {self.least:g} to {self.most:g}"
        within = is_number and (self.least <= value <= self.most or (self.gaps and value != value))
        _need(within, value, where, words)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is none of them."""
        known = any(type(value) is type(one) and value == one for one in self.values)
        _need(known, value, where, f"one of {', '.join(map(repr, self.values))}")


@dataclass(frozen=True)
class Either:
    """One of several kinds, tried in order; the last one says what is wrong."""

    kinds: tuple[Kind, ...]

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is of none of the kinds."""
        *others, last = self.kinds
        for kind in others:
            try:
                return kind.check(value, where)
            except ValueError:
                continue
        last.check(value, where)


def maybe(kind: Kind) -> Either:
    """Return the kind that is nothing, too."""
    return Either((Choice((None,)), kind))


@dataclass(frozen=True)
class Many:
    """A list of so many values of one kind."""

    kind: Kind
    most: int = MOST_WHOLE
    least: int = 0

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such list."""
        _need(isinstance(value, list), value, where, "a list")
        fits = self.least <= len(value) <= self.most
        _need(fits, value, where, f"a list of {self.least} to {self.most}")
        for i, item in enumerate(value):
            self.kind.check(item, f"{where}[{i}]")


@dataclass(frozen=True)
class Row:
    """A list of as many values as there are kinds."""

    kinds: tuple[Kind, ...]

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such list."""
        fits = isinstance(value, list) and len(value) == len(self.kinds)
        _need(fits, value, where, f"a list of {len(self.kinds)}")
        for i, (kind, item) in enumerate(zip(self.kinds, value, strict=True)):
            kind.check(item, f"{where}[{i}]")


@dataclass(frozen=True)
class Record:
    """An object with these names and no others; ``optional`` ones may be missing."""

    required: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such object."""
        _need(isinstance(value, dict), value, where, "an object")
        check_names(value, self.required, self.optional, where)
        for name, item in value.items():
            kind = self.required.get(name) or self.optional[name]
            kind.check(item, f"{where}.{name}" if where else name)


@dataclass(frozen=True)
class ByName:
    """An object whose names are free and whose values are of one kind."""

    kind: Kind

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is no such object."""
        _need(isinstance(value, dict), value, where, "an object")
        for name, item in value.items():
            self.kind.check(item, f"{where}.{name}")


@dataclass(frozen=True)
class FreeForm:
    """Anything that nothing is made of: it is shown, or kept, as it is."""

    most_nested: int = MOST_NESTED

    def check(self, value: Any, where: str) -> None:
        """Raise where a value is nested too deeply, or a number has too many digits."""
        if isinstance(value, (list, dict)):
            _need(self.most_nested > 0, value, where, f"nested at most {MOST_NESTED} times")
            items = value.values() if isinstance(value, dict) else value
            for item in items:
                FreeForm(self.most_nested - 1).check(item, where)
        elif isinstance(value, int):
            Whole(-MOST_WHOLE, MOST_WHOLE).check(int(value), where)


@dataclass(frozen=True)
class Array:
    """An array: its types, its axes, and the range of its numbers.

    Attributes
    ----------
    types : str
        Names of NumPy types, one of which it has.
    axes : str
        One word for each axis: a size, or a letter that stands for the same size wherever it is
        met, as in "S K M".
    least, most : float
        Range of all numbers.
    gaps : bool
        Whether NaN is allowed.
    """

    types: str
    axes: str
    least: float = -LARGEST
    most: float = LARGEST
    gaps: bool = False

    def check(self, array: np.ndarray, where: str, sizes: dict[str, int]) -> None:
        """Raise where an array is none of these; sizes met for the first time are noted."""
        if array.dtype.name not in self.types.split():
            raise ValueError(f"`{where}` holds {array.dtype.name}, not {self.types}")
        axes = self.axes.split()
        needed = [
            int(axis) if axis.isdigit() else sizes.setdefault(axis, n)
            for axis, n in zip(axes, array.shape, strict=False)
        ]
        if len(axes) != array.ndim or needed != list(array.shape):
            told = ", ".join(f"{a}={n}" for a, n in zip(axes, needed, strict=False))
            raise ValueError(f"`{where}` has shape {array.shape}, not ({self.axes}) with {told}")
        within = np.isfinite(array)
        if self.least > -LARGEST or self.most < LARGEST:  # else types have other largest numbers
            within &= (array >= self.least) & (array <= self.most)
        if self.gaps:
            within |= np.isnan(array)
        if not within.all():
            raise ValueError(
                f"`{where}` holds {array[~within].flat[0]}, not numbers from {self.least:g} to "
                f"{self.most:g}"
            )


def check_arrays(
    arrays: Mapping[str, np.ndarray],
    required: Mapping[str, Array],
    optional: Mapping[str, Array] | None = None,
    sizes: dict[str, int] | None = None,
) -> dict[str, int]:
    """Raise where arrays are not those described; return the sizes of the axes, by letter."""
    sizes = {} if sizes is None else sizes
    optional = optional or {}
    check_names(arrays, required, optional, "")
    for name, described in (*required.items(), *optional.items()):
        if name in arrays:
            described.check(arrays[name], name, sizes)
    return sizes


def check_names(
    found: Mapping[str, Any], required: Mapping[str, Any], optional: Mapping[str, Any], where: str
) -> None:
    """Raise where a name is missing, or one too many."""
    place = f" in `{where}`" if where else ""
    for name in required:
        if name not in found:
            raise ValueError(f"`{name}` is missing{place}")
    for name in found:
        if name not in required and name not in optional:
            raise ValueError(f"{_short(name)} is not known{place}")


def read_json(text: str) -> Any:
    """Parse JSON; a name that comes twice, or nesting without end, is a `ValueError`."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in its JSON")
    return found


def _need(condition: object, value: Any, where: str, words: str) -> None:
    if not condition:
        raise ValueError(f"`{where}` is {_short(value)}, not {words}")


def _short(value: Any) -> str:
    """Write a value out, its beginning if it is long; sizes only where writing would be slow."""
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return repr(value)[:60] if not isinstance(value, str) else repr(value[:60])
