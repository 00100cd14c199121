"""Events are judged by strength and rhythm."""

from itertools import compress, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import expit, logit

from percdl.analysis import judge_events
from percdl.analysis.rhythm import chain_log_odds
from percdl.exceptions import InvalidParameterError


def frame(onset, amplitude, subject="A", atom=0):
    return pd.DataFrame(
        {"subject": subject, "atom": atom, "onset_sample": onset, "amplitude": amplitude}
    )


def walk(seed, n_steps=30, period=120, irregularity=0.05):
    """Return onsets and amplitudes of steps, some of them weak."""
    rng = np.random.default_rng(seed)
    intervals = period * np.exp(irregularity * rng.standard_normal(n_steps))
    amplitude = 10 * np.exp(0.2 * rng.standard_normal(n_steps))
    amplitude[[0, n_steps // 2, n_steps // 2 + 1, -1]] *= 0.1
    return np.cumsum(intervals).round().astype(int), amplitude


def walkers(n_subjects=4):
    return pd.concat([frame(*walk(s), subject=f"P{s}") for s in range(n_subjects)])


def exhaustive(strength, time, spread, break_rate):
    """Sum the weights of all subsets, one by one."""
    held, total = np.zeros(len(strength)), 0.0
    for chosen in product([False, True], repeat=len(strength)):
        gaps = np.diff(list(compress(time, chosen)))
        links = (1 - break_rate) * np.exp(-(np.log(gaps) ** 2) / (2 * spread**2)) + break_rate
        weight = np.exp(strength[list(chosen)].sum()) * links.prod()
        held[list(chosen)] += weight
        total += weight
    return held / total


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_points=st.integers(1, 8),
    spread=st.floats(0.05, 2),
    break_rate=st.floats(0.001, 1),
)
def test_probabilities_are_those_of_all_subsets(seed, n_points, spread, break_rate):
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, 3, n_points)
    time = np.cumsum(rng.lognormal(0, 1.5, n_points))
    found = expit(chain_log_odds(strength, time, spread, break_rate))
    assert_allclose(found, exhaustive(strength, time, spread, break_rate), rtol=1e-8, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), raised=st.integers(0, 9), by=st.floats(0, 5))
def test_odds_grow_with_the_strength_by_as_much(seed, raised, by):
    rng = np.random.default_rng(seed)
    strength, time = rng.normal(0, 2, 10), np.cumsum(rng.lognormal(0, 0.5, 10))
    more = strength.copy()
    more[raised] += by
    odds, higher = (chain_log_odds(s, time, 0.3, 0.02)[raised] for s in (strength, more))
    assert_allclose(higher - odds, by, atol=1e-6)


def test_units_of_each_subject_cancel():
    events = walkers()
    factor = events["subject"].map({"P0": 1e-3, "P1": 1.0, "P2": 40.0, "P3": 1e6})
    scaled = events.assign(amplitude=events["amplitude"] * factor)
    assert_allclose(judge_events(scaled)["probability"], judge_events(events)["probability"])


def test_sampling_rate_cancels():
    events = walkers()
    faster = events.assign(onset_sample=events["onset_sample"] * 7 + 1000)
    assert_allclose(judge_events(faster)["probability"], judge_events(events)["probability"])


def test_time_may_run_backwards():
    events = walkers()
    backwards = events.assign(onset_sample=100_000 - events["onset_sample"])
    assert_allclose(
        judge_events(backwards)["probability"], judge_events(events)["probability"], rtol=1e-9
    )


def test_order_of_rows_and_other_subjects_do_not_matter():
    events = walkers().reset_index(drop=True)
    all_of_them = judge_events(events)
    shuffled = judge_events(events.sample(frac=1, random_state=0)).sort_index()
    pd.testing.assert_frame_equal(shuffled, all_of_them)
    alone = judge_events(events[events["subject"] == "P2"])
    pd.testing.assert_frame_equal(alone, all_of_them[all_of_them["subject"] == "P2"])


def test_each_atom_has_a_rhythm_of_its_own():
    onset, amplitude = walk(0)
    first = frame(onset, amplitude)
    both = pd.concat([first, frame(onset + 37, amplitude[::-1], atom=1)])
    judged = judge_events(both)
    assert_allclose(
        judged.loc[judged["atom"] == 0, "probability"], judge_events(first)["probability"]
    )


