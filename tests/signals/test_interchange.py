"""Cohorts and the containers of aeon, sktime and tslearn, without those libraries."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from percdl import Cohort
from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals import as_cohort

DTYPES = st.sampled_from([np.float32, np.float64])
SIZES = st.integers(1, 5)


def samples(dtype):
    return st.one_of(st.just(np.nan), st.floats(-1e3, 1e3, width=32)).map(dtype)


@st.composite
def cubes(draw):
    """Return 3-D arrays with missing samples."""
    dtype = draw(DTYPES)
    shape = draw(st.tuples(SIZES, SIZES, SIZES))
    return draw(arrays(dtype, shape, elements=samples(dtype)))


@st.composite
def case_lists(draw):
    """Return lists of (n_channels, n_timepoints) of unequal lengths, with missing samples."""
    dtype, n_channels = draw(DTYPES), draw(SIZES)
    lengths = draw(st.lists(SIZES, min_size=1, max_size=5))
    return [draw(arrays(dtype, (n_channels, n), elements=samples(dtype))) for n in lengths]


def assert_same_cases(found, cases):
    assert isinstance(found, list)
    for one, other in zip(found, cases, strict=True):
        assert_array_equal(one, other)
        assert one.dtype == other.dtype


@given(cubes())
def test_numpy3d_comes_back(X):
    for there, back in (
        (Cohort.from_aeon, lambda cohort: cohort.to_aeon("numpy3D")),
        (Cohort.from_sktime, lambda cohort: cohort.to_sktime("numpy3D")),
    ):
        cohort = there(X)
        assert_array_equal(back(cohort), X)
        assert back(cohort).dtype == X.dtype
        assert (len(cohort), cohort.n_channels) == X.shape[:2]
        assert set(cohort.lengths) == {X.shape[2]}


@given(case_lists())
def test_np_list_comes_back(X):
    cohort = Cohort.from_aeon(X)
    assert_same_cases(cohort.to_aeon("np-list"), X)
    assert cohort.lengths.tolist() == [case.shape[1] for case in X]
    assert isinstance(cohort.to_aeon(), np.ndarray if len(set(cohort.lengths)) == 1 else list)


@settings(max_examples=30)
@given(case_lists())
def test_frames_come_back(X):
    """A frame with two index levels, and a list of frames, each give the same cohort again."""
    subjects = [f"P{s}" for s in range(len(X))]
    channels = [f"lead {c}" for c in range(len(X[0]))]
    cohort = Cohort.from_aeon(X, subjects=subjects, channels=channels, sfreq=250)
    panel, frames = cohort.to_sktime(), cohort.to_sktime("df-list")
    assert Cohort.from_sktime(panel, sfreq=250) == cohort
    assert Cohort.from_sktime(frames, sfreq=250, subjects=subjects) == cohort
    pd.testing.assert_frame_equal(Cohort.from_sktime(panel).to_sktime(), panel)
    for frame, again in zip(frames, Cohort.from_sktime(frames).to_sktime("df-list"), strict=True):
        pd.testing.assert_frame_equal(frame, again)
    assert set(panel.dtypes) == {X[0].dtype}


@given(case_lists())
def test_padded_arrays_come_back(X):
    """With the lengths always; without them unless a recording ends in NaN."""
    cohort = Cohort.from_aeon(X, sfreq=100)
    padded = cohort.to_tslearn()
    assert padded.dtype == X[0].dtype
    assert Cohort.from_tslearn(padded, lengths=cohort.lengths, sfreq=100) == cohort
    if not any(np.isnan(case[:, -1]).all() for case in X):
        read = Cohort.from_tslearn(padded, sfreq=100)
        assert read == cohort
        assert_array_equal(read.to_tslearn(), padded)


def test_axes_are_where_each_library_has_them():
    """Sample t of channel c of case s is 100 s + 10 c + t in every container."""
    value = np.fromfunction(lambda s, c, t: 100 * s + 10 * c + t, (2, 3, 4))
    by_time, cohort_names = value.transpose(0, 2, 1), ["ch0", "ch1", "ch2"]
    cohorts = [
        Cohort.from_arrays(by_time),
        Cohort.from_aeon(value),
        Cohort.from_aeon(list(value)),
        Cohort.from_sktime(value),
        Cohort.from_tslearn(by_time),
        Cohort.from_sktime(
            pd.concat({s: pd.DataFrame(x, columns=cohort_names) for s, x in enumerate(by_time)})
        ),
    ]  # fmt: skip
    assert all(cohort == cohorts[0] for cohort in cohorts)
    assert cohorts[0][1].values[3, 2] == 123


def test_description_travels():
    X = np.random.default_rng(0).standard_normal((3, 2, 9))
    labels = {"sfreq": 128, "subjects": "ABC", "groups": np.array(["x", "y", "x"]), "units": "mV"}
    labels["subjects"] = list(labels["subjects"])
    labels["channels"] = ["I", "II"]
    cohort = Cohort.from_aeon(X, **labels)
    assert cohort.subjects == ("A", "B", "C")
    assert cohort.groups == ("x", "y", "x")
    assert (cohort.sfreq, cohort.channels, cohort.units) == (128, ("I", "II"), ("mV", "mV"))
    assert Cohort.from_sktime(X, **labels) == cohort
    assert Cohort.from_tslearn(X.transpose(0, 2, 1), **labels) == cohort
    assert Cohort.from_sktime(cohort.to_sktime(), **labels) == cohort


def test_containers_do_not_share_memory_with_the_cohort():
    cohort = Cohort.from_arrays(np.ones((2, 5, 1)))
    for mine in (cohort.to_aeon(), cohort.to_aeon("np-list")[0], cohort.to_tslearn(),
                 cohort.to_sktime("df-list")[0]):  # fmt: skip
        mine[:] = 7
    assert all((recording.values == 1).all() for recording in cohort)


@pytest.mark.parametrize("freq", ["10ms", "1s"])
def test_dates_say_the_rate(freq):
    rate = 1 / pd.Timedelta(freq).total_seconds()
    for clock in (
        pd.date_range("2024-01-01", periods=6, freq=freq),
        pd.timedelta_range("0s", periods=6, freq=freq),
    ):
        frame = pd.DataFrame({"x": np.arange(6.0)}, index=clock)
        assert Cohort.from_sktime([frame, frame]).sfreq == pytest.approx(rate)
        with pytest.raises(InvalidRecordingError, match=r"the clock leaps .* at sfreq=7"):
            Cohort.from_sktime([frame], sfreq=7)


def test_periods_and_integers_count_samples():
    months = pd.period_range("2024-01", periods=5, freq="M")
    for clock in (months, pd.RangeIndex(3, 8)):
        frame = pd.DataFrame({"x": np.arange(5.0)}, index=clock)
        assert Cohort.from_sktime([frame]).sfreq == 1
        assert Cohort.from_sktime([frame], sfreq=12).sfreq == 12
        with pytest.raises(InvalidRecordingError, match=r"row 2: the clock leaps .*of NaN"):
            Cohort.from_sktime([frame.drop(index=clock[2])], sfreq=12)


def test_columns_may_be_numbers_and_may_be_called_time():
    panel = pd.concat({7: pd.DataFrame({0: [1.0], "time": [2.0], "instance": [3.0]})})
    cohort = Cohort.from_sktime(panel)
    assert cohort.channels == ("0", "time", "instance")
    assert cohort.subjects == ("7",)
    assert_array_equal(cohort[0].values, [[1, 2, 3]])


def test_missing_samples_within_are_kept_and_padding_is_not():
    nan = np.nan
    X = np.array([[[1, nan], [nan, nan], [nan, 2], [nan, nan]]])
    cohort = Cohort.from_tslearn(X)
    assert_array_equal(cohort[0].values, X[0, :3])
    assert Cohort.from_tslearn(X, lengths=[4])[0].n_times == 4
    assert Cohort.from_tslearn(np.arange(6).reshape(1, 3, 2))[0].n_times == 3


CUBE = np.zeros((2, 3, 4))
LONG = pd.DataFrame({"subject": [0, 0], "x": [1.0, 2.0]})
WIDE = pd.concat({"a": LONG[["x"]]})
REFUSED = [
    (Cohort.from_aeon, CUBE[0], r"from_aeon` needs a 3-D.*shape \(3, 4\)"),
    (Cohort.from_aeon, [CUBE[0, 0]], r"list of 1, the first a numpy.ndarray of shape \(4,\)"),
    (Cohort.from_aeon, WIDE, "from_aeon` needs.*got a pandas.*Use `Cohort.from_sktime"),
    (Cohort.from_aeon, [LONG], "from_aeon` needs.*got a list of 1.*Use `Cohort.from_sktime"),
    (Cohort.from_aeon, LONG, "from_aeon` needs.*Use `Cohort.from_frame"),
    (Cohort.from_aeon, "walks.csv", "from_aeon` needs.*got a str"),
    (Cohort.from_aeon, [], "from_aeon` needs.*got a list of 0"),
    (Cohort.from_sktime, CUBE[0], r"from_sktime` needs.*shape \(3, 4\)"),
    (Cohort.from_sktime, list(CUBE), r"from_sktime` needs.*the first a numpy.ndarray"),
    (Cohort.from_sktime, LONG, "from_sktime` needs.*Use `Cohort.from_frame"),
    (Cohort.from_sktime, pd.concat({1: WIDE}), "needs.*got a pandas.*DataFrame of shape"),
    (Cohort.from_sktime, None, "from_sktime` needs.*got a NoneType"),
    (Cohort.from_sktime, [LONG[["x"]], LONG], r"The first frame has columns \['x'\]"),
    (Cohort.from_tslearn, CUBE[0], r"from_tslearn` needs.*to_time_series.*shape \(3, 4\)"),
    (Cohort.from_tslearn, list(CUBE), "from_tslearn` needs.*to_time_series_dataset.*list of 2"),
    (Cohort.from_tslearn, WIDE, "from_tslearn` needs.*Use `Cohort.from_sktime"),
    (Cohort.from_tslearn, np.stack([CUBE[0], np.full((3, 4), np.nan)]), "Series 1 of X is all"),
    (as_cohort, WIDE, "Use `Cohort.from_sktime"),
    (as_cohort, [LONG], "Use `Cohort.from_sktime"),
    (as_cohort, LONG, "Use `Cohort.from_frame"),
    (as_cohort, LONG["x"], "Use `Cohort.from_frame"),
]  # fmt: skip


@pytest.mark.parametrize(("door", "X", "message"), REFUSED)
def test_what_came_to_the_wrong_door(door, X, message):
    with pytest.raises((InvalidRecordingError, InvalidParameterError), match=f"(?s){message}"):
        door(X)


@pytest.mark.parametrize("lengths", [[2], [2, 5], [1, 3], [0, 3]])
def test_lengths_that_cannot_be(lengths):
    X = np.array([[1.0, 2, np.nan], [1, 2, 3]])[:, :, None]
    with pytest.raises(InvalidParameterError, match="lengths"):
        Cohort.from_tslearn(X, lengths=lengths)


def test_unequal_lengths_do_not_fit_a_cube():
    cohort = Cohort.from_arrays([[1.0, 2.0], [1.0]], subjects=["A", "B"])
    for back, otherwise in (
        (lambda: cohort.to_aeon("numpy3D"), "np-list"),
        (lambda: cohort.to_sktime("numpy3D"), "pd-multiindex"),
    ):
        message = f"'A' has 2 samples and subject 'B' has 1. Pass .*{otherwise}"
        with pytest.raises(InvalidParameterError, match=message):
            back()


def test_unknown_containers_are_refused():
    cohort = Cohort.from_arrays([[1.0, 2.0]])
    with pytest.raises(InvalidParameterError, match="output_type='df-list' must be 'numpy3D'"):
        cohort.to_aeon("df-list")
    with pytest.raises(InvalidParameterError, match="mtype='pd-wide' must be one of 'numpy3D'"):
        cohort.to_sktime("pd-wide")


def test_converters_import_none_of_the_libraries():
    code = (
        "import sys, numpy as np, percdl\n"
        "X = np.zeros((2, 1, 5))\n"
        "percdl.Cohort.from_aeon(X).to_aeon()\n"
        "percdl.Cohort.from_sktime(percdl.Cohort.from_sktime(X).to_sktime())\n"
        "percdl.Cohort.from_tslearn(X).to_tslearn()\n"
        "assert not {'aeon', 'sktime', 'tslearn', 'mne', 'jax'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
