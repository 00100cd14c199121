"""What a report says and refuses, apart from how a browser shows it."""

import copy
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("plotly")

import percdl
from percdl import Algorithm, Cohort, PerCDL, TimeWarp
from percdl.exceptions import InvalidParameterError, NoActivationWarning
from percdl.report.people import Groups, describe_groups, gather_people, tabulate_people
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild


def content_of(page):
    text = page.read_text("utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, re.S)[1])


def column(columns, name):
    return next(c["values"] for c in columns if c["name"] == name)


def test_a_page_holds_all_people(report60, model60, cohort60):
    content = content_of(report60)
    assert content["n_subjects"] == 60
    assert column(content["columns"], "subject") == list(cohort60.subjects)
    assert column(content["columns"], "cycles0") == model60.n_activations_[:, 0].tolist()
    found = sum(len(person["events"]["onset"]) for person in content["people"])
    assert found == len(model60.events_)


def test_named_atoms_have_their_names_on_pages(model60, cohort60):
    model = copy.copy(model60).name_atoms({1: "arcs"})
    people = gather_people(model, cohort60)
    assert people.atom_names == ["atom 0", "arcs"]
    labels = {c["name"]: c["label"] for c in tabulate_people(people)}
    assert (labels["cycles0"], labels["cycles1"]) == ("Atom 0", "Arcs")


def test_the_weight_of_a_sample_is_the_share_of_people_who_pass_it(report60, model60):
    shares = np.array(content_of(report60)["visits"])
    for k, u in np.ndindex(shares.shape):
        known = [psi for psi in model60.warps_[:, k, 0] if np.isfinite(psi).all()]
        near = [np.abs(psi - u).min() < 1 for psi in known]
        assert shares[k, u] == pytest.approx(np.mean(near), abs=1e-3)


def test_60_recordings_take_little_room(report60):
    assert report60.stat().st_size < 6.5e6


def test_errors_add_up_to_that_of_the_model(model60, cohort60):
    people = gather_people(model60, cohort60)
    energy = np.array([np.sum(record.values**2) for record in cohort60])
    rebuilt = rebuild(cohort60, model60.events_, model60.personal_dictionary_)
    whole = normalized_reconstruction_error(cohort60, rebuilt)
    assert np.sum(people.errors * energy) / energy.sum() == pytest.approx(whole)


def test_the_reference_is_found_by_its_usual_names(model60, cohort60):
    assert gather_people(model60, cohort60).reference == "healthy"
    assert gather_people(model60, cohort60, "patient").groups[0] == "patient"
    with pytest.raises(
        InvalidParameterError, match=r"'sick'. is not a group.*'patient', 'healthy'"
    ):
        gather_people(model60, cohort60, "sick")


def test_other_people_are_personalized(model60, cohort60):
    few = gather_people(model60, cohort60[:4])
    assert few.found is not model60.personalization_
    pd.testing.assert_frame_equal(few.found.events, model60.personalize(cohort60[:4]).events)


def test_the_same_names_on_shorter_recordings_are_other_recordings(model60, cohort60):
    half = Cohort.from_arrays(
        [record.values[:300] for record in cohort60], sfreq=100, subjects=cohort60.subjects,
        channels=cohort60.channels, units=cohort60.units,
    )  # fmt: skip
    assert gather_people(model60, half).found is not model60.personalization_


@pytest.mark.parametrize("from_file", [False, True])
def test_the_same_names_on_other_samples_are_other_recordings(
    from_file, model60, cohort60, tmp_path
):
    model, later = model60, [np.roll(record.values, 25, axis=0) for record in cohort60]
    if from_file:
        model60.save(tmp_path / "model.percdl")
        model = percdl.load(tmp_path / "model.percdl")
    visit = Cohort.from_arrays(
        later, sfreq=100, subjects=cohort60.subjects, channels=cohort60.channels,
        units=cohort60.units,
    )  # fmt: skip
    assert gather_people(model, cohort60).found is model.personalization_
    found = gather_people(model, visit)
    assert found.found is not model.personalization_
    assert np.median(found.errors) < 0.5


def test_metadata_become_columns(model60, cohort60):
    metadata = pd.DataFrame(
        {"age": np.arange(60) / 2, "count": range(60), "sex": ["f", None] * 30,
         "falls": pd.array([1, None] * 30, dtype="Int64")},
        index=list(reversed(cohort60.subjects)),
    )  # fmt: skip
    columns = tabulate_people(gather_people(model60, cohort60, metadata=metadata))[-4:]
    assert [c["label"] for c in columns] == ["age", "count", "sex", "falls"]
    assert [c.get("digits") for c in columns] == [2, 0, None, 0]
    assert columns[0]["values"][:2] == [29.5, 29.0]
    assert columns[2]["values"][:2] == [None, "f"]
    assert columns[3]["values"][:2] == [None, 1.0]


def test_metadata_must_cover_all_people(model60, cohort60):
    some = pd.DataFrame({"subject": cohort60.subjects[1:], "age": 3})
    with pytest.raises(InvalidParameterError, match="'S0000' has none"):
        gather_people(model60, cohort60, metadata=some)
    twice = pd.DataFrame({"subject": [*cohort60.subjects, "S0000"], "age": 3})
    with pytest.raises(InvalidParameterError, match="some have several"):
        gather_people(model60, cohort60, metadata=twice)


def test_a_group_of_one_with_all_samples_is_not_compared(model60, cohort60):
    values = [record.values.copy() for record in cohort60]
    holed = [s for s, name in enumerate(cohort60.groups) if name == "healthy"][1:]
    for subject, onset in model60.events_[["subject", "onset_sample"]].to_numpy():
        if (s := cohort60.subjects.index(subject)) in holed:
            values[s][onset + 10] = np.nan
    people = replace(
        gather_people(model60, cohort60),
        cohort=Cohort(replace(r, values=v) for r, v in zip(cohort60, values, strict=True)),
    )
    assert Groups(people).names == ["patient"]
    assert describe_groups(Groups(people)) is None


def test_however_many_tests_share_the_level_one_can_pass(model60, cohort60, monkeypatch):
    groups = Groups(gather_people(model60, cohort60), level=0.001)
    seen = []

    def compare(*arguments, n_permutations, **others):
        seen.append(n_permutations)
        raise InvalidParameterError("enough")

    monkeypatch.setattr("percdl.report.people.compare_groups", compare)
    assert groups.names[0] == "healthy"
    assert groups.clusters == "enough"
    assert 1 / seen[0] < 0.001 / groups.n_tests


def test_a_model_that_found_nothing_has_a_page_that_says_so(cohort60, tmp_path):
    quick = Algorithm(population_rounds=1, personal_rounds=1, realign=False, multistart=False)
    model = PerCDL(1, 50, TimeWarp(1, 3), 1e9, init=np.ones((1, 50, 1)), algorithm=quick)
    with pytest.warns(NoActivationWarning):
        model.fit(cohort60[:4])
    page = model.report(tmp_path / "page.html").read_text("utf-8")
    assert "No cycle was found in 4 recording(s)" in page
    assert "No subject uses atom 0" in page


def test_a_model_from_a_file_needs_its_recordings(model60, cohort60, tmp_path):
    model60.save(tmp_path / "model.percdl")
    loaded = percdl.load(tmp_path / "model.percdl")
    with pytest.raises(InvalidParameterError, match="Pass them"):
        loaded.report(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_copies_of_a_model_leave_the_recordings_behind(model60, cohort60):
    copy = pickle.loads(pickle.dumps(model60))
    assert model60.recordings_ is cohort60
    assert copy.recordings_ is None
    np.testing.assert_array_equal(copy.warps_, model60.warps_)


def test_a_page_that_cannot_be_written_leaves_the_old_one(model60, cohort60, tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        model60.report(tmp_path / "nowhere" / "page.html", cohort60[:2])
    assert list(tmp_path.iterdir()) == []


def test_recordings_of_one_person_are_compared_as_one(model60, cohort60):
    # Thirty healthy recordings, all of them of three people: those are left out together.
    few = cohort60[:30]
    table = pd.DataFrame({"who": [i % 3 for i in range(30)]}, index=list(few.subjects))
    alone = gather_people(model60, few, metadata=table)
    joined = gather_people(model60, few, metadata=table, person="who")
    assert joined.persons == [str(i % 3) for i in range(30)]
    assert not np.allclose(alone.deviation.index, joined.deviation.index)


def test_who_a_recording_is_of_must_be_known(model60, cohort60):
    few = cohort60[:2]
    table = pd.DataFrame({"who": ["A", None]}, index=list(few.subjects))
    with pytest.raises(InvalidParameterError, match="must be a column of the metadata; there are"):
        gather_people(model60, few, person="who")
    with pytest.raises(InvalidParameterError, match="have no person for 'S0001'"):
        gather_people(model60, few, metadata=table, person="who")
