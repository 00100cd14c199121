"""CSC is exact: it equals exhaustive search."""

from dataclasses import astuple
from functools import partial
from typing import NamedTuple

import jax
import naive
import numpy as np
import pytest
from double import in_double
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm.chunks import Chunk, fill
from percdl.signals import Cohort
from percdl.signals.reconstruction import read_dilated
from percdl.steps.csc import L0Coder, correlate, encode, select_disjoint
from percdl.steps.types import Signals

S, N, L = 80, 10, 3
PENALTIES = (0.0, 0.2, 1.0, 1e6)

fast_encode = jax.jit(encode, static_argnames="rules")
fast_select = jax.jit(select_disjoint, static_argnums=(1, 2))


class Case(NamedTuple):
    """A family of tiny problems: K atoms, P channels, a mask of Q channels (0: none)."""

    n_atoms: int
    n_channels: int
    mask: int
    rules: L0Coder = L0Coder()
    shared: bool = False


CASES = [
    Case(1, 1, 0),
    Case(2, 1, 0, L0Coder(signed=True)),
    Case(2, 2, 0, L0Coder(min_gap=2), shared=True),
    Case(1, 1, 1, L0Coder(signed=True, min_gap=1)),
    Case(2, 2, 1),
    Case(2, 2, 2, L0Coder(signed=True)),
    Case(2, 1, 0, L0Coder(max_activations=2)),
    Case(1, 2, 2, L0Coder(max_activations=1, min_gap=1), shared=True),
]
SIGNED, SHARED, MASKED = CASES[1], CASES[2], CASES[5]


