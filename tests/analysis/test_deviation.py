"""The deviation index: left-out statistics, invariances, theory, and planted deviants."""

import numpy as np
import pandas as pd
import pytest
import small_models
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import ortho_group
from sklearn.covariance import OAS

from percdl import Cohort, TimeWarp
from percdl.analysis import estimate_uncertainty, measure_deviation
from percdl.analysis.deviation import _rank, describe_people, distances
from percdl.analysis.effects import log_speed
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.transforms import Compose, Gain, Identity

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


def naive_distance(value, rest, shrinkage=None, kinds=None, who=None):
    """Refit everything on the rest, with scikit-learn's own shrinkage, by explicit weights."""
    kinds = np.zeros(rest.shape[1], int) if kinds is None else kinds
    who = np.arange(len(rest)) if who is None else who
    weights, n = np.array([1 / np.sum(who == person) for person in who]), len(set(who))
    mean = np.average(rest, axis=0, weights=weights)
    covariance = (weights * (rest - mean).T) @ (rest - mean) / (n - 1)
    variance = np.diagonal(covariance)
    unit = np.sqrt([variance[kinds == kind].mean() for kind in kinds])
    y, covariance = (value - mean) / unit, covariance / np.outer(unit, unit)
    if shrinkage is None:
        # As many rows as there are people, of this covariance.
        rows = np.random.default_rng(0).normal(size=(n, len(y)))
        rows = np.linalg.qr(rows - rows.mean(0))[0] @ np.linalg.cholesky(covariance).T
        shrinkage = OAS().fit(rows).shrinkage_
    covariance = (1 - shrinkage) * covariance + shrinkage * np.eye(len(y))
    return np.sqrt(y @ np.linalg.solve(covariance, y))


@pytest.mark.parametrize("shrinkage", [None, 0.0, 0.3])
@pytest.mark.parametrize("n_persons", [30, 11])
@pytest.mark.parametrize("kinds", [None, [0, 1, 2, 3], [1, 0, 0, 2]])
def test_everyone_is_judged_by_the_others_exactly(shrinkage, n_persons, kinds):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(36, 4)) @ rng.normal(size=(4, 4)) + 100
    who = np.array([f"P{s % n_persons}" for s in range(30)] + [f"new{s}" for s in range(6)])
    kinds = None if kinds is None else np.array(kinds)
    found = distances(values[:30], who[:30], values, who, kinds, shrinkage)[0]
    for s in range(36):
        others = np.flatnonzero(who[:30] != who[s])
        naive = naive_distance(values[s], values[others], shrinkage, kinds, who[others])
        assert_allclose(found[s], naive, rtol=1e-8)


def test_without_shrinkage_the_distance_knows_no_units():
    """Mahalanobis' theorem: any invertible affine map of the measurements cancels."""
    rng = np.random.default_rng(0)
    values, who = rng.normal(size=(40, 5)), np.arange(40).astype(str)
    mapped = values @ rng.normal(size=(5, 5)) + rng.normal(size=5)
    plain, other = (
        distances(x[:30], who[:30], x, who, shrinkage=0.0)[0] for x in (values, mapped)
    )
    assert_allclose(other, plain, rtol=1e-7)


def test_with_shrinkage_rotations_cancel_within_a_kind_and_units_between_kinds():
    rng = np.random.default_rng(1)
    values, who = rng.normal(size=(40, 6)) * [1, 2, 3, 1, 1, 9], np.arange(40).astype(str)
    kinds = np.array([0, 0, 0, 1, 1, 2])
    turned = values.copy()
    turned[:, :3] = 7 * values[:, :3] @ ortho_group.rvs(3, random_state=0)
    turned[:, 3:5] = 0.01 * values[:, 3:5] @ ortho_group.rvs(2, random_state=0) + 5
    turned[:, 5] *= -1e4
    plain, other = (distances(x[:30], who[:30], x, who, kinds)[0] for x in (values, turned))
    assert_allclose(other, plain, rtol=1e-7)


