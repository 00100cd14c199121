"""No exact half-step raises the objective."""

from dataclasses import replace

import jax
import naive
import numpy as np
import pandas as pd
import pytest
import toy
from double import in_double
from numpy.testing import assert_allclose

from percdl.algorithm import server
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.state import History
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.coders import L0Coder, SizedCoder
from percdl.transforms import Compose, Free, Gain, Identity, Rotation, TimeWarp

# The three cures are not descent steps: a search may lose a little when the codes follow.
PLAIN = {"realign": False, "multistart": False, "centering": "off"}
LENGTHS = (97, 110, 118, 128)
# A prior changes from round to round, so the objective of the paper may rise.
PAPER = replace(toy.WARP, prior=None)


def with_gaps(arrays, seed=0):
    """Return the recordings with a tenth of the samples missing, channel by channel."""
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in arrays]


def assert_never_rises(history, steps=None):
    """Check every phase, to rounding; ``steps`` limits the check to the rises into them."""
    rises = [
        f"{now.phase} {now.round}: {before.step} {before.objective} -> {now.step} {now.objective}"
        for before, now in zip(history.records, history.records[1:], strict=False)
        if before.phase == now.phase and (steps is None or now.step in steps)
        if now.objective > before.objective * (1 + 1e-6)
    ]
    assert not rises, "\n".join(rises)


