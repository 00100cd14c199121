"""Secure sums: fixed point modulo 2^64 under pairwise masks that cancel in the total.

Each pair of sites shares a secret and draws the same numbers from it. The site with the first name
adds them, the other subtracts them, so they cancel in the sum over the roster. In addition each
site adds a veil, a mask of its own. A round takes two questions:

1. Each site of the roster answers with `MaskedSum.mask` of its values and with `back_up`. If one
   does not answer, the round is asked again of the others, as a new attempt.
2. When all have answered, each site tells the seed of its veil (`release`). For a site that is
   lost in between, any other site tells it (`recover`). `unveil` then removes all veils.

Without veils, a late reply would complete a sum that was given up, and reveal the values of the
late site. A site releases seeds for one roster per round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, UInt64

from percdl.exceptions import FederationError
from percdl.federated.identities import Roster, RunKeys, crypto, expand
from percdl.federated.messages import digest, frame


def encode(
    values: Float64[np.ndarray, " n"],
    scales: Float64[np.ndarray, " n"],
    n_sites: int,
    name: Callable[[int], str] = "entry {}".format,
) -> UInt64[np.ndarray, " n"]:
    """Write values in fixed point modulo 2^64, such that sums over the sites do not wrap.

    With ``2^e`` the next power of two from ``scale`` on, a value is rounded to a multiple of
    ``2^(e - f)``, ``f = 63 - bit_length(n_sites)``. The total of n sites stays below 2^63 and is
    off by at most ``n 2^(e - f - 1)``. Values beyond their scale would wrap, and are refused.
    """
    refused = np.flatnonzero(~(np.abs(values) <= scales))
    if refused.size:
        first = int(refused[0])
        raise FederationError(
            f"{name(first)} is {values[first]:.6g}, and the sites agreed on at most "
            f"{scales[first]:.6g} in size ({refused.size} of {values.size} values are refused). "
            "Nothing is sent. Check the recordings of this site."
        )
    exponents = _exponents(scales, n_sites)
    return np.rint(np.ldexp(values, -exponents)).astype(np.int64).view(np.uint64)


def decode(
    total: UInt64[np.ndarray, " n"], scales: Float64[np.ndarray, " n"], n_sites: int
) -> Float64[np.ndarray, " n"]:
    """Read a total of `encode`, with the same scales and number of sites."""
    return np.ldexp(total.view(np.int64).astype(np.float64), _exponents(scales, n_sites))


def _exponents(scales: np.ndarray, n_sites: int) -> np.ndarray:
    """Return the exponents of the fixed-point units, powers of two."""
    mantissas, exponents = np.frexp(scales)
    return exponents - (mantissas == 0.5) - (63 - n_sites.bit_length())


@dataclass(frozen=True)
class MaskedSum:
    """One attempt at a sum over a roster, as one of its sites sees it.

    ``context`` identifies the question. Masks cancel only if it is the same at all sites.
    """

    keys: RunKeys
    roster: Roster
    round: int
    attempt: int
    context: bytes

    def __post_init__(self) -> None:
        if self.roster.publics.get(self.keys.site) != self.keys.public:
            raise FederationError(
                f"The roster of run {self.keys.run} does not hold the key of site "
                f"{self.keys.site} as it announced it. Nothing is sent."
            )

    def mask(self, encoded: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
        """Hide the encoded values of the site under masks that cancel over the whole roster.

        Raises if other values were masked for the same sum: their difference would be seen.
        """
        site, content = self.keys.site, digest(encoded.astype("<u8").tobytes())
        if self.keys.claim(digest(frame("mask", self.occasion)), content) != content:
            raise FederationError(
                f"Site {site} has masked other values for the same sum before. Under the same "
                "mask, their difference would be seen. Ask for a new attempt."
            )
        masked = encoded + veil(self._seed, encoded.size)
        for other in self._others:
            first, second = sorted((site, other))
            info = frame("mask", self.occasion, first, second)
            shared = self.keys.shared_with(self.roster.publics[other])
            numbers = keystream(shared, info, encoded.size)
            masked = masked + numbers if site == first else masked - numbers
        return masked

    def back_up(self) -> dict[str, str]:
        """Return the seed of the veil encrypted for each other site, by site."""
        return {
            other: _xor(self._seed, self._pad(other, self.keys.site, other)).hex()
            for other in self._others
        }

    def release(self) -> str:
        """Return the seed of the veil that `mask` added."""
        self._settle()
        return self._seed.hex()

    def recover(self, backups: Mapping[str, str]) -> dict[str, str]:
        """Return the seeds of lost sites, from what their `back_up` holds for this one."""
        for lost in backups:
            if lost not in self._others:
                raise FederationError(
                    f"Site {self.keys.site} is asked for the seed of site {lost}, which is not "
                    f"among the others of a sum over {', '.join(self.roster.sites)}."
                )
        self._settle()
        return {
            lost: _xor(bytes.fromhex(backup), self._pad(lost, lost, self.keys.site)).hex()
            for lost, backup in backups.items()
        }

    @cached_property
    def occasion(self) -> bytes:
        """Bytes that identify the sum."""
        what = self.keys.run, self.round, self.attempt, self.roster.digest, self.context
        return frame("percdl secure sum, version 1", *what)

    @cached_property
    def _seed(self) -> bytes:
        return self.keys.derive(self.occasion)

    @property
    def _others(self) -> list[str]:
        return [site for site in self.roster.sites if site != self.keys.site]

    def _settle(self) -> None:
        """Record the roster for which seeds are released in a round; refuse a second one."""
        chosen, run = self.roster.digest.hex(), self.keys.run
        if self.keys.claim(digest(frame("release", run, self.round)), chosen) != chosen:
            raise FederationError(
                f"Site {self.keys.site} has released its seed in round {self.round} of run {run} "
                "for another roster. The difference of two sums would show the values of single "
                "sites. Continue with the sites of that roster, or with a new round."
            )

    def _pad(self, peer: str, owner: str, reader: str) -> bytes:
        """Return the one-time pad of a seed: it depends on the sum, its owner and its reader."""
        shared = self.keys.shared_with(self.roster.publics[peer])
        return expand(shared, frame("backup", self.occasion, owner, reader))


def unveil(
    total: UInt64[np.ndarray, " n"], seeds: Mapping[str, str], sites: Iterable[str]
) -> UInt64[np.ndarray, " n"]:
    """Remove the veils of all sites from the sum of their masked values."""
    for site in sites:
        total = total - veil(bytes.fromhex(seeds[site]), total.size)
    return total


def veil(seed: bytes, size: int) -> UInt64[np.ndarray, " n"]:
    """Return the veil that belongs to a seed."""
    return keystream(seed, frame("veil"), size)


def keystream(secret: bytes, info: bytes, size: int) -> UInt64[np.ndarray, " n"]:
    """Draw uniform numbers from a secret and a purpose (ChaCha20)."""
    ciphers = crypto("hazmat.primitives.ciphers")
    # The nonce may be zero: `info` names sum and pair, so each key has one stream only.
    algorithm = ciphers.algorithms.ChaCha20(expand(secret, info), bytes(16))
    stream = ciphers.Cipher(algorithm, mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))