def test_members_have_the_distribution_of_the_theory():
    """Left out and without shrinkage, Hotelling: c d^2 is F(F, n - F), c below, n the others."""
    rng = np.random.default_rng(0)
    n, size = 399, 5
    values, who = rng.normal(size=(n + 1, size)), np.arange(n + 1).astype(str)
    squared = distances(values, who, values, who, shrinkage=0.0)[0] ** 2
    scaled = squared * n * (n - size) / ((n + 1) * (n - 1) * size)
    assert stats.kstest(scaled, stats.f(size, n - size).cdf).pvalue > 0.01
    # With shrinkage to the truth, a ball, nothing but the mean and the scale are estimated.
    shrunk = distances(values, who, values, who)[0] ** 2
    assert stats.kstest(shrunk, stats.chi2(size).cdf).pvalue > 0.01


def test_profiles_are_z_scores_against_the_others():
    people = seen_through(some_params(), n_channels=2)
    found = measure_deviation(people, GROUPS, "healthy")
    speeds, atoms = log_speed(people.own_times), people.personal_dictionary
    for s in (0, 29, 30, 39):
        rest = [r for r in range(30) if r != s]
        for curves, profile in ((speeds, found.timing_profile), (atoms, found.profile)):
            mean, sd = curves[rest].mean(0), curves[rest].std(0, ddof=1)
            varies = sd > 1e-4
            expected = (curves[s] - mean)[varies] / sd[varies]
            assert_allclose(profile[s][varies], expected, rtol=1e-6, atol=1e-9)
    assert_allclose(found.profile[:, :, [0, -1]], 0, atol=1e-3)  # warps keep the ends


def test_index_is_the_distance_over_that_of_a_typical_member():
    people = seen_through(some_params())
    found = measure_deviation(people, GROUPS, "healthy")
    values = people.params[:, 0] / np.arange(1, 7)  # one layer: its sines, as a displacement
    others = [[r for r in range(30) if r != s] for s in range(40)]
    naive = [naive_distance(values[s], values[rest]) for s, rest in enumerate(others)]
    assert_allclose(found.index, np.array(naive) / np.median(naive[:30]), rtol=1e-5)
    assert_allclose(np.median(found.index[found.is_reference]), 1)
    assert_allclose(found.atom_index[:, 0], found.index)
    assert found.is_reference.tolist() == [group == "healthy" for group in GROUPS]


def test_layers_that_make_the_same_warp_make_the_same_index():
    """A deep warp can be written in many ways; what counts is the warp."""
    small = some_params(seed=3)
    deep = np.concatenate([small, np.zeros_like(small)], axis=2)
    swapped = np.concatenate([np.zeros_like(small), small], axis=2)
    mixed = np.where(np.arange(40)[:, None, None] % 2, deep, swapped)
    one, two = (
        measure_deviation(seen_through(params, warp), GROUPS, "healthy")
        for params, warp in ((small, WARP), (mixed, TimeWarp(2, 6)))
    )
    assert_allclose(two.index, one.index, rtol=1e-6)
    assert_allclose(two.timing_profile, one.timing_profile, atol=1e-6)


@pytest.mark.parametrize("space", ["parameters", "atoms"])
def test_other_parameters_count_beside_a_warp_in_units_of_their_own(space):
    rng = np.random.default_rng(0)
    warp, gain = some_params(seed=1), 1 + 0.1 * rng.normal(size=(40, 1, 2))
    gain[35] = [1, 4]
    both = np.concatenate([warp, gain], axis=2)
    people = seen_through(both, Compose(WARP, Gain()), n_channels=2)
    found = measure_deviation(people, GROUPS, "healthy", space=space)
    assert found.table()["subject"][0] == "P35"
    assert found.index[35] > 3
    assert np.abs(found.profile[35, 0, 5:-5, 1]).max() > 3


