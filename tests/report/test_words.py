"""The words are right: people who are known to be slow somewhere are said to be slow there."""

import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("plotly")

from percdl import Cohort, PerCDL, TimeWarp
from percdl.analysis import measure_reliability
from percdl.estimators.cycles import find_cycles
from percdl.estimators.landmarks import Mark, personal_times
from percdl.estimators.personalization import Personalization
from percdl.report.people import Groups, People, describe_groups, tabulate_groups
from percdl.report.person import tabulate_person
from percdl.report.words import LEVEL, Words, rank

LENGTH, SFREQ, N_HEALTHY = 50, 100.0, 30
WARP = TimeWarp(1, 3)
PHASE = re.compile(r"From (\d+) to (\d+) % of the cycle \([^)]*\), this person is (\w+): "
                   r"([\d.]+) s, (\d+) % (\w+) than the median, (\w+) than all 30 of "
                   r"healthy\.")  # fmt: skip


def make_people(bends, groups, periods=None, persons=None, marks=()) -> Words:
    """Return people whose warps are t + b sin(2 pi t) / (2 pi), with recordings made of them."""
    params = np.zeros((len(bends), 1, 3))
    params[:, 0, 1] = bends
    time = np.linspace(0, 1, LENGTH)
    atom = np.sin(2 * np.pi * time) * np.hanning(LENGTH)
    atom = (atom / np.linalg.norm(atom))[None, :, None]
    periods = np.full(len(bends), 60) if periods is None else periods
    arrays, rows = [], []
    for s, own in enumerate(
        np.asarray(WARP.apply(jnp.asarray(params[:, 0]), jnp.asarray(atom[0])))
    ):
        onsets = 5 + periods[s] * np.arange(8)
        x = 0.01 * np.random.default_rng(s).standard_normal((560, 1))
        for onset in onsets:
            x[onset : onset + LENGTH] += own
            rows.append((f"P{s}", 0, onset, onset / SFREQ, 1.0))
        arrays.append(x)
    names = [f"P{s}" for s in range(len(bends))]
    cohort = Cohort.from_arrays(arrays, sfreq=SFREQ, subjects=names, groups=groups)
    columns = ["subject", "atom", "onset_sample", "onset_seconds", "amplitude"]
    events = pd.DataFrame(rows, columns=columns)
    counts = np.full((len(bends), 1), 8)
    found = Personalization(params, events, counts, tuple(names), WARP, atom, "float32")
    model = PerCDL(1, LENGTH, WARP)
    model.marks_ = marks
    vars(model)["personalization_"] = None  # these people are not those of a fit
    return Words(People(model, cohort, found, "healthy", None, persons or names))


def reach(bend, share):
    """Return when a person reaches a share of the cycle of the population: psi^-1, in seconds."""
    time = np.linspace(0, 1, 100_001)
    psi = time + bend * np.sin(2 * np.pi * time) / (2 * np.pi)
    return np.interp(share, psi, time) * (LENGTH - 1) / SFREQ


@pytest.fixture(scope="module")
def healthy():
    return np.random.default_rng(0).normal(0, 0.05, N_HEALTHY)


@pytest.fixture(scope="module")
def words(healthy):
    """Thirty healthy people, one who is slow in the middle, one who is fast, one like them."""
    bends = [*healthy, 0.6, -0.6, 0.0]
    periods = [60 + s % 5 for s in range(N_HEALTHY)] + [68, 60, 62]
    marks = (Mark("heel", 0, 0.2), Mark("toe", 0, 0.3))
    return make_people(bends, ["healthy"] * N_HEALTHY + ["patient"] * 3, periods, marks=marks)