def test_without_rhythm_strength_alone_decides():
    events = walkers(1)
    share = events["amplitude"] / events["amplitude"].median()
    expected = share**2 / (share**2 + 0.1**2)
    for no_rhythm in ({"break_rate": 1.0}, {"spread": np.inf}):
        judged = judge_events(events, even_share=0.1, **no_rhythm)
        assert_allclose(judged["probability"], expected)


def test_a_single_activation_has_no_rhythm():
    assert_allclose(judge_events(frame([5], [3.0]))["probability"], 1 / (1 + 0.07**2))


def test_an_amplitude_of_zero_is_no_event():
    judged = judge_events(frame(np.arange(5) * 100, [1.0, 1.0, 0.0, 1.0, 1.0]))
    assert judged["probability"][2] == 0
    assert (judged["probability"].drop(2) > 0.9).all()


def test_negative_amplitudes_count_by_magnitude():
    events = walkers(1)
    signs = np.where(np.arange(len(events)) % 2, 1, -1)
    flipped = events.assign(amplitude=signs * events["amplitude"])
    assert_allclose(judge_events(flipped)["probability"], judge_events(events)["probability"])


@pytest.mark.parametrize("seed", range(5))
def test_weak_steps_are_distinguished_from_stronger_bumps(seed):
    onset, amplitude = walk(seed)
    # Bumps twice as strong as the weak steps: half a period beside strong steps, and far away.
    where = np.array([*(onset[[5, 9, 20]] + 60), onset[-1] + 700, onset[-1] + 1500])
    steps, bumps = frame(onset, amplitude), frame(where, 2 * amplitude.min())
    judged = judge_events(pd.concat([steps, bumps]))
    kept = judged["probability"].to_numpy() > 0.5
    assert kept[: len(onset)].all()
    assert not kept[len(onset) :].any()


@pytest.mark.parametrize("seed", range(5))
def test_irregular_events_of_ordinary_strength_are_kept(seed):
    rng = np.random.default_rng(seed)
    onset = np.cumsum(50 + rng.exponential(150, 40)).astype(int)
    judged = judge_events(frame(onset, rng.uniform(0.5, 1.5, 40)))
    assert (judged["probability"] > 0.5).all()


def test_share_from_which_an_activation_out_of_rhythm_is_an_event():
    onset, amplitude = np.arange(20) * 100, np.ones(20)
    border = 0.07 / np.sqrt(0.02)
    for share, is_event in ((0.9 * border, False), (1.1 * border, True)):
        events = frame([*onset, 10_000], [*amplitude, share])
        assert (judge_events(events)["probability"].iloc[-1] > 0.5) == is_event


def test_long_recordings_are_judged_alike_everywhere():
    """Far links enter through a running sum: the middle of a long walk is like any other."""
    events = frame(np.arange(3000) * 100, np.where(np.arange(3000) % 10 == 5, 0.05, 1.0))
    odds = logit(judge_events(events)["probability"].to_numpy())[105:2895:10]
    assert_allclose(odds, odds[0], atol=1e-6)


def test_no_events_at_all():
    assert judge_events(frame([], []))["probability"].tolist() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"even_share": 0}, "even_share=0"),
        ({"spread": -1.0}, "spread=-1.0"),
        ({"break_rate": 1.5}, "at most 1"),
        ({"spread": float("nan")}, "spread=nan"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InvalidParameterError, match=message):
        judge_events(walkers(1), **options)


def test_missing_columns_are_named():
    with pytest.raises(InvalidParameterError, match="no column 'atom'"):
        judge_events(walkers(1).drop(columns="atom"))


@pytest.mark.parametrize("column", ["onset_sample", "amplitude"])
def test_an_event_without_a_number_is_named(column):
    steps = pd.DataFrame({"subject": "A", "atom": 0, "onset_sample": [0.0, 10, 20]})
    steps = steps.assign(amplitude=1.0)
    steps.loc[1, column] = np.nan
    with pytest.raises(InvalidParameterError, match=f"Event 1 of subject 'A' has no {column}"):
        judge_events(steps)
