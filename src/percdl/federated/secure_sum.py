"""Secure sums: fixed point modulo 2^64 under pairwise masks that cancel in the total.

Each pair of sites shares a secret and draws the same numbers from it. The site whose name comes
first adds them, the other subtracts them, so they cancel in the sum over the roster. In addition
each site adds a veil, a mask of its own. A round takes two questions:

1. Each site of the roster answers with `mask` of its values and with `back_up`. If one does not
   answer, the round is asked again of the others, as a new attempt.
2. When all have answered, each site tells the seed of its veil (`release`). For a site that is
   lost in between, any other site tells it (`recover`). `unveil` then removes all veils.

Without veils, a late reply would complete a sum that was given up; minus the sum over the other
sites, it would be the values of the late site. A site releases seeds for one roster per round.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, UInt64

from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.identities import Roster, RunKeys, crypto, expand
from percdl.federated.messages import frame

_SEED = re.compile(r"[0-9a-f]{64}")


def encode(
    values: Float64[np.ndarray, " n"],
    scales: Float64[np.ndarray, " n"],
    n_sites: int,
    name: Callable[[int], str] = "entry {}".format,
) -> UInt64[np.ndarray, " n"]:
    """Write values in fixed point modulo 2^64, such that sums over the sites do not wrap.

    With ``2^e`` the next power of two from ``scale`` on, a value is rounded to a multiple of
    ``2^(e - f)``, ``f = 63 - bit_length(n_sites)``. The total of up to n sites stays below 2^63
    and differs from the true one by at most ``n 2^(e - f - 1)``. Values that are not finite or
    exceed their scale are refused, because nobody would see it in the total.

    >>> scales = np.array([4.0, 4.0])
    >>> total = sum(encode(np.array([x, -x / 3]), scales, 3) for x in (1.0, 2.0, 3.0))
    >>> decode(total, scales, 3)
    array([ 6., -2.])
    """
    exponents = _exponents(scales, n_sites)
    refused = np.flatnonzero(~(np.abs(values) <= scales))
    if refused.size:
        first = int(refused[0])
        raise FederationError(
            f"{name(first)} is {values[first]:.6g}, and the sites agreed on at most "
            f"{scales[first]:.6g} in size ({refused.size} of {values.size} values are refused). "
            "Nothing is sent. Check the recordings of this site."
        )
    return np.rint(np.ldexp(values, -exponents)).astype(np.int64).view(np.uint64)


def decode(
    total: UInt64[np.ndarray, " n"], scales: Float64[np.ndarray, " n"], n_sites: int
) -> Float64[np.ndarray, " n"]:
    """Read a total of `encode`, with the same scales and number of sites."""
    return np.ldexp(total.view(np.int64).astype(np.float64), _exponents(scales, n_sites))


def _exponents(scales: np.ndarray, n_sites: int) -> np.ndarray:
    """Return the exponents of the fixed-point units, powers of two."""
    if n_sites < 1:
        raise InvalidParameterError(f"`n_sites={n_sites}` must be at least 1.")
    most = np.finfo(np.float64).max / n_sites
    if not np.all((scales > 0) & (scales <= most)):
        raise InvalidParameterError(
            f"Scales must be positive and finite, at most {most:.3g} for {n_sites} sites."
        )
    mantissas, exponents = np.frexp(scales)
    return exponents - (mantissas == 0.5) - (63 - n_sites.bit_length())


def mask(
    encoded: UInt64[np.ndarray, " n"],
    keys: RunKeys,
    roster: Roster,
    run: str,
    round: int,
    attempt: int,
    context: bytes,
) -> UInt64[np.ndarray, " n"]:
    """Hide the encoded values of a site under masks that cancel over the whole roster.

    ``context`` is whatever else all sites must see alike; masks cancel only where it is the same.
    A site refuses to mask other values for the same sum, because their difference would be seen.
    """
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    content = digest(encoded.astype("<u8").tobytes())
    if keys.claim(digest(frame("mask", occasion)), content) != content:
        raise FederationError(
            f"Site {keys.site} has masked other values for the same sum before. Under the same "
            "mask, their difference would be seen. Ask for a new attempt."
        )
    masked = encoded + veil(keys.derive(occasion), encoded.size)
    for other in roster.sites:
        if other == keys.site:
            continue
        first, second = sorted((keys.site, other))
        shared = keys.shared_with(roster.publics[other])
        numbers = keystream(shared, frame("mask", occasion, first, second), encoded.size)
        masked = masked + numbers if keys.site == first else masked - numbers
    return masked


def release(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> str:
    """Return the seed of the veil that `mask` added, for the same arguments."""
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    _settle(keys, roster, round)
    return keys.derive(occasion).hex()


def back_up(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> dict[str, str]:
    """Return the seed of the veil encrypted for each other site, by site."""
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    seed = keys.derive(occasion)
    return {
        other: _xor(seed, _pad(keys, roster, occasion, other, other)).hex()
        for other in roster.sites
        if other != keys.site
    }


def recover(
    backups: Mapping[str, str],
    keys: RunKeys,
    roster: Roster,
    run: str,
    round: int,
    attempt: int,
    context: bytes,
) -> dict[str, str]:
    """Return the seeds of lost sites, from what their `back_up` holds for this one."""
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    for lost, backup in backups.items():
        if lost not in roster.sites or lost == keys.site or not _SEED.fullmatch(str(backup)):
            raise FederationError(
                f"Site {keys.site} is asked for the seed of site {lost}, without a valid backup "
                f"for a sum over {', '.join(roster.sites)}."
            )
    _settle(keys, roster, round)
    return {
        lost: _xor(bytes.fromhex(backup), _pad(keys, roster, occasion, lost, keys.site)).hex()
        for lost, backup in backups.items()
    }


def unveil(
    total: UInt64[np.ndarray, " n"], seeds: Mapping[str, Any], sites: Iterable[str]
) -> UInt64[np.ndarray, " n"]:
    """Remove the veils of all sites from the sum of their masked values."""
    for site in sites:
        if not _SEED.fullmatch(str(seeds.get(site))):
            raise FederationError(
                f"The seed of site {site} is missing, so the sum cannot be read. Ask that site "
                "again, or another site for its seed."
            )
        total = total - veil(bytes.fromhex(seeds[site]), total.size)
    return total


def occasion_of(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> bytes:
    """Return bytes that identify a sum, for a site on its roster."""
    if {keys.run, roster.run} != {run}:
        raise FederationError(
            f"Site {keys.site} is asked to mask for run {run}, with its key of run {keys.run} "
            f"and the roster of run {roster.run}."
        )
    if roster.publics.get(keys.site) != keys.public:
        raise FederationError(
            f"The roster of run {run} does not hold the key of site {keys.site} as it announced "
            "it. Nothing is sent."
        )
    return frame("percdl secure sum, version 1", run, round, attempt, roster.digest, context)


def digest(content: bytes) -> str:
    """Return the SHA-256 checksum of some bytes."""
    return hashlib.sha256(content).hexdigest()


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


def _settle(keys: RunKeys, roster: Roster, round: int) -> None:
    """Record the roster for which seeds are released in a round; refuse a second one."""
    chosen = roster.digest.hex()
    if keys.claim(digest(frame("release", roster.run, round)), chosen) != chosen:
        raise FederationError(
            f"Site {keys.site} has released its seed in round {round} of run {roster.run} for "
            "another roster. The difference of two sums would show the values of single sites. "
            "Continue with the sites of that roster, or with a new round."
        )


def _pad(keys: RunKeys, roster: Roster, occasion: bytes, peer: str, reader: str) -> bytes:
    """Return the one-time pad of a seed sent between this site and a peer.

    It depends on the sum, both sites and the direction, so no pad hides two seeds.
    """
    owner = keys.site if reader == peer else peer
    return expand(keys.shared_with(roster.publics[peer]), frame("backup", occasion, owner, reader))


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))
