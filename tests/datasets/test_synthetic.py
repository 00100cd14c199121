import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from percdl.datasets import make_synthetic
from percdl.datasets.synthetic import common_patterns
from percdl.exceptions import InvalidParameterError


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_subjects=8, random_state=0)


def rebuild(data):
    """Add the personal atoms up again at the listed onsets."""
    length = data.dictionary.shape[1]
    signals = np.zeros((len(data.cohort), *data.cohort[0].values.shape))
    for event in data.events.itertuples():
        atoms = data.personal_dictionary[data.cohort.subjects.index(event.subject)]
        at = slice(event.onset_sample, event.onset_sample + length)
        signals[data.cohort.subjects.index(event.subject), at] += (
            event.amplitude * atoms[event.atom]
        )
    return signals


def values(data):
    return np.stack([recording.values for recording in data.cohort])


def test_shapes(data):
    assert data.dictionary.shape == (2, 50, 1)
    assert data.params.shape == (8, 2, 30)
    assert data.personal_dictionary.shape == (8, 2, 50, 1)
    assert (len(data.cohort), data.cohort.sfreq) == (8, 100.0)
    np.testing.assert_array_equal(data.cohort.lengths, 500)


def test_recordings_are_the_atoms_at_their_onsets(data):
    np.testing.assert_array_equal(values(data), rebuild(data))


def test_personal_atoms_are_warped_common_ones(data):
    for s, k in [(0, 0), (7, 1)]:
        expected = data.transform.apply(*map(jnp.asarray, (data.params[s, k], data.dictionary[k])))
        np.testing.assert_allclose(data.personal_dictionary[s, k], expected, atol=1e-4)


def test_each_pattern_is_repeated_without_overlap(data):
    assert (data.events.groupby(["subject", "atom"]).size() == 3).all()
    for _, events in data.events.groupby("subject"):
        gaps = np.diff(events["onset_sample"])
        assert gaps.min() >= 50
        assert events["onset_sample"].between(0, 450).all()
    assert len({tuple(e["atom"]) for _, e in data.events.groupby("subject")}) > 1


def test_onsets_can_touch_and_fill_the_recording():
    data = make_synthetic(n_subjects=3, n_times=300, random_state=1)
    onsets = data.events["onset_sample"].to_numpy().reshape(3, 6)
    np.testing.assert_array_equal(onsets, np.tile(50 * np.arange(6), (3, 1)))


def test_rows_are_rescaled_into_theta(data):
    rows = np.abs(data.params).reshape(-1, 10)
    assert rows.sum(1).max() <= 0.99 + 1e-12
    # Rescaling keeps every coefficient; a projection would set most of them to zero.
    assert (rows > 0).all()


def test_amplitudes_and_seconds(data):
    assert (data.events["amplitude"] == 1).all()
    np.testing.assert_allclose(data.events["onset_seconds"], data.events["onset_sample"] / 100)


def test_the_seed_decides(data):
    again = make_synthetic(n_subjects=8, random_state=0)
    other = make_synthetic(n_subjects=8, random_state=1)
    np.testing.assert_array_equal(values(data), values(again))
    assert not np.array_equal(values(data), values(other))


def test_smaller_cohorts_are_the_first_subjects(data):
    small = make_synthetic(n_subjects=3, snr_db=0.0, random_state=0)
    np.testing.assert_array_equal(small.params, data.params[:3])
    np.testing.assert_allclose(rebuild(small), values(data)[:3], atol=1e-12)


def test_patterns_follow_decision_15():
    sine, arcs = common_patterns(50)[..., 0]
    i = np.arange(50)
    np.testing.assert_allclose(sine, np.sin(4 * np.pi * i / 49))
    np.testing.assert_allclose(arcs[:25], np.abs(np.sin(np.pi * i[:25] / 25)))
    np.testing.assert_allclose(arcs[25:], 0.3 * np.abs(np.sin(np.pi * (i[25:] - 25) / 24)))


def test_truth_is_at_distance_zero(data):
    assert data.distance_to_truth(3 * data.dictionary[::-1]) == pytest.approx(0)
    assert data.distance_to_truth(data.personal_dictionary[0]) > 0.2


def test_gauge_floor_by_hand(data):
    """The same number, from linear interpolation and a loop."""
    floor = []
    for k, atom in enumerate(data.dictionary[..., 0]):
        warps = data.transform.warp(jnp.asarray(data.params[:, k]), 50, 1)[:, 0]
        centred = np.interp(np.mean(warps, 0), np.arange(50), atom)
        floor.append(centred / np.linalg.norm(centred) - atom / np.linalg.norm(atom))
    assert data.gauge_floor() == pytest.approx(np.linalg.norm(floor, axis=1).mean(), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_subjects", "floor", "tolerance"), [(16, 0.093, 0.03), (64, 0.06, 0.02), (256, 0.027, 0.01)]
)
def test_gauge_floor_falls_with_the_cohort(n_subjects, floor, tolerance):
    floors = [make_synthetic(n_subjects, random_state=seed).gauge_floor() for seed in range(10)]
    assert np.mean(floors) == pytest.approx(floor, abs=tolerance)


@pytest.mark.parametrize("interpolation", ["linear", "paper"])
def test_interpolation_reaches_the_transform(interpolation):
    data = make_synthetic(2, interpolation=interpolation, random_state=0)
    assert data.transform.interpolation == interpolation


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_times": 299}, r"n_times=299 at least 300"),
        ({"n_subjects": 0}, "n_subjects=0 .*at least 1"),
        ({"atom_length": 3}, "atom_length=3.*at least 4"),
        ({"depth": 0}, "depth=0"),
        ({"noise_std": 0.1, "snr_db": 10.0}, "Pass one of them"),
        ({"noise_std": -1.0}, "noise_std=-1.0.*0 or more"),
        ({"impulse_rate": 5.0}, "impulse_rate=5.0.*between 0 and 1"),
        ({"impulse_range": (3.0, 2.0)}, r"impulse_range=\(3.0, 2.0\)"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        make_synthetic(**arguments)


def test_importing_datasets_does_not_load_jax():
    code = "import sys, percdl.datasets; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
