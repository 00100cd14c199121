"""Timing and amplitude: what is planted in one does not appear in the other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import small_models
import toy
from numpy.testing import assert_allclose

from percdl import Cohort
from percdl.analysis import separate_effects
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.transforms import Identity, TimeWarp

LENGTH, GAP, N_EVENTS, SFREQ = 64, 10, 3, 50.0
WARP = TimeWarp(1, 2)
TIME = np.arange(LENGTH) / (LENGTH - 1)
PATTERN = np.stack([np.sin(2 * np.pi * TIME), np.cos(3 * np.pi * TIME)], 1)


def people(bends, shapes, *, amplitudes=(0.8, 1.0, 1.2), gap=GAP, transform=WARP):
    """Return people who repeat their shape at a personal pace, and the result of a fit.

    The bend b of a person warps time by ``b sin(pi t) / pi``.
    """
    params = np.array([[[b, 0.0]] for b in bends])
    warp = TIME + np.array(bends)[:, None] * np.sin(np.pi * TIME) / np.pi
    arrays, rows = [], []
    for s, shape in enumerate(shapes):
        cycle = shape(warp[s])
        x = np.zeros((GAP + len(amplitudes) * (LENGTH + GAP), cycle.shape[1]))
        for e, z in enumerate(amplitudes):
            onset = GAP + e * (LENGTH + gap)
            x[onset : onset + LENGTH] += z * cycle
            rows.append((str(s), 0, onset, onset / SFREQ, z))
        arrays.append(x)
    events = pd.DataFrame(rows, columns=small_models.TABLE)
    if transform == Identity():
        params = params[..., :0]
    found = Personalization(
        params, events, np.full((len(bends), 1), len(amplitudes)),
        tuple(map(str, range(len(bends)))), transform, PATTERN[None], "float64",
    )  # fmt: skip
    return found, Cohort.from_arrays(arrays, sfreq=SFREQ)


def plain(time):
    return np.stack([np.sin(2 * np.pi * time), np.cos(3 * np.pi * time)], -1)


def louder_in_the_middle(time):
    return plain(time) * (1 + 0.5 * np.exp(-(((time - 0.5) / 0.1) ** 2)))[..., None]


BENDS = (0.0, 0.6, -0.6)


def test_another_pace_is_timing_and_not_amplitude():
    effects = separate_effects(*people(BENDS, [plain] * 3))
    assert_allclose(effects.amplitude[:, 0], np.broadcast_to(PATTERN, (3, LENGTH, 2)), atol=0.01)
    assert_allclose(effects.timing[0], 0, atol=1e-6)
    assert abs(effects.timing[1:]).max() > 0.4


def test_another_shape_is_amplitude_and_not_timing():
    shapes = [plain, louder_in_the_middle, louder_in_the_middle]
    effects = separate_effects(*people(BENDS, shapes))
    same_pace = separate_effects(*people(BENDS, [plain] * 3))
    assert_allclose(effects.timing, same_pace.timing)
    assert_allclose(effects.amplitude[1, 0], louder_in_the_middle(TIME), atol=0.02)
    assert_allclose(effects.amplitude[1], effects.amplitude[2], atol=0.03)


def test_timing_is_the_logarithm_of_the_speed_in_each_phase():
    effects = separate_effects(*people(BENDS, [plain] * 3))
    fine = np.linspace(0, 1, 20_001)
    for s, bend in enumerate(BENDS):
        psi = fine + bend * np.sin(np.pi * fine) / np.pi
        speed = 1 + bend * np.cos(np.pi * fine)
        expected = np.interp(TIME, psi, np.log(speed))
        assert_allclose(effects.timing[s, 0, 0, 2:-2], expected[2:-2], atol=0.03)
        assert_allclose(effects.delay[s, 0, 0] / (LENGTH - 1), np.interp(TIME, psi, fine) - TIME,
                        atol=1e-3)  # fmt: skip


def test_speed_is_the_slope_of_the_delay():
    effects = separate_effects(*people(BENDS, [plain] * 3))
    slope = 1 + np.gradient(effects.delay, axis=-1)
    assert_allclose(effects.timing, -np.log(slope), atol=1e-12)
    assert_allclose(effects.delay[..., [0, -1]], 0, atol=1e-6)
    assert_allclose(effects.delay_seconds * SFREQ, effects.delay)


def test_the_mean_cycle_is_that_of_the_recordings():
    effects = separate_effects(*people([0.0] * 3, [plain] * 3, amplitudes=(0.5, 1.0, 1.8)))
    assert_allclose(effects.amplitude[0, 0], 1.1 * PATTERN, atol=1e-6)


def test_missing_samples_are_left_to_the_other_cycles():
    found, cohort = people([0.3] * 3, [plain] * 3)
    whole = separate_effects(found, cohort)
    arrays = [record.values.copy() for record in cohort]
    arrays[0][GAP + 5 : GAP + 30, 0] = np.nan
    for e in range(N_EVENTS):
        arrays[1][GAP + 30 + e * (LENGTH + GAP), 1] = np.nan
    holed = separate_effects(found, Cohort.from_arrays(arrays, sfreq=SFREQ))
    assert_allclose(holed.amplitude[0], whole.amplitude[0], atol=1e-9)
    missing = np.isnan(holed.amplitude[1, 0])
    assert not missing[:, 0].any()
    assert 1 <= missing[:, 1].sum() <= 8


@pytest.mark.parametrize("n_missing", [0, 5])
def test_cycles_that_last_longer_have_the_same_shape(n_missing):
    """Every cycle of the second recording takes 1.5 times as long; one has a gap."""
    (found, _), last = people([0.0], [plain]), round(1.5 * LENGTH)
    events = found.events.assign(duration_samples=[LENGTH, last, last])
    events["onset_sample"] = GAP + np.cumsum([0, LENGTH + GAP, last + GAP])
    x = np.zeros((400, 2))
    for onset, z, n in events[["onset_sample", "amplitude", "duration_samples"]].to_numpy():
        x[int(onset) : int(onset + n)] = z * plain(np.linspace(0, 1, int(n)))
    x[GAP + LENGTH + GAP + 20 :][:n_missing] = np.nan
    effects = separate_effects(replace(found, events=events), Cohort.from_arrays([x], sfreq=SFREQ))
    assert_allclose(effects.amplitude[0, 0], PATTERN, atol=0.01)


def test_overlapping_events_are_separated():
    apart = separate_effects(*people([0.3] * 3, [plain] * 3))
    # What overlaps is what the atoms of the others explain: the fit knows them here.
    close = separate_effects(*people([0.3] * 3, [plain] * 3, gap=-20))
    assert_allclose(close.amplitude[0], apart.amplitude[0], atol=0.03)


def test_without_a_warp_the_amplitude_is_the_mean_cycle():
    found, cohort = people(BENDS, [plain] * 3, transform=Identity())
    effects = separate_effects(found, cohort)
    assert effects.timing.shape == effects.delay.shape == (3, 1, 0, LENGTH)
    assert_allclose(effects.amplitude[0, 0], cohort[0].values[GAP : GAP + LENGTH] / 0.8)


@pytest.mark.parametrize("name", small_models.NAMES)
def test_fitted_models_have_effects(name):
    cohort = small_models.spaced_cohort(0)
    model = small_models.make(name).fit(cohort)
    effects = separate_effects(model, cohort)
    n_warps = 1 if name == "PerCDL" else 0
    assert effects.timing.shape == (4, 2, n_warps, toy.LENGTH)
    assert effects.amplitude.shape == model.personal_dictionary_.shape
    assert effects.subjects == cohort.subjects
    assert np.isfinite(effects.amplitude).all()
    assert "4 subjects" in repr(effects)
    again = separate_effects(model.personalization_, cohort)
    assert_allclose(again.amplitude, effects.amplitude)


def test_people_without_the_atom_are_nan():
    found, cohort = people([0.3] * 3, [plain] * 3)
    params = found.params.copy()
    params[1] = np.nan
    events = found.events[found.events["subject"] != "1"]
    silent = Personalization(
        params, events, np.array([[3], [0], [3]]), found.subjects, WARP, PATTERN[None], "float64"
    )
    effects = separate_effects(silent, cohort)
    for curves in (effects.timing, effects.delay, effects.amplitude):
        assert np.isfinite(curves[0]).all()
        assert np.isnan(curves[1]).all()


def test_other_recordings_are_refused():
    found, cohort = people([0.3] * 3, [plain] * 3)
    with pytest.raises(InvalidParameterError, match=r"of 3 recording\(s\) of 2 channel"):
        separate_effects(found, cohort[:1])
    short = Cohort.from_arrays([record.values[:100] for record in cohort], sfreq=SFREQ)
    with pytest.raises(InvalidParameterError, match="has 100 samples"):
        separate_effects(found, short)