def tiny_problems(case, seed=0):
    """Return S recordings of 3 to 10 samples with gaps, and their atoms."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(L, N + 1, S)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed = inside & (rng.random((S, N, case.mask)) < 0.7) if case.mask else None
    x = rng.standard_normal((S, N, case.n_channels)) * inside
    if observed is not None:
        x = x * observed
    shape = (1 if case.shared else S, case.n_atoms, L, case.n_channels)
    # No sample near zero: an atom of which next to nothing is seen counts as unseen.
    atoms = rng.uniform(0.3, 1, shape) * rng.choice([-1, 1], shape)
    return x, lengths, observed, atoms


def as_signals(x, lengths, observed=None):
    if observed is not None:
        observed = np.asarray(observed, x.dtype)
    return Signals(x, np.asarray(lengths, np.int32), observed)


def found(events, row, n_times=N):
    """Return the events of a recording as triples, having checked the empty slots."""
    onset, atom, amplitude = (np.asarray(part)[row] for part in events[:3])
    taken = onset < n_times
    assert_array_equal(amplitude[~taken], 0)
    assert_array_equal(onset[~taken], n_times)
    assert (np.diff(taken.astype(int)) <= 0).all(), "empty slots come last"
    return list(zip(onset[taken], atom[taken], amplitude[taken], strict=True))


def assert_legal(events, rules, length):
    onsets = np.array([onset for onset, *_ in events])
    assert (np.diff(onsets) >= L + rules.min_gap).all()
    assert ((onsets >= 0) & (onsets <= length - L)).all()
    assert rules.max_activations is None or len(events) <= rules.max_activations
    assert rules.signed or all(amplitude > 0 for *_, amplitude in events)


@pytest.mark.parametrize("case", CASES)
def test_code_equals_exhaustive_search(case):
    x, lengths, observed, atoms = tiny_problems(case)
    signals = as_signals(x, lengths, observed)
    code = partial(in_double, fast_encode, signals, atoms, rules=case.rules)
    coded = {penalty: code(np.float64(penalty)) for penalty in PENALTIES}
    n_unique = 0
    for s, length in enumerate(lengths):
        signal, dictionary = x[s, :length], atoms[0 if case.shared else s]
        seen = np.ones_like(signal) if observed is None else observed[s, :length]
        seen = np.broadcast_to(seen, signal.shape)
        every = naive.codes(signal, dictionary, seen, *astuple(case.rules)[:3])
        for penalty, (events, gain) in coded.items():
            ours = found(events, s)
            best, *others = naive.best_codes(every, penalty)
            assert_legal(ours, case.rules, length)
            assert_allclose(np.sum(signal**2) - gain[s], best[0], atol=1e-9)
            assert_allclose(
                naive.cost(signal, dictionary, penalty, seen, ours), best[0], atol=1e-9
            )
            if not others or others[0][0] > best[0] + 1e-6:
                n_unique += 1
                assert [event[:2] for event in ours] == [event[:2] for event in best[1]]
                assert_allclose([e[2] for e in ours], [e[2] for e in best[1]], atol=1e-9)
    assert n_unique > S * len(PENALTIES) // 2


def test_single_precision_finds_the_same_objective():
    x, lengths, observed, atoms = (
        None if part is None else np.asarray(part, np.float32)
        for part in tiny_problems(MASKED, seed=1)
    )
    signals = as_signals(x, lengths, observed)
    gains = {
        penalty: fast_encode(signals, atoms, np.float32(penalty), rules=MASKED.rules)[1]
        for penalty in PENALTIES[:3]
    }
    for s, n in enumerate(lengths.astype(int)):
        every = naive.codes(x[s, :n], atoms[s], observed[s, :n], *astuple(MASKED.rules)[:3])
        for penalty, gain in gains.items():
            best = naive.best_codes(every, penalty)[0]
            assert_allclose(np.sum(x[s] ** 2) - gain[s], best[0], atol=2e-5)


def test_correlation_equals_the_direct_sum():
    x, lengths, _, atoms = tiny_problems(MASKED, seed=2)
    projection, norm = in_double(jax.jit(correlate), as_signals(x, lengths), atoms)
    for s in range(S):
        assert_allclose(projection[s], naive.cross_correlation(x[s], atoms[s]), atol=1e-12)
    expected = np.broadcast_to(np.sum(atoms**2, axis=(2, 3))[..., None], norm.shape)
    assert_allclose(norm, expected)


@pytest.mark.parametrize("seen", [0.9, 1.1])
def test_an_atom_seen_too_little_is_unseen(seen):
    """The limit is a share of its energy: a ten-thousandth of what a sample has on average."""
    share = seen * 1e-4 / L
    atoms = np.sqrt([share, 1 - share, 0]).reshape(1, 1, L, 1)
    observed = np.zeros((1, N, 1))
    observed[0, 4] = 1
    signals = as_signals(observed, [N], observed)
    norm = in_double(jax.jit(correlate), signals, atoms)[1]
    expected = share * (np.arange(N - L + 1) == 4) * (seen > 1)
    expected[3] = 1 - share  # there the atom's second sample is seen
    assert_allclose(norm[0, 0], expected, rtol=1e-9)


@pytest.mark.parametrize("factor", [0.25, 3.7])
def test_codes_follow_the_scale_of_signals_and_of_atoms(factor):
    x, lengths, _, atoms = tiny_problems(SIGNED, seed=3)
    code = partial(in_double, fast_encode, rules=SIGNED.rules)
    signals, louder = as_signals(x, lengths), as_signals(factor * x, lengths)
    events, gain = code(signals, atoms, np.float64(0.2))
    scaled, scaled_gain = code(louder, atoms, np.float64(0.2 * factor**2))
    same, same_gain = code(signals, factor * atoms, np.float64(0.2))
    for s in range(S):
        expected = np.array(found(events, s)).reshape(-1, 3)
        for other, ratio in ((scaled, factor), (same, 1 / factor)):
            ours = np.array(found(other, s)).reshape(-1, 3)
            assert_allclose(ours, expected * [1, 1, ratio], rtol=1e-9)
    assert_allclose(scaled_gain, factor**2 * gain, atol=1e-9)
    assert_allclose(same_gain, gain, atol=1e-9)
    assert gain.max() > 0


def test_shared_atoms_are_atoms_repeated():
    x, lengths, _, atoms = tiny_problems(SHARED, seed=4)
    signals = as_signals(x, lengths)
    shared = in_double(fast_encode, signals, atoms, np.float64(0.2), rules=SHARED.rules)
    repeated = np.repeat(atoms, S, axis=0)
    own = in_double(fast_encode, signals, repeated, np.float64(0.2), rules=SHARED.rules)
    for a, b in zip(jax.tree.leaves(shared), jax.tree.leaves(own), strict=True):
        assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_nothing_is_found_where_nothing_is_seen(penalty):
    """Rows: zeros, a row that only fills the chunk, a recording of which all is missing."""
    x = np.zeros((3, N, 1), np.float32)
    observed = np.ones((3, N, 1), np.float32)
    observed[1:] = 0
    atoms = np.array([[0, 0, 0], [1, -1, 1]], np.float32)[None, :, :, None]
    signals = as_signals(x, [N, 0, N], observed)
    events, gain = fast_encode(signals, atoms, np.float32(penalty))
    assert [found(events, row) for row in range(3)] == [[], [], []]
    assert_array_equal(gain, 0)


def test_a_zero_atom_is_never_used():
    x, lengths, _, atoms = tiny_problems(SIGNED, seed=5)
    atoms[:, 0] = 0
    events, gain = in_double(
        fast_encode, as_signals(x, lengths), atoms, np.float64(0), rules=SIGNED.rules
    )
    assert np.isfinite(gain).all()
    assert {atom for s in range(S) for _, atom, _ in found(events, s)} == {1}


def test_missing_samples_reach_the_coder_as_nan():
    x, lengths, observed, atoms = tiny_problems(MASKED, seed=6)
    arrays = [np.where(o, v, np.nan)[:n] for v, o, n in zip(x, observed, lengths, strict=True)]
    signals = fill(Cohort.from_arrays(arrays), Chunk(np.arange(S), S, N), 2, "float64")
    _, gain = in_double(fast_encode, signals, atoms, np.float64(0.1), rules=MASKED.rules)
    for s, y in enumerate(arrays):
        every = naive.codes(np.nan_to_num(y), atoms[s], ~np.isnan(y), *astuple(MASKED.rules)[:3])
        best = naive.best_codes(every, 0.1)[0]
        assert_allclose(np.nansum(y**2) - gain[s], best[0], atol=1e-9)


# Few distinct values, so that ties abound; all sums are exact in single precision.
GAINS = st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 1.0, 2.75])


@given(
    gain=hnp.arrays(np.float32, (2, 2, 9), elements=GAINS),
    spans=st.sampled_from([(1, 1), (2, 2), (2, 3), (1, 4), (3, 5)]),
    most=st.sampled_from([None, 1, 3]),
    forced=st.one_of(
        st.none(), hnp.arrays(bool, (2, 9), elements=st.sampled_from([True] + 5 * [False]))
    ),
)
def test_disjoint_activations_of_largest_gain(gain, spans, most, forced):
    """Of two lengths, which may be equal: then the larger gain counts. Some samples are forced."""
    # All end by where one of the first length ends that begins last.
    gain[:, 1, gain.shape[2] - (spans[1] - spans[0]) :] = -np.inf
    covered = None if forced is None else np.pad(forced, ((0, 0), (0, spans[0] - 1)))
    onsets, which, total = (np.asarray(part) for part in fast_select(gain, spans, most, covered))
    for row in range(2):
        must = () if covered is None else covered[row]
        best = naive.best_activations(gain[row], spans, most, must)
        if best == -np.inf:
            continue  # nothing can be chosen
        taken = onsets[row] >= 0
        first, length = onsets[row][taken], which[row][taken]
        assert (np.diff(first) >= np.array(spans)[length[:-1]]).all()
        assert (onsets[row] >= -1).all(), "an empty slot is marked by -1"
        assert most is None or len(first) <= most
        assert total[row] == gain[row, length, first].sum()
        assert total[row] == best
        within = [
            (t >= first) & (t < first + np.array(spans)[length]) for t in np.flatnonzero(must)
        ]
        assert all(map(np.any, within))


@pytest.mark.parametrize("rules", [L0Coder(stretch=1.7), L0Coder(True, min_gap=1, stretch=1.7)])
def test_code_with_several_lengths_equals_exhaustive_search(rules):
    x, lengths, _, atoms = tiny_problems(Case(2, 2, 0), seed=5)
    lengths = np.maximum(lengths, 5)
    events, gain = in_double(
        fast_encode, as_signals(x, lengths), atoms, np.float64(0.2), rules=rules
    )
    sizes = rules.lengths(L)
    used = np.asarray(events.length)[np.asarray(events.amplitude) != 0]
    assert {*used.tolist()} == {*range(len(sizes))}, "all lengths occur"
    for s, n in enumerate(lengths):
        signal, dilated = x[s, :n], [read_dilated(L, size) @ atoms[s] for size in sizes]
        gains = np.full((len(sizes), n - sizes[0] + 1), -np.inf)
        for d, size in enumerate(sizes):
            found_gain = naive.cross_correlation(signal, dilated[d])
            if not rules.signed:
                found_gain = np.maximum(found_gain, 0)
            norm = (dilated[d] ** 2).sum((1, 2))[:, None]
            gains[d, : n - size + 1] = (found_gain**2 / norm).max(0) - 0.2
        spans = [size + rules.min_gap for size in sizes]
        assert_allclose(gain[s], naive.best_activations(gains, spans), atol=1e-9)
        residual, n_used = signal.copy(), 0
        for t, k, amplitude, d in zip(*(np.asarray(part)[s] for part in events), strict=True):
            if amplitude != 0:
                residual[t : t + sizes[d]] -= amplitude * dilated[d][k]
                n_used += 1
        assert_allclose(np.sum(residual**2) + 0.2 * n_used, np.sum(signal**2) - gain[s], atol=1e-9)
