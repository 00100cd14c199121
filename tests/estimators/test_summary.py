"""The summary of a fit: facts that agree with the model, in three forms."""

import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from small_models import NAMES, make, spaced_cohort

from percdl import Cohort, Compose, Gain, PerCDL, Rotation, load
from percdl.estimators.people import describe_people
from percdl.estimators.summary import WIDTH, describe_choices, describe_model
from percdl.exceptions import NoActivationWarning


@pytest.fixture(scope="module")
def summary(cohort, fitted_models):
    return fitted_models["PerCDL"].summary()


def fact(summary, section, name):
    return next(text for own, text, _ in summary.sections[section] if own == name)


def test_the_facts_are_those_of_the_model(summary, cohort, fitted_models):
    model = fitted_models["PerCDL"]
    assert summary.title == "PerCDL of 4 recordings"
    explained = describe_people(model.personalization_, cohort, ("a", "b"))["explained"]
    assert fact(summary, "What was found", "Error").startswith(f"{1 - explained.median():.3f} ")
    for k in range(2):
        own = model.events_[model.events_["atom"] == k]
        starts = [rows["onset_seconds"] for _, rows in own.groupby("subject") if len(rows) > 1]
        gaps = [np.median(np.diff(times)) for times in starts]
        said = fact(summary, "What was found", f"atom{k}")
        assert said.startswith(f"{len(own)} cycles in 4 of 4 recordings; ")
        rate = float(re.search(r"; ([\d.]+) ", said)[1])
        assert rate == pytest.approx(np.median(60 / np.array(gaps)), rel=0.01)
    n_flagged = int(model.cycles()["flagged"].sum())
    said = fact(summary, "What to look at", "Flagged")
    assert said.startswith(f"{n_flagged} of {len(model.events_)} cycles")


def test_all_forms_say_the_same(summary):
    console = Console(file=StringIO(), width=200)
    console.print(summary)
    html = re.sub(r"<[^>]*>", " ", summary._repr_html_()).replace("&#x27;", "'")
    for form in (str(summary), console.file.getvalue(), html):
        said = " ".join(form.split())
        for heading, facts in summary.sections.items():
            assert heading in said
            for name, text, _ in facts:
                assert name in said
                assert text in said.replace("&quot;", '"')


def test_control_characters_in_names_are_escaped():
    odd = "\x1b]0;title\x07\x1b[2J\u202e<b>"
    arrays = [walk.values for walk in spaced_cohort(0)]
    cohort = Cohort.from_arrays(
        arrays, sfreq=50, channels=[odd], units=odd, subjects=[f"{odd}{i}" for i in range(4)],
        groups=[odd] * 4
    )  # fmt: skip
    model = make("PopCDL").fit(cohort).name_atoms([odd, "plain"])
    summary = model.summary()
    console = Console(file=StringIO(), width=200)
    console.print(summary)
    for form in (str(summary), console.file.getvalue(), summary._repr_html_()):
        assert not {*odd[0], "\x07", "\u202e"} & {*form}
        assert "\\x1b]0;title" in form
    assert "<b>" not in summary._repr_html_()


def test_it_fits_on_one_screen(summary):
    lines = str(summary).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= WIDTH


def test_a_model_from_a_file_says_what_it_does_not_know(fitted_models, cohort, tmp_path):
    fitted_models["PerCDL"].save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert "model.summary(recordings)" in fact(loaded.summary(), "What was found", "Error")
    found = loaded.summary(cohort).sections["What was found"]
    assert found == loaded.summary(cohort).sections["What was found"]
    assert re.match(r"0\.\d{3} ", found[0].text)


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_show_the_summary_of_a_fit_and_the_diagram_before(name, fitted_models):
    model = fitted_models[name]
    assert "percdl-summary" in model._repr_mimebundle_()["text/html"]
    assert "percdl-summary" in model._repr_html_()
    before = make(name)._repr_mimebundle_()["text/html"]
    assert "percdl-summary" not in before
    assert name in before


def test_markup_in_names_is_text(fitted_models, tmp_path):
    fitted_models["PopCDL"].save(tmp_path / "m")
    model = load(tmp_path / "m").name_atoms(["<b>beat</b>", "&amp;"])
    assert "<b>" not in model.summary()._repr_html_()


def test_settings_become_sentences(fitted_models):
    said = {name: describe_model(model) for name, model in fitted_models.items()}
    assert said["PerCDL"].startswith(
        "Two atoms of 0.32 s; each person's version of them is warped"
    )
    assert "is the same." in said["PopCDL"]
    assert "learned from their recording alone." in said["IndCDL"]
    both = Compose(Rotation(), Gain()).in_words
    assert both == "rotated among the channels, then scaled channel by channel"


def test_what_was_chosen_is_said():
    model = PerCDL()
    model.n_atoms_, model.atom_length_, model.penalty_, model.sfreq_ = 1, 50, 0.25, 100.0
    assert describe_choices(model) == "1 atom, a length of 0.5 s, a penalty of 0.25"
    assert not describe_choices(model.set_params(n_atoms=1, atom_length="0.5s", penalty="10%"))


def test_recordings_without_cycles_are_named(cohort):
    with pytest.warns(NoActivationWarning):
        model = make("PopCDL", penalty=1e9).fit(spaced_cohort(0))
    assert fact(model.summary(), "What to look at", "No cycle").startswith("4 recordings: Ada")
