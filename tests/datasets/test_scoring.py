import sys

import numpy as np
import pandas as pd
import pytest

from percdl.datasets import (
    atom_distance,
    match_atoms,
    onset_accuracy,
    personal_atom_distance,
)
from percdl.exceptions import InvalidParameterError, MissingPackageError


def events(rows, subject="A"):
    return pd.DataFrame(rows, columns=["atom", "onset_sample"]).assign(subject=subject)


def test_orthogonal_atoms_are_sqrt_two_apart():
    truth = np.eye(4)[:2, :, None]
    assert atom_distance(np.eye(4)[2:, :, None], truth) == pytest.approx(np.sqrt(2))


def test_order_and_scale_of_atoms_play_no_part():
    atoms = np.random.default_rng(0).normal(size=(4, 9, 2))
    order = [2, 0, 3, 1]
    assert atom_distance(atoms[order] * 7, atoms) == pytest.approx(0)
    np.testing.assert_array_equal(np.array(order)[match_atoms(atoms[order], atoms)], range(4))


def test_other_shapes_are_refused():
    with pytest.raises(InvalidParameterError, match=r"\(1, 3, 1\), the truth \(2, 3, 1\)"):
        atom_distance(np.ones((1, 3, 1)), np.ones((2, 3, 1)))


@pytest.mark.parametrize(("tolerance", "share"), [(0, 0.25), (1, 0.5), (30, 1.0)])
def test_onsets_count_within_the_tolerance(tolerance, share):
    truth = events([(0, 10), (0, 100), (1, 200), (1, 300)])
    found = events([(0, 10), (0, 101), (1, 220), (1, 330)])
    assert onset_accuracy(found, truth, tolerance) == share


def test_atoms_may_come_in_another_order():
    truth = events([(0, 10), (1, 100)])
    assert onset_accuracy(events([(5, 10), (3, 100)]), truth) == 1.0
    assert onset_accuracy(events([(5, 10), (5, 100)]), truth) == 0.5


def test_a_detection_serves_once():
    assert onset_accuracy(events([(0, 10)]), events([(0, 10), (0, 11)]), tolerance=1) == 0.5


def test_subjects_are_kept_apart():
    assert onset_accuracy(events([(0, 10)], "B"), events([(0, 10)], "A")) == 0.0


def test_nothing_found_is_zero():
    assert onset_accuracy(events([]), events([(0, 10)])) == 0.0


def test_frames_are_checked():
    with pytest.raises(InvalidParameterError, match="`events` has 0 row"):
        onset_accuracy(events([]).drop(columns="onset_sample"), events([(0, 1)]))
    with pytest.raises(InvalidParameterError, match="`truth` has 0 row"):
        onset_accuracy(events([(0, 1)]), events([]))


def test_warped_atoms_are_nearer_under_time_warping():
    pytest.importorskip("tslearn")
    time = np.linspace(0, 1, 40)
    atom, warped = (np.sin(2 * np.pi * t)[None, :, None] for t in (time, time**1.3))
    euclidean, dtw = (atom_distance(warped, atom, metric) for metric in ("euclidean", "dtw"))
    assert 0 < dtw < 0.5 * euclidean
    assert atom_distance(3 * atom, atom, "dtw") == pytest.approx(0)


def test_time_warping_never_adds_distance_and_does_not_see_the_order():
    pytest.importorskip("tslearn")
    rng = np.random.default_rng(0)
    atoms, truth = rng.normal(size=(2, 3, 12, 2))
    assert atom_distance(atoms, truth, "dtw") <= atom_distance(atoms, truth)
    assert atom_distance(atoms[::-1], truth, "dtw") == pytest.approx(
        atom_distance(atoms, truth, "dtw")
    )


@pytest.mark.parametrize("metric", ["euclidean", "dtw"])
def test_an_atom_never_found_is_silence(metric):
    pytest.importorskip("tslearn")
    truth = np.random.default_rng(0).normal(size=(1, 9, 2))
    for silent in (np.full_like(truth, np.nan), np.zeros_like(truth)):
        assert atom_distance(silent, truth, metric) == pytest.approx(1)


def test_personal_atoms_are_matched_subject_by_subject():
    truth = np.random.default_rng(0).normal(size=(3, 2, 9, 1))
    mixed = np.stack([truth[0], truth[1][::-1], truth[2]])
    assert personal_atom_distance(mixed, truth) == pytest.approx(0)
    far = personal_atom_distance(truth[[1, 2, 0]], truth)
    assert far == pytest.approx(
        np.mean([atom_distance(truth[(s + 1) % 3], truth[s]) for s in range(3)])
    )
    with pytest.raises(InvalidParameterError, match=r"2 subject.*3"):
        personal_atom_distance(truth[:2], truth)


def test_the_metric_and_its_library_are_named(monkeypatch):
    atoms = np.ones((1, 3, 1))
    with pytest.raises(InvalidParameterError, match="euclidean, dtw"):
        atom_distance(atoms, atoms, "manhattan")
    monkeypatch.setitem(sys.modules, "tslearn", None)
    with pytest.raises(
        MissingPackageError, match=r"needs the package `tslearn`.*percdl\[reproduce\]"
    ):
        atom_distance(atoms, atoms, "dtw")
