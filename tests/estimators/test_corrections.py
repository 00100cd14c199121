"""Corrected recordings in fits: what is kept and removed, in any runtime, and what it mends."""

import numpy as np
import pandas as pd
import pytest
import toy
from small_models import SFREQ, make, spaced_cohort

from percdl import Algorithm, Cohort, OutOfCore, PerCDL, TimeWarp, find_corrections, write_shards
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import InvalidParameterError, NoActivationWarning

L = toy.LENGTH
SECONDS = L / SFREQ


def corrections(events):
    """Remove Ada's second event, and move that of Cy by a sample."""
    is_second = events.groupby("subject").cumcount() == 1
    gone, moved = ((events["subject"] == name) & is_second for name in ("Ada", "Cy"))
    after = events.assign(onset_seconds=events["onset_seconds"] + moved / SFREQ)[~gone]
    return find_corrections(events, after, duration=SECONDS)


@pytest.fixture(scope="module")
def before():
    return make("PerCDL").fit(spaced_cohort(3))


@pytest.fixture(scope="module")
def corrected(before):
    return spaced_cohort(3).correct(corrections(before.events_))


@pytest.fixture(scope="module")
def after(corrected):
    return make("PerCDL").fit(corrected)


def onsets(events, subject):
    return events.loc[events["subject"] == subject, "onset_sample"].tolist()


def assert_obeyed(events, before):
    was = {name: onsets(before.events_, name) for name in ("Ada", "Cy")}
    middle = was["Ada"][1] + L // 2
    assert all(not onset <= middle < onset + L for onset in onsets(events, "Ada"))
    assert onsets(events, "Cy")[1] == was["Cy"][1] + 1


def test_fits_and_what_builds_on_them_obey(before, after, corrected):
    assert_obeyed(after.events_, before)
    found = before.personalize(corrected)
    assert_obeyed(found.events, before)
    assert before.score(corrected) < before.score(spaced_cohort(3))
    cycles = before.cycles(corrected)
    assert onsets(cycles, "Cy") == onsets(found.events, "Cy")
    free = before.personalize(spaced_cohort(3)).events
    for name in ("Bo", "Di"):
        assert onsets(found.events, name) == onsets(free, name)


def test_runtimes_agree(after, corrected, tmp_path):
    shards = write_shards(spaced_cohort(3), tmp_path / "shards", recordings_per_shard=2)
    found = [(r.subject, r.corrections) for r in corrected if r.corrections]
    rows = [{"subject": s, **each._asdict()} for s, own in found for each in own]
    table = pd.DataFrame(rows).rename(columns={"atom": "trial_type"})
    table["trial_type"] = [f"atom{k:.0f}" if k >= 0 else "" for k in table["trial_type"]]
    on_disk = make("PerCDL").fit(shards.correct(table))
    spilled = make("PerCDL").fit(corrected, runtime=OutOfCore(tmp_path))
    for model in (on_disk, spilled):
        pd.testing.assert_frame_equal(model.events_, after.events_, atol=1e-6, rtol=1e-5)


def test_a_checkpoint_is_of_the_same_corrections(corrected, tmp_path):
    path = tmp_path / "fit.checkpoint"
    fit_with_checkpoints(make("PerCDL"), corrected, path)
    with pytest.raises(InvalidParameterError, match="corrections"):
        fit_with_checkpoints(make("PerCDL"), spaced_cohort(3), path, resume=read_checkpoint(path))


def test_a_kept_event_that_explains_nothing_is_named(before):
    cohort = spaced_cohort(3)
    upside_down = Cohort.from_arrays([-cohort["Ada"].values], sfreq=SFREQ, subjects=["Ada"])
    rows = pd.DataFrame({"subject": ["Ada"], "onset": [onsets(before.events_, "Ada")[0] / SFREQ]})
    rows = rows.assign(trial_type="atom1", tolerance=0.0)
    with pytest.warns(NoActivationWarning) as told:
        before.personalize(upside_down.correct(rows))
    assert any("kept event(s) explain nothing" in str(one.message) for one in told)


def people_with_an_artefact(seed):
    """Return eight people with five beats each, of whom the first has two artefacts instead."""
    rng = np.random.default_rng(seed)
    time, arrays, truth = np.linspace(0, 1, L), [], []
    for person in range(8):
        warp = time + rng.uniform(-0.6, 0.6) * np.sin(np.pi * time) / np.pi
        atom = np.interp(warp, time, toy.patterns()[1][:, 0])
        x = 0.05 * rng.standard_normal(124)
        for i, onset in enumerate((4, 28, 52, 76, 100)):
            is_artefact = person == 0 and i in (1, 3)
            shape = 3 * np.hanning(L) if is_artefact else rng.uniform(0.7, 1.3) * atom
            x[onset : onset + L] += shape
        arrays.append(x)
        truth.append(atom / np.linalg.norm(atom))
    return Cohort.from_arrays(arrays, sfreq=SFREQ), np.stack(truth)


@pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
def test_two_corrections_mend_everybody():
    """Two artefacts, taken for beats, bend the atom of all; without them it is right."""
    cohort, truth = people_with_an_artefact(2)
    algorithm = Algorithm(population_rounds=4, personal_rounds=6)
    options = {"n_atoms": 1, "atom_length": L, "penalty": 0.3, "random_state": 0}
    model = PerCDL(transformation=TimeWarp(1, 3), algorithm=algorithm, **options)

    def errors(fitted):
        atoms = fitted.personal_dictionary_[:, 0, :, 0]
        atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        return np.linalg.norm(atoms - truth, axis=1)

    events = model.fit(cohort).events_
    before = errors(model)
    starts = events["onset_sample"]
    wrong = (events["subject"] == "0") & (starts.between(20, 36) | starts.between(68, 84))
    assert wrong.sum() == 2
    table = find_corrections(events, events[~wrong], duration=SECONDS)
    model.fit(cohort.correct(table))
    assert onsets(model.events_, "0") == [4, 52, 100]
    assert len(model.events_) == 38
    assert (errors(model) < before / 3).all()
