"""Kinds of events with probabilities, names of atoms, and one row per person."""

import warnings

import numpy as np
import pytest

from percdl import Cohort, L0Coder, PopCDL, load
from percdl.exceptions import InvalidParameterError

LENGTH, N_CYCLES = 20, 12
TIME = np.linspace(0, 1, LENGTH)
SHAPES = np.stack(
    [np.exp(-(((TIME - 0.4) / 0.12) ** 2)), np.exp(-(((TIME - 0.5) / 0.3) ** 2)) - 0.4]
)
UNKNOWN = np.sin(12 * TIME)


@pytest.fixture(scope="module")
def cohort():
    """Ada has both kinds and an unknown pattern, Ben one kind, larger, Cy one, upside down."""
    rng, recordings = np.random.default_rng(0), []
    for person in range(3):
        onsets = 5 + (LENGTH + 8) * np.arange(N_CYCLES)
        x = 0.02 * rng.standard_normal(onsets[-1] + 4 * LENGTH)
        for i, onset in enumerate(onsets):
            x[onset : onset + LENGTH] += SHAPES[int(person == 0 and i % 3 == 2)]
        if person == 0:
            x[onsets[-1] + 2 * LENGTH :][:LENGTH] += UNKNOWN
        recordings.append((x * (1, 10, -1)[person])[:, None])
    return Cohort.from_arrays(recordings, sfreq=100, subjects=["Ada", "Ben", "Cy"])


@pytest.fixture(scope="module")
def model(cohort):
    found = PopCDL(penalty=1.5, init=SHAPES[:, :, None], coder=L0Coder(signed=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found.find(cohort).name_atoms(["narrow", "wide"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kinds_are_named_and_certain_and_what_is_left_is_other(model):
    table = model.kinds()
    ada = table[table["subject"] == "Ada"]
    known, other = ada[ada["kind"] != "other"], ada[ada["kind"] == "other"]
    assert known["kind"].tolist() == ["narrow", "narrow", "wide"] * (N_CYCLES // 3)
    assert known["kind_probability"].min() > 0.99
    assert known["residual"].max() < 0.1
    assert len(other) == 1
    assert other["residual"].iloc[0] > 0.3
    at = 5 + (LENGTH + 8) * (N_CYCLES - 1) + 2 * LENGTH
    assert abs(other["onset_sample"].iloc[0] - at) <= LENGTH / 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("baseline", ["offset", "line"])
def test_kinds_do_not_depend_on_a_baseline_that_the_coder_ignores(cohort, baseline):
    slope = 0.01 if baseline == "line" else 0.0
    moved = [x.values + 3 + slope * np.arange(len(x.values))[:, None] for x in cohort[:2]]
    coder = L0Coder(baseline=baseline)
    plain, under = (
        PopCDL(penalty=1.5, init=SHAPES[:, :, None], coder=coder).find(
            Cohort.from_arrays(values, sfreq=100)
        )
        for values in ([x.values for x in cohort[:2]], moved)
    )
    before, after = plain.kinds(), under.kinds()
    assert (after["kind"] == "other").sum() == 1
    assert after["kind"].tolist() == before["kind"].tolist()
    np.testing.assert_allclose(after["residual"], before["residual"], atol=1e-3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_probability_falls_as_atoms_become_alike(cohort):
    chances = []
    for share in (0.0, 0.8, 0.99):
        mixed = np.stack([SHAPES[0], share * SHAPES[0] + (1 - share) * SHAPES[1]])
        found = PopCDL(penalty=1.5, init=mixed[:, :, None]).find(cohort[:1])
        table = found.kinds()
        chances.append(table.loc[table["atom"] == 0, "kind_probability"].mean())
    assert chances[0] >= chances[1] > chances[2]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_row_per_person_says_what_is_unusual(model):
    table = model.people().set_index("subject")
    assert table["polarity"].tolist() == [1, 1, -1]
    assert table["scale"].idxmax() == "Ben"
    assert table.loc["Ben", "scale"] == pytest.approx(10 * table.loc["Cy", "scale"], rel=0.1)
    assert table["n_wide"].tolist() == [N_CYCLES // 3, 0, 0]
    assert np.isnan(table.loc[["Ben", "Cy"], "amplitude_wide"]).all()
    assert (table["explained"] > [0.7, 0.95, 0.95]).all()
    assert (table["back_to_back"] == 0).all()


def test_names_are_saved_and_must_differ(model, tmp_path):
    model.save(tmp_path / "m.percdl")
    assert load(tmp_path / "m.percdl").atom_names_ == ("narrow", "wide")
    for names in (["a", "a"], ["a", "b", "c"], ["a", "other"], {5: "a"}):
        with pytest.raises(InvalidParameterError, match="2 atom"):
            model.name_atoms(names)
