import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    TransposedArrayWarning,
)
from percdl.signals import Cohort, Recording, as_cohort

FINITE = st.floats(-10, 10)


@given(hnp.arrays(float, hnp.array_shapes(min_dims=3, max_dims=3, max_side=4), elements=FINITE))
def test_a_stack_and_a_list_are_the_same(stack):
    cohort = Cohort.from_arrays(stack)
    assert cohort == Cohort.from_arrays(list(stack))
    assert cohort == Cohort.from_arrays(stack.tolist())
    assert (len(cohort), cohort[0].n_times, cohort.n_channels) == stack.shape
    assert cohort.subjects == tuple(map(str, range(len(stack))))


@given(hnp.arrays(float, hnp.array_shapes(min_dims=2, max_dims=2, max_side=4), elements=FINITE))
def test_rows_of_a_table_are_univariate_recordings(table):
    cohort = Cohort.from_arrays(table)
    assert cohort == Cohort.from_arrays(table[:, :, None])
    assert cohort == Cohort.from_arrays(table.tolist())
    assert cohort == as_cohort(table)


def test_axes_are_never_swapped_but_asked_about():
    with pytest.warns(TransposedArrayWarning, match=r"50 channels and at most 2 samples.*x\.T"):
        wide = Cohort.from_arrays([np.zeros((2, 50))])
    assert (wide[0].n_times, wide.n_channels) == (2, 50)
    with pytest.raises(InvalidRecordingError, match=r"Subject '0'.*Pass values\.T"):
        Cohort.from_arrays([np.zeros((2, 50))], channels=["x", "y"])


def test_unequal_lengths():
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((3, 2)), np.zeros((5, 2))]
    assert Cohort.from_arrays(ragged).lengths.tolist() == [3, 5]
    assert Cohort.from_arrays(tuple(ragged)) == Cohort.from_arrays(ragged)


def test_masked_stack_keeps_its_holes():
    stack = np.ma.masked_less(np.arange(8.0).reshape(2, 4), 2)
    assert Cohort.from_arrays(stack)[0].mask.ravel().tolist() == [False, False, True, True]


@pytest.mark.parametrize("ends", [(4.0, 5.0), (4.0,)])
def test_masked_numbers_in_lists_are_missing(ends):
    lists = [[1.0, np.ma.masked, 3.0, *ends], [0.0] * 5]
    mask = Cohort.from_arrays(lists)[0].mask.ravel()
    assert (~mask).nonzero()[0].tolist() == [1]


def test_names_from_generators_serve_every_subject():
    cohort = Cohort.from_arrays(np.zeros((3, 5, 2)), channels=(c for c in "xy"), units=iter("gg"))
    assert (cohort.channels, cohort.units) == (("x", "y"), ("g", "g"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (np.zeros(5), r"1 dimension\(s\) \(shape \(5,\)\).*Reshape your data"),
        (np.zeros((1, 2, 3, 4)), r"4 dimension\(s\)"),
        ([1.0, 2.0], "1 dimension.*Reshape your data"),
        (np.zeros((4, 0)), r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required."),
        (np.zeros((0, 4)), "at least one recording"),
        ([], "at least one recording"),
        ([[0.0, 1.0], [0.0, np.inf]], "Subject '1'.*infinite"),
        (
            [np.zeros((3, 1)), np.zeros((3, 2))],
            "'0' has the channels 'ch0' and subject '1' has 'ch0', 'ch1'",
        ),
        (np.zeros((2, 3), dtype=complex), "Complex data not supported"),
    ],
)
def test_unusable_arrays(arrays, message):
    with pytest.raises(InvalidRecordingError, match=message):
        Cohort.from_arrays(arrays)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"subjects": ["A"]}, r"subjects has 1 entries.*3 recording\(s\)"),
        ({"groups": "control"}, "groups is one string"),
        ({"sfreq": [100, 50]}, "sfreq has 2 entries"),
    ],
)
def test_labels_must_match_the_recordings(labels, message):
    with pytest.raises(InvalidParameterError, match=message):
        Cohort.from_arrays(np.zeros((3, 5)), **labels)


def test_as_cohort_takes_what_is_already_one():
    cohort = Cohort.from_arrays(np.zeros((2, 5)), subjects=["A", "B"])
    assert as_cohort(cohort) is cohort
    assert as_cohort(list(cohort)) == cohort
    for described in (cohort, list(cohort)):
        with pytest.raises(InvalidParameterError, match=r"sfreq=.*already carry"):
            as_cohort(described, sfreq=100)


def test_as_cohort_takes_whatever_declares_itself_an_array():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.zeros((2, 5, 3))

    assert as_cohort(Tensor(), sfreq=10).n_channels == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "Got a NoneType"),
        ("walk.csv", "Got a str"),
        ({"a": [1]}, "Got a dict"),
        (scipy.sparse.csr_matrix((3, 3)), "Got a scipy.sparse"),
        (pd.DataFrame({"x": [1.0]}), "Cohort.from_frame"),
        (Recording([0.0]), "Got a percdl.signals.recording.Recording"),
    ],
)
def test_as_cohort_says_what_it_got(given, message):
    with pytest.raises(InvalidRecordingError, match=message):
        as_cohort(given)
