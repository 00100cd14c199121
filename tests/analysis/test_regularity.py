"""Cadence, intervals and prevalence: combs, pauses, and too few events."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from percdl import Cohort
from percdl.analysis import atom_prevalence, measure_regularity
from percdl.analysis.rhythm import describe_intervals
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.transforms import Identity

OF_INTERVALS = ["cadence", "interval_median", "interval_mean", "longest_pause"]
OF_VARIABILITY = ["interval_sd", "interval_cv", "interval_robust_cv", "rmssd"]


def events_of(**onsets):
    """Return events of atom 0 for each subject."""
    parts = [pd.DataFrame({"subject": s, "atom": 0, "onset_sample": x}) for s, x in onsets.items()]
    return pd.concat(parts, ignore_index=True)


def still(subjects="A", n_times=6000, sfreq=100.0, **options):
    """Return recordings of a minute in which nothing happens."""
    arrays = [np.zeros((n_times, 1)) for _ in subjects]
    return Cohort.from_arrays(arrays, sfreq=sfreq, subjects=list(subjects), **options)


@given(st.integers(2, 400), st.integers(3, 60), st.sampled_from([50.0, 100.0, 250.0]))
def test_a_comb_is_perfectly_regular(period, n_events, sfreq):
    events = events_of(A=np.arange(n_events) * period)
    row = measure_regularity(events, still(n_times=30_000, sfreq=sfreq)).iloc[0]
    assert_allclose(row["cadence"], 60 * sfreq / period)
    assert_allclose(row[["interval_median", "interval_mean"]].astype(float), period / sfreq)
    assert_allclose(row[OF_VARIABILITY].astype(float), 0, atol=1e-12)
    assert_allclose(row["rate"], n_events / (30_000 / sfreq / 60))
    assert (row["n_activations"], row["n_pauses"], row["longest_pause"]) == (n_events, 0, 0)


def test_pauses_are_counted_and_do_not_spoil_the_variability():
    intervals = np.random.default_rng(0).normal(100, 3, 40).round().astype(int)
    paused = np.insert(intervals, [10, 30], [900, 400])
    steady, halting = (
        measure_regularity(events_of(A=np.cumsum([0, *x])), still()).iloc[0]
        for x in (intervals, paused)
    )
    for name in ("interval_mean", "interval_sd", "interval_cv"):
        assert_allclose(halting[name], steady[name], rtol=1e-9)
    for name in ("rmssd", "interval_robust_cv"):
        assert_allclose(halting[name], steady[name], rtol=0.2)
    assert_allclose(halting["cadence"], steady["cadence"], rtol=0.05)
    assert (halting["n_pauses"], halting["longest_pause"]) == (2, 9.0)
    counted = measure_regularity(events_of(A=np.cumsum([0, *paused])), still(), pause_ratio=np.inf)
    assert counted["n_pauses"].item() == 0
    assert counted["interval_cv"].item() > 10 * steady["interval_cv"]


@given(st.floats(20, 100), st.integers(0, 5), st.integers(0, 2**16))
def test_the_rate_is_finer_than_a_sample_and_forgives_missed_and_false_events(period, n_off, seed):
    rng = np.random.default_rng(seed)
    exact = np.cumsum(period * (1 + 0.03 * rng.standard_normal(200)))
    onsets = np.delete(exact.round().astype(int), rng.choice(199, n_off, replace=False))
    onsets = np.union1d(onsets, onsets[rng.choice(len(onsets), n_off)] + round(period / 2))
    row = measure_regularity(events_of(A=onsets), still(n_times=30_000)).iloc[0]
    assert_allclose(row["cadence"], 6000 / period, rtol=0.02)


def test_textbook_definitions_where_nothing_pauses():
    intervals = np.random.default_rng(0).normal(1.0, 0.05, 5000)
    found = describe_intervals(intervals)
    assert_allclose(found["interval_cv"], intervals.std(ddof=1) / intervals.mean())
    assert_allclose(found["rmssd"], np.sqrt(np.mean(np.diff(intervals) ** 2)))
    assert_allclose(found["interval_robust_cv"], 0.05, rtol=0.05)  # normal intervals: the same
    assert_allclose(found["cadence"], 60 / stats.trim_mean(intervals, 0.25))


def test_too_few_events_leave_unknown_what_they_cannot_tell():
    events = events_of(B=[100], C=[100, 220], D=[100, 200, 320])
    found = measure_regularity(events, still("ABCD")).set_index("subject")
    assert found["n_activations"].tolist() == [0, 1, 2, 3]
    assert_allclose(found["rate"], [0, 1, 2, 3])
    assert found.loc[["A", "B"], OF_INTERVALS + OF_VARIABILITY].isna().all(axis=None)
    assert_allclose(found.loc["C", "cadence"], 50)
    assert found.loc["C", OF_VARIABILITY].isna().all()
    assert found.loc["D", OF_INTERVALS + OF_VARIABILITY].notna().all()
    assert found["n_pauses"].tolist() == [0, 0, 0, 0]
    none = measure_regularity(events.head(0), still("AB"))
    assert none["n_activations"].tolist() == [0, 0]


def test_shares_of_activations_and_of_time():
    events = events_of(A=[0, 1000, 2000]).assign(atom=[0, 0, 1])
    found = measure_regularity(events, still(), atom_length=300)
    assert_allclose(found["activation_share"], [2 / 3, 1 / 3])
    assert_allclose(found["time_share"], [0.1, 0.05])
    touching = measure_regularity(events_of(A=[0, 100, 5900]), still(), atom_length=300)
    assert_allclose(touching["time_share"], 500 / 6000)  # overlaps and the end count once
    assert measure_regularity(events, still())["time_share"].isna().all()


def test_missing_samples_are_not_recorded_time():
    values = np.zeros((6000, 2))
    values[3000:] = np.nan
    values[:100, 0] = np.nan
    cohort = Cohort.from_arrays([values], sfreq=100.0, subjects=["A"])
    found = measure_regularity(events_of(A=[0, 1000]), cohort, atom_length=300)
    assert_allclose(found["rate"], 4)
    assert_allclose(found["time_share"], 600 / 3000)


def test_order_of_rows_and_other_subjects_do_not_matter():
    rng = np.random.default_rng(0)
    events = events_of(A=np.cumsum(rng.integers(80, 120, 20)), B=np.arange(5) * 700)
    cohort = still("AB", groups=["g", "h"])
    found = measure_regularity(events, cohort)
    shuffled = measure_regularity(events.sample(frac=1, random_state=0), cohort)
    pd.testing.assert_frame_equal(shuffled, found)
    assert found["group"].tolist() == ["g", "h"]
    alone = measure_regularity(events[events["subject"] == "B"], still("B", groups=["h"]))
    pd.testing.assert_frame_equal(alone, found.tail(1).reset_index(drop=True))


def test_what_does_not_fit_is_named():
    with pytest.raises(InvalidParameterError, match=r"1 subject.*: Z"):
        measure_regularity(events_of(Z=[0]), still())
    with pytest.raises(InvalidParameterError, match=r"pause_ratio=0\.5"):
        measure_regularity(events_of(A=[0]), still(), pause_ratio=0.5)
    with pytest.raises(InvalidParameterError, match="no column 'atom'"):
        measure_regularity(events_of(A=[0]).drop(columns="atom"), still())


def test_prevalence_counts_those_who_show_an_atom():
    counts = np.array([[4, 0], [2, 2], [0, 0], [6, 6]])
    people = Personalization(
        params=np.zeros((4, 2, 0)), events=pd.DataFrame(), n_activations=counts,
        subjects=tuple("ABCD"), transform=Identity(), dictionary=np.ones((2, 9, 1)),
        dtype="float32",
    )  # fmt: skip
    found = atom_prevalence(people)
    assert found["prevalence"].tolist() == [0.75, 0.5]
    assert found["n_activations"].tolist() == [12, 8]
    assert found["activation_share"].tolist() == [0.6, 0.4]
    assert found["median_activations"].tolist() == [4, 4]
    for missing in (None, np.nan, pd.NA):
        split = atom_prevalence(people, ["x", "x", "y", missing])
        assert split["group"].tolist() == ["x", "x", "y", "y"]
        assert split["prevalence"].tolist() == [1, 0.5, 0, 0]
    with pytest.raises(InvalidParameterError, match="4 subjects and 1 groups"):
        atom_prevalence(people, ["x"])
    with pytest.raises(InvalidParameterError, match="names no group"):
        atom_prevalence(people, [None] * 4)
