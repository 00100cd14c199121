import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from percdl.exceptions import InvalidRecordingError, PerCDLError
from percdl.signals import Recording

REAL_DTYPES = st.sampled_from(
    ["f2", "f4", "f8", ">f4", ">f8", "i1", "i4", "i8", ">i2", "u1", "u8", "?"]
)


@st.composite
def real_arrays(draw):
    dtype = np.dtype(draw(REAL_DTYPES))
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=6))
    elements = None
    if dtype.kind == "f":
        elements = st.floats(allow_infinity=False, width=dtype.itemsize * 8)
    return draw(hnp.arrays(dtype, shape, elements=elements))


@given(real_arrays())
def test_values_are_kept_as_floats_time_first(array):
    recording = Recording(array, subject="P01")
    expected = array.reshape(len(array), -1).astype(float)
    np.testing.assert_array_equal(recording.values, expected)
    assert recording.values.dtype in (np.float32, np.float64)
    assert recording.values.dtype.isnative
    assert not recording.values.flags.writeable
    assert (recording.n_times, recording.n_channels) == expected.shape
    assert recording.duration == recording.n_times
    np.testing.assert_array_equal(recording.mask, ~np.isnan(expected))
    assert recording.has_missing == np.isnan(expected).any()


@given(real_arrays(), st.sampled_from(["pickle", "copy", "deepcopy", "replace"]))
def test_copies_are_equal_and_read_only(array, how):
    recording = Recording(array, sfreq=50, subject="P01", group="control", units="g")
    other = {
        "pickle": lambda: pickle.loads(pickle.dumps(recording)),
        "copy": lambda: copy.copy(recording),
        "deepcopy": lambda: copy.deepcopy(recording),
        "replace": lambda: dataclasses.replace(recording),
    }[how]()
    assert other == recording
    assert not other.values.flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_not_copied_and_the_source_stays_writable(dtype):
    array = np.zeros((5, 2), dtype=dtype)
    recording = Recording(array)
    assert recording.values.dtype == dtype
    assert np.shares_memory(recording.values, array)
    assert array.flags.writeable


def test_labels_have_defaults():
    recording = Recording(np.zeros((4, 2)))
    assert recording.channels == ("ch0", "ch1")
    assert recording.units == ("", "")
    assert recording.sfreq == 1.0
    assert recording.subject is None
    assert recording.group is None


def test_labels_become_text():
    recording = Recording(
        np.zeros(8), sfreq=np.int64(4), channels="RRY", units="deg/s", subject=7, group=np.int64(1)
    )
    assert (recording.subject, recording.group) == ("7", "1")
    assert (recording.channels, recording.units) == (("RRY",), ("deg/s",))
    assert recording.duration == 2.0


def test_masked_samples_are_missing():
    masked = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    recording = Recording(masked)
    np.testing.assert_array_equal(recording.values, [[1.0, np.nan], [3.0, 4.0]])


def test_it_is_frozen():
    recording = Recording(np.zeros(3), subject="P01")
    with pytest.raises(dataclasses.FrozenInstanceError):
        recording.sfreq = 2.0
    with pytest.raises(ValueError, match="read-only"):
        recording.values[0] = 1.0


def test_equality_sees_every_field():
    base = {"values": np.zeros(3), "sfreq": 2.0, "subject": "a", "group": "g"}
    for change in (
        {"values": np.ones(3)},
        {"sfreq": 3.0},
        {"subject": "b"},
        {"group": None},
        {"channels": ["x"]},
        {"units": "m"},
    ):
        assert Recording(**base) != Recording(**{**base, **change})
    assert Recording(**base) != "a recording"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.inf], "1 infinite sample.*sample 1 of channel 0.*NaN"),
        (np.array([1j, 2.0]), "Complex data not supported"),
        (["a", "b"], "dtype <U1.*real numbers"),
        (np.array([1.0, None], dtype=object), "dtype object.*NaN"),
        ([[1.0, 2.0], [3.0]], "not an array.*n_times rows"),
        (np.zeros((0, 2)), "at least one sample"),
        ([], "at least one sample"),
        (np.zeros((3, 0)), "at least one sample"),
        (np.zeros((2, 3, 4)), r"3 dimension\(s\).*Cohort.from_arrays"),
        (3.0, r"0 dimension\(s\)"),
    ],
)
def test_unusable_values_are_refused_by_name(values, message):
    with pytest.raises(InvalidRecordingError, match=f"^Subject 'P01'.*{message}") as caught:
        Recording(values, subject="P01")
    assert isinstance(caught.value, PerCDLError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"sfreq": 0}, "sfreq=0 is not a sampling rate"),
        ({"sfreq": -100.0}, "positive and finite"),
        ({"sfreq": float("nan")}, "positive and finite"),
        ({"channels": ["x"]}, r"has 1 entries.*2 channel\(s\)"),
        ({"channels": ["a", "b", "c"]}, r"Pass values\.T"),
        ({"channels": ["x", "x"]}, "repeats a name"),
        ({"units": ["m"]}, r"has 1 entries.*2 channel\(s\)"),
        ({"group": ""}, "group='' is not a usable label"),
    ],
)
def test_unusable_labels_are_refused_by_name(labels, message):
    with pytest.raises(InvalidRecordingError, match=f"^Subject 'P01'.*{message}"):
        Recording(np.zeros((3, 2)), subject="P01", **labels)


def test_repr_says_what_is_inside():
    recording = Recording(np.full((200, 6), np.nan), sfreq=100, subject="P01", group="TG")
    text = repr(recording)
    assert text == (
        "Recording(subject='P01', 200 samples x 6 channels (ch0, ch1, ch2, ch3 and 2 more), "
        "100 Hz, 2 s, group='TG', 1200 missing)"
    )
