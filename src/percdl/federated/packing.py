"""Sums as one vector of numbers, in an order and at scales that both ends know beforehand.

A site sends ``8 n`` bytes in a round, with n numbers. With K atoms of L samples and P channels,
margins of R samples, Q masks and a time warp shared by the channels, a round of the first phase
has ``n = 4 + K + K (L + 2R) (P + Q)``; one of the second ``n = 4 + 7 K + K L (L + 1) / 2 +
K L (P + 3)``, where the Gram matrix of an atom is symmetric and half of it is sent. That is
O(L^2) per atom and site; the paper's Algorithm 2 sends O(L) per atom and *subject*, and everyone's
parameters with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from percdl.algorithm.exchange import Sums
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import personal_shapes, population_shapes
from percdl.exceptions import FederationError
from percdl.runtimes.messages import Kind

# What bounds a sum: the energy of the signals, the number of activations or of subjects, or
# both, depending on how subjects are weighted.
Unit = Literal["energy", "activations", "subjects", "weighting"]

UNITS: dict[str, Unit] = {
    "objective": "energy",
    "objective_fitted": "energy",
    "energy": "energy",
    "signal": "energy",
    "counts": "activations",
    "moment": "weighting",
    "weight": "weighting",
    "ztx": "energy",
    "ztz": "energy",
    "gram": "weighting",
    "transported": "weighting",
    "copies": "subjects",
    "warp": "subjects",
    "squared_displacement": "subjects",
    "inverse_warp": "subjects",
    "mixing": "subjects",
    "n_warps": "subjects",
    "votes": "subjects",
    "misfit": "weighting",
}
SYMMETRIC = ("gram",)
# Powers of two by which a sum may exceed its unit: warps of an atom's energy, amplitudes of atoms
# that a transform makes small, activations that overlap and cancel.
ROOM_ENERGY, ROOM_SUBJECT, ROOM_WEIGHTED = 8, 4, 12


# Largest power of two of a bound: with the room above, scales stay numbers.
MOST_EXPONENT = 960


class Bounds(NamedTuple):
    """How much signal there is in all, as powers of two: its energy, and its samples."""

    energy: int
    samples: int

    @property
    def plausible(self) -> bool:
        """Whether sums within these bounds, and what is computed of them, are numbers."""
        return max(map(abs, self)) <= MOST_EXPONENT

    @classmethod
    def covering(cls, parts: list[Bounds]) -> Bounds:
        """Return bounds of the sum of some signals, from the bounds of each."""
        energies, samples = zip(*parts, strict=True)
        return cls(*(exponent(sum(2.0**e for e in column)) for column in (energies, samples)))


@dataclass(frozen=True)
class Entry:
    """One field of the sums: its name, its shape, and what bounds it."""

    name: str
    shape: tuple[int, ...]
    unit: Unit

    @property
    def size(self) -> int:
        """How many numbers it takes."""
        if self.name in SYMMETRIC:
            side = self.shape[-1]
            return math.prod(self.shape[:-2]) * side * (side + 1) // 2
        return math.prod(self.shape)

    def flatten(self, value: Any) -> np.ndarray:
        """Return the numbers of a field."""
        array = np.asarray(value, float)
        if array.shape != self.shape:
            raise FederationError(
                f"The sum `{self.name}` has shape {array.shape}, and {self.shape} was agreed on. "
                "Coordinator and sites must run the same version of percdl."
            )
        if self.name in SYMMETRIC:
            return array[..., *np.triu_indices(self.shape[-1])].ravel()
        return array.ravel()

    def restore(self, numbers: np.ndarray) -> Any:
        """Return the field of some numbers."""
        if not self.shape:
            return float(numbers[0])
        if self.name not in SYMMETRIC:
            return numbers.reshape(self.shape)
        rows, columns = np.triu_indices(self.shape[-1])
        array = np.empty(self.shape)
        array[..., rows, columns] = numbers.reshape(*self.shape[:-2], -1)
        array[..., columns, rows] = array[..., rows, columns]
        return array


@dataclass(frozen=True)
class Layout:
    """The order of all numbers of a round.

    Attributes
    ----------
    entries : tuple of Entry
        The fields that are not empty, in the order of `Sums`.
    """

    entries: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """n, how many numbers there are."""
        return sum(entry.size for entry in self.entries)

    def pack(self, sums: Sums) -> np.ndarray:
        """Return sums as a vector (n,)."""
        return np.concatenate([entry.flatten(getattr(sums, entry.name)) for entry in self.entries])

    def unpack(self, vector: np.ndarray) -> Sums:
        """Return the sums of a vector (n,)."""
        ends = np.cumsum([entry.size for entry in self.entries])
        parts = np.split(np.asarray(vector, float), ends[:-1])
        pairs = zip(self.entries, parts, strict=True)
        return Sums(**{entry.name: entry.restore(part) for entry, part in pairs})

    def scales(self, bounds: Bounds, settings: Settings) -> np.ndarray:
        """Return what none of the numbers exceeds, array (n,), all powers of two."""
        return np.concatenate(
            [np.full(e.size, 2.0 ** _exponent(e, bounds, settings)) for e in self.entries]
        )

    def add(self, parts: dict[str, np.ndarray]) -> np.ndarray:
        """Return the total of the vectors of some sites; refuse one that exceeds all numbers."""
        with np.errstate(over="ignore"):
            total = np.sum(list(parts.values()), axis=0)
        bad = np.flatnonzero(~np.isfinite(total))
        if bad.size:
            largest = max(parts, key=lambda site: abs(parts[site][bad[0]]))
            raise FederationError(
                f"The sum `{self.locate(int(bad[0]))}` exceeds all numbers; the largest part of "
                f"it is from site {largest}. Have it look at its recordings, or leave it out."
            )
        return total

    def locate(self, position: int) -> str:
        """Name the field that a number belongs to."""
        ends = np.cumsum([entry.size for entry in self.entries])
        return self.entries[int(np.searchsorted(ends, position, side="right"))].name


def layout_of(kind: Kind, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the answers to a kind of round."""
    shapes_of = population_shapes if kind == "population" else personal_shapes
    shapes = shapes_of(settings, n_masks)
    names = [field.name for field in fields(Sums) if field.name in shapes]
    return Layout(tuple(Entry(name, shapes[name], _unit(name, settings)) for name in names))


def exponent(value: float) -> int:
    """Return the least power of two that is not below a positive value."""
    if not 0 < value < math.inf:
        raise FederationError(
            f"The energy of the recordings is {value:g}. Scale the signals to other units."
        )
    return math.ceil(math.log2(value))


def _unit(name: str, settings: Settings) -> Unit:
    """Return what bounds a field; subjects that count once each do not count by energy."""
    unit = UNITS[name]
    if unit != "weighting" or settings.weighting == "subjects":
        return unit
    return "energy"


def _exponent(entry: Entry, bounds: Bounds, settings: Settings) -> int:
    """Return the power of two that bounds a field."""
    if entry.unit == "energy":
        return bounds.energy + ROOM_ENERGY
    if entry.unit == "activations":
        return bounds.samples + exponent(settings.n_atoms)
    # Nobody's recording is shorter than an atom.
    n_subjects = bounds.samples - int(math.log2(settings.atom_length))
    if entry.unit == "weighting":
        return n_subjects + ROOM_WEIGHTED
    if entry.name in ("warp", "inverse_warp"):
        return n_subjects + exponent(settings.atom_length)
    if entry.name == "squared_displacement":
        return n_subjects + 2 * exponent(settings.atom_length)
    return n_subjects + ROOM_SUBJECT