@pytest.mark.parametrize("seed", range(2))
def test_a_planted_local_delay_is_ranked_first_and_located(seed):
    params = some_params(seed=seed, n_params=12)
    people = seen_through(params, TimeWarp(1, 12))
    time = np.linspace(0, 1, LENGTH)
    speed = np.gradient(people.warps, axis=-1)
    slow = 1 - 0.8 * np.exp(-0.5 * ((time - 0.6) / 0.06) ** 2)
    late = np.cumsum(np.append(0, (slow * speed[35, 0, 0])[1:]))
    orders = np.pi * np.arange(1, 13)
    sines = np.sin(np.outer(time, orders)) / orders
    params[35, 0] = np.linalg.lstsq(sines, late / late[-1] - time, rcond=None)[0]
    people = seen_through(params, TimeWarp(1, 12))
    planted = measure_deviation(people, GROUPS, "healthy")
    assert planted.table()["subject"][0] == "P35"
    assert planted.percentile[35] == 100
    slowest = time[np.argmin(planted.timing_profile[35, 0, 0])]
    phase = np.interp(0.6, time, people.warps[35, 0, 0]) / (LENGTH - 1)
    assert abs(slowest - phase) < 0.06


def test_a_new_patient_is_judged_by_the_norm_of_a_fit():
    params = some_params(45)
    everyone, fit = seen_through(params), seen_through(params[:40])
    names = tuple(f"new{s}" for s in range(5))
    new = seen_through(params[40:], subjects=names)
    found = measure_deviation(new, GROUPS, "healthy", reference_from=fit)
    together = measure_deviation(everyone, [*GROUPS, *[None] * 5], "healthy")
    for name in ("index", "atom_index", "percentile", "profile", "timing_profile"):
        assert_allclose(getattr(found, name), getattr(together, name)[40:])
    assert found.subjects == names
    assert found.groups == (None,) * 5
    assert not found.is_reference.any()


def test_a_person_is_no_part_of_their_own_norm():
    params = some_params()
    people = seen_through(params)
    visits = [f"person {s % 20}" for s in range(40)]
    found = measure_deviation(people, GROUPS, "healthy", persons=visits)
    alone = [s for s in range(30) if s % 20 != 3]
    for s in (3, 23):  # two visits of one person: the others are the whole norm
        fit = seen_through(params[alone], subjects=tuple(f"P{r}" for r in alone))
        one = seen_through(params[[s]], subjects=("new",))
        rest = [visits[r] for r in alone]
        other = measure_deviation(one, reference_from=fit, persons=rest)
        assert_allclose(found.profile[s], other.profile[0], atol=1e-9)
    named = measure_deviation(
        people, GROUPS, "healthy", persons=dict(zip(people.subjects, visits, strict=True))
    )
    assert_allclose(named.index, found.index)
    again = seen_through(params[[3]], subjects=("P3",))
    met = measure_deviation(again, GROUPS, "healthy", reference_from=people)
    assert_allclose(met.index, measure_deviation(people, GROUPS, "healthy").index[3])


@pytest.mark.parametrize("space", ["parameters", "atoms"])
def test_copies_of_all_recordings_of_a_person_change_nothing(space):
    params = some_params(n_atoms=2)
    params[7, 1] = np.nan
    persons = [f"person {s // 2}" if s < 12 else f"person {s}" for s in range(40)]
    for own in ([4, 5], [6, 7], [20]):
        again = [*range(40), *own, *own]
        plain, more = (
            measure_deviation(
                seen_through(params[rows]),
                [GROUPS[s] for s in rows],
                "healthy",
                persons=[persons[s] for s in rows],
                space=space,
            )
            for rows in (list(range(40)), again)
        )
        for name in ("index", "atom_index", "percentile", "profile", "timing_profile"):
            found, expected = getattr(more, name), getattr(plain, name)
            assert_allclose(found, expected[again], rtol=1e-6, atol=1e-9, err_msg=name)


def test_labels_may_be_arrays():
    people = seen_through(some_params())
    plain = measure_deviation(people, GROUPS, "healthy", persons=list(people.subjects))
    found = measure_deviation(
        people, np.array(GROUPS), "healthy", persons=np.array(people.subjects)
    )
    assert_allclose(found.index, plain.index)
    assert found.groups == plain.groups


def test_percentile_counts_the_other_members_that_are_nearer():
    found = measure_deviation(seen_through(some_params()), GROUPS, "healthy")
    index = found.index
    for s in range(40):
        others = [index[r] for r in range(30) if r != s]
        assert_allclose(found.percentile[s], 100 * np.mean(np.array(others) < index[s]))


