"""Sums as one vector, in an order and at scales that both ends know beforehand.

A site sends ``8 n`` bytes in a round, with n numbers. With K atoms of L samples and P channels,
margins of R samples, Q masks and a time warp shared by the channels, a round of the first phase
has ``n = 4 + K + K (L + 2R) (P + Q)``; one of the second ``n = 4 + 7 K + K L (L + 1) / 2 +
K L (P + 3)``, as only half of each symmetric Gram matrix is sent. That is O(L^2) per atom and
site; the paper's Algorithm 2 sends O(L) per atom and *subject*, parameters included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from percdl.algorithm.exchange import Sums
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import personal_shapes, population_shapes
from percdl.exceptions import FederationError
from percdl.federated.messages import Bounds
from percdl.runtimes.messages import Kind

# Quantity that bounds a sum. The bound of "weighting" depends on how subjects are weighted.
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


@dataclass(frozen=True)
class Entry:
    """One field of the sums: its name, its shape, and its unit."""

    name: str
    shape: tuple[int, ...]
    unit: Unit

    @property
    def size(self) -> int:
        """Number of values that are sent."""
        if self.name in SYMMETRIC:
            side = self.shape[-1]
            return math.prod(self.shape[:-2]) * side * (side + 1) // 2
        return math.prod(self.shape)

    def flatten(self, value: Any) -> np.ndarray:
        """Return a field as a vector."""
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
        """Return a field from its vector."""
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
    """Order of all numbers of a round: the fields that are not empty, in the order of `Sums`."""

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
        """Return upper bounds of all numbers, array (n,) of powers of two."""
        return np.concatenate(
            [np.full(e.size, 2.0 ** _exponent(e, bounds, settings)) for e in self.entries]
        )

    def add(self, parts: dict[str, np.ndarray]) -> np.ndarray:
        """Return the total of the vectors of some sites; raises where it overflows."""
        with np.errstate(over="ignore"):
            total = np.sum(list(parts.values()), axis=0)
        bad = np.flatnonzero(~np.isfinite(total))
        if bad.size:
            largest = max(parts, key=lambda site: abs(parts[site][bad[0]]))
            raise FederationError(
                f"The sum `{self.locate(int(bad[0]))}` overflows; the largest part of it is from "
                f"site {largest}. Have that site check its recordings, or leave it out."
            )
        return total

    def locate(self, position: int) -> str:
        """Return the name of the field that a number belongs to."""
        ends = np.cumsum([entry.size for entry in self.entries])
        return self.entries[int(np.searchsorted(ends, position, side="right"))].name


def layout_of(kind: Kind, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the answers to a kind of round."""
    shapes_of = population_shapes if kind == "population" else personal_shapes
    shapes = shapes_of(settings, n_masks)
    names = [field.name for field in fields(Sums) if field.name in shapes]
    return Layout(tuple(Entry(name, shapes[name], _unit(name, settings)) for name in names))


def exponent(value: float) -> int:
    """Return the exponent of the least power of two that is at least a positive value."""
    if not 0 < value < math.inf:
        raise FederationError(
            f"The energy of the recordings is {value:g}. Scale the signals to other units."
        )
    return math.ceil(math.log2(value))


def cover(parts: list[Bounds]) -> Bounds:
    """Return bounds of the sum of some signals, from the bounds of each."""
    energies, samples = zip(*parts, strict=True)
    return Bounds(*(exponent(sum(2.0**e for e in column)) for column in (energies, samples)))


def _unit(name: str, settings: Settings) -> Unit:
    """Return the unit of a field; with ``weighting="subjects"`` it does not depend on energy."""
    unit = UNITS[name]
    if unit != "weighting" or settings.weighting == "subjects":
        return unit
    return "energy"


def _exponent(entry: Entry, bounds: Bounds, settings: Settings) -> int:
    """Return the exponent of the power of two that bounds a field."""
    if entry.unit == "energy":
        return bounds.energy + ROOM_ENERGY
    if entry.unit == "activations":
        return bounds.samples + exponent(settings.n_atoms)
    # No recording is shorter than an atom.
    n_subjects = bounds.samples - int(math.log2(settings.atom_length))
    if entry.unit == "weighting":
        return n_subjects + ROOM_WEIGHTED
    if entry.name in ("warp", "inverse_warp"):
        return n_subjects + exponent(settings.atom_length)
    if entry.name == "squared_displacement":
        return n_subjects + 2 * exponent(settings.atom_length)
    return n_subjects + ROOM_SUBJECT
