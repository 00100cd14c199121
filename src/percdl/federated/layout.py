"""Sums as one vector, in an order and at scales that all sites know, and masks that hide it.

A site sends ``8 n`` bytes in a round. With K atoms of L samples and P channels, margins of R
samples, Q masks and a time warp shared by the channels, ``n = 4 + K + K (L + 2R) (P + Q)`` in the
first phase and ``4 + 4 K + K L (L + 1) / 2 + K L (P + 3) + K (L + 2R) (P + Q)`` in the second,
and up to ``K (20 L + 20 + 16^2)`` more for the gauge and the prior.

Sums are masked in fixed point modulo 2^64. Each pair of members shares a secret and draws the same
numbers from it. The site with the first name adds them, the other subtracts them, so they cancel
in the sum over all members (Bonawitz et al. 2017, section 4.0, with a fixed roster; see
docs/federated/threat_model.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache

import numpy as np
from jaxtyping import Float64, UInt64

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import broadcast_shapes, personal_shapes, population_shapes
from percdl.exceptions import FederationError
from percdl.federated.identities import RunKeys, crypto, expand
from percdl.federated.messages import Bounds, frame

# Quantity that bounds each sum. The bound of "weighting" depends on how subjects are weighted.
_SUMS = {
    "energy": "objective objective_fitted energy signal ztx ztz",
    "activations": "counts",
    "weighting": "moment weight gram transported misfit",
    "subjects": "copies warp_sines mixing n_warps",
    "times": "warp inverse_warp",
    "squared times": "squared_displacement squared_sines warp_moment",
}
UNITS = {name: unit for unit, names in _SUMS.items() for name in names.split()}
SYMMETRIC = "gram"
# Exponents by which a sum may exceed its unit: warps change the energy of an atom, amplitudes grow
# if a transform shrinks an atom, and overlapping activations may cancel.
ROOM_ENERGY, ROOM_SUBJECT, ROOM_WEIGHTED = 8, 4, 12
# Exponent by which the recordings of one site may exceed those of the median site. Beyond it, the
# fixed-point sums of the others would lose digits that a fit needs.
MOST_SPREAD = 24

Vector = Float64[np.ndarray, " n"]
Fixed = UInt64[np.ndarray, " n"]  # in fixed point modulo 2^64


class Layout(tuple[tuple[str, tuple[int, ...]], ...]):
    """Order of all numbers of a round: names and shapes of the fields, in the order of `Sums`.

    Of a symmetric field, the upper half is sent.
    """

    @property
    def size(self) -> int:
        """Number of entries, n."""
        return int(self._ends[-1])

    def times(self, n_vectors: int) -> Layout:
        """Return the layout of some vectors, one after the other."""
        return Layout(tuple(self) * n_vectors)

    def pack(self, sums: Sums) -> np.ndarray:
        """Return sums as a vector (n,)."""
        arrays = [np.ravel(getattr(sums, name))[_sent(name, shape)] for name, shape in self]
        return np.concatenate(arrays).astype(float)

    def unpack(self, vector: np.ndarray) -> Sums:
        """Return the sums of a vector (n,)."""
        parts, found = np.split(np.asarray(vector, float), self._ends[:-1]), {}
        for (name, shape), part in zip(self, parts, strict=True):
            array = np.zeros(shape)
            array.reshape(-1)[_sent(name, shape)] = part
            if name == SYMMETRIC:
                array += np.triu(array, 1).swapaxes(-1, -2)
            found[name] = array if shape else float(array)
        return Sums(**found)

    def scales(self, bounds: Bounds, settings: Settings) -> np.ndarray:
        """Return upper bounds of all numbers, array (n,) of powers of two."""
        energy, length = bounds.energy + ROOM_ENERGY, exponent(settings.atom_length)
        # No recording is shorter than an atom.
        n_subjects = bounds.samples - int(math.log2(settings.atom_length))
        exponents = {
            "energy": energy,
            "activations": bounds.samples + exponent(settings.n_atoms),
            "weighting": n_subjects + ROOM_WEIGHTED if settings.by_subject else energy,
            "subjects": n_subjects + ROOM_SUBJECT,
            "times": n_subjects + length,
            "squared times": n_subjects + 2 * length,
        }
        scales = [2.0 ** exponents[UNITS[name]] for name, _ in self]
        return np.repeat(scales, np.diff(self._ends, prepend=0))

    def check(self, vector: np.ndarray, scales: np.ndarray) -> None:
        """Raise if a number is not finite or exceeds its scale; the message does not reveal it."""
        refused = np.flatnonzero(~(np.abs(vector) <= scales))
        if refused.size:
            name, _ = self[int(np.searchsorted(self._ends, refused[0], side="right"))]
            raise FederationError(
                f"The sum `{name}` is not finite or exceeds {scales[refused[0]]:.6g}, the bound "
                f"agreed on ({refused.size} of {vector.size} numbers). Nothing is sent."
            )

    @property
    def _ends(self) -> np.ndarray:
        return np.cumsum([len(_sent(name, shape)) for name, shape in self])


@lru_cache(maxsize=256)
def _sent(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return the positions of the numbers of a field that are sent."""
    every = np.ones(shape, bool)
    return np.flatnonzero(np.triu(every) if name == SYMMETRIC else every)


