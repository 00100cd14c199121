import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.exceptions import ClockUnitWarning, InvalidRecordingError
from percdl.signals import Cohort


@pytest.fixture
def frame():
    """Two subjects, B before A, at 100 Hz."""
    return pd.DataFrame(
        {
            "subject": ["B"] * 4 + ["A"] * 3,
            "t": [0.0, 0.01, 0.02, 0.03, 5.0, 5.01, 5.02],
            "x": np.arange(7.0),
            "y": [1, 2, 3, 4, 5, 6, 7],
            "arm": ["TG"] * 4 + [None] * 3,
        }
    )


def test_rows_become_recordings(frame):
    cohort = Cohort.from_frame(frame, channels=["x", "y"], time="t", group="arm", units="g")
    assert cohort.subjects == ("B", "A")
    assert cohort.groups == ("TG", None)
    assert cohort.sfreq == 100.0
    assert (cohort.channels, cohort.units) == (("x", "y"), ("g", "g"))
    np.testing.assert_array_equal(cohort["A"].values, [[4, 5], [5, 6], [6, 7]])


@given(st.permutations(range(7)))
def test_time_decides_the_order(order):
    frame = pd.DataFrame(
        {"subject": list("AAAABBB"), "t": [0, 1, 2, 3, 0, 1, 2], "x": np.arange(7.0)}
    )
    sorted_cohort = Cohort.from_frame(frame, channels="x", time="t")
    shuffled = Cohort.from_frame(frame.iloc[order], channels="x", time="t")
    assert shuffled.select(["A", "B"]) == sorted_cohort


@pytest.mark.filterwarnings("ignore::percdl.exceptions.ClockUnitWarning")
@given(
    sfreq=st.floats(0.01, 5000),
    start=st.floats(0, 1e6),
    n_times=st.integers(2, 200),
)
def test_the_rate_is_read_from_time(sfreq, start, n_times):
    frame = pd.DataFrame({"subject": "A", "t": start + np.arange(n_times) / sfreq, "x": 0.0})
    inferred = Cohort.from_frame(frame, channels="x", time="t").sfreq
    assert inferred == pytest.approx(sfreq, rel=1e-5)


def test_rows_keep_their_order_without_time(frame):
    cohort = Cohort.from_frame(frame[::-1], channels="x", sfreq=50)
    assert cohort.sfreq == 50.0
    assert cohort["A"].values.ravel().tolist() == [6, 5, 4]
    assert Cohort.from_frame(frame, channels="x").sfreq == 1.0


@pytest.mark.parametrize("dates", [True, False])
def test_dates_and_durations_are_times(frame, dates):
    durations = pd.to_timedelta(frame["t"], unit="s")
    frame["t"] = pd.Timestamp("2025-01-01 12:00") + durations if dates else durations
    assert Cohort.from_frame(frame, channels="x", time="t").sfreq == 100.0


def test_milliseconds_are_asked_about(frame):
    frame["t"] *= 1000
    with pytest.warns(ClockUnitWarning, match="gives 0.1 samples per second, as times are read"):
        Cohort.from_frame(frame, channels="x", time="t")


def test_missing_samples_stay_missing(frame):
    frame["x"] = pd.array([1, None, 3, 4, 5, 6, 7], dtype="Int64")
    frame.loc[2, "y"] = np.nan
    cohort = Cohort.from_frame(frame, channels=["x", "y"])
    assert cohort["B"].mask.tolist() == [[True, True], [False, True], [True, False], [True, True]]


def test_single_precision_is_kept(frame):
    single = frame.astype({"x": np.float32})
    assert Cohort.from_frame(single, channels="x")[0].values.dtype == np.float32
    assert Cohort.from_frame(single, channels=["x", "y"])[0].values.dtype == np.float64


def test_whole_numbers_and_categories_are_subject_ids(frame):
    frame["subject"] = [3] * 4 + [1] * 3
    assert Cohort.from_frame(frame, channels="x").subjects == ("3", "1")
    frame["subject"] = pd.Categorical(["B"] * 4 + ["A"] * 3, categories=["A", "B", "unused"])
    assert Cohort.from_frame(frame, channels="x").subjects == ("B", "A")


def test_rounded_times_need_the_rate(frame):
    rounded = pd.DataFrame({"subject": "A", "t": np.round(np.arange(99) / 128, 3), "x": 0.0})
    with pytest.raises(InvalidRecordingError, match=r"row 3: the clock leaps.*pass sfreq"):
        Cohort.from_frame(rounded, channels="x", time="t")
    assert Cohort.from_frame(rounded, channels="x", time="t", sfreq=128).sfreq == 128.0


@pytest.mark.parametrize("sfreq", [None, 100])
def test_a_lost_sample_is_noticed(frame, sfreq):
    with pytest.raises(InvalidRecordingError, match=r"row 2: the clock leaps.*Insert rows of NaN"):
        Cohort.from_frame(frame.drop(index=1), channels="x", time="t", sfreq=sfreq)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"subject": ["B", None] + ["A"] * 5}, {}, r"row 1: column 'subject' is empty"),
        ({"subject": [1.5] * 7}, {}, r"subject=.*1\.5.* is not a usable label"),
        ({"x": list("abcdefg")}, {}, "row 0: 'a' in column 'x' is not a number"),
        ({"x": np.ones(7) * 1j}, {}, "'1j' in column 'x' is not a number"),
        ({"t": 0.0}, {"time": "t"}, "row 1: the clock stands still"),
        ({"t": np.nan}, {"time": "t"}, "row 0: column 't' is empty"),
        ({"t": "noon"}, {"time": "t"}, "'noon', which is not a time"),
        ({"subject": ["B"] * 6 + ["A"]}, {"time": "t"}, "row 4: the clock leaps"),
        ({"arm": list("abababa")}, {"group": "arm"}, "row 1: column 'arm' is 'b', but 'a' before"),
    ],
)
def test_unusable_frames(frame, change, arguments, message):
    with pytest.raises(InvalidRecordingError, match=message):
        Cohort.from_frame(frame.assign(**change), channels="x", **arguments)


def test_columns_must_exist_once(frame):
    with pytest.raises(InvalidRecordingError, match=r"no column 'subjects'.*mean 'subject'"):
        Cohort.from_frame(frame, channels="x", subject="subjects")
    with pytest.raises(InvalidRecordingError, match="no column 'z'"):
        Cohort.from_frame(frame, channels=["x", "z"])
    twice = pd.concat([frame, frame[["x"]]], axis=1)
    with pytest.raises(InvalidRecordingError, match="several columns are named 'x'"):
        Cohort.from_frame(twice, channels="x")


def test_an_empty_frame_is_an_empty_cohort(frame):
    with pytest.raises(InvalidRecordingError, match="at least one recording"):
        Cohort.from_frame(frame[:0], channels="x")


@pytest.mark.realdata
def test_real_gait_trials_have_sixteen_channels(real_gait):
    trials = sorted(real_gait.glob("GaitData/*.csv"))[:3]
    frames = [pd.read_csv(path).assign(subject=path.stem) for path in trials]
    channels = [name for name in frames[0] if name != "subject"]
    cohort = Cohort.from_frame(pd.concat(frames), channels=channels, sfreq=100)
    assert len(cohort) == 3
    assert cohort.n_channels == 16
    assert cohort.lengths.tolist() == [len(frame) for frame in frames]
