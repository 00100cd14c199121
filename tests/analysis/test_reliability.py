"""Test-retest: the analysis of variance, its invariances, its intervals, and changes of people."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from percdl import Cohort, TimeWarp
from percdl.analysis import (
    compare_distances,
    compare_parameters,
    describe_recordings,
    feature_auc,
    measure_changes,
    measure_deviation,
    measure_regularity,
    measure_reliability,
)
from percdl.analysis.effects import log_speed
from percdl.analysis.reliability import _analyse
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.transforms import Gain

# Six targets seen by four judges, table 2 of Shrout and Fleiss (1979).
SHROUT = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
COLUMNS = ["icc", "icc_low", "icc_high", "sem", "sem_low", "sem_high", "sdc"]
PERSON, VISIT, ERROR = 1.0, 0.3, 0.5  # standard deviations


def labels(n_persons, n_visits):
    """Return the persons and visits of a complete study, person by person."""
    return np.repeat(np.arange(n_persons), n_visits), np.tile(np.arange(n_visits), n_persons)


def draw(n_persons, n_visits, n_columns, seed=0, visit=VISIT):
    """Return normal values (S, columns) with known variances, and their labels."""
    rng = np.random.default_rng(seed)
    who, when = labels(n_persons, n_visits)
    effects = [(PERSON, who), (visit, when), (ERROR, np.arange(len(who)))]
    values = sum(
        sd * rng.normal(size=(codes.max() + 1, n_columns))[codes] for sd, codes in effects
    )
    return values, who, when


def naive_components(x, who, when):
    """Return the variances of persons, visits and errors, with dense projections (Henderson 3)."""
    person, visit = (
        np.equal.outer(codes, np.unique(codes)).astype(float) for codes in (who, when)
    )

    def leave(design):
        return np.eye(len(x)) - design @ np.linalg.pinv(design)

    alone_p, alone_v, both = leave(person), leave(visit), leave(np.hstack([person, visit]))
    error = x @ both @ x / round(np.trace(both))
    found = []
    for alone, design in ((alone_v, person), (alone_p, visit)):
        form = alone - both
        found.append((x @ form @ x - error * np.trace(form)) / np.trace(design.T @ form @ design))
    return np.array([*found, error])


def test_published_example():
    who, when = labels(6, 4)
    found = measure_reliability(np.ravel(SHROUT), who, when).iloc[0]
    assert_allclose(
        found[["icc", "icc_low", "icc_high"]].astype(float), [0.29, 0.02, 0.76], atol=5e-3
    )
    assert found["n_persons"] == 6
    assert found["n_visits"] == 4


@pytest.mark.parametrize("seed", range(3))
def test_complete_studies_equal_the_textbook_analysis_of_variance(seed):
    n, k = 7, 3
    values, who, when = draw(n, k, 1, seed)
    table = values[:, 0].reshape(n, k)
    mean, person, visit = table.mean(), table.mean(1, keepdims=True), table.mean(0)
    ms_p = k * np.sum((person - mean) ** 2) / (n - 1)
    ms_v = n * np.sum((visit - mean) ** 2) / (k - 1)
    ms_e = np.sum((table - person - visit + mean) ** 2) / ((n - 1) * (k - 1))
    icc = (ms_p - ms_e) / (ms_p + (k - 1) * ms_e + k * (ms_v - ms_e) / n)
    sem = np.sqrt((ms_v - ms_e) / n + ms_e)
    found = measure_reliability(values, who, when).iloc[0]
    assert_allclose(found[["icc", "sem", "sdc"]], [icc, sem, 1.959964 * np.sqrt(2) * sem])
    # McGraw and Wong (1996), table 7, ICC(A,1).
    a, b = k * icc / (n * (1 - icc)), 1 + k * icc * (n - 1) / (n * (1 - icc))
    df = (a * ms_v + b * ms_e) ** 2 / (
        (a * ms_v) ** 2 / (k - 1) + (b * ms_e) ** 2 / ((n - 1) * (k - 1))
    )
    f = stats.f.ppf(0.975, n - 1, df)
    rest = k * ms_v + (k * n - k - n) * ms_e
    assert_allclose(found["icc_low"], n * (ms_p - f * ms_e) / (f * rest + n * ms_p))
    f = stats.f.ppf(0.975, df, n - 1)
    assert_allclose(found["icc_high"], n * (f * ms_p - ms_e) / (rest + n * f * ms_p))


@pytest.mark.parametrize("seed", range(3))
def test_missing_visits_equal_the_dense_projections(seed):
    values, who, when = draw(9, 4, 1, seed)
    kept = np.random.default_rng(seed).random(len(who)) < 0.7
    x, who, when = values[kept, 0], who[kept], when[kept]
    person, visit, error = naive_components(x, who, when)
    found = measure_reliability(x, who, when).iloc[0]
    assert_allclose(found["icc"], person / (person + visit + error))
    assert_allclose(found["sem"], np.sqrt(visit + error))
    whole = np.where(kept, values[:, 0], np.nan)
    assert_allclose(measure_reliability(whole, *labels(9, 4))[COLUMNS].iloc[0], found[COLUMNS])


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_variances_are_unbiased(share):
    n_draws = 400
    values, who, when = draw(12, 4, n_draws, seed=1)
    kept = np.random.default_rng(2).random(len(who)) < share
    squares = [_analyse(x, who[kept], when[kept], "x") for x in values[kept].T]
    (person, visit, error), k, n = (
        np.array([s.mean for s in squares]).T, squares[0].k, squares[0].n
    )  # fmt: skip
    truth = [PERSON**2, VISIT**2, ERROR**2]
    for estimates, true in zip(
        ((person - error) / k, (visit - error) / n, error), truth, strict=True
    ):
        assert abs(estimates.mean() - true) < 4 * estimates.std() / np.sqrt(n_draws)


@pytest.mark.parametrize(
    ("n_visits", "visit", "share"), [(3, 0.0, 1.0), (3, VISIT, 1.0), (5, VISIT, 0.7)]
)
def test_intervals_cover(n_visits, visit, share):
    """In 95 % of 600 studies, within four standard errors below and conservative above."""
    n_draws = 600
    values, who, when = draw(20, n_visits, n_draws, seed=3, visit=visit)
    kept = np.random.default_rng(4).random(len(who)) < share
    found = measure_reliability(values[kept], who[kept], when[kept])
    error = visit**2 + ERROR**2
    for name, true in (("icc", PERSON**2 / (PERSON**2 + error)), ("sem", np.sqrt(error))):
        covered = (found[f"{name}_low"] <= true) & (true <= found[f"{name}_high"])
        assert covered.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / n_draws), name
        assert covered.mean() < 0.995, name


def test_units_cancel_in_the_icc_and_scale_the_errors():
    values, who, when = draw(8, 3, 1)
    plain = measure_reliability(values, who, when).iloc[0]
    mapped = measure_reliability(-40 * values + 1e4, who, when).iloc[0]
    assert_allclose(mapped[COLUMNS[:3]], plain[COLUMNS[:3]], rtol=1e-8)
    assert_allclose(mapped[COLUMNS[3:]], 40 * plain[COLUMNS[3:]], rtol=1e-8)


def test_order_and_names_do_not_matter():
    values, who, when = draw(8, 3, 2)
    plain = measure_reliability(values, who, when)
    order = np.random.default_rng(0).permutation(len(who))
    persons = [f"P{9 - person}" for person in who[order]]
    visits = [["spring", "winter", "autumn"][visit] for visit in when[order]]
    assert_allclose(measure_reliability(values[order], persons, visits), plain)


def test_a_common_shift_of_a_visit_counts_as_error():
    """Absolute agreement: everyone better at the second visit is no agreement."""
    values, who, when = draw(10, 2, 1, visit=0)
    shifted = values + 2.0 * (when == 1)[:, None]
    plain, other = (measure_reliability(x, who, when).iloc[0] for x in (values, shifted))
    assert other["icc"] < plain["icc"]
    assert other["sem"] > 1.3 > plain["sem"]


def test_recordings_are_numbered_without_visits():
    values, who, when = draw(6, 3, 1)
    plain = measure_reliability(values, who, when)
    for visits in (None, [None] * len(who)):
        pd.testing.assert_frame_equal(measure_reliability(values, who, visits), plain)


def test_one_person_in_twenty_changes_by_chance():
    values, who, when = draw(400, 2, 1, seed=5, visit=0)
    found = measure_changes(values, who, when)
    n_beyond = found["beyond"].sum()
    assert abs(n_beyond - 20) < 4 * np.sqrt(400 * 0.05 * 0.95)
    assert_allclose(found["change"], np.diff(values.reshape(400, 2))[:, 0])


def test_a_change_beyond_the_error_of_stable_people_is_found():
    stable, who, when = draw(30, 3, 1, seed=6, visit=0)
    reliability = measure_reliability(pd.DataFrame({"period": stable[:, 0]}), who, when)
    patient = pd.DataFrame({"period": [1.0, np.nan, 1.4, 4.0]})
    found = measure_changes(patient, ["Ada"] * 4, ["a", "b", "c", "d"], reliability)
    assert found[["first_visit", "visit"]].to_numpy().tolist() == [["a", "c"], ["a", "d"]]
    assert found["beyond"].tolist() == [False, True]
    with pytest.raises(InvalidParameterError, match="no measurement 'cadence'"):
        measure_changes(
            patient.rename(columns={"period": "cadence"}), ["Ada"] * 4, None, reliability
        )


def seen(params, transform, n_channels=1):
    """Return recordings with the given parameters (S, K, M), as a model would describe them."""
    time = np.linspace(0, 1, 30)[:, None] + np.arange(n_channels)
    events = pd.DataFrame({"subject": [], "atom": [], "onset_sample": [], "amplitude": []})
    return Personalization(
        params=params,
        events=events.astype({"subject": str, "atom": int, "onset_sample": int}),
        n_activations=np.where(np.isnan(params).any(2), 0, 5),
        subjects=tuple(f"R{s}" for s in range(len(params))),
        transform=transform,
        dictionary=np.sin(7 * time)[None],
        dtype="float64",
    )


def some_people(n_recordings=20, seed=0):
    rng = np.random.default_rng(seed)
    return seen(0.06 * rng.normal(size=(n_recordings, 1, 5)), TimeWarp(1, 5))


def test_components_hold_the_whole_displacement():
    """Parseval: squared scores add up to the mean squared distance from the mean curve."""
    people, others = some_people(), some_people(40, seed=1)
    table = describe_recordings(people, reference=others, n_components=30)
    displacement = (people.warps - others.warps.mean(0)).reshape(20, -1)
    scores = table.filter(regex="^warp")
    assert_allclose((scores**2).sum(axis=1), (displacement**2).mean(1), rtol=1e-6)
    faster = log_speed(people.own_times) - log_speed(others.own_times).mean(0)
    scores = table.filter(regex="^log speed")
    assert_allclose((scores**2).sum(axis=1), (faster**2).mean((1, 2, 3)), rtol=1e-6)
    own = describe_recordings(people).filter(regex="^warp")
    assert list(own) == ["warp 1", "warp 2", "warp 3"]
    assert (own.var().diff()[1:] < 0).all()
    assert_allclose(own.corr() - np.eye(3), 0, atol=1e-8)


def test_people_define_the_components_not_their_recordings():
    people, persons = some_people(), [s // 2 for s in range(20)]
    table = describe_recordings(people, persons=persons, n_components=2)
    means = table.groupby(persons).mean()
    assert_allclose(means[["warp 1", "warp 2"]].corr().iloc[0, 1], 0, atol=1e-8)
    expected = measure_deviation(people, persons=persons).index
    assert_allclose(table["deviation"], expected)


def test_a_recording_without_the_atom_is_unknown():
    people = some_people()
    people.params[3] = np.nan
    people.n_activations[3] = 0
    table = describe_recordings(people)
    assert table.loc["R3"].isna().all()
    assert table.drop("R3").notna().all(axis=None)
    found = measure_reliability(table, [s // 2 for s in range(20)])
    assert (found["n_recordings"] == 19).all()


def test_periods_are_those_of_the_events():
    rng = np.random.default_rng(0)
    people = some_people(4)
    onsets = np.cumsum(rng.integers(35, 50, (4, 9)), axis=1)
    events = pd.DataFrame(
        {"subject": np.repeat(people.subjects, 9), "atom": 0, "onset_sample": onsets.ravel()}
    )
    people = replace(people, events=events)
    cohort = Cohort.from_arrays(rng.normal(size=(4, 600)), sfreq=50, subjects=people.subjects)
    table = describe_recordings(people, cohort)
    rhythm = measure_regularity(events, cohort)
    assert_allclose(table["period"], rhythm["interval_median"])
    assert_allclose(table["period cv"], rhythm["interval_robust_cv"])


def test_without_a_warp_atoms_describe_people():
    rng = np.random.default_rng(0)
    people = seen(1 + 0.1 * rng.normal(size=(8, 1, 2)), Gain(), n_channels=2)
    assert list(describe_recordings(people, n_components=1)) == ["atom 1", "deviation"]


def test_distances_are_those_of_all_pairs():
    rng = np.random.default_rng(0)
    curves, persons = rng.normal(size=(7, 3, 4)), list("aabbbcd")
    curves[6, 0, 0] = np.nan
    pairs = list(combinations(range(6), 2))
    between, within = (
        np.mean(
            [
                np.sqrt(np.mean((curves[i] - curves[j]) ** 2))
                for i, j in pairs
                if (persons[i] == persons[j]) == same
            ]
        )
        for same in (False, True)
    )
    assert_allclose(compare_distances(curves, persons), (between, within))
    with pytest.raises(InvalidParameterError, match="two curves of one person"):
        compare_distances(curves, list("abcdefg"))


@pytest.mark.parametrize(
    ("persons", "visits", "message"),
    [
        ("aabb", "1112", "'a' has visit '1' more than once"),
        ("aabb", ["1", None, "1", "2"], "visits. has no label at position 1"),
        ("aabb", "1234", "4 values of 2 people at 4 visits"),
        ("abcd", None, "4 values of 4 people at 1 visits"),
        ("aab", None, "4 rows of values and 3 persons"),
        ("aabb", "12", "4 rows of values and 2 visits"),
    ],
)
def test_studies_without_repetition_are_refused(persons, visits, message):
    with pytest.raises(InvalidParameterError, match=message):
        measure_reliability(
            np.arange(4.0), list(persons), None if visits is None else list(visits)
        )


def test_measurements_without_values_are_refused():
    with pytest.raises(InvalidParameterError, match="0 values of 0 people at 0 visits"):
        measure_reliability([np.nan] * 4, list("aabb"))


@pytest.mark.parametrize(
    ("persons", "message"),
    [
        (["Ada", None, "Bo", "Bo"], "no label at position 1 .1 of 4"),
        (["Ada", "Ada", "Bo", np.nan], "no label at position 3"),
    ],
)
def test_persons_without_a_name_are_refused(persons, message):
    values, groups = np.array([[1.0], [2.0], [4.0], [5.0]]), list("xxyy")
    analyses = (
        lambda: measure_reliability(values, persons),
        lambda: compare_distances(values, persons),
        lambda: compare_parameters(values, groups, persons=persons),
        lambda: feature_auc(values, groups, persons=persons),
    )
    for analysis in analyses:
        with pytest.raises(InvalidParameterError, match=message):
            analysis()


def test_masked_numbers_are_missing():
    values = np.ma.masked_greater(np.arange(24.0).reshape(12, 2) % 11, 9)
    persons, groups = np.repeat(list("abcdef"), 2), ["x", "y"] * 6
    for analysis in (measure_reliability, compare_parameters):
        labels = persons if analysis is measure_reliability else groups
        found, expected = (analysis(x, labels) for x in (values, values.filled(np.nan)))
        assert repr(found) == repr(expected)


def test_tables_with_text_are_refused():
    table = pd.DataFrame({"sex": list("mfmf"), "age": [1.0, 2, 3, 4]})
    with pytest.raises(InvalidParameterError, match="text in column 'sex'"):
        measure_reliability(table, list("aabb"))
    with pytest.raises(InvalidParameterError, match="several columns 'age'"):
        measure_reliability(table[["age", "age"]], list("aabb"))
