"""Secure sums: fixed point modulo 2^64 under pairwise masks that cancel in the total.

Each pair of members shares a secret and draws the same numbers from it. The site with the first
name adds them, the other subtracts them, so they cancel in the sum over all members.

This is the first protocol of Bonawitz et al. (2017, section 4.0: "masking with one-time pads"),
with a fixed roster: no site can drop out of a sum, so there are no shares of seeds and no second
masks. A run waits for a member that is away, or ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float64, UInt64

from percdl.exceptions import FederationError
from percdl.federated.identities import RunKeys, crypto, expand
from percdl.federated.messages import frame


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


def mask(
    encoded: UInt64[np.ndarray, " n"],
    site: str,
    keys: RunKeys,
    publics: Mapping[str, str],
    occasion: bytes,
) -> UInt64[np.ndarray, " n"]:
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


def keystream(secret: bytes, info: bytes, size: int) -> UInt64[np.ndarray, " n"]:
    """Draw uniform numbers from a secret and a purpose (ChaCha20)."""
    ciphers = crypto("hazmat.primitives.ciphers")
    # The nonce may be zero: `info` names sum and pair, so each key has one stream only.
    algorithm = ciphers.algorithms.ChaCha20(expand(secret, info), bytes(16))
    stream = ciphers.Cipher(algorithm, mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64)
