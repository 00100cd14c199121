"""Secure sums: how exact, how uniform, how heavy; and what rosters that change give away.

The sums are of a round of the second phase with four atoms of 100 samples, one channel and a time
warp. Keys are drawn from fixed seeds.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chisquare, kstest

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.timing import say, seconds
from percdl import Algorithm, PerCDL, TimeWarp, make_synthetic

K, L, P = 4, 100, 1
N_NUMBERS = 4 + 7 * K + K * L * (L + 1) // 2 + K * L * (P + 3)
N_SITES = (3, 30)
# Of the scale of a number, which is what no site exceeds.
MOST_ERROR, LEAST_P = 1e-15, 1e-3
RUN, CONTEXT = "run", b"context"


def claims() -> Iterator[Claim]:
    """Add up, weigh and time sums; test masks; follow a fit that sites leave."""
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise Absent(f"cryptography is not installed ({error})") from error
    for n_sites in N_SITES:
        say(f"{n_sites} sites")
        yield from _sums(n_sites)
    say("many keys")
    yield _uniform()
    say("a site leaves")
    yield from _leaving()


def _sums(n_sites: int) -> Iterator[Claim]:
    from percdl.federated.secure_sum import MaskedSum, decode, encode, unveil

    keys, roster = _federation(n_sites)
    rng = np.random.default_rng(n_sites)
    scales = 2.0 ** rng.integers(-20, 40, N_NUMBERS)
    sizes = 10.0 ** -rng.uniform(0, 12, (n_sites, N_NUMBERS))
    values = rng.choice([-1, 1], sizes.shape) * sizes * scales
    sums = {site: MaskedSum(keys[site], roster, 0, 0, CONTEXT) for site in roster.sites}
    masked = {
        site: sums[site].mask(encode(values[i], scales, n_sites))
        for i, site in enumerate(roster.sites)
    }
    seeds = {site: sums[site].release() for site in roster.sites}
    total = decode(unveil(sum(masked.values()), seeds, roster.sites), scales, n_sites)
    truth = np.array([math.fsum(column) for column in values.T])
    error = float(np.max(np.abs(total - truth) / (n_sites * scales)))
    name = f"{n_sites} sites, {N_NUMBERS} numbers"
    yield at_most(f"{name}: largest error of the sum, of its bound", error, MOST_ERROR)

    first = roster.sites[0]
    one = MaskedSum(_federation(n_sites)[0][first], roster, 0, 0, CONTEXT)
    spent = min(seconds(lambda: one.mask(encode(values[0], scales, n_sites))) for _ in range(10))
    yield beside(f"{name}: time of a site", f"{1e3 * spent:.1f} ms")
    backups = sums[first].back_up()
    heavy, light = masked[first].nbytes, len(json.dumps(backups)) + len(seeds[first])
    yield beside(f"{name}: weight of an answer", f"{heavy:,} bytes, {light:,} for the veil")


def _uniform() -> Claim:
    """Test the bytes of one masked vector for each of many keys; test the p-values."""
    from percdl.federated.secure_sum import MaskedSum

    n_keys = 20 if is_quick() else 300
    values = np.zeros(N_NUMBERS, np.uint64)
    p_values = []
    for draw in range(n_keys):
        keys, roster = _federation(3, draw)
        masked = MaskedSum(keys[roster.sites[0]], roster, 0, 0, CONTEXT).mask(values)
        counts = np.bincount(masked.view(np.uint8), minlength=256)
        p_values.append(chisquare(counts).pvalue)
    figure = float(kstest(p_values, "uniform").pvalue)
    detail = f"smallest p {min(p_values):.2g}"
    return at_least(f"{n_keys} keys: p of chi-square tests being uniform", figure, LEAST_P, detail)


def _leaving() -> Iterator[Claim]:
    """Take the total with a site, less the total of the next round without it, for its sums."""
    n_subjects, n_perso = (8, 2) if is_quick() else (40, 8)
    data = make_synthetic(n_subjects, noise_std=0.03, random_state=0)
    quarter = n_subjects // 4
    sites = {f"site-{i}": data.cohort[i * quarter : (i + 1) * quarter] for i in range(4)}
    heard = _listen(sites, data.personal_dictionary[0], n_perso)
    errors = []
    for now, after in pairwise(heard):
        leaver, *rest = sorted(sites)
        guess = sum(now.values()) - sum(after[site] for site in rest)
        errors.append(np.linalg.norm(guess - now[leaver]) / np.linalg.norm(now[leaver]))
    figure = ", ".join(f"{error:.2g}" for error in errors)
    yield beside("sums of a site that leaves, guessed from two totals: error by round", figure)


def _listen(sites: dict, init: np.ndarray, n_perso: int) -> list[dict[str, np.ndarray]]:
    """Return the sums of all sites in all rounds of the second phase; none is masked."""
    from percdl.federated.estimator import FederatedPerCDL, make_sites
    from percdl.runtimes.messages import InProcessWire

    heard: dict[int, dict[str, np.ndarray]] = {}

    def overhear(site: Any) -> Callable[[Any], Any]:
        def answer(request: Any) -> Any:
            reply = site.answer(request)
            if request.kind == "personal":
                heard.setdefault(request.round, {})[site.name] = reply.arrays["sums"]
            return reply

        return answer

    model = PerCDL(
        2,
        50,
        TimeWarp(3, 10),
        penalty=1.0,
        init=init,
        algorithm=Algorithm(personal_rounds=n_perso),
        dtype="float64",
    )
    with tempfile.TemporaryDirectory() as folder:
        made = make_sites(sites, Path(folder))
        wire = InProcessWire({site.name: overhear(site) for site in made})
        FederatedPerCDL(model, secure=False).fit_over(wire)
    return [heard[index] for index in sorted(heard)]


def _federation(n_sites: int, draw: int = 0) -> tuple[dict, object]:
    """Return the keys of all sites, and their roster."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from percdl.federated.identities import Roster, RunKeys

    keys = {}
    for index in range(n_sites):
        name = f"site-{index:02d}"
        seed = hashlib.sha256(f"{name} {draw}".encode()).digest()
        keys[name] = RunKeys(name, RUN, X25519PrivateKey.from_private_bytes(seed))
    return keys, Roster(RUN, {name: key.public for name, key in keys.items()})