def test_percentile_counts_persons_however_often_recorded():
    persons = np.arange(40) // 2  # two recordings each
    found = measure_deviation(seen_through(some_params()), GROUPS, "healthy", persons=persons)
    for s in range(40):
        pairs = [found.index[[2 * p, 2 * p + 1]] for p in range(15) if p != persons[s]]
        expected = 100 * np.mean(np.array(pairs) < found.index[s])
        assert_allclose(found.percentile[s], expected)
    index, members = np.r_[found.index, np.tile(found.index[:2], 3)], np.arange(46) % 40 < 30
    more = _rank(index, np.r_[persons, np.zeros(6, int)], members)
    assert_allclose(more[:40], found.percentile)


def test_an_atom_never_seen_is_unknown_and_the_others_still_count():
    params = some_params(n_atoms=2)
    params[[2, 35], 1] = np.nan
    params[36] = np.nan
    found = measure_deviation(seen_through(params), GROUPS, "healthy")
    assert np.isnan(found.atom_index[[2, 35], 1]).all()
    assert np.isnan([found.index[36], found.percentile[36]]).all()
    assert np.isfinite(np.delete(found.index, 36)).all()
    first = measure_deviation(seen_through(params[:, :1]), GROUPS, "healthy")
    assert_allclose(found.atom_index[:, 0], first.index)
    # P35 has the first atom alone, and so is judged by that, against everyone who has it.
    assert_allclose(found.index[35], first.index[35])
    assert np.isnan(found.profile[35, 1]).all()
    assert np.isfinite(found.profile[35, 0]).all()
    assert found.table()["subject"].iloc[-1] == "P36"


def test_table_is_sorted_and_holds_every_atom():
    found = measure_deviation(seen_through(some_params(n_atoms=2)), GROUPS, "healthy")
    table = found.table()
    assert list(table) == [
        "subject", "group", "is_reference", "index", "low", "high", "percentile", "atom_0",
        "atom_1",
    ]  # fmt: skip
    assert table["index"].is_monotonic_decreasing
    assert sorted(table["subject"]) == sorted(found.subjects)
    assert f"largest '{table['subject'][0]}'" in repr(found)


def test_without_groups_everyone_is_the_reference():
    found = measure_deviation(seen_through(some_params()))
    assert found.is_reference.all()


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
    with pytest.raises(InvalidParameterError, match=r"'Healthy'.*one of.*'healthy', 'patient'"):
        measure_deviation(people, GROUPS, "Healthy")
    with pytest.raises(InvalidParameterError, match="40 subjects and 3 groups"):
        measure_deviation(people, ["healthy"] * 3, "healthy")
    with pytest.raises(InvalidParameterError, match="'a' has 2 person"):
        measure_deviation(people, ["a", "a", *["b"] * 38], "a")
    with pytest.raises(InvalidParameterError, match="must be one of the groups"):
        measure_deviation(people, GROUPS)
    with pytest.raises(InvalidParameterError, match=r"Recordings.*model.personalize\(cohort\)"):
        measure_deviation(Cohort.from_arrays([np.zeros(9)]), GROUPS, "healthy")
    with pytest.raises(InvalidParameterError, match="pass `groups`"):
        measure_deviation(people, None, "healthy")
    with pytest.raises(InvalidParameterError, match="40 subjects and 2 persons"):
        measure_deviation(people, GROUPS, "healthy", persons=["a", "b"])
    with pytest.raises(InvalidParameterError, match="shrinkage=2"):
        measure_deviation(people, GROUPS, "healthy", shrinkage=2)
    with pytest.raises(InvalidParameterError, match="of 6 measurements"):
        measure_deviation(people, ["a"] * 3 + ["b"] * 37, "a", shrinkage=0)


def test_a_warp_that_stands_still_has_a_profile():
    params = some_params()
    params[35, 0] = 0
    params[35, 0, 1] = -1  # the pace halfway through is nothing, six times over
    people = seen_through(np.tile(params, 6), TimeWarp(6, 6))
    assert np.gradient(people.warps, axis=-1)[35].min() <= 1e-12
    found = measure_deviation(people, GROUPS, "healthy")
    assert np.isfinite(found.timing_profile).all()
    assert found.percentile[35] == 100


