import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals import Cohort, Recording


@pytest.fixture
def cohort():
    """Six walks of unequal lengths, two channels, three groups."""
    return Cohort.from_arrays(
        [np.full((10 + i, 2), float(i)) for i in range(6)],
        sfreq=100,
        subjects=["P01", "P02", "P03", "P11", "P12", "P13"],
        groups=["control", "control", "control", "TG", "TG", None],
        channels=["x", "y"],
        units=["g", "deg/s"],
    )


def cohorts(max_size=8):
    lengths = st.lists(st.integers(1, 5), min_size=1, max_size=max_size)
    return lengths.map(lambda sizes: Cohort.from_arrays([np.arange(n) for n in sizes]))


def test_properties(cohort):
    assert len(cohort) == 6
    assert cohort.subjects == ("P01", "P02", "P03", "P11", "P12", "P13")
    assert cohort.groups == ("control", "control", "control", "TG", "TG", None)
    np.testing.assert_array_equal(cohort.lengths, np.arange(10, 16))
    np.testing.assert_array_equal(cohort.sfreqs, np.full(6, 100.0))
    assert (cohort.sfreq, cohort.n_channels) == (100.0, 2)
    assert (cohort.channels, cohort.units) == (("x", "y"), ("g", "deg/s"))


def test_indexing_one(cohort):
    assert cohort[1] is cohort["P02"]
    assert cohort[-1] is cohort["P13"]
    assert cohort[np.int64(2)] is cohort["P03"]


def test_membership(cohort):
    assert "P02" in cohort
    assert "P99" not in cohort
    assert cohort[0] in cohort
    assert cohort.index(cohort["P11"]) == 3


@pytest.mark.parametrize(
    ("index", "subjects"),
    [
        (slice(1, 3), ("P02", "P03")),
        (slice(None, None, -3), ("P13", "P03")),
        ([4, 0], ("P12", "P01")),
        (np.array([-1]), ("P13",)),
        ([True, False, False, True, False, False], ("P01", "P11")),
        (np.arange(6) > 3, ("P12", "P13")),
    ],
)
def test_indexing_several(cohort, index, subjects):
    part = cohort[index]
    assert isinstance(part, Cohort)
    assert part.subjects == subjects
    assert part[0] is cohort[subjects[0]]  # nothing is copied


@given(cohorts(), st.data())
def test_a_mask_and_its_positions_select_the_same(cohort, data):
    mask = data.draw(st.lists(st.booleans(), min_size=len(cohort), max_size=len(cohort)))
    if any(mask):
        assert cohort[mask] == cohort[np.flatnonzero(mask)]


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (6, IndexError, "out of range"),
        ([0, -7], IndexError, "index -7 is out of bounds"),
        ([True, False], IndexError, "boolean index did not match"),
        ("P1", KeyError, "No subject 'P1'.*Near matches: .*P1"),
        ("zzz", KeyError, "No subject 'zzz'.*Subjects: P01, P02.*2 more"),
        (["P01"], IndexError, "only integers"),
        ([0.5], IndexError, "integer"),
        ([], InvalidRecordingError, "at least one recording"),
        ([0, 0], InvalidRecordingError, "more than once: P01"),
    ],
)
def test_indexing_mistakes(cohort, index, error, message):
    with pytest.raises(error, match=message):
        cohort[index]


def test_select(cohort):
    assert cohort.select(["P12", "P01"]).subjects == ("P12", "P01")
    assert cohort.select("P12").subjects == ("P12",)
    assert cohort.select(group="TG").subjects == ("P11", "P12")
    assert cohort.select(group=["TG", "control"]).subjects == cohort.subjects[:5]
    assert cohort.select(["P12", "P01"], group="TG").subjects == ("P12",)
    assert cohort.select() == cohort


def test_whole_numbers_select_the_labels_they_became():
    cohort = Cohort.from_arrays(np.zeros((3, 5)), subjects=[7, 8, 9], groups=[0, 1, 1])
    assert cohort.select([9, 7]).subjects == ("9", "7")
    assert cohort.select(group=1).subjects == ("8", "9")
    assert cohort.drop(8).subjects == ("7", "9")


def test_selecting_what_is_not_there(cohort):
    with pytest.raises(KeyError, match="No subject 'P99'"):
        cohort.select(["P01", "P99"])
    with pytest.raises(KeyError, match="No subject 'P99'"):
        cohort.drop("P99")
    with pytest.raises(InvalidParameterError, match=r"group 'stroke'.*control, TG, None"):
        cohort.select(group="stroke")
    with pytest.raises(InvalidRecordingError, match="at least one recording"):
        cohort.drop(cohort.subjects)


