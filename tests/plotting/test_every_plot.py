"""What every plot promises."""

import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from pictures import ALL, TIMED, drawn_points, legend


def panel():
    """Return a small panel among others, as in a figure for print."""
    return Figure(figsize=(9, 7), layout="constrained").subplots(2, 2)[0, 0]


every_plot = pytest.mark.parametrize("plot", ALL.values(), ids=ALL)
timed_plot = pytest.mark.parametrize("plot", TIMED.values(), ids=TIMED)


@every_plot
def test_draws_on_the_axes_given_and_returns_them(plot):
    ax = panel()
    assert plot(ax=ax) is ax
    assert plot().figure is not ax.figure


@every_plot
def test_both_axes_and_all_that_is_drawn_have_names(plot):
    ax = plot()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert len(legend(ax)) > 1
    assert len(set(legend(ax))) == len(legend(ax))


@timed_plot
@pytest.mark.parametrize(("sfreq", "unit", "scale"), [(None, "(samples)", 1), (50.0, "(s)", 50)])
def test_time_is_in_seconds_or_in_samples(plot, sfreq, unit, scale):
    ax = plot(sfreq=sfreq)
    assert unit in ax.get_xlabel()
    assert plot().dataLim.x1 == pytest.approx(scale * ax.dataLim.x1)


@every_plot
@pytest.mark.parametrize("make", [lambda: None, panel], ids=["own figure", "panel"])
def test_the_legend_covers_nothing(plot, make):
    ax = plot(ax=make())
    ax.figure.draw_without_rendering()  # the layout is settled now
    box = ax.get_legend().get_window_extent()
    inside = [point for point in drawn_points(ax.figure) if box.contains(*point)]
    assert not inside


AMPLITUDES = [
    "atoms",
    "band",
    "personal",
    "activations",
    "reconstruction",
    "comparison",
    "changes",
    "cycles",
    "landmarks",
    "marks",
]


@pytest.mark.parametrize("name", AMPLITUDES)
def test_amplitudes_have_units(name):
    assert ALL[name](units="mV").get_ylabel().endswith(" (mV)")
    assert ALL[name](units="speed (deg/s)").get_ylabel() == "speed (deg/s)"


def test_pyplot_is_left_alone():
    code = "import sys, percdl.plotting; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
