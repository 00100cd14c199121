"""The deviation index: left-out statistics, invariances, theory, and planted deviants."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.covariance import OAS

from percdl import TimeWarp
from percdl.analysis import measure_deviation
from percdl.analysis.deviation import local_speed
from percdl.analysis.reference import Reference
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.transforms import Identity

LENGTH = 40
WARP = TimeWarp(1, 6)
GROUPS = ["healthy"] * 30 + ["patient"] * 10


def seen_through(params, transform=WARP, n_channels=1, subjects=None, dictionary=None):
    """Return people with the given parameters (S, K, M), as a model would describe them."""
    n_subjects, n_atoms = params.shape[:2]
    time = np.linspace(0, 1, LENGTH)[:, None]
    waves = [np.sin(2 * np.pi * (k + 1) * time + np.arange(n_channels)) for k in range(n_atoms)]
    return Personalization(
        params=params,
        events=pd.DataFrame(),
        n_activations=np.where(np.isnan(params).any(2), 0, 5),
        subjects=tuple(f"P{s}" for s in range(n_subjects)) if subjects is None else subjects,
        transform=transform,
        dictionary=np.stack(waves) if dictionary is None else dictionary,
        dtype="float64",
    )


def some_params(n_subjects=40, n_atoms=1, n_params=6, seed=0):
    """Return correlated parameters, of a spread that keeps time running forwards."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(n_params, n_params)) / np.sqrt(n_params)
    return 0.04 * rng.normal(size=(n_subjects, n_atoms, n_params)) @ mix


def naive_distance(value, rest, shrinkage=None):
    """Refit everything on the rest, with scikit-learn's own shrinkage."""
    z = (value - rest.mean(0)) / rest.std(0, ddof=1)
    correlation = np.corrcoef(rest.T)
    if shrinkage is None:
        covariance = OAS().fit((rest - rest.mean(0)) / rest.std(0)).covariance_
    else:
        covariance = (1 - shrinkage) * correlation + shrinkage * np.eye(len(z))
    return z @ np.linalg.solve(covariance, z)


@pytest.mark.parametrize("shrinkage", [None, 0.0, 0.3])
@pytest.mark.parametrize("n_persons", [30, 11])
def test_everyone_is_judged_by_the_others_exactly(shrinkage, n_persons):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(36, 4)) @ rng.normal(size=(4, 4)) + 100
    who = np.array([f"P{s % n_persons}" for s in range(30)] + [f"new{s}" for s in range(6)])
    found = Reference(values[:30], who[:30]).distances(values, who, shrinkage)
    for s in range(36):
        rest = values[:30][who[:30] != who[s]]
        assert_allclose(found[s], naive_distance(values[s], rest, shrinkage), rtol=1e-8)


def test_profiles_are_z_scores_against_the_others():
    people = seen_through(some_params(), n_channels=2)
    found = measure_deviation(people, GROUPS, "healthy")
    speeds, atoms = np.log(local_speed(people.warps)), people.personal_dictionary
    for s in (0, 29, 30, 39):
        rest = [r for r in range(30) if r != s]
        for curves, profile in ((speeds, found.timing_profile), (atoms, found.profile)):
            mean, sd = curves[rest].mean(0), curves[rest].std(0, ddof=1)
            varies = sd > 1e-4
            expected = (curves[s] - mean)[varies] / sd[varies]
            assert_allclose(profile[s][varies], expected, rtol=1e-6, atol=1e-9)
    assert_allclose(found.profile[:, :, [0, -1]], 0, atol=1e-3)  # warps keep the ends


def test_index_is_the_distance_in_parameter_space():
    people = seen_through(some_params())
    found = measure_deviation(people, GROUPS, "healthy")
    values = people.params[:, 0]
    for s in (3, 35):
        rest = values[[r for r in range(30) if r != s]]
        assert_allclose(found.index[s], np.sqrt(naive_distance(values[s], rest) / 6))
    assert_allclose(found.atom_index[:, 0], found.index)


def test_order_of_subjects_does_not_matter():
    params = some_params(n_atoms=2)
    order = np.random.default_rng(1).permutation(40)
    plain = measure_deviation(seen_through(params), GROUPS, "healthy")
    shuffled = measure_deviation(
        seen_through(params[order]), [GROUPS[s] for s in order], "healthy"
    )
    for name in ("index", "atom_index", "percentile", "profile", "timing_profile"):
        assert_allclose(getattr(shuffled, name), getattr(plain, name)[order], atol=1e-8)


def test_unknown_group_and_small_reference_are_refused_in_words():
    people = seen_through(some_params())
    with pytest.raises(InvalidParameterError, match=r"'Healthy'.*none of.*'healthy', 'patient'"):
        measure_deviation(people, GROUPS, "Healthy")
    with pytest.raises(InvalidParameterError, match="40 subjects and 3 groups"):
        measure_deviation(people, ["healthy"] * 3, "healthy")
    with pytest.raises(InvalidParameterError, match="'a' has 2 person"):
        measure_deviation(people, ["a", "a", *["b"] * 38], "a")
    with pytest.raises(InvalidParameterError, match="which group is the reference"):
        measure_deviation(people, GROUPS)
    with pytest.raises(InvalidParameterError, match="40 booleans"):
        measure_deviation(people, None, [True, False])
    with pytest.raises(InvalidParameterError, match="pass `groups`"):
        measure_deviation(people, None, "healthy")
    with pytest.raises(InvalidParameterError, match="40 subjects and 2 persons"):
        measure_deviation(people, GROUPS, "healthy", persons=["a", "b"])
    with pytest.raises(InvalidParameterError, match="shrinkage=2"):
        measure_deviation(people, GROUPS, "healthy", shrinkage=2)


def test_a_model_without_parameters_is_refused():
    with pytest.raises(InvalidParameterError, match="do not vary"):
        measure_deviation(seen_through(np.zeros((5, 1, 0)), Identity()))
