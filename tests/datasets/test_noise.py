import numpy as np
import pytest

from percdl.datasets.synthetic import Noise, corrupt

CLEAN = np.sin(np.linspace(0, 60, 8 * 1000)).reshape(8, 1000, 1)


def noise_of(seed=0, **arguments):
    return corrupt(CLEAN, Noise(**arguments), np.random.default_rng(seed)) - CLEAN


def test_no_noise_by_default():
    np.testing.assert_array_equal(noise_of(), 0)


def test_gaussian_noise_has_its_standard_deviation():
    assert noise_of(std=0.3).std() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("snr_db", [0.0, 20.0])
def test_snr_holds_for_each_recording(snr_db):
    power = (noise_of(snr_db=snr_db) ** 2).mean((1, 2))
    ratio = 10 * np.log10((CLEAN**2).mean((1, 2)) / power)
    np.testing.assert_allclose(ratio, snr_db, atol=0.5)


def test_impulses_hit_a_share_of_the_subjects_and_samples():
    impulses = noise_of(impulse_rate=0.05, impulse_subjects=0.25)
    counts = (np.abs(impulses) > 1e-9).sum((1, 2))
    assert sorted(counts) == [0] * 6 + [50, 50]
    sizes = np.abs(impulses[np.abs(impulses) > 1e-9])
    assert sizes.min() >= 2 - 1e-9
    assert sizes.max() < 2.5 + 1e-9
    assert len(np.unique(np.sign(impulses.round(9)))) == 3


def test_kinds_of_noise_do_not_disturb_each_other():
    both = noise_of(std=0.1, impulse_rate=0.05)
    np.testing.assert_allclose(both, noise_of(std=0.1) + noise_of(impulse_rate=0.05), atol=1e-12)