CASES = {
    "shared warp": ({"transform": PAPER}, False),
    "shared warp, polyak": ({"transform": PAPER, "solver": "polyak"}, False),
    "warp per channel, gaps": (
        {
            "transform": TimeWarp(1, 4, per_channel=True, prior=None),
            "n_channels": 2,
            "coder": L0Coder(signed=True, min_gap=1, max_activations=4),
        },
        True,
    ),
    "gain, warp and rotation": (
        {"transform": Compose(Gain(), TimeWarp(1, 4, prior=None), Rotation()), "n_channels": 2},
        False,
    ),
    "rough warps": ({"transform": TimeWarp(2, 4, roughness=0.05, prior=None)}, False),
    "several lengths, gaps": ({"transform": PAPER, "coder": L0Coder(stretch=1.2)}, True),
    "baselines, gaps": (
        {"transform": TimeWarp(1, 4, prior=None), "coder": L0Coder(baseline="line")},
        True,
    ),
    "atoms of two lengths": ({"transform": PAPER, "coder": SizedCoder(sizes=(16, 11))}, False),
    "identity, gaps": ({"transform": Identity()}, True),
    "free": ({"transform": Free()}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_plain_algorithm_only_descends(case):
    options, gaps = CASES[case]
    chosen = toy.settings(**options, **PLAIN)
    for seed in range(3):
        arrays = toy.recordings(seed, LENGTHS, chosen.n_channels)
        arrays = with_gaps(arrays) if gaps else arrays
        start = toy.first_guess(seed, chosen.n_channels)
        outcome, history = toy.fit(arrays, chosen, start)
        assert_never_rises(history)
        energy, first, last = outcome.sums.signal, history.records[0], history.records[-1]
        assert last.objective < first.objective < energy
        # The final phase continues the one before.
        assert history.records[-2].objective <= history.records[-3].objective * (1 + 1e-6)


@pytest.mark.parametrize("case", ["shared warp", "several lengths, gaps", "baselines, gaps"])
def test_corrected_codes_only_descend(case):
    """Whatever is kept, in the recordings or where there is nothing, and whatever is removed."""
    options, gaps = CASES[case]
    chosen = toy.settings(**options, **PLAIN)
    rows = [("0", 30, "keep", 0), ("0", 60, "keep", None), ("2", 40, "remove", None)]
    rows += [("3", t, "only", None) for t in (5, 60, 100)]
    arrays = toy.recordings(0, LENGTHS)
    arrays[3][:30] *= -1  # an activation must be there, and explains nothing
    arrays = with_gaps(arrays) if gaps else arrays
    _, history = toy.fit(arrays, chosen, toy.first_guess(0), rows=rows)
    assert_never_rises(history)
    assert history.records[-1].objective < history.records[0].objective
    assert history.records[-2].objective <= history.records[-3].objective * (1 + 1e-6)
    _, free = toy.fit(arrays, chosen, toy.first_guess(0))
    assert free.records[0].objective < history.records[0].objective


@pytest.mark.parametrize("options", [PLAIN, {}], ids=["as printed", "default"])
def test_recorded_objective_is_that_of_the_residual(options):
    """Form the residual from the codes and the personal atoms the site holds at the end."""
    chosen = toy.settings(**options)
    arrays = toy.recordings(5, LENGTHS)
    runtime = InProcess(Cohort.from_arrays(arrays), chosen)
    history = History()
    outcome = run_percdl(runtime, chosen, toy.first_guess(5), history, toy.ignore)
    coded, (block,) = runtime.site.coded[0], runtime.site.blocks
    objective, apply = 0.0, jax.jit(toy.WARP.apply)
    for row, x in enumerate(arrays):
        atoms = [
            in_double(apply, np.asarray(params), atom)
            for params, atom in zip(block.params[row], outcome.dictionary, strict=True)
        ]
        onset, atom, amplitude = (np.asarray(part)[row] for part in coded.events[:3])
        events = [e for e in zip(onset, atom, amplitude, strict=True) if e[2] != 0]
        objective += naive.cost(x, atoms, chosen.penalty, np.ones_like(x), events)
    assert history.records[-1].objective == pytest.approx(objective, rel=1e-9)


def test_a_window_that_gives_the_last_cycle_away_for_a_trifle_is_taken_back():
    """Every cycle is 20 samples, the last ends with the recording; an atom is 16 of them.

    A little energy lies after the 16 that begin with a cycle: to have it, the last cycle of
    everybody would have to reach beyond the recording.
    """
    rng = np.random.default_rng(0)
    cycle = np.zeros(20)
    cycle[4:14], cycle[-4:] = np.hanning(12)[1:-1], 0.1
    arrays = [
        np.concatenate([np.zeros(8), *np.outer(rng.uniform(0.9, 1.1, 5), cycle)])[:-4, None]
        for _ in range(4)
    ]
    chosen = toy.settings(Identity(), n_atoms=1, population_rounds=4, personal_rounds=0)
    outcome, history = toy.fit(arrays, chosen, cycle[None, :16, None])
    _, stayed, moved, _, back, *rest = (r.objective for r in history.records)
    assert moved > 2 * stayed
    assert moved > 2 * back
    assert max(rest) <= stayed * (1 + 1e-6)
    assert outcome.sums.counts == [20]
    assert_allclose(outcome.dictionary[0, :, 0], cycle[:16] / np.linalg.norm(cycle[:16]))


def test_search_keeps_the_codes_it_cannot_improve(monkeypatch):
    """With onset search and several starts, codes still never get worse than PerCDU left them.

    Windows that are voted for look ahead: they stay here.
    """
    monkeypatch.setattr(server, "ROUNDS_AFTER_MOVE", 99)
    chosen = toy.settings(PAPER, centering="off", personal_rounds=4)
    for seed in range(3):
        _, history = toy.fit(toy.recordings(seed, LENGTHS), chosen, toy.first_guess(seed))
        personal = [r for r in history.records if r.phase in ("personal", "final")]
        updates = [r.objective for r in personal if r.step == "PerCDU"]
        codes = [r.objective for r in personal if r.step == "CSC"]
        assert len(codes) == len(updates) + 1
        for update, code in zip(updates, codes[1:], strict=True):
            assert code <= update * (1 + 1e-6)
        assert_never_rises(history, steps={"PerCDU"})


@pytest.mark.realdata
def test_plain_algorithm_only_descends_on_gait(real_gait):
    """Angular velocity of the foot, thinned so that a stride is about an atom long."""
    files = sorted((real_gait / "GaitData").glob("*.csv"))[: len(LENGTHS)]
    assert len(files) == len(LENGTHS)
    walks = [pd.read_csv(file, usecols=["RRY"]).to_numpy()[400:1168:6] for file in files]
    arrays = [(walk - walk.mean()) / walk.std() for walk in walks]
    start = np.stack([arrays[0][:16], arrays[1][40:56]])
    outcome, history = toy.fit(arrays, toy.settings(PAPER, penalty=1.0, **PLAIN), start)
    assert_never_rises(history)
    assert history.records[-1].objective < 0.6 * outcome.sums.signal
