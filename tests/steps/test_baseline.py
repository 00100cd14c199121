"""Baselines under activations: coding equals exhaustive search, and later steps see none."""

import jax
import naive
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose

from percdl.signals.reconstruction import level, make_basis
from percdl.steps.baseline import KNOWN, remove_baselines, window_energy
from percdl.steps.coders import L0Coder, SizedCoder
from percdl.steps.csc import encode
from percdl.steps.durations import make_readings
from percdl.steps.types import Signals

S, N, K, L, P, MARGIN, PENALTY = 6, 24, 2, 8, 2, 3, 0.3
LINE, OFFSET = L0Coder(baseline="line"), L0Coder(baseline="offset", signed=True)
CASES = [
    (LINE, 0),
    (LINE, 1),
    (LINE, P),
    (OFFSET, P),
    (L0Coder(baseline="line", stretch=1.3), P),
    (L0Coder(polarity="person"), 0),
    (SizedCoder(sizes=(8, 5)), 0),
    (SizedCoder(sizes=(8, 5), baseline="line"), 1),
]
fast_encode = jax.jit(encode, static_argnames="rules")
fast_remove = jax.jit(remove_baselines, static_argnames=("rules", "margin"))


def problem(mask, seed=0):
    """Return recordings with steep baselines, some of them shorter or with gaps, and atoms."""
    rng = np.random.default_rng(seed)
    lengths = np.array([N, N, N - 7, N - 12, L, N], np.int32)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed = (inside & (rng.random((S, N, mask)) < 0.85)).astype(float) if mask else None
    slope, offset = rng.normal(0, 0.5, (S, 1, P)), rng.normal(0, 20, (S, 1, P))
    values = offset + slope * np.arange(N)[:, None] + rng.standard_normal((S, N, P))
    values = values * (inside if observed is None else observed)
    return Signals(values, lengths, observed), rng.standard_normal((S, K, L, P))


def fit_window(y, seen, atom, rules):
    """Return amplitude, gain and residual of a window by least squares, sample by sample."""
    basis = make_basis(rules.n_terms, (len(atom),))[0]
    columns, target = [], []
    for p in range(P):
        o = seen[:, p % seen.shape[1]] > 0
        if rules.n_terms and np.linalg.det(basis[o].T @ basis[o]) <= KNOWN:
            continue
        flat = np.eye(len(atom))[o] @ basis
        project = np.eye(o.sum()) - flat @ np.linalg.pinv(flat)
        columns.append(project @ atom[o, p])
        target.append(project @ y[o, p])
    if not columns:
        return 0.0, 0.0
    g, y = np.concatenate(columns), np.concatenate(target)
    return (g @ y) / (g @ g), (g @ y) ** 2 / (g @ g)


def energy_beside(y, seen, basis):
    """Return the energy of the observed samples of a window that no baseline explains."""
    energy = 0.0
    for p in range(P):
        o = seen[:, p % seen.shape[1]] > 0
        fit = basis[o] @ np.linalg.lstsq(basis[o], y[o, p])[0]
        energy += np.sum((y[o, p] - fit) ** 2)
    return energy


def best_gain(signals, atoms, rules, s, sign=None):
    """Return the largest total gain of recording s, by trying everything."""
    lengths = rules.lengths(L)
    dilate = make_readings(lengths, L).dilate
    n = signals.lengths[s]
    seen = np.ones((N, 1)) if signals.observed is None else signals.observed[s]
    gain = np.full((len(lengths), N), -np.inf)
    for d, length in enumerate(lengths):
        for t in range(n - length + 1):
            at = slice(t, t + length)
            for k in (k for k, which in rules.pairs(K, L) if which == d):
                own = (dilate[d] @ atoms[s, k])[:length]
                z, explained = fit_window(signals.values[s, at], seen[at], own, rules)
                if sign is not None:
                    explained = explained if z * sign > 0 else 0.0
                elif not rules.signed:
                    explained = explained if z > 0 else 0.0
                gain[d, t] = max(gain[d, t], explained - PENALTY)
    return naive.best_activations(gain, lengths)


