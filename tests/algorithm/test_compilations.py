"""A fit compiles what was forecast, and other people in any number compile nothing more."""

import jax
import numpy as np
import pytest
import small_models as small
import toy
from compilations import COMPILED, count_events, count_programs

from percdl import Cohort, Huber
from percdl.algorithm import local
from percdl.steps.compilation import CPU_OPTIONS, Program, _key, forget_programs

FORECAST = {
    "measure_energy", "code", "judge", "accept", "keep", "prepare", "seek", "fit", "add_personal",
    "add_population", "neutral_params", "resample",
}  # fmt: skip
SEARCH = {"realign": True, "multistart": True}


def gaps():
    """Return recordings in which samples are missing."""
    arrays = small.spaced_recordings(0)
    arrays[1][40:50] = np.nan
    return arrays


def corrected():
    """Return recordings of which one has an event that is kept."""
    rows = toy.corrections(("2", 40.0, "keep", None))
    return Cohort.from_arrays(small.spaced_recordings(0)).correct(rows)


@pytest.mark.parametrize(
    ("name", "options", "arrays"),
    [
        ("PerCDL", {}, small.spaced_recordings(0)),
        ("PerCDL", SEARCH, small.spaced_recordings(0)),
        ("PerCDL", {"dtype": "float64"}, small.spaced_recordings(0)),
        ("PerCDL", {"loss": Huber()}, small.spaced_recordings(0)),
        ("PerCDL", {}, gaps()),
        ("PerCDL", {}, corrected()),
        ("PopCDL", {}, small.spaced_recordings(0)),
    ],
    ids=["plain", "search", "double", "huber", "gaps", "corrected", "population"],
)
def test_a_fit_runs_the_programs_of_its_forecast(monkeypatch, name, options, arrays):
    """All of them, and no other; old codes are taken up again only where somebody's are better."""
    expected, used = set(), set()
    run, plan = Program._executable, local.prepare_programs

    def note_used(program, key):
        if program.__name__ in FORECAST:
            used.add((program.__name__, key))
        return run(program, key)

    def note_expected(calls):
        calls = list(calls)
        for call in calls:
            with jax.enable_x64(call.is_double):
                key = _key(*call.program._split(call.args))
            expected.add((call.program.__name__, key))
        plan(calls)

    monkeypatch.setattr(Program, "_executable", note_used)
    monkeypatch.setattr(local, "prepare_programs", note_expected)
    small.make(name, **options).fit(arrays)
    assert used <= expected
    assert {name for name, _ in expected - used} <= {"accept"}


def test_optimization_as_users_have_it_changes_no_result(monkeypatch):
    """All other tests compile without it."""
    arrays, options = small.spaced_recordings(0), {"dtype": "float64", **SEARCH}
    plain = small.make("PerCDL", **options).fit(arrays)
    forget_programs()
    with monkeypatch.context() as patch:
        patch.setitem(CPU_OPTIONS, "xla_backend_optimization_level", 2)
        optimized = small.make("PerCDL", **options).fit(arrays)
    forget_programs()
    small.assert_same_table(optimized.events_, plain.events_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(optimized.dictionary_, plain.dictionary_, atol=1e-9)
    np.testing.assert_allclose(optimized.params_, plain.params_, atol=1e-6)


def people(seed, n, low=97):
    """Return ``n`` people whose recordings share a bucket of lengths."""
    lengths = np.random.default_rng(seed).integers(low, 129, n)
    names = [f"{seed}-{i}" for i in range(n)]
    arrays = small.spaced_recordings(seed, lengths)
    return Cohort.from_arrays(arrays, sfreq=small.SFREQ, subjects=names)


def look(model, cohort, tmp_path):
    """Use a model in every way."""
    found = model.personalize(cohort)
    assert len(found.personal_dictionary) == len(found.warps) == len(cohort)
    assert len(model.reconstruct(cohort)) == len(cohort)
    assert 0 < model.score(cohort) <= 1
    assert len(model.transform(cohort)) == len(cohort)
    model.report(tmp_path / "report.html", cohort)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of people who are few or odd
def test_other_people_compile_nothing(tmp_path):
    everyone = people(0, 150)
    model = small.make("PerCDL", chunk_rows=None, **SEARCH).fit(everyone)
    n_programs = count_programs()
    with count_events() as events:
        for n in (1, 2, 40):
            model.personalize(people(n, n))
    assert events[COMPILED] == 0
    assert count_programs() == n_programs
    look(model, everyone, tmp_path)  # personal atoms and reports have separate programs
    n_programs = count_programs()
    with count_events() as events:
        for n in (1, 2, 40):
            look(model, people(n, n, low=120 if n == 2 else 97), tmp_path)
        small.make("PerCDL", chunk_rows=None, **SEARCH).fit(people(7, 100))
    assert events[COMPILED] == 0
    assert count_programs() == n_programs
