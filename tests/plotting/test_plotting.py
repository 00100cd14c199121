import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from percdl.exceptions import InvalidParameterError
from percdl.plotting import (
    plot_atom_band,
    plot_atoms,
    plot_history,
    plot_personal_atoms,
    plot_reconstruction,
    plot_warps,
    style,
)

RNG = np.random.default_rng(0)
DICTIONARY = RNG.normal(size=(2, 20, 3))
PERSONAL = DICTIONARY + 0.1 * RNG.normal(size=(5, 2, 20, 3))
WARPS = np.sort(RNG.uniform(0, 19, (5, 20)), axis=1)
SIGNAL = RNG.normal(size=(200, 3))
EVENTS = pd.DataFrame({"subject": "A", "atom": [0, 1, 0], "onset_sample": [10, 60, 150]})
HISTORY = pd.DataFrame(
    {
        "phase": ["population", "population", "personal", "final"],
        "round": [0, 0, 0, 0],
        "step": ["CSC", "CDU", "IPU", "CSC"],
        "objective": [100.0, 10.0, 1.0, 0.5],
        "seconds": [1.0, 1.5, 3.0, 3.2],
    }
)

BAND = (DICTIONARY[0] - 0.1, DICTIONARY[0] + 0.1)

PLOTS = {
    "band": lambda ax, sfreq: plot_atom_band(DICTIONARY[0], BAND, sfreq=sfreq, ax=ax),
    "atoms": lambda ax, sfreq: plot_atoms(DICTIONARY, DICTIONARY, sfreq=sfreq, ax=ax),
    "personal": lambda ax, sfreq: plot_personal_atoms(PERSONAL, DICTIONARY, sfreq=sfreq, ax=ax),
    "warps": lambda ax, sfreq: plot_warps(WARPS, sfreq=sfreq, ax=ax),
    "signal": lambda ax, sfreq: plot_reconstruction(SIGNAL, SIGNAL, EVENTS, sfreq=sfreq, ax=ax),
}


@pytest.fixture
def ax():
    return Figure().add_subplot()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_draws_on_the_axes_given_and_returns_them(plot, ax):
    assert plot(ax, 100.0) is ax
    assert plot(None, 100.0).figure is not ax.figure


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize(("sfreq", "unit"), [(None, "(samples)"), (100.0, "(s)")])
def test_axes_have_labels_and_units(plot, sfreq, unit):
    ax = plot(None, sfreq)
    assert unit in ax.get_xlabel()
    assert ax.get_ylabel()
    assert legend(ax)


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_figures_can_be_drawn(plot, tmp_path):
    plot(None, 100.0).figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_atoms_are_told_apart_by_colour_and_channels_by_line():
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
    ax = plot_personal_atoms(personal, DICTIONARY, highlight=[1], subjects=list("abcde"))
    assert legend(ax) == ["all 4 subjects", "b", "common atom"]
    assert len(ax.lines) == 5


def test_warps_are_drawn_against_the_identity():
    ax = plot_warps(WARPS, sfreq=10.0, highlight=[0])
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), np.arange(20) / 10)
    assert legend(ax) == ["all 5 subjects", "subject 0", "identity"]


def test_onsets_are_marked_where_they_are():
    ax = plot_reconstruction(SIGNAL, None, EVENTS, atom_length=20, sfreq=100.0)
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [0.1, 1.5, 0.6]
    assert legend(ax) == ["recording", "onset of atom 0", "onset of atom 1"]
    assert len(ax.patches) == 3


@pytest.mark.parametrize(("against", "last"), [("half-step", 3), ("seconds", 3.2)])
def test_history_shows_the_phases(against, last):
    ax = plot_history(HISTORY, against=against)
    assert legend(ax) == ["population", "personal", "final"]
    assert ax.lines[0].get_xdata()[-1] == last
    assert ax.get_ylabel() == "objective"
    assert ax.get_yscale() == "log"


def test_a_frame_that_is_no_history_is_refused():
    with pytest.raises(InvalidParameterError, match="no column objective, seconds"):
        plot_history(HISTORY[["phase", "step"]])


def test_colours_are_distinct_and_cycle():
    assert len(set(style.COLORS)) == len(style.COLORS)
    assert style.color(len(style.COLORS)) == style.COLORS[0]


def test_pyplot_is_left_alone():
    code = "import sys, percdl.plotting; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_band_lies_around_its_atom(ax):
    plot_atom_band(DICTIONARY[0], BAND, DICTIONARY[0], level=0.9, ax=ax)
    assert legend(ax) == ["90% band", "channel 0", "channel 1", "channel 2", "truth"]
    assert len(ax.collections) == 3
    ends = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert ends.max() == pytest.approx(BAND[1][:, 0].max())