@pytest.mark.parametrize(("rules", "mask"), CASES)
def test_coding_beside_baselines_equals_exhaustive_search(rules, mask):
    signals, atoms = problem(mask)
    _, gain = in_double(fast_encode, signals, atoms, PENALTY, rules=rules)
    for s in range(S):
        signs = (1, -1) if rules.polarity == "person" else (None,)
        best = max(best_gain(signals, atoms, rules, s, sign) for sign in signs)
        assert_allclose(gain[s], best, rtol=1e-9, atol=1e-9)


def test_all_amplitudes_of_a_person_have_one_sign():
    signals, atoms = problem(0)
    rules = L0Coder(polarity="person")
    upright, gain = in_double(fast_encode, signals, atoms, PENALTY, rules=rules)
    turned = signals._replace(values=-signals.values)
    inverted, same = in_double(fast_encode, turned, atoms, PENALTY, rules=rules)
    assert_allclose(gain, same)
    assert_allclose(inverted.amplitude, -np.asarray(upright.amplitude), atol=1e-12)
    assert (np.sign(upright.amplitude).max(1) * np.sign(upright.amplitude).min(1) >= 0).all()


@pytest.mark.parametrize(("rules", "mask"), CASES[:5])
def test_later_steps_see_the_least_residual_over_all_baselines(rules, mask):
    signals, atoms = problem(mask)
    events, gain = in_double(fast_encode, signals, atoms, PENALTY, rules=rules)
    left = in_double(fast_remove, signals, events, atoms, rules=rules, margin=MARGIN)
    lengths = rules.lengths(L)
    dilate = make_readings(lengths, L).dilate
    for s in range(S):
        explained = 0.0
        for e, (t, k, z) in enumerate(zip(*(np.asarray(x)[s] for x in events[:3]), strict=True)):
            if z == 0:
                continue
            d = 0 if events.length is None else int(events.length[s, e])
            at = slice(t, t + lengths[d])
            fit = z * (dilate[d] @ atoms[s, k])[: lengths[d]]
            seen = np.ones((N, 1)) if left.observed is None else np.asarray(left.observed)[s]
            y = np.asarray(left.values)[s, at]
            residual = (y - fit) * seen[at]
            basis = make_basis(rules.n_terms, (lengths[d],))[0]
            # No baseline of the residual is left, so none would lower it.
            assert_allclose(basis.T @ residual, 0, atol=1e-9)
            explained += energy_beside(y, seen[at], basis) - np.sum(residual**2) - PENALTY
        assert_allclose(explained, gain[s], rtol=1e-8, atol=1e-8)


def test_coding_does_not_see_baselines():
    signals, atoms = problem(0)
    time = np.arange(N)[:, None]
    moved = signals._replace(values=signals.values + 7.0 - 3.0 * time)
    whole = signals._replace(lengths=np.full(S, N, np.int32))
    events, gain = in_double(fast_encode, whole, atoms, PENALTY, rules=LINE)
    others, same = in_double(
        fast_encode, moved._replace(lengths=whole.lengths), atoms, PENALTY, rules=LINE
    )
    assert_allclose(gain, same, rtol=1e-9)
    assert_allclose(events.amplitude, others.amplitude, rtol=1e-6)


@pytest.mark.parametrize("n_terms", [0, 1, 2])
def test_energy_of_windows_is_that_of_levelled_ones(n_terms):
    values = np.random.default_rng(0).standard_normal((2, 20, P)) + np.arange(20)[:, None]
    windows = np.stack([values[:, t : t + L] for t in range(20 - L + 1)], axis=1)
    expected = (level(windows, n_terms) ** 2).sum((2, 3))
    assert_allclose(window_energy(values, L, n_terms), expected, rtol=1e-9)
