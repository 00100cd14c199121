"""Changes between visits are drawn where they are."""

from itertools import pairwise

import pytest

pytest.importorskip("matplotlib")

from pictures import CHANGES, legend

from percdl.exceptions import InvalidParameterError
from percdl.plotting import plot_changes


def test_changes_start_at_zero_and_those_beyond_are_named():
    ax = plot_changes(CHANGES, units="s")
    assert [text.get_text() for text in ax.texts] == ["b"]
    paths = [line.get_xydata().tolist() for line in ax.lines[2:]]
    assert paths == [
        [[0, 0], [1, 0.1], [2, -0.2]],
        [[0, 0], [2, -0.1]],
        [[0, 0], [1, 0.6], [2, 0.9]],
    ]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["spring", "autumn", "winter"]
    assert ax.get_ylabel() == "change of period (s)"
    assert legend(ax)[1:] == ["within it (n = 2)", "beyond it (n = 1)"]
    grey, colour = ax.lines[2], ax.lines[4]
    assert grey.get_marker() != colour.get_marker()


def test_one_measurement_at_a_time():
    both = CHANGES.assign(measure=["period"] * 3 + ["speed"] * 2)
    with pytest.raises(InvalidParameterError, match="Pass one of: period, speed"):
        plot_changes(both)
    assert plot_changes(both, "speed").get_ylabel() == "change of speed"


def test_names_of_close_changes_do_not_overlap():
    changes = CHANGES.assign(person=["a", "b", "c", "d", "e"], visit="autumn", beyond=True)
    heights = [text.xy[1] for text in plot_changes(changes.assign(change=0.9)).texts]
    assert all(b > a for a, b in pairwise(heights))
