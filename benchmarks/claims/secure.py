"""Secure sums: precision, uniformity, time and size.

The sums are of a round of the second phase with four atoms of 100 samples, one channel and a time
warp. Keys are drawn from fixed seeds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator

import numpy as np
from scipy.stats import chisquare, kstest

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.timing import say, seconds

K, L, P = 4, 100, 1
N_NUMBERS = 4 + 7 * K + K * L * (L + 1) // 2 + K * L * (P + 3)
N_SITES = (3, 30)
# Of the scale of a number, which is what no site exceeds.
MOST_ERROR, LEAST_P = 1e-15, 1e-3
OCCASION = b"occasion"


def claims() -> Iterator[Claim]:
    """Add up, weigh and time sums; test masks."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise Absent(f"cryptography is not installed ({error})") from error
    for n_sites in N_SITES:
        say(f"{n_sites} sites")
        yield from _sums(n_sites)
    say("many keys")
    yield _uniform()


def _sums(n_sites: int) -> Iterator[Claim]:
    from percdl.federated.layout import decode, encode, mask

    keys, publics = _keys(n_sites)
    rng = np.random.default_rng(n_sites)
    scales = 2.0 ** rng.integers(-20, 40, N_NUMBERS)
    sizes = 10.0 ** -rng.uniform(0, 12, (n_sites, N_NUMBERS))
    values = rng.choice([-1, 1], sizes.shape) * sizes * scales

    def hide(site: str, own: np.ndarray) -> np.ndarray:
        return mask(encode(own, scales, n_sites), site, keys[site], publics, OCCASION)

    masked = [hide(site, own) for site, own in zip(keys, values, strict=True)]
    total = decode(np.sum(masked, axis=0, dtype=np.uint64), scales, n_sites)
    truth = np.array([math.fsum(column) for column in values.T])
    error = float(np.max(np.abs(total - truth) / (n_sites * scales)))
    name = f"{n_sites} sites, {N_NUMBERS} numbers"
    yield at_most(f"{name}: largest error of the sum, of its bound", error, MOST_ERROR)
    spent = min(seconds(lambda: hide("site-00", values[0])) for _ in range(10))
    yield beside(f"{name}: time of a site", f"{1e3 * spent:.1f} ms")
    yield beside(f"{name}: weight of a post", f"{masked[0].nbytes:,} bytes")


def _uniform() -> Claim:
    """Test the bytes of one masked vector for each of many keys; test the p-values."""
    from percdl.federated.layout import mask

    n_keys = 20 if is_quick() else 300
    values = np.zeros(N_NUMBERS, np.uint64)
    p_values = []
    for draw in range(n_keys):
        keys, publics = _keys(3, draw)
        masked = mask(values, "site-00", keys["site-00"], publics, OCCASION)
        counts = np.bincount(masked.view(np.uint8), minlength=256)
        p_values.append(chisquare(counts).pvalue)
    figure = float(kstest(p_values, "uniform").pvalue)
    detail = f"smallest p {min(p_values):.2g}"
    return at_least(f"{n_keys} keys: p of chi-square tests being uniform", figure, LEAST_P, detail)


def _keys(n_sites: int, draw: int = 0) -> tuple[dict, dict[str, str]]:
    """Return the keys of all sites, and the public halves."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from percdl.federated.identities import RunKeys

    keys = {}
    for index in range(n_sites):
        name = f"site-{index:02d}"
        seed = hashlib.sha256(f"{name} {draw}".encode()).digest()
        keys[name] = RunKeys(X25519PrivateKey.from_private_bytes(seed))
    return keys, {name: key.public for name, key in keys.items()}
