"""Kinds of pattern, and signals as they come: lengths, baselines, scales, signs, dead channels."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Algorithm, Cohort, Huber, L0Coder, L1Coder, PerCDL, TimeWarp, load
from percdl.analysis import separate_effects
from percdl.datasets.scoring import onset_accuracy
from percdl.exceptions import InvalidParameterError, SuspectRecordingWarning
from percdl.signals.reconstruction import read_dilated

LONG, SHORT, N_PEOPLE, N_TIMES = 24, 10, 6, 400
WAVE = np.sin(np.linspace(0, 4 * np.pi, LONG))
SPIKE = np.concatenate([np.linspace(0, 1, 5), np.linspace(0.5, -1, 3), [-0.5, 0.0]])
ALGORITHM = Algorithm(population_rounds=3, personal_rounds=2)
SUBJECTS = [f"p{s}" for s in range(N_PEOPLE)]


def people(n_channels=1, seed=0):
    """Return recordings with two kinds of pattern in random order, and where they are."""
    rng, arrays, events = np.random.default_rng(seed), [], []
    for subject in SUBJECTS:
        x = 0.03 * rng.standard_normal((N_TIMES, n_channels))
        t = int(rng.integers(0, 10))
        while t + LONG <= N_TIMES:
            k = int(rng.integers(2))
            pattern = (WAVE, SPIKE)[k][:, None] * (1 + np.arange(n_channels))
            x[t : t + len(pattern)] += rng.uniform(0.8, 1.2) * pattern
            events.append((subject, k, t))
            t += len(pattern) + int(rng.integers(1, 8))
        arrays.append(x)
    return arrays, pd.DataFrame(events, columns=["subject", "atom", "onset_sample"])


def first_atoms(n_channels=1):
    """Return rough guesses of both kinds, at the samples of the longer one."""
    rough = np.stack([np.sign(WAVE), read_dilated(SHORT, LONG) @ np.sign(SPIKE)])
    return np.repeat(rough[..., None], n_channels, axis=2)


def as_cohort(arrays):
    return Cohort.from_arrays(arrays, sfreq=100.0, subjects=SUBJECTS)


def new_model(**changes):
    options = {"n_atoms": 2, "atom_length": [LONG, SHORT], "random_state": 0}
    options |= {"transformation": TimeWarp(1, 4), "algorithm": ALGORITHM}
    return PerCDL(**(options | changes))


@pytest.fixture(scope="module")
def fitted():
    arrays, _ = people()
    return new_model().fit(as_cohort(arrays))


def test_kinds_of_different_lengths_are_told_apart(fitted, tmp_path):
    arrays, truth = people()
    cohort = as_cohort(arrays)
    assert onset_accuracy(fitted.events_, truth) > 0.98
    assert len(fitted.events_) == len(truth)
    assert fitted.dictionary_.shape == (2, LONG, 1)
    assert fitted.atom_lengths_ == (LONG, SHORT)
    lasts = fitted.events_.groupby("atom")["duration_samples"].unique()
    assert_array_equal(lasts.tolist(), [[LONG], [SHORT]])
    assert fitted.score(cohort) > 0.98
    # The order of the list decides which atom is which.
    swapped = new_model(atom_length=["100ms", "240ms"], n_atoms="auto").fit(cohort)
    assert swapped.atom_lengths_ == (SHORT, LONG)
    assert onset_accuracy(swapped.events_, truth) > 0.98
    fitted.save(tmp_path / "kinds.percdl")
    loaded = load(tmp_path / "kinds.percdl")
    assert loaded.atom_lengths_ == fitted.atom_lengths_
    assert_array_equal(
        loaded.personalize(cohort).events["onset_sample"], fitted.events_["onset_sample"]
    )


def test_times_on_a_shorter_atom_are_seconds_too(fitted):
    model, low = copy(fitted), 7  # the sample of the spike's minimum
    cohort = as_cohort(people()[0])
    model.mark("low", 1, low / 100)
    found = model.landmarks(cohort)
    assert_allclose((found["sample"] - found["onset_sample"]).median(), low, atol=0.6)
    by_hand = found.assign(sample=found["onset_sample"] + low)[["subject", "sample"]]
    model.mark("again", 1, by_hand, X=cohort)
    assert_allclose(model.marks_[-1].time, low / 100, atol=6e-3)
    with pytest.raises(InvalidParameterError, match=r"between 0 and 0\.1,"):
        model.mark("late", 1, 0.15)
    # The delay at a phase is about the displacement there, with the other sign.
    delay = separate_effects(fitted, cohort).delay_seconds[:, 1, 0, LONG // 2]
    table = fitted.parameters().query("atom == 1")
    moved = -table["displacement_at_50%_s"].to_numpy()
    assert_allclose(delay @ moved / (moved @ moved), 1, atol=0.3)


def test_cycles_at_given_onsets_last_as_long_as_those_found(fitted):
    given = fitted.events_[["subject", "atom", "onset_sample"]]
    cohort = as_cohort(people()[0])
    ours, theirs = fitted.cycles(cohort, events=given), fitted.cycles(cohort)
    assert_array_equal(ours["duration_seconds"], theirs["duration_seconds"])
    assert_allclose(ours["residual"], theirs["residual"], rtol=0.2)


def test_equal_lengths_are_one_length():
    cohort = as_cohort(people()[0])
    one, listed = (new_model(atom_length=x).fit(cohort) for x in (LONG, [LONG, LONG]))
    assert_array_equal(one.dictionary_, listed.dictionary_)
    assert_array_equal(one.params_, listed.params_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_atoms": 3}, "one length for each atom"),
        ({"loss": Huber(1.0)}, "one length"),
        ({"coder": L1Coder(), "penalty": 0.1}, "one length"),
        ({"atom_length": []}, "must be"),
        ({"coder": L0Coder(baseline="line"), "atom_length": LONG, "loss": Huber(1.0)}, "baseline"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises(InvalidParameterError, match=message):
        new_model(**changes).fit(as_cohort(people()[0]))


@pytest.mark.filterwarnings("ignore::percdl.exceptions.NoActivationWarning")
def test_the_scale_of_a_person_plays_no_part():
    arrays, truth = people()
    cohort = as_cohort(arrays)
    given = {"init": first_atoms(), "penalty": 0.5}
    scaled = as_cohort([arrays[0] * 128, arrays[1] / 64, *arrays[2:]])
    model, other = (new_model(loss="relative", **given).fit(x) for x in (cohort, scaled))
    assert_array_equal(model.dictionary_, other.dictionary_)
    assert_array_equal(model.events_["onset_sample"], other.events_["onset_sample"])
    factor = other.events_["subject"].map({"p0": 128, "p1": 1 / 64}).fillna(1)
    assert_allclose(other.events_["amplitude"], model.events_["amplitude"] * factor)
    assert onset_accuracy(other.events_, truth) > 0.98
    with pytest.warns(SuspectRecordingWarning, match="p0 .*relative"):
        new_model().fit(scaled)


def test_people_may_be_upside_down():
    arrays, truth = people()
    turned = as_cohort([-arrays[0], *arrays[1:]])
    model = new_model(coder=L0Coder(polarity="person")).fit(turned)
    assert onset_accuracy(model.events_, truth) > 0.98
    ranges = model.events_.groupby("subject")["amplitude"].agg(["min", "max"])
    signs = np.sign(ranges)
    assert (signs["min"] == signs["max"]).all()
    # The sign of an atom is free: what counts is who differs from whom.
    assert_array_equal(signs["min"] == signs.loc["p1", "min"], [False, *[True] * 5])


def test_drift_and_offsets_play_no_part_where_activations_have_a_line_of_their_own(fitted):
    arrays, truth = people()
    time = np.linspace(0, 1, N_TIMES)[:, None]
    drifting = as_cohort([x + 5 + 3 * np.sin(2 * np.pi * time) for x in arrays])
    model = new_model(
        coder=L0Coder(baseline="line"), init=fitted.dictionary_, algorithm=Algorithm(realign=False)
    ).fit(drifting)
    assert onset_accuracy(model.events_, truth) > 0.95
    # Of what is reconstructed, no line is left in the residual of an activation.
    rebuilt = model.reconstruct(drifting)
    for row in model.events_.itertuples():
        at = slice(row.onset_sample, row.onset_sample + row.duration_samples)
        s = SUBJECTS.index(row.subject)
        residual = (drifting[s].values - rebuilt[s])[at, 0]
        assert_allclose(np.polyfit(np.arange(len(residual)), residual, 1), 0, atol=1e-6)
    assert not (model.suspects_["kind"] == "drift").any()
    assert model.cycles()["residual"].median() < 0.1


@pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
def test_a_dead_channel_counts_as_missing():
    arrays, truth = people(n_channels=2)
    dead, missing = ([x.copy() for x in arrays] for _ in range(2))
    dead[2][:, 1], missing[2][:, 1] = 5.0, np.nan
    options = {"transformation": TimeWarp(1, 4, per_channel=True), "init": first_atoms(2)}
    options["penalty"] = 0.5
    model, other = (new_model(**options).fit(as_cohort(x)) for x in (dead, missing))
    assert_array_equal(model.dictionary_, other.dictionary_)
    assert_array_equal(model.events_["amplitude"], other.events_["amplitude"])
    assert onset_accuracy(model.events_, truth) > 0.95
    nowhere = np.isnan(model.warps_).all((1, 3))
    assert_array_equal(np.argwhere(nowhere), [[2, 1]])
    assert model.suspects_.query("kind == 'constant'")["subject"].tolist() == ["p2"]
