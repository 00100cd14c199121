"""Sums of which nobody sees the terms: fixed point modulo 2^64, under masks that cancel.

Each pair of sites shares a secret. Both draw the same numbers from it; the one whose name comes
first adds them to its values, the other takes them away. These masks cancel in the sum over the
roster. On top, each site adds a veil of its own, which it lifts once the roster is settled: see
`percdl.federated.veils`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from jaxtyping import Float64, UInt64

from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.keys import expand, frame, primitives
from percdl.federated.roster import Roster
from percdl.federated.run_keys import RunKeys


def encode(
    values: Float64[np.ndarray, " n"],
    scales: Float64[np.ndarray, " n"],
    n_sites: int,
    name: Callable[[int], str] = "entry {}".format,
) -> UInt64[np.ndarray, " n"]:
    """Write values in fixed point, modulo 2^64, so that sums over the sites cannot wrap.

    With ``2^e`` the next power of two from ``scale`` on, a value is rounded to a multiple of
    ``2^(e - f)``, ``f = 63 - bit_length(n_sites)``: of up to n sites, each within its scale, the
    total stays below 2^63, and differs from the true one by ``n 2^(e - f - 1)`` at most.

    Parameters
    ----------
    values : array (n,)
    scales : array (n,)
        What no value of any site exceeds in size; agreed by all of them.
    n_sites : int
        How many sites may take part in the sum.
    name : function, optional
        What the i-th value is called where it is refused.

    Raises
    ------
    FederationError
        Where a value is not finite or exceeds its scale: nobody would see it in the total.

    Examples
    --------
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
            f"{name(first)} is {values[first]:.6g}, and the sites have agreed that none exceeds "
            f"{scales[first]:.6g} in size ({refused.size} of {values.size} values are refused). "
            "Nothing is sent. Look at the recordings of this site."
        )
    return np.rint(np.ldexp(values, -exponents)).astype(np.int64).view(np.uint64)


def decode(
    total: UInt64[np.ndarray, " n"], scales: Float64[np.ndarray, " n"], n_sites: int
) -> Float64[np.ndarray, " n"]:
    """Read a total of what `encode` wrote, with the same scales and number of sites."""
    return np.ldexp(total.view(np.int64).astype(np.float64), _exponents(scales, n_sites))


def _exponents(scales: np.ndarray, n_sites: int) -> np.ndarray:
    """Return the powers of two that the units of fixed point are."""
    if n_sites < 1:
        raise InvalidParameterError(f"`n_sites={n_sites}`: a sum is over one site or more.")
    most = np.finfo(np.float64).max / n_sites
    if not np.all((scales > 0) & (scales <= most)):
        raise InvalidParameterError(
            f"Scales must be positive and finite, {most:.3g} at most for {n_sites} sites."
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
    """Hide the values of a site under masks that cancel in the sum over the whole roster.

    Parameters
    ----------
    encoded : array (n,)
        See `encode`.
    keys : RunKeys
        Those of this site.
    roster : Roster
        Who takes part in the sum; three sites or more.
    run, round, attempt : str, int, int
        What the sum is for. Masks of two sums have nothing in common.
    context : bytes
        What else all sites must see alike, say, a digest of what was asked. Where it differs,
        masks do not cancel.

    Raises
    ------
    FederationError
        Where this site is not on the roster, or has masked other values for the same sum: the
        difference of the two vectors would be the difference of the values.

    Notes
    -----
    O(n) per site of the roster. The keys note what was masked, on disk if they lie there, before
    the result is returned.
    """
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    _note(keys, occasion, encoded)
    masked = encoded + veil(keys.derive(occasion), encoded.size)
    for other in roster.sites:
        if other == keys.site:
            continue
        first, second = sorted((keys.site, other))
        shared = keys.shared_with(roster.publics[other])
        numbers = keystream(shared, frame("mask", occasion, first, second), encoded.size)
        masked = masked + numbers if keys.site == first else masked - numbers
    return masked


def occasion_of(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> bytes:
    """Return what tells a sum from all others, for a site that is on its roster."""
    _check_own(keys, roster, run)
    return frame("percdl secure sum, version 1", run, round, attempt, roster.digest, context)


def _check_own(keys: RunKeys, roster: Roster, run: str) -> None:
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


def _note(keys: RunKeys, occasion: bytes, encoded: np.ndarray) -> None:
    """Refuse to mask twice what is not the same."""
    content = digest(encoded.astype("<u8").tobytes())
    if keys.claim(digest(frame("mask", occasion)), content) != content:
        raise FederationError(
            f"Site {keys.site} has masked other values for the same sum before. Under the same "
            "mask, their difference would be seen. Ask for a fresh attempt."
        )


def digest(content: bytes) -> str:
    """Return a checksum to note a use of a key by."""
    return hashlib.sha256(content).hexdigest()


def veil(seed: bytes, size: int) -> UInt64[np.ndarray, " n"]:
    """Return the veil that a seed stands for."""
    return keystream(seed, frame("veil"), size)


def keystream(secret: bytes, info: bytes, size: int) -> UInt64[np.ndarray, " n"]:
    """Draw uniform numbers from a secret: others for each info, none of which tells the secret."""
    ciphers = primitives("cryptography.hazmat.primitives.ciphers")
    key = expand(secret, info)
    # The nonce may be zero: `info` names the sum and the pair, so a key has one stream only.
    stream = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)
