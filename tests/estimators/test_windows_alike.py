"""``Algorithm(personal_windows=False)``: the strongest part is at the same place for all."""

import numpy as np
import pytest

from percdl import Algorithm, Cohort, PerCDL, TimeWarp

SPIKE, LENGTH = 25, 50


def hearts(seed):
    """Return people with one spike per cycle, and weaker waves whose distance to it differs."""
    rng, time = np.random.default_rng(seed), np.arange(60.0)
    values, spikes = [], []
    for _ in range(16):
        late = rng.uniform(-7, 7)
        cycle = np.exp(-(((time - SPIKE) / 2) ** 2))
        cycle += 0.35 * np.exp(-(((time - 44 - late) / 4) ** 2))
        cycle += 0.2 * np.exp(-(((time - 12 + late / 2) / 3) ** 2))
        onsets = np.cumsum(rng.integers(62, 80, 8))
        x = np.zeros(onsets[-1] + 80)
        for onset in onsets:
            x[onset : onset + 60] += cycle
        values.append(x + 0.02 * rng.standard_normal(len(x)))
        spikes.append(onsets + SPIKE)
    return Cohort.from_arrays(values, sfreq=100), spikes


@pytest.mark.parametrize("seed", [1, 2])
def test_a_spike_lies_at_one_place_of_everyones_window(seed):
    cohort, spikes = hearts(seed)
    alike = Algorithm(personal_windows=False)
    model = PerCDL(1, LENGTH, TimeWarp(2, 6), 0.3, algorithm=alike, random_state=0).fit(cohort)
    places = []
    for subject, true in zip(cohort.subjects, spikes, strict=True):
        onsets = model.events_.loc[model.events_["subject"] == subject, "onset_sample"]
        assert len(onsets) == len(true)
        places.append(true - onsets.to_numpy())
    assert np.ptp(places) <= 1  # onsets are whole samples
    assert np.median(places) == pytest.approx(np.argmax(model.dictionary_[0, :, 0]), abs=1)
