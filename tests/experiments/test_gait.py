"""Gait: cutting cycles, naming phases, and all labels on a few real walks."""

import pytest

from percdl import Algorithm

pytest.importorskip("matplotlib")

from dataclasses import replace

import numpy as np
import pandas as pd

from percdl.datasets import load_gait
from percdl.datasets.gait import GROUPS
from percdl.experiments import Study, find, gait, gait_groups
from percdl.experiments.gait import OFFSETS, PERSONAL, place_atom
from percdl.experiments.gait_groups import judge, paper_statements
from percdl.signals import Cohort

PHASES = {"heel off": 20.0, "toe off": 31.0, "heel on": 79.0, "foot flat": 92.0}
N_TIMES = 1200
LABELS = [
    "gait:errors", "fig:gait", "fig:IndCDL_PopCDL", "fig:app:gait_comp_indcdl",
    "fig:app:gait_personalization", "tab:app:personalization", "tab:app:group_popcdl",
]  # fmt: skip


def a_walk(offset, n_cycles=6, period=120, length=40, seed=0):
    """Return an atom, a walk that repeats it at different sizes, and annotated starts."""
    rng = np.random.default_rng(seed)
    atom = np.sin(np.linspace(0, 7, length)) * np.hanning(length)
    walk = np.zeros((n_cycles + 1) * period)
    onsets = 80 + period * np.arange(n_cycles)
    for onset in onsets:
        walk[onset : onset + length] = rng.uniform(1, 5) * atom
    return atom, walk, onsets + offset


@pytest.mark.parametrize("one_offset", [False, True])
@pytest.mark.parametrize("offset", [OFFSETS[0], 0, 17, OFFSETS[-1]])
def test_an_atom_is_put_where_its_cycles_are_whatever_their_size(offset, one_offset):
    atom, walk, starts = a_walk(offset)
    placed = place_atom(3 * atom, walk, starts, one_offset)
    assert (placed.offsets == offset).all()
    assert placed.distance == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(np.linalg.norm(placed.cycles, axis=1), 1)


def test_a_careless_annotation_is_undone_for_each_cycle():
    atom, walk, starts = a_walk(10)
    careless = starts + np.array([0, 3, -2, 4, -5, 1])
    each, one = (place_atom(atom, walk, careless, x) for x in (False, True))
    assert each.distance == pytest.approx(0, abs=1e-7)
    np.testing.assert_array_equal(careless - each.offsets, starts - 10)
    assert one.distance > 0.1


def test_cycles_that_reach_beyond_the_recording_do_not_count():
    atom, walk, starts = a_walk(0)
    more = np.concatenate([[3], starts, [len(walk) - 5]])
    assert len(place_atom(atom, walk, more).cycles) == len(starts)


def bumps(**heights):
    """Return a curve with bumps at samples given as ``at10=0.5``."""
    samples = np.arange(100)
    return sum(h * np.exp(-(((samples - int(at[2:])) / 3) ** 2)) for at, h in heights.items())


def test_a_statement_is_judged_by_its_share_of_the_excess():
    curve = bumps(at22=1.0, at75=0.5)
    swing, stance, end = (judge(curve, meant) for meant in paper_statements(PHASES).values())
    assert swing["excess"] < swing["time"]
    assert stance["excess"] > end["excess"] > end["time"]
    assert stance["excess"] + end["excess"] == pytest.approx(1, abs=0.05)


def test_means_and_shares_are_by_group():
    columns = {kind: 0.2 if kind == PERSONAL else 0.1 for kind in gait.PAPER_DISTANCES}
    people = pd.DataFrame({"subject": range(6), "group": [*GROUPS, *GROUPS], **columns})
    people.loc[0, PERSONAL] = 0.0
    assert list(gait.share_nearest(people).values()) == [0.5, 0.0, 0.0]
    assert gait.summarize(people).loc[PERSONAL].tolist() == pytest.approx([0.1, 0.2, 0.2])


def load_short_walks(data_home=None):
    """Load the walks, cut to one short length: a single shape compiles soon."""
    data = load_gait(data_home)
    cohort = Cohort(replace(record, values=record.values[:N_TIMES]) for record in data.cohort)
    swings = {
        code: {foot: at[at[:, 1] < N_TIMES] for foot, at in feet.items()}
        for code, feet in data.swings.items()
    }
    return replace(data, cohort=cohort, swings=swings)


@pytest.fixture(scope="module")
def few_walks(shared_data):
    """Let every gait label take three short walks a group and few rounds."""
    cached = [x for x in vars(gait).values() if hasattr(x, "cache_clear")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERCDL_DATA", str(shared_data))
        patch.setattr(gait, "load_gait", load_short_walks)
        few = Algorithm(population_rounds=2, personal_rounds=2)
        patch.setattr(gait, "ALGORITHM", few)
        patch.setattr(Study, "pick", lambda self, small, paper: 3)
        # Time warping is tested elsewhere, and takes long to compile.
        euclidean = gait_groups.atom_distance
        patch.setattr(gait_groups, "atom_distance", lambda one, other, _: euclidean(one, other))
        for function in cached:
            function.cache_clear()
        yield
        for function in cached:
            function.cache_clear()


def test_walks_are_of_one_trial_each_and_z_scored(few_walks):
    walks = gait.load_walks(3)
    assert pd.Series(walks.groups).value_counts().tolist() == [3, 3, 3]
    assert len({code.split("-")[0] for code in walks.cohort.subjects}) == 9
    for record in walks.cohort:
        np.testing.assert_allclose([record.values.mean(), record.values.std()], [0, 1], atol=1e-5)


@pytest.mark.parametrize("label", LABELS)
def test_a_label_says_what_was_found(few_walks, label):
    result = find(label).load()(Study())
    assert result.lines
    assert all(line.ours and line.settings for line in result.lines)
    assert all(
        np.isfinite(t.select_dtypes("number")).any(axis=None) for t in result.tables.values()
    )
    for ax in result.figure.axes if result.figure else ():
        assert ax.get_legend_handles_labels()[1] or ax.lines


def test_free_atoms_explain_most_at_given_onsets(few_walks):
    table = gait.measure_errors(Study(), 3)
    assert (table["best free atoms"] < table["PerCDL"]).all()
    assert (table["PerCDL"] < table["PopCDL"]).all()
