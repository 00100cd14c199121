import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from pictures import BAND, DICTIONARY, EVENTS, HISTORY, PERSONAL, SIGNAL, SUBJECTS, legend

from percdl.plotting import (
    plot_activations,
    plot_atom_band,
    plot_atoms,
    plot_history,
    plot_personal_atoms,
    plot_reconstruction,
)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_atoms_differ_in_colour_and_channels_in_line():
    ax = plot_atoms(DICTIONARY, channels=["x", "y", "z"])
    assert legend(ax)[:2] == ["atom 0, x", "atom 0, y"]
    assert len({line.get_color() for line in ax.lines}) == 2
    assert len({line.get_linestyle() for line in ax.lines}) == 3


def test_truth_is_drawn_at_the_norm_of_the_atom():
    ax = plot_atoms(DICTIONARY[:, :, :1], 100 * DICTIONARY[:, :, :1])
    drawn, dashed = ax.lines[0].get_ydata(), ax.lines[2].get_ydata()
    np.testing.assert_allclose(drawn, dashed)
    assert legend(ax) == ["atom 0", "atom 1", "truth"]


def test_subjects_without_the_atom_are_left_out():
    personal = PERSONAL.copy()
    personal[3] = np.nan
    ax = plot_personal_atoms(personal, DICTIONARY, highlight=[1], subjects=SUBJECTS)
    assert legend(ax) == ["all 5 subjects", "b", "common atom"]
    crowd = np.array([path.vertices[:, 1] for path in ax.collections[0].get_paths()])
    np.testing.assert_array_equal(crowd, PERSONAL[[0, 2, 4, 5], 0, :, 0])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), PERSONAL[1, 0, :, 0])
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), DICTIONARY[0, :, 0])


def test_onsets_are_marked_where_they_are():
    ax = plot_reconstruction(SIGNAL, None, EVENTS, atom_length=20, sfreq=100.0)
    first, covered, second, _ = ax.collections
    assert [path.vertices[0, 0] for path in first.get_paths()] == [0.1, 1.5]
    assert [path.vertices[0, 0] for path in second.get_paths()] == [0.6]
    extents = [path.get_extents() for path in covered.get_paths()]
    np.testing.assert_allclose([[box.x0, box.x1] for box in extents], [[0.1, 0.3], [1.5, 1.7]])
    assert legend(ax) == ["recording", "onset of atom 0", "onset of atom 1"]


def test_activations_stand_at_their_onsets_as_high_as_they_are():
    ax = plot_activations(SIGNAL, EVENTS, channel=2, sfreq=100.0)
    stems = next(other for other in ax.figure.axes if other is not ax)
    first, second = stems.lines[:2]
    np.testing.assert_array_equal(first.get_xydata(), [[0.1, 1.5], [1.5, 2.0]])
    np.testing.assert_array_equal(second.get_xydata(), [[0.6, -0.5]])
    ends = [path.vertices.tolist() for path in stems.collections[0].get_paths()]
    assert ends == [[[0.1, 0], [0.1, 1.5]], [[1.5, 0], [1.5, 2.0]]]
    assert first.get_marker() != second.get_marker()
    assert legend(ax) == ["recording", "atom 0", "atom 1"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), SIGNAL[:, 2])


def test_activations_stay_under_the_signal():
    ax = plot_activations(SIGNAL, EVENTS)
    stems = next(other for other in ax.figure.axes if other is not ax)
    ax.figure.draw_without_rendering()
    highest = stems.transData.transform((0, EVENTS["amplitude"].max()))[1]
    assert highest < ax.transData.transform((0, SIGNAL[:, 0].min()))[1]


def test_a_recording_without_activations_is_drawn():
    assert legend(plot_activations(SIGNAL, EVENTS.iloc[:0])) == ["recording"]


@pytest.mark.parametrize(("against", "last"), [("half-step", 3), ("seconds", 3.2)])
def test_history_shows_the_phases(against, last):
    ax = plot_history(HISTORY, against=against)
    assert legend(ax) == ["population", "personal", "final"]
    assert ax.lines[0].get_xdata()[-1] == last
    assert ax.get_ylabel() == "objective"
    assert ax.get_yscale() == "log"


def test_a_band_lies_around_its_atom(ax):
    plot_atom_band(DICTIONARY[0], BAND, DICTIONARY[0], level=0.9, ax=ax)
    assert legend(ax) == ["90% band", "channel 0", "channel 1", "channel 2", "truth"]
    assert len(ax.collections) == 3
    ends = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert ends.max() == pytest.approx(BAND[1][:, 0].max())