def test_a_model_without_parameters_is_refused():
    with pytest.raises(InvalidParameterError, match="do not vary"):
        measure_deviation(seen_through(np.zeros((5, 1, 0)), Identity()))


def test_people_seen_through_another_model_are_refused():
    fit, other = seen_through(some_params()), seen_through(some_params(), TimeWarp(2, 3))
    with pytest.raises(InvalidParameterError, match="one model"):
        measure_deviation(other, reference_from=fit)
    moved = seen_through(some_params(), dictionary=np.ones((1, LENGTH, 1)))
    with pytest.raises(InvalidParameterError, match="one model"):
        measure_deviation(moved, reference_from=fit)
    with pytest.raises(InvalidParameterError, match="space='speed'"):
        measure_deviation(fit, space="speed")


def test_a_transform_without_warp_has_no_timing():
    gain = 1 + 0.1 * np.random.default_rng(0).normal(size=(10, 1, 2))
    found = measure_deviation(seen_through(gain, Gain(), n_channels=2))
    assert found.timing_profile.shape == (10, 1, 0, LENGTH)
    assert np.isfinite(found.index).all()


@pytest.fixture(scope="module")
def fitted():
    """Return a model of four noisy subjects, and its standard errors."""
    arrays = small_models.spaced_recordings(3, noise=0.05)
    cohort = Cohort.from_arrays(arrays, sfreq=small_models.SFREQ, subjects=small_models.SUBJECTS)
    model = small_models.make("PerCDL", dtype="float64").fit(cohort)
    return model, estimate_uncertainty(model, cohort)


def test_the_interval_propagates_the_errors_of_the_warps(fitted):
    """By finite differences of the index, feature by feature, as an oracle."""
    model, errors = fitted
    found = measure_deviation(model, uncertainty=errors)
    values, kinds = describe_people(model.personalization_)
    n_subjects, n_atoms, n_features = values.shape
    kinds = np.concatenate([kinds + k for k in range(n_atoms)])
    who, flat = np.array(model.subjects_), values.reshape(n_subjects, -1)
    base = distances(flat, who, flat, who, kinds)[0]
    assert_allclose(found.index, base / np.median(base))
    slopes, step = np.empty(flat.shape), 1e-5
    for i in range(flat.shape[1]):
        moved = np.zeros(flat.shape[1])
        moved[i] = step
        up, down = (distances(flat, who, flat + x, who, kinds)[0] for x in (moved, -moved))
        slopes[:, i] = (up - down) / (2 * step) / np.median(base)
    slopes = slopes.reshape(values.shape)
    # A displacement of sin(pi w t / (L - 1)) has the coefficient 1 at w, and 0 elsewhere.
    length = model.atom_length_
    orders = np.pi * np.arange(1, n_features + 1) / (length - 1)
    project = np.sin(np.outer(orders, np.arange(length))) * 2 / (length - 1)
    variance = np.zeros(n_subjects)
    for s, k, covariance in errors.warp_covariances():
        variance[s] += slopes[s, k] @ project @ covariance @ project.T @ slopes[s, k]
    half = stats.t(errors.dof).ppf(0.975) * np.sqrt(variance)
    assert np.all(half > 0)
    assert_allclose(found.interval[:, 1], found.index + half, rtol=1e-5)
    assert_allclose(found.interval[:, 0], np.maximum(found.index - half, 0), rtol=1e-5, atol=1e-9)


def test_the_covariances_of_warps_are_those_of_their_errors(fitted):
    _, errors = fitted
    for s, k, covariance in errors.warp_covariances():
        assert_allclose(np.sqrt(np.diagonal(covariance)), errors.warp_se[s, k].ravel(), atol=1e-9)


def test_the_errors_must_be_those_of_the_people_who_are_judged(fitted):
    model, errors = fitted
    with pytest.raises(InvalidParameterError, match="of another fit"):
        measure_deviation(seen_through(some_params()), uncertainty=errors)
    with pytest.raises(InvalidParameterError, match="needs a `TimeWarp`"):
        measure_deviation(model, space="atoms", uncertainty=errors)
    assert np.isnan(measure_deviation(model).interval).all()
