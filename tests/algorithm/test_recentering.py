"""What a whole fit promises of its gauge, and of what is left unexplained, without noise."""

import numpy as np
import pytest
import toy

ARRAYS = toy.recordings(0, (97, 100, 110, 120, 98, 105), noise=0.0)


@pytest.fixture(scope="module")
def fits():
    """Return outcome and history with the gauge fixed, and left where it happens to be."""
    guess = toy.patterns() + 0.05
    return {
        mode: toy.fit(
            ARRAYS, toy.settings(centering=mode, population_rounds=5, personal_rounds=5), guess
        )
        for mode in ("refit", "off")
    }


def distance_to_identity(sums):
    return np.abs(sums.warp / sums.n_warps[:, None, None] - np.arange(toy.LENGTH)).max()


def test_the_mean_warp_is_the_identity(fits):
    centred, left = (distance_to_identity(fits[mode][0].sums) for mode in ("refit", "off"))
    assert centred < 0.05
    assert left > 10 * centred


def test_a_new_start_reaches_what_the_rounds_have_reached(fits):
    """A fit ends with recomputed parameters, which explain as much."""
    before, after = [record.objective for record in fits["refit"][1].records[-2:]]
    assert fits["refit"][1].records[-1].step == "express"
    assert after < 1.01 * before


def test_mean_segments_hold_all_of_a_signal_that_repeats(fits):
    """Cycles of one person differ only in size, so their mean determines their energy."""
    for outcome, _ in fits.values():
        left, energy = outcome.sums.misfit.sum(0)
        assert 0.99 * outcome.sums.signal < energy < 1.0001 * outcome.sums.signal
        assert 0 < left < 0.01 * energy