@given(cohorts(), st.data())
def test_select_and_drop_are_complements(cohort, data):
    some = data.draw(st.sets(st.sampled_from(cohort.subjects), max_size=len(cohort) - 1))
    kept = cohort.drop(some)
    assert set(kept.subjects) == set(cohort.subjects) - some
    if some:
        whole = kept + cohort.select(sorted(some))
        assert whole.select(cohort.subjects) == cohort


def test_concatenate(cohort):
    parts = [cohort[:2], cohort[2:3], cohort[3:]]
    assert Cohort.concatenate(parts) == cohort
    assert parts[0] + parts[1] + parts[2] == cohort
    with pytest.raises(InvalidRecordingError, match=r"more than once: P01, P02.*'P01-trial2'"):
        cohort + cohort[:2]
    with pytest.raises(TypeError):
        cohort + "P99"


def test_split_keeps_proportions_order_and_everybody():
    groups = ["a"] * 20 + ["b"] * 10
    cohort = Cohort.from_arrays(np.zeros((30, 4)), groups=groups)
    train, test = cohort.split(test_size=0.3, random_state=0)
    assert (test.groups.count("a"), test.groups.count("b")) == (6, 3)
    assert sorted(map(int, train.subjects)) == list(map(int, train.subjects))
    assert {*train.subjects, *test.subjects} == set(cohort.subjects)
    assert len(train) + len(test) == 30
    assert cohort.split(random_state=0)[1] == test
    assert cohort.split(random_state=1)[1] != test


def test_split_without_groups_or_with_a_number():
    train, test = Cohort.from_arrays(np.zeros((10, 4))).split(test_size=4, random_state=0)
    assert (len(train), len(test)) == (6, 4)


def test_split_that_cannot_be(cohort):
    with pytest.raises(InvalidParameterError, match=r"'None': 1.*stratify_by_group=False"):
        cohort.split()
    assert len(cohort.split(stratify_by_group=False, random_state=0)[1]) == 2
    with pytest.raises(InvalidParameterError, match=r"Cannot split groups"):
        cohort[:1].split()


def test_equality_is_by_content(cohort):
    assert cohort == Cohort(list(cohort))
    assert cohort == pickle.loads(pickle.dumps(cohort))
    assert cohort == copy.deepcopy(cohort)
    assert cohort != cohort[:3]
    assert cohort != cohort[::-1]
    assert cohort != list(cohort)


def test_repr_says_what_is_inside(cohort):
    assert repr(cohort) == (
        "Cohort(6 recordings, 2 channels (x, y), 100 Hz, 10 to 15 samples, "
        "groups control: 3, TG: 2, None: 1)"
    )


def test_mixed_rates_are_refused_only_when_one_is_needed():
    cohort = Cohort.from_arrays(np.zeros((2, 5)), sfreq=[50, 100], subjects=["A", "B"])
    np.testing.assert_array_equal(cohort.sfreqs, [50, 100])
    assert "50, 100 Hz" in repr(cohort)
    with pytest.raises(InvalidRecordingError, match=r"'A'.* 50 Hz.*'B'.* 100 Hz.*[Rr]esample"):
        _ = cohort.sfreq


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        ([], "at least one recording"),
        ([Recording([0.0])], "Item 0 .*no subject.*subject='P01'"),
        (
            [Recording([0.0], subject="A"), Recording([0.0], subject="B", channels=["x"])],
            "'A' has the channels 'ch0' and subject 'B' has 'x'",
        ),
        (
            [Recording([0.0], subject="A", units="g"), Recording([0.0], subject="B")],
            "'A' has the units 'g' and subject 'B' has ''",
        ),
        ([np.zeros(3)], "Item 0 is of type numpy.ndarray.*from_arrays"),
    ],
)
def test_recordings_that_do_not_belong_together(recordings, message):
    with pytest.raises(InvalidRecordingError, match=message):
        Cohort(iter(recordings))


def test_scikit_learn_can_cross_validate_over_a_cohort(cohort):
    from sklearn.model_selection import KFold
    from sklearn.utils import indexable

    (same,) = indexable(cohort)
    for train, test in KFold(3).split(same):
        assert len(cohort[train]) + len(cohort[test]) == 6