@pytest.mark.parametrize(("s", "pace"), [(30, "slower"), (31, "faster")])
def test_a_slow_phase_is_said_where_it_is_and_how_long_it_takes(words, healthy, s, pace):
    text = next(x for x in words.describe(s) if x.startswith("From") and f"is {pace}" in x)
    start, stop, said, taken, change, side, place = PHASE.match(text).groups()
    phase = next(x for x in words.phases(s) if x.above == (pace == "slower"))
    ends = np.array([phase.start, phase.stop]) / (LENGTH - 1)
    assert (int(start), int(stop)) == tuple(np.rint(100 * ends).astype(int))
    assert start < "50" < stop  # psi' is least, or largest, in the middle
    truth, *usual = (
        np.ptp(reach(b, ends)) for b in (words.people.found.params[s, 0, 1], *healthy)
    )
    assert float(taken) == pytest.approx(truth, abs=0.006)
    assert int(change) == pytest.approx(100 * abs(truth / np.median(usual) - 1), abs=2)
    assert (said, side, place) == (pace, *["longer" if pace == "slower" else "shorter"] * 2)


def test_who_is_like_the_others_does_not_stand_out(words):
    said = words.describe(32)
    assert not words.phases(32)
    assert said[2] == "No single part of the cycle stands out from healthy."
    assert "within the usual range of healthy" in said[1]


def test_a_cycle_that_differs_in_height_alone_is_said_to(healthy):
    words = make_people([*healthy, 0.0], ["healthy"] * N_HEALTHY + ["patient"])
    words.people.found.personal_dictionary[-1, 0, 20:26] += 0.3  # of a shape that is planted
    (phase,) = words.phases(N_HEALTHY)
    assert (phase.kind, phase.start, phase.stop, phase.above) == ("height", 20, 25, True)
    (text,) = (x for x in words.describe(N_HEALTHY) if x.startswith("From"))
    assert text.startswith(
        "From 41 to 51 % of the cycle (0.20 to 0.25 s in the picture), the person's atom is higher"
    )


def test_few_of_the_reference_are_called_different(words):
    called = [bool(words.phases(s)) for s in range(N_HEALTHY)]
    assert sum(called) <= np.ceil((1 - LEVEL) * N_HEALTHY)


def test_rates_are_those_of_the_onsets(words):
    assert words.describe(30)[0] == "88 cycles per minute, slower than all 30 of healthy."
    assert words.describe(31)[0].startswith("100 cycles per minute, within the usual range")


def test_intervals_are_those_of_the_landmarks(words):
    ((text, unusual),) = words.intervals(30)
    shares = np.array([0.2, 0.3]) * SFREQ / (LENGTH - 1)
    truth = np.ptp(reach(0.6, shares))
    people = words.people
    cycles = find_cycles(people.found, people.cohort)
    own = np.ptp(personal_times(people.model.marks_, cycles), axis=0)
    assert own[30] == pytest.approx(truth, abs=0.02)
    assert unusual
    said = re.match(r"heel to toe: (\d+) ms, (\d+) % longer than the median, longer than", text)
    usual = np.median(own[:N_HEALTHY])
    assert float(said[1]) == pytest.approx(1e3 * own[30], abs=0.6)
    assert float(said[2]) == pytest.approx(100 * (own[30] / usual - 1), abs=0.6)
    assert text in words.describe(30)
    assert not words.intervals(32)[0][1]


