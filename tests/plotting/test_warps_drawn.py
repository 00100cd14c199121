"""Warps and their speed."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from pictures import SUBJECTS, WARPS, legend

from percdl.plotting import plot_speed, plot_warps

TIME = np.arange(20.0)


def areas(ax):
    return {a.get_label(): a for a in ax.collections if a.get_label() in ("faster", "slower")}


def test_speed_does_not_depend_on_the_sampling_rate():
    slow, fast = (plot_speed(WARPS, 1, sfreq=sfreq).lines[-1] for sfreq in (10.0, 100.0))
    np.testing.assert_array_equal(slow.get_ydata(), fast.get_ydata())
    np.testing.assert_allclose(slow.get_xdata(), 10 * fast.get_xdata())
    np.testing.assert_allclose(slow.get_ydata(), np.gradient(WARPS[1]))


def test_fast_phases_lie_above_one_and_slow_ones_below():
    ax = plot_speed(WARPS, "b", subjects=SUBJECTS)
    found = areas(ax)
    heights = {
        n: np.concatenate([p.vertices[:, 1] for p in a.get_paths()]) for n, a in found.items()
    }
    assert heights["faster"].min() == 1
    assert heights["slower"].max() == 1
    speed = np.gradient(WARPS[1])
    assert heights["faster"].max() == pytest.approx(speed.max())
    assert heights["slower"].min() == pytest.approx(speed.min())
    assert found["faster"].get_hatch() != found["slower"].get_hatch()
    assert "b" in legend(ax)


def test_who_keeps_the_common_pace_has_no_phase_coloured():
    assert not areas(plot_speed(np.stack([TIME, TIME]), 0))


def test_everyone_with_a_warp_is_drawn():
    warps = WARPS.copy()
    warps[3] = np.nan
    ax = plot_warps(warps, highlight=[1, 3], subjects=SUBJECTS, sfreq=10.0)
    assert legend(ax) == ["all 5 subjects", "b", "identity"]
    crowd = np.array([path.vertices[:, 1] for path in ax.collections[0].get_paths()])
    np.testing.assert_allclose(crowd, WARPS[[0, 2, 4, 5]] / 10)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), WARPS[1] / 10)
    np.testing.assert_allclose(ax.lines[1].get_ydata(), TIME / 10)


def test_highlighted_subjects_differ_in_line_style_too():
    lines = plot_warps(WARPS, highlight=[0, 1, 2]).lines[:3]
    assert len({line.get_linestyle() for line in lines}) == 3
    assert len({line.get_color() for line in lines}) == 3


@pytest.mark.parametrize("early", [True, False])
def test_the_legend_stands_on_the_side_that_warps_do_not_reach(early):
    bent = 19 * (TIME / 19) ** (0.4 if early else 2.5)
    ax = plot_warps(np.stack([bent, TIME]))
    ax.figure.draw_without_rendering()
    box, middle = ax.get_legend().get_window_extent(), ax.bbox.x0 + ax.bbox.width / 2
    assert (box.x0 + box.width / 2 > middle) == early
