"""Recordings whose results are doubtful: each rule alone, and the warnings of whole fits."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import small_models
import toy
from numpy.testing import assert_allclose

from percdl import Cohort
from percdl.estimators.fitting import collect, run_on_frozen
from percdl.estimators.start import make_settings
from percdl.estimators.suspects import (
    DIFFERENT,
    FEWEST_GAPS,
    IRREGULAR,
    KINDS,
    SLACK,
    describe_suspects,
    find_suspects,
    measure_rhythm,
)
from percdl.exceptions import SingleSubjectWarning, SuspectRecordingWarning
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild
from percdl.steps.csc_l1 import L1Coder
from percdl.transforms import Free, Identity

ONE_ATOM = toy.settings(n_atoms=1)
PERIODS = (22, 24, 27, 25, 23, 26, 28, 24)


def walkers(periods=PERIODS):
    """Return people who repeat a cycle of a personal length, at 50 Hz."""
    arrays = [toy.cycles(period, seed=1, noise=0.02) for period in periods]
    return Cohort.from_arrays(arrays, sfreq=50, subjects=[f"p{i}" for i in range(len(arrays))])


def every(intervals, n_times=600):
    """Return the events of people with onsets this number of samples apart."""
    onsets = [np.arange(0, n_times - toy.LENGTH, interval) for interval in intervals]
    subject = np.repeat(np.arange(len(onsets)), [len(o) for o in onsets])
    atom, length = np.zeros(len(subject), int), np.full(len(subject), toy.LENGTH)
    return subject, atom, np.concatenate(onsets), length


def find(cohort, intervals=PERIODS, error=None, settings=ONE_ATOM, fitted=True):
    error = np.full(len(cohort), 0.05) if error is None else np.asarray(error, float)
    return find_suspects(cohort, settings, *every(intervals), error, fitted)


def pairs(table):
    return list(zip(table["subject"], table["kind"], strict=True))


def test_ordinary_people_are_not_suspect():
    table = find(walkers())
    assert table.empty
    assert list(table) == ["subject", "kind", "message"]


@pytest.mark.parametrize("seed", range(3))
def test_rhythm_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    onsets = [
        np.cumsum(rng.integers(10, 10 + 2 * SLACK if s % 2 else 40, rng.integers(0, 30)))
        for s in range(9)
    ]
    subject = np.repeat(np.arange(9), [len(o) for o in onsets])
    found = measure_rhythm(subject, np.concatenate(onsets), 9, 10)
    for s, own in enumerate(onsets):
        gaps = np.diff(own)
        assert found.n_gaps[s] == len(gaps)
        if len(gaps):
            usual = np.sort(gaps)[len(gaps) // 2]
            assert found.interval[s] == usual
            assert_allclose(found.mean[s], gaps.mean())
            differ = sum(abs(gap - usual) > max(SLACK, DIFFERENT * usual) for gap in gaps)
            assert found.irregular[s] == (differ >= IRREGULAR * len(gaps))
        close = sum(gap <= 10 + SLACK for gap in gaps)
        assert found.back_to_back[s] == (len(gaps) >= FEWEST_GAPS and close >= 0.9 * len(gaps))


def test_every_second_cycle_is_found_out():
    periods = (*PERIODS, 10)  # less than the 16 samples of the atom
    table = find(walkers(periods), (*PERIODS, 20), [0.05] * 8 + [0.5])
    assert pairs(table) == [("p8", "rate")]
    assert "repeats every 0.2 s" in table["message"][0]
    assert "every 0.4 s" in table["message"][0]


def test_back_to_back_is_suspect_unless_it_is_the_period():
    periods = (*PERIODS, 30, toy.LENGTH)
    table = find(walkers(periods), (*PERIODS, toy.LENGTH, toy.LENGTH))
    assert pairs(table) == [("p8", "rate")]
    assert "back to back" in table["message"][0]


def test_an_atom_may_hold_two_steps():
    steps = [period // 2 for period in PERIODS]
    cohort = walkers(steps)
    assert find(cohort, [2 * step for step in steps], [0.05] * 7 + [0.5]).drop(
        columns="message"
    ).to_numpy().tolist() == [["p7", "unexplained"]]


def test_gaps_do_not_tell_with_overlap():
    settings = toy.settings(n_atoms=1, coder=L1Coder())
    assert find(walkers(), [toy.LENGTH] * 8, settings=settings).empty


def find_kinds(cohort, events):
    """Find suspects among events of two atoms, given as onsets and atoms of each person."""
    onsets, atoms = zip(*events, strict=True)
    subject = np.repeat(np.arange(len(events)), [len(o) for o in onsets])
    atom, onset = np.concatenate(atoms), np.concatenate(onsets)
    lengths, error = np.full(len(onset), toy.LENGTH), np.full(len(cohort), 0.05)
    return find_suspects(cohort, toy.settings(), subject, atom, onset, lengths, error, True)


def beats(interval):
    """Return the events of one atom, this number of samples apart."""
    onset = np.arange(0, 580, interval).round().astype(int)
    return onset, np.zeros(len(onset), int)


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_with_several_atoms_a_person_has_the_rhythm_of_the_recording(share):
    events = [beats(period) for period in PERIODS]
    assert find_kinds(walkers(), events).empty
    events[1] = beats(share * PERIODS[1])
    table = find_kinds(walkers(), events)
    assert pairs(table) == [("p1", "rate")]
    assert "events of no atom" in table["message"][0]


def kinds(seed, steady, n_kinds=2):
    """Return people with two patterns in random order, and their events."""
    rng = np.random.default_rng(seed)
    arrays, events = [], []
    for _ in PERIODS:
        gaps = np.full(24, 24) if steady else rng.integers(toy.LENGTH, 60, 24)
        onset, atom = np.cumsum(gaps) - gaps[0], rng.integers(0, 2, 24)
        x = 0.05 * rng.standard_normal((onset[-1] + 60, 1))
        for at, k in zip(onset, atom, strict=True):
            x[at : at + toy.LENGTH] += toy.patterns()[k % n_kinds]
        arrays.append(x)
        events.append((onset, atom))
    return Cohort.from_arrays(arrays, sfreq=50), events


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steady", [False, True], ids=["random gaps", "steady gaps"])
def test_kinds_in_any_order_are_not_suspect(seed, steady):
    assert find_kinds(*kinds(seed, steady)).empty


@pytest.mark.parametrize("is_meant", [False, True])
def test_an_atom_with_two_activations_each_time_is_suspect_unless_it_is_so_for_most(is_meant):
    events = [beats(period / 2 if is_meant else period) for period in PERIODS]
    onset, atom = beats(PERIODS[3])
    twice = beats(PERIODS[3] / 2)[0]
    events[3] = np.append(onset, twice), np.append(atom, np.ones(len(twice), int))
    order = np.argsort(events[3][0], kind="stable")
    events[3] = events[3][0][order], events[3][1][order]
    table = find_kinds(walkers(), events)
    assert pairs(table) == [("p3", "rate")] * (not is_meant)
    assert table["message"].str.contains("2 activations each time").all()


def test_one_kind_divided_between_atoms_is_suspect():
    cohort, events = kinds(0, steady=True, n_kinds=1)
    n_events = np.arange(24)
    events = [
        (onset, n_events % 2 if s == 3 else 0 * n_events) for s, (onset, _) in enumerate(events)
    ]
    table = find_kinds(cohort, events)
    assert pairs(table) == [("3", "rate")]
    assert "divided between atoms" in table["message"][0]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_one_person_many_times_larger(scale):
    arrays = [scale * record.values for record in walkers()]
    arrays[2] = arrays[2] * 100
    assert pairs(find(Cohort.from_arrays(arrays))) == [("2", "large")]
    assert find(Cohort.from_arrays(arrays), settings=toy.settings(Free(), n_atoms=1)).empty
    assert pairs(find(Cohort.from_arrays(arrays[2:4]), (27, 25))) == [("0", "large")]


def test_one_person_explained_far_worse():
    rng = np.random.default_rng(0)
    for error in (rng.uniform(0.02, 0.06, 8), rng.uniform(0.2, 0.4, 8)):
        assert find(walkers(), error=error).empty
        error[5] = 0.9
        assert pairs(find(walkers(), error=error)) == [("p5", "unexplained")]
    few = walkers()[:4]
    assert find(few, PERIODS[:4], [0.02, 0.02, 0.02, 0.1]).empty


def test_who_is_explained_well_is_not_suspect_beside_those_explained_perfectly():
    assert find(walkers(), error=[1e-6] * 7 + [0.15]).empty


def test_without_activations_another_warning_names_the_person():
    subject, atom, onset, length = every(PERIODS)
    own = subject != 3
    error = np.where(np.arange(8) == 3, 1.0, 0.05)
    events = subject[own], atom[own], onset[own], length[own]
    assert find_suspects(walkers(), ONE_ATOM, *events, error, True).empty


def test_unknown_errors_are_no_reason_to_suspect_anybody():
    assert find(walkers(), error=[np.nan] * 8).empty


def test_constant_channels_are_named_and_those_of_all_once():
    arrays = [np.hstack([r.values, r.values, np.full_like(r.values, 5)]) for r in walkers()]
    arrays[4][:, 1] = 0
    arrays[6][:10] = np.nan
    channels = ["x", "y", "battery"]
    for given in (arrays, np.stack(arrays)):
        table = find(Cohort.from_arrays(given, channels=channels))
        assert pairs(table) == [("", "constant"), ("4", "constant")]
        assert list(table["message"]) == ["channel battery", "channel y"]
    assert (
        "every recording (channel battery), 4 (channel y)" in describe_suspects(table)["constant"]
    )


def test_a_missing_channel_is_not_constant():
    values = np.random.default_rng(0).normal(size=(30, 2))
    values[:, 1] = np.nan
    for arrays in ([values], values[None]):
        assert not Cohort.from_arrays(arrays).constant.any()


def test_a_cohort_of_one_is_named_only_where_people_were_to_be_compared():
    one = walkers()[:1]
    assert pairs(find(one, PERIODS[:1])) == [("p0", "alone")]
    assert find(one, PERIODS[:1], fitted=False).empty
    for transform in (Free(), Identity()):
        assert find(one, PERIODS[:1], settings=toy.settings(transform, n_atoms=1)).empty


def test_one_warning_per_kind_names_the_first_few():
    error = [0.05] * 30 + [0.9] * 7
    cohort = walkers([24] * 37)
    text = describe_suspects(find(cohort, [24] * 37, error))
    assert list(text) == ["unexplained"]
    assert "p30 (90% of its energy" in text["unexplained"]
    assert "and 2 more" in text["unexplained"]


@pytest.mark.parametrize("name", small_models.NAMES)
def test_a_fit_and_personalize_warn_by_name(name):
    arrays = small_models.spaced_recordings(0)
    arrays[2] = arrays[2] * 100
    cohort = Cohort.from_arrays(arrays, sfreq=small_models.SFREQ, subjects=small_models.SUBJECTS)
    model = small_models.make(name)
    if name == "IndCDL":  # people do not share anything
        model.fit(cohort)
        assert model.suspects_.empty
        return
    with pytest.warns(SuspectRecordingWarning, match=r"larger.*: Cy \(\d+ times"):
        model.fit(cohort)
    assert pairs(model.suspects_) == [("Cy", "large")]
    assert model.personalization_.suspects is model.suspects_
    with pytest.warns(SuspectRecordingWarning, match="Cy"):
        assert pairs(model.personalize(cohort).suspects) == [("Cy", "large")]


def test_a_fit_to_one_recording_warns_and_its_personalization_does_not():
    cohort = small_models.spaced_cohort(0)[:1]
    model = small_models.make("PerCDL")
    with pytest.warns(SingleSubjectWarning, match="Ada"):
        model.fit(cohort)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.personalize(cohort)


@pytest.mark.parametrize(
    ("name", "coder"), [("PerCDL", None), ("IndCDL", None), ("PopCDL", L1Coder(n_steps=20))]
)
def test_the_error_of_each_recording_is_that_of_its_reconstruction(name, coder):
    cohort = small_models.spaced_cohort(0)
    model = small_models.make(name, coder=coder, dtype="float64").fit(cohort)
    settings = make_settings(model, cohort)
    _, results = run_on_frozen(model, cohort, settings)
    found = collect(model.dictionary_, cohort, settings, results)
    rebuilt = rebuild(cohort, found.events, found.personal_dictionary)
    expected = [
        normalized_reconstruction_error([r], [g]) for r, g in zip(cohort, rebuilt, strict=True)
    ]
    np.testing.assert_allclose(results.error, expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(2))
def test_constant_channels_have_one_value_at_several_samples(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, (20, 4, 3)).astype(float)
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    seen = [[x[~np.isnan(x)] for x in record.T] for record in values]
    expected = [[len(set(x)) == 1 < len(x) for x in record] for record in seen]
    for arrays in (values, list(values)):
        np.testing.assert_array_equal(Cohort.from_arrays(arrays).constant, expected)


def test_drift_is_told_from_other_misfit():
    cohort, wave = walkers(), np.sin(2 * np.pi * np.arange(600) / 300)[:, None]
    arrays = [one.values for one in cohort]
    arrays[1], arrays[3] = arrays[1] + 3 * wave, np.random.default_rng(0).normal(size=(600, 1))
    cohort = Cohort.from_arrays(arrays, sfreq=50, subjects=cohort.subjects)
    error = [0.05, 0.9, 0.05, 0.9, 0.06, 0.05, 0.06, 0.05]
    found = pairs(find(cohort, error=error))
    assert ("p1", "drift") in found
    assert ("p1", "unexplained") not in found
    assert ("p3", "drift") not in found


def test_drift_of_everybody_is_one_row():
    wave = np.sin(2 * np.pi * np.arange(600) / 300)[:, None]
    cohort = walkers(PERIODS * 5)
    arrays = [one.values + 3 * wave for one in cohort]
    cohort = Cohort.from_arrays(arrays, sfreq=50, subjects=cohort.subjects)
    table = find(cohort, PERIODS * 5, error=np.full(40, 0.8))
    assert ("", "drift") in pairs(table)
    assert "bandpass(0.5, None)" in describe_suspects(table)["drift"]


def test_too_many_activations_are_told_and_pauses_are_not():
    cohort = walkers((48,) * 8)
    clean = [np.arange(0, 580, 48) for _ in range(8)]
    clean[2] = np.sort(np.concatenate([clean[2], clean[2][:-1] + 18]))  # a bump in every cycle
    clean[5] = clean[5][[0, 1, 2, 6, 7, 8, 11]]  # pauses
    people = np.repeat(np.arange(8), [len(one) for one in clean])
    lengths, error = np.full(len(people), toy.LENGTH), np.full(8, 0.05)
    onsets = np.concatenate(clean)
    atoms = np.zeros(len(people), int)
    table = find_suspects(cohort, ONE_ATOM, people, atoms, onsets, lengths, error, True)
    assert pairs(table) == [("p2", "rate")]
    assert "with 2 activations each time" in table["message"][0]


@pytest.mark.parametrize("kind", KINDS)
def test_advice_on_pages_has_no_python(kind):
    table = pd.DataFrame({"subject": ["Ada"], "kind": [kind], "message": ["why"]})
    shown, warned = (describe_suspects(table, code=code)[kind] for code in (False, True))
    assert not re.search(r"\w=|[a-z]\.[a-z]|\w\(|PopCDL", shown)
    assert warned.startswith(shown)