def test_certainty_is_the_retest_error_where_visits_exist(words):
    assert "unknown: no one was recorded twice" in words.describe(30)[-1]
    bends = np.random.default_rng(1).normal(0, 0.1, 12).repeat(2)
    persons = [f"p{s // 2}" for s in range(24)]
    periods = [58 + s // 2 + s % 2 for s in range(24)]
    again = make_people(bends, ["healthy"] * 24, periods, persons)
    sdc = measure_reliability(60 * SFREQ / np.array(periods), persons)["sdc"].iloc[0]
    assert f"differs by up to {sdc:.2g} cycles per minute" in again.describe(0)[-1]
    assert "compared with 11 people" in again.describe(0)[-1]  # one's own other visit is left out


def test_numbers_come_with_the_range_of_the_reference(words):
    rows = {name: (value, usual, meaning) for name, value, usual, meaning in
            tabulate_person(words.people, words, 30)}  # fmt: skip
    others = [60 * SFREQ / (60 + s % 5) for s in range(N_HEALTHY)]
    low, middle, high = np.quantile(others, [0.05, 0.5, 0.95])
    assert rows["Per min"][:2] == ("88.2", f"{middle:.1f} ({low:.1f} to {high:.1f})")
    assert all(meaning for name, (_, _, meaning) in rows.items() if name != "Group")


def test_the_page_begins_with_who_differs_most(words):
    text, named = words.introduce()
    assert "Of 3 recordings outside healthy, 2 are farther from it than 95 %" in text
    assert {name for name, _ in named[:2]} == {"P30", "P31"}


@pytest.mark.parametrize("n_others", [0, 1, 4])
def test_few_others_are_no_measure_of_what_is_usual(n_others):
    groups, marks = ["patient"] + ["healthy"] * n_others, (Mark("a", 0, 0.2), Mark("b", 0, 0.3))
    words = make_people([0.3, *np.zeros(n_others)], groups, marks=marks)
    ((interval, _),) = words.intervals(0)
    assert ("than the median" in interval) == (n_others > 0)
    said = words.describe(0)
    assert said[0] == "100 cycles per minute."
    assert not any("usual" in text or " than " in text for text in said)


def test_a_person_has_one_vote_however_often_recorded():
    values, counts = np.arange(20.0), np.arange(20) % 4 + 1
    often, persons = np.repeat(values, counts), np.repeat(np.arange(20), counts)
    for value in np.arange(-0.5, 20.5, 0.5):
        assert rank(value, often, persons=persons) == rank(value, values)
    # Of 20 people, one was half of the time above 18.5.
    assert rank(18.5, [*range(19), 18, 19], persons=[*range(19), 19, 19]) == "higher than 98 %"
    assert rank(9, np.arange(4).repeat(9), persons=np.arange(4).repeat(9)) == ""


def test_groups_count_people_however_often_recorded():
    rng = np.random.default_rng(5)
    bends = np.r_[0.3 * rng.standard_normal(6), 0.3 + 0.3 * rng.standard_normal(6)]
    groups, periods = ["healthy"] * 6 + ["patient"] * 6, [*range(55, 67)]
    once = Groups(make_people(bends, groups, periods).people)
    names = [f"p{s}" for s in range(12)]
    twice = Groups(make_people([*bends] * 2, groups * 2, periods * 2, names * 2).people)
    for one, two in zip(tabulate_groups(once)[1], tabulate_groups(twice)[1], strict=True):
        assert (two[1], two[2]) == ("6", "12")
        rate = tabulate_groups(once)[0].index("Per min (median)")
        assert one[rate] == two[rate]
    for one, two in zip(*(describe_groups(x)["groups"] for x in (once, twice)), strict=True):
        assert (one["name"], one["atoms"], one["timing"]) == (
            two["name"], two["atoms"], two["timing"]
        )  # fmt: skip
    assert twice.people.group_sizes["healthy"] == "6 people, 12 recordings"
    assert once.people.group_sizes["healthy"] == "6 people"


def test_people_in_two_groups_are_drawn_but_not_tested():
    bends = [0.1 * s for s in range(5)] * 2
    groups, names = ["healthy"] * 5 + ["treated"] * 5, [f"p{s}" for s in range(5)] * 2
    found = Groups(make_people(bends, groups, persons=names).people)
    assert "'p0' belongs to groups 'healthy' and 'treated'" in " ".join(found.clusters.split())
    assert len(describe_groups(found)["groups"]) == 2


def test_ranges_of_the_reference_count_people():
    bends, periods = [*np.linspace(-0.3, 0.3, 8), 0.5], [*range(56, 64), 70]
    groups = ["healthy"] * 8 + ["patient"]
    once = make_people(bends, groups, periods)
    names = [*once.people.persons, *["P0"] * 9]
    often = make_people([*bends, *bends[:1] * 9], [*groups, *["healthy"] * 9],
                        [*periods, *periods[:1] * 9], names)  # fmt: skip
    rows = [{row[0]: row[2] for row in tabulate_person(w.people, w, 8)} for w in (once, often)]
    assert rows[0]["Per min"] == rows[1]["Per min"] != ""
