"""The sparse coder equals exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.claims._claim import Claim, is_quick
from benchmarks.claims._oracle import in_double, naive
from percdl.steps.csc import L0Coder, encode
from percdl.steps.types import Signals

N, L = 10, 3
PENALTIES = (0.0, 0.1, 0.5, 2.0)
LEAST_PROBLEMS, MOST_GAP = 2000, 1e-9


class Family(NamedTuple):
    """Problems of K atoms and P channels, with a mask of Q channels (0: nothing missing)."""

    n_atoms: int
    n_channels: int
    mask: int
    rules: L0Coder


FAMILIES = [
    Family(n_atoms, n_channels, mask, rules)
    for n_atoms, n_channels in ((1, 1), (2, 1), (2, 2), (3, 2))
    for mask in sorted({0, 1, n_channels})
    for rules in (
        L0Coder(),
        L0Coder(signed=True, min_gap=1),
        L0Coder(max_activations=2),
    )
]


def claims() -> Iterator[Claim]:
    """Code random tiny recordings, and compare with the best of all codes."""
    per_family = 2 if is_quick() else 20
    gaps = np.concatenate([_gaps(f, per_family, seed) for seed, f in enumerate(FAMILIES)])
    agree = int((gaps <= MOST_GAP).sum())
    yield Claim(
        "random tiny problems where the code is a best one (K <= 3, P <= 2, masked or not)",
        f"all of >= {LEAST_PROBLEMS}",
        f"{agree} of {len(gaps)}, largest difference of the objective {gaps.max():.1e}",
        agree == len(gaps) and (is_quick() or len(gaps) >= LEAST_PROBLEMS),
    )


def _gaps(family: Family, n_problems: int, seed: int) -> np.ndarray:
    """Return by how much the objective of each code, and the one reported, miss the best."""
    x, lengths, observed, atoms = _draw(family, n_problems, np.random.default_rng(seed))
    mask = None if family.mask == 0 else observed.astype(float)
    signals = Signals(x, lengths.astype(np.int32), mask)
    solve = partial(in_double, jax.jit(encode, static_argnames="rules"), signals, atoms)
    coded = {penalty: solve(np.float64(penalty), rules=family.rules) for penalty in PENALTIES}
    gaps = []
    for s, n in enumerate(lengths):
        seen = np.broadcast_to(observed[s, :n], x[s, :n].shape)
        every = naive.codes(x[s, :n], atoms[s], seen, *astuple(family.rules)[:3])
        for penalty, (events, gain) in coded.items():
            best = naive.best_codes(every, penalty)[0][0]
            code = [e for e in zip(*(part[s] for part in events[:3]), strict=True) if e[2] != 0]
            ours = naive.cost(x[s, :n], atoms[s], penalty, seen, code)
            reported = np.sum(x[s] ** 2) - gain[s]
            legal = _is_legal(code, family.rules, n)
            gaps.append(max(abs(ours - best), abs(reported - best)) if legal else np.inf)
    return np.array(gaps)


def _draw(family: Family, n_problems: int, rng: np.random.Generator):
    """Return recordings (S, N, P) of unequal lengths with gaps, and atoms for each."""
    lengths = rng.integers(L, N + 1, n_problems)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    missing = rng.random((n_problems, N, max(family.mask, 1))) < (0.3 if family.mask else 0)
    observed = inside & ~missing
    x = rng.standard_normal((n_problems, N, family.n_channels)) * observed
    shape = (n_problems, family.n_atoms, L, family.n_channels)
    # No sample near zero: an atom of which next to nothing is seen counts as unseen.
    atoms = rng.uniform(0.3, 1, shape) * rng.choice([-1, 1], shape)
    return x, lengths, observed, atoms


def _is_legal(code: list, rules: L0Coder, n_times: int) -> bool:
    """Whether a code respects its rules: a gain by breaking them does not count."""
    onsets = np.sort([onset for onset, *_ in code]).astype(int)
    inside = ((onsets >= 0) & (onsets <= n_times - L)).all()
    apart = (np.diff(onsets) >= L + rules.min_gap).all()
    few = rules.max_activations is None or len(code) <= rules.max_activations
    positive = rules.signed or all(amplitude > 0 for *_, amplitude in code)
    return bool(inside and apart and few and positive)
