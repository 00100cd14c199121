"""Pictures of groups."""

import pytest

pytest.importorskip("matplotlib")

import numpy as np

from percdl.plotting.groups import mark_moments, plot_group_band, plot_relative_variability


def test_a_band_is_as_wide_as_asked_and_named():
    ax = plot_group_band(np.zeros(4), np.arange(4.0), "Healthy", width=3, sfreq=100)
    assert ax.get_legend_handles_labels()[1] == ["± 3 sd", "Healthy"]
    assert ax.dataLim.y1 == 9
    assert ax.get_xlabel() == "time (s)"
    assert ax.dataLim.x1 == 0.03


def test_relative_variability_is_drawn_where_it_is():
    curve = np.array([-0.5, 1.0, 0.25])
    ax = plot_relative_variability(curve, "more", ax=plot_group_band(curve, curve, "x"))
    np.testing.assert_array_equal(ax.lines[-1].get_ydata(), curve)
    assert ax.get_ylabel() == "relative variability"


def test_moments_are_named_once():
    ax = plot_group_band(np.zeros(4), np.ones(4), "x")
    mark_moments({"toe off": 1.0, "heel on": 2.0}, ax)
    assert [text.get_text() for text in ax.texts] == ["toe off", "heel on"]
    assert (
        mark_moments(
            {"toe off": 1.0}, plot_group_band(curve := np.ones(3), curve, "y"), named=False
        ).texts[:]
        == []
    )
