"""Differential privacy: what it costs, and noise that is what it is said to be."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from percdl.exceptions import InvalidParameterError
from percdl.federated.privacy import (
    Privacy,
    add_on_grid,
    clip_rows,
    count_releases,
    draw_noise,
    epsilon_of,
    step_of,
)


def exact_epsilon(noise_multiplier, delta):
    """Return the epsilon of one release with normal noise (Balle and Wang, Theorem 8)."""

    def excess(epsilon):
        half, slope = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
        tail = np.exp(epsilon + stats.norm.logcdf(-half - slope))
        return stats.norm.cdf(half - slope) - tail - delta

    return optimize.brentq(excess, 0, 1000, xtol=1e-10)


@pytest.mark.parametrize("n_releases", [1, 7, 40])
@pytest.mark.parametrize("noise", [1.0, 5.0, 30.0])
def test_epsilon_is_exact(noise, n_releases):
    """Normal noise composes: n releases are one, with noise smaller by the root of n."""
    found = Privacy(noise_multiplier=noise).epsilon_spent(n_releases)
    exact = exact_epsilon(noise / math.sqrt(n_releases), 1e-5)
    assert found == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_epsilon_holds_for_normal_distributions_at_this_distance(mu):
    """By hand: the mass of one beyond what the other allows is delta."""
    epsilon = epsilon_of(mu, 1e-5)
    x = np.linspace(-40, 40, 400_001)
    excess = stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x)
    assert np.maximum(excess, 0).sum() * (x[1] - x[0]) == pytest.approx(1e-5, rel=1e-3)


def test_epsilon_falls_with_noise_and_grows_with_releases():
    noises = [Privacy(noise_multiplier=s) for s in (1.0, 2.0, 4.0, 8.0)]
    assert list(np.argsort([noise.epsilon_spent(7) for noise in noises])) == [3, 2, 1, 0]
    assert list(np.argsort([noises[1].epsilon_spent(n) for n in (1, 2, 4, 8)])) == [0, 1, 2, 3]
    assert Privacy(noise_multiplier=0.0).epsilon_spent(1) == math.inf
    assert epsilon_of(0.0, 1e-5) == 0


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 32.0])
def test_calibration_spends_what_is_given(epsilon):
    noise = Privacy(epsilon, 1e-6).noise(9)
    found = Privacy(noise_multiplier=noise, delta=1e-6).epsilon_spent(9)
    assert found == pytest.approx(epsilon, rel=1e-6)
    assert Privacy(epsilon, 1e-6).epsilon_spent(9) <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1.0, "noise_multiplier": 1.0},
        {"epsilon": 0.0},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "clip": -1.0},
        {"epsilon": 1.0, "clip": math.inf},
        {"noise_multiplier": -1.0},
        {"epsilon": 1.0, "shared_by": 0},
    ],
)
def test_what_makes_no_sense_is_refused(arguments):
    with pytest.raises(InvalidParameterError, match="Privacy"):
        Privacy(**arguments)


def test_sites_that_share_the_noise_make_up_all_of_it():
    alone = Privacy(noise_multiplier=3.0).deviation(2, 7)
    share = Privacy(noise_multiplier=3.0, shared_by=5).deviation(2, 7)
    assert alone == pytest.approx(3.0 * Privacy(noise_multiplier=3.0).bound(2))
    assert math.sqrt(5) * share == pytest.approx(alone)


@pytest.mark.parametrize("seed", range(20))
def test_a_subject_changes_clipped_sums_by_at_most_the_bound(seed):
    rng = np.random.default_rng(seed)
    n_subjects, size = rng.integers(1, 12), rng.integers(1, 300)
    rows = rng.standard_normal((n_subjects, size)) * rng.lognormal(0, 3, (n_subjects, 1))
    bound, step = rng.uniform(0.1, 3), step_of(rng.uniform(0.01, 10))
    total = add_on_grid(rows, bound, step)
    changes = [
        step * (total - add_on_grid(np.delete(rows, s, 0), bound, step)) for s in range(n_subjects)
    ]
    norms = np.linalg.norm(changes, axis=1)
    assert norms.max() <= bound
    # The bound is met by those who exceed it: they are clipped no more than they must be.
    large = np.linalg.norm(rows, axis=1) > bound
    np.testing.assert_allclose(norms[large], bound, rtol=1e-3)


def test_what_is_within_the_bound_is_not_touched():
    rows = np.random.default_rng(0).standard_normal((5, 7))
    np.testing.assert_array_equal(clip_rows(rows, 100.0), rows)
    assert not clip_rows(np.zeros((2, 3)), 1.0).any()


def test_noise_is_normal_and_lies_on_the_grid():
    n, deviation = 40_000, 3.7
    step = step_of(deviation)
    steps = draw_noise(n, deviation, step, np.random.default_rng(0).bytes)
    assert steps.dtype == np.int64
    assert math.log2(step).is_integer()
    noise = step * steps
    low, high = stats.chi2.ppf([1e-3, 1 - 1e-3], n)
    assert low < (noise**2).sum() / deviation**2 < high
    assert stats.kstest(noise / deviation, "norm").pvalue > 1e-3


def test_noise_reaches_far_into_both_tails_and_no_further():
    smallest = np.array([0, 1], "<u8").tobytes()
    largest = np.array([2**64 - 2, 2**64 - 1], "<u8").tobytes()
    step = step_of(1.0)
    tails = step * draw_noise(2, 1.0, step, lambda n: smallest)
    np.testing.assert_allclose(tails, [stats.norm.isf(2.0**-65), stats.norm.ppf(2.0**-65)])
    assert not draw_noise(2, 1.0, step, lambda n: largest).any()


def test_noise_of_the_operating_system_differs_each_time():
    import os

    first, second = (draw_noise(8, 1.0, 2.0**-20, os.urandom) for _ in range(2))
    assert (first != second).any()


def test_releases_are_the_rounds_and_the_closing_one():
    import toy

    assert count_releases(toy.settings(population_rounds=2, personal_rounds=3)) == 6
    assert count_releases(toy.settings(population_rounds=0, personal_rounds=3)) == 5
