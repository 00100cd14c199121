"""Activations of several lengths: readings, and statistics that bound the objective."""

import jax
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.signals.reconstruction import read_dilated
from percdl.steps.csc import L0Coder
from percdl.steps.durations import dilate_atoms
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals

S, N, K, L, P, MARGIN = 3, 60, 2, 8, 2, 2
LENGTHS = L0Coder(stretch=1.5).lengths(L)

statistics_of = jax.jit(segment_statistics, static_argnums=(2, 3, 4, 5))


def problem(mask, seed=0):
    """Return recordings with disjoint events of all lengths, and atoms."""
    rng = np.random.default_rng(seed)
    lengths = np.array([N, N - 7, N - 20], np.int32)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed = (inside & (rng.random((S, N, mask)) < 0.8)).astype(float) if mask else None
    values = rng.standard_normal((S, N, P)) * (inside if observed is None else observed)
    onset = np.tile([1, 14, 27, N], (S, 1))
    amplitude = np.where(onset < N, rng.uniform(0.5, 2, onset.shape), 0)
    which = rng.integers(0, len(LENGTHS), onset.shape)
    events = Events(onset, rng.integers(0, K, onset.shape), amplitude, which)
    return Signals(values, lengths, observed), events, rng.standard_normal((S, K, L, P))


def error(signals, events, atoms):
    """Return the squared error of each recording, by forming the residual."""
    residual = np.array(signals.values)
    for s in range(S):
        for t, k, z, d in zip(*(part[s] for part in events), strict=True):
            if z != 0:
                residual[s, t : t + LENGTHS[d]] -= z * (read_dilated(L, LENGTHS[d]) @ atoms[s, k])
    seen = 1 if signals.observed is None else signals.observed
    return np.sum(seen * residual**2, axis=(1, 2))


@pytest.mark.parametrize("mask", [0, 1, P])
def test_statistics_bound_the_error_and_meet_it_at_the_atoms_of_the_coding(mask):
    signals, events, atoms = problem(mask)
    found = in_double(statistics_of, signals, events, K, L, MARGIN, LENGTHS, atoms)
    moment, weight = (np.asarray(x)[:, :, MARGIN:-MARGIN] for x in found[:2])

    def explained(g):
        return np.sum(2 * moment * g - weight * g**2, axis=(1, 2, 3))

    constant = error(signals, events, atoms) + explained(atoms)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0, 10.0):
        others = atoms + size * rng.standard_normal(atoms.shape)
        assert (constant - explained(others) >= error(signals, events, others) - 1e-9).all()
    assert (weight >= 0).all()
    assert_array_equal(found.count.sum(1), 3)


def test_events_as_long_as_the_atom_have_the_usual_statistics():
    signals, events, atoms = problem(P)
    alike = events._replace(length=np.full_like(events.length, LENGTHS.index(L)))
    bound = in_double(statistics_of, signals, alike, K, L, MARGIN, LENGTHS, atoms)
    usual = in_double(statistics_of, signals, events._replace(length=None), K, L, MARGIN)
    for ours, theirs in zip(bound, usual, strict=True):
        assert_allclose(ours, theirs, atol=1e-12)


def test_readings_keep_what_is_constant_and_interpolate_straight_lines():
    for wanted in (2, 5, 8, 13, 30):
        assert_allclose(read_dilated(L, wanted).sum(1), 1)
        if wanted >= L:
            line = read_dilated(L, wanted) @ np.arange(L)
            assert_allclose(line, np.linspace(0, L - 1, wanted), atol=1e-12)
    assert_array_equal(read_dilated(L, L), np.eye(L))


def test_dilated_atoms_end_where_their_activations_end():
    atoms = np.ones((1, K, L, P))
    dilated = in_double(jax.jit(dilate_atoms, static_argnums=1), atoms, LENGTHS)
    dilated = np.asarray(dilated).reshape(K, len(LENGTHS), -1, P)
    for d, length in enumerate(LENGTHS):
        assert_allclose(dilated[:, d, :length], 1)
        assert_array_equal(dilated[:, d, length:], 0)
