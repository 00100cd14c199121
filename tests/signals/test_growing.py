"""A file that grows is read as it would be read at its end, however it is written."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.exceptions import MissingPackageError, UnreadableFileError
from percdl.signals.formats import TextLayout
from percdl.signals.growing import GrowingTable, LSLInlet

CLOCK = ["t,x,y", "0.0,1,2", "0.1,3,", "0.4,5,6"]
PLACED = [[1, 2], [3, np.nan], [np.nan, np.nan], [np.nan, np.nan], [5, 6]]


@pytest.fixture
def grow(tmp_path):
    """Return a table that grows, and a function that appends to its file and reads it."""

    def make(**options):
        path = tmp_path / "walk.csv"
        table = GrowingTable(path, ("x", "y"), 10.0, **options)

        def append(text, mode="a"):
            with open(path, mode, encoding="utf-8", newline="") as file:
                file.write(text)
            return table.read()

        return table, append

    return make


@given(cuts=st.sets(st.integers(0, 40), max_size=8), end=st.sampled_from(["\n", "\r\n"]))
def test_cuts_of_the_text_do_not_matter(tmp_path_factory, cuts, end):
    path = tmp_path_factory.mktemp("grow") / "walk.csv"
    table, text = GrowingTable(path, ("x", "y"), 10.0, "t"), end.join(CLOCK) + end
    found = [table.read()]
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, stop in pairwise(edges):
        with open(path, "a", newline="") as file:
            file.write(text[start:stop])
        found.append(table.read())
    np.testing.assert_array_equal(np.concatenate(found), PLACED)


def test_a_file_that_is_not_there_yet_has_no_sample(grow):
    table, append = grow()
    assert table.read().shape == (0, 2)
    assert append("x,y\n1,2\n").tolist() == [[1, 2]]


def test_a_last_line_without_end_counts_at_the_end(grow):
    table, append = grow()
    assert len(append("x,y\n1,2\n3,4")) == 1
    assert table.finish().tolist() == [[3, 4]]


def test_a_last_line_that_is_cut_is_left_out(grow):
    table, append = grow()
    assert len(append("x,y\n1,2\n3")) == 1
    assert table.finish().shape == (0, 2)


def test_other_columns_and_layouts(tmp_path):
    path = tmp_path / "walk.txt"
    path.write_text("a comment\n1,5;x;2,5\n")
    layout = TextLayout(delimiter=";", decimal=",", skip_lines=1, header=False)
    assert GrowingTable(path, ("2", "0"), 10.0, layout=layout).read().tolist() == [[2.5, 1.5]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0.4,5", r"line 5: 2 cell\(s\) instead of 3"),
        ("0.5,five,6", "line 5: 'five' in column 'x' is not a number"),
        ("0.5,inf,6", "line 5: 'inf' in column 'x' is infinite"),
        ("0.3,5,6", "line 5: the clock goes from 0.4 to 0.3 s"),
        ("9999,5,6", "line 5: the clock goes from 0.4 to 9999 s"),
        (",5,6", "line 5: the clock goes from 0.4 to nan s"),
    ],
)
def test_errors_name_the_line(grow, line, words):
    _, append = grow(time="t")
    append("\n".join([*CLOCK, ""]))
    with pytest.raises(UnreadableFileError, match=f"walk.csv, {words}"):
        append(line + "\n")


def test_a_missing_column_is_named(grow):
    _, append = grow()
    with pytest.raises(UnreadableFileError, match="no column 'y'"):
        append("x,why\n")


@pytest.mark.parametrize("text", ["x,y\n1,2\n", "x,y\n"])
def test_a_replaced_file_without_clock_is_an_error(grow, text):
    _, append = grow()
    append("x,y\n1,2\n3,4\n")
    with pytest.raises(UnreadableFileError, match=r"after line 3.*--time"):
        append(text, "w")


def test_a_replaced_file_goes_on_where_the_clock_says(grow):
    _, append = grow(time="t")
    append("t,x,y\n0.0,1,2\n0.1,3,4\n")
    assert append("t,x,y\n0.3,5,6\n", "w")[-1].tolist() == [5, 6]


def read_times(grow, times):
    """Return the places of the samples 0, 1, ... of a file with these times."""
    _, append = grow(time="t")
    text = "".join(f"{time:.6f},{i},0\n" for i, time in enumerate(times))
    return append("t,x,y\n" + text, "w")[:, 0]


@pytest.mark.parametrize("rate", [15.0, 5.0, 7.0, 0.01])
def test_a_clock_of_another_rate_is_an_error(grow, rate):
    with pytest.raises(UnreadableFileError, match=f"at {rate:g} Hz.*'t'.*10 Hz are needed"):
        read_times(grow, np.arange(25) / rate)


def test_another_rate_is_seen_row_by_row(grow):
    _, append = grow(time="t")
    append("t,x,y\n")
    for i in range(20):
        append(f"{i / 15:.6f},1,2\n")
    with pytest.raises(UnreadableFileError, match="15 Hz"):
        append(f"{20 / 15:.6f},1,2\n")


def test_rounding_jitter_and_gaps_move_no_sample(grow):
    times = np.arange(60) / 10
    jitter = np.random.default_rng(0).uniform(-0.02, 0.02, 60)
    assert read_times(grow, times + jitter).tolist() == [*range(60)]
    found = read_times(grow, (times + jitter)[[*range(5), *range(9, 60)]])
    assert np.flatnonzero(np.isnan(found)).tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("drift", [0.99, 1.01])
def test_drift_of_the_clock_does_not_accumulate(grow, drift):
    times = np.arange(1000) / 10 * drift
    found = read_times(grow, times + np.random.default_rng(0).uniform(-0.01, 0.01, 1000))
    at = np.flatnonzero(~np.isnan(found))
    assert np.abs(at / 10 - times[found[at].astype(int)]).max() < 0.1
    assert len(at) >= 989
    assert np.isnan(found).sum() <= 11


def test_lsl_is_optional():
    try:
        import mne_lsl  # noqa: F401
    except ImportError:
        with pytest.raises(MissingPackageError, match=r"percdl\[lsl\]"):
            LSLInlet("gait", ("x",), 100.0)


def test_lsl_samples_are_those_that_were_sent():
    lsl = pytest.importorskip("mne_lsl.lsl", reason="mne-lsl is not installed, or has no liblsl")
    info = lsl.StreamInfo("percdl-test", "EEG", 2, 10.0, "float64", "percdl-test")
    info.set_channel_names(["y", "x"])
    outlet = lsl.StreamOutlet(info)
    inlet = LSLInlet("percdl-test", ("x",), 10.0)
    assert outlet.wait_for_consumers(10)
    sent = np.arange(20.0).reshape(10, 2)
    outlet.push_chunk(sent)
    found = np.empty((0, 1))
    for _ in range(100):
        if len(found := np.concatenate([found, inlet.read()])) == 10:
            break
        time.sleep(0.1)
    np.testing.assert_array_equal(found, sent[:, 1:])
    with pytest.raises(UnreadableFileError, match="10 samples per second"):
        LSLInlet("percdl-test", ("x",), 20.0)
    inlet.finish()