@lru_cache(maxsize=16)
def layout_of(kind: str, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the answers to a kind of round."""
    shapes_of = population_shapes if kind in ("first", "population") else personal_shapes
    shapes = shapes_of(settings, n_masks)
    return Layout((f.name, shapes[f.name]) for f in fields(Sums) if f.name in shapes)


def check_broadcast(arrays: dict[str, np.ndarray], settings: Settings) -> Broadcast:
    """Return the broadcast in some arrays; raises `FederationError` for other arrays."""
    size = settings.n_atoms, settings.atom_length, settings.n_channels
    shapes = broadcast_shapes(settings.transform, *size)
    given = {name: arrays[name].shape for name in sorted(arrays)}
    known = "dictionary" in given and all(shapes.get(name) == given[name] for name in given)
    with np.errstate(over="ignore"):
        finite = all(np.isfinite(x.astype(settings.dtype)).all() for x in arrays.values())
    if not known or not finite:
        needed = (
            f"a dictionary of shape {shapes.pop('dictionary')} are needed; {shapes} are optional"
        )
        sent = f"The server sent arrays of shapes {given or 'none'}"
        raise FederationError(f"{sent}. Finite numbers and {needed}.")
    return Broadcast(**arrays)


def exponent(value: float) -> int:
    """Return the exponent of the smallest power of two that is not below a positive value."""
    if not 0 < value < math.inf:
        raise FederationError(f"The energy of the recordings is {value:g}. Use other units.")
    return math.ceil(math.log2(value))


def cover(parts: dict[str, Bounds]) -> Bounds:
    """Return bounds of the sum of some signals, from the bounds of each site.

    Raises if a site declares much more than the others: their sums would round to zero.
    """
    energies, samples = zip(*parts.values(), strict=True)
    usual = Bounds(int(np.median(energies)), int(np.median(samples)))
    for site, own in parts.items():
        for name, much, most in zip(Bounds._fields, own, usual, strict=True):
            if much - most > MOST_SPREAD:
                what = f"{name} of 2^{much}, and the median site 2^{most}"
                why = "the sums of others would round to zero. Have it check its recordings"
                raise FederationError(f"Site {site} declares {what}: {why}.")
    return Bounds(*(exponent(sum(2.0**e for e in column)) for column in (energies, samples)))


def encode(values: Vector, scales: Vector, n_sites: int) -> Fixed:
    """Write values in fixed point modulo 2^64, such that sums over the sites do not wrap.

    With ``2^e`` the next power of two from ``scale`` on, a value is rounded to a multiple of
    ``2^(e - f)``, ``f = 63 - bit_length(n_sites)``; it must not exceed its scale.
    """
    exponents = _exponents(scales, n_sites)
    return np.rint(np.ldexp(values, -exponents)).astype(np.int64).view(np.uint64)


def decode(total: Fixed, scales: Vector, n_sites: int) -> Vector:
    """Read a total of `encode`, with the same scales and number of sites."""
    return np.ldexp(total.view(np.int64).astype(np.float64), _exponents(scales, n_sites))


def _exponents(scales: np.ndarray, n_sites: int) -> np.ndarray:
    """Return the exponents of the fixed-point units, powers of two."""
    mantissas, exponents = np.frexp(scales)
    return exponents - (mantissas == 0.5) - (63 - n_sites.bit_length())


def mask(
    encoded: Fixed, site: str, keys: RunKeys, publics: Mapping[str, str], occasion: bytes
) -> Fixed:
    """Hide the encoded values of a site under masks that cancel over all members.

    ``publics`` are the public keys of all members for this run. ``occasion`` identifies the sum: a
    site must not mask two different vectors for the same occasion.
    """
    for other in sorted(publics.keys() - {site}):
        first, second = sorted((site, other))
        info = frame("percdl secure sum, version 2", occasion, first, second)
        numbers = keystream(keys.shared_with(publics[other]), info, encoded.size)
        encoded = encoded + numbers if site == first else encoded - numbers
    return encoded


def keystream(secret: bytes, info: bytes, size: int) -> Fixed:
    """Draw uniform numbers from a secret and a purpose (ChaCha20)."""
    ciphers = crypto("hazmat.primitives.ciphers")
    # The nonce may be zero: `info` names sum and pair, so each key has one stream only.
    algorithm = ciphers.algorithms.ChaCha20(expand(secret, info), bytes(16))
    stream = ciphers.Cipher(algorithm, mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)
