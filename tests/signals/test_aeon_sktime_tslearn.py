"""The containers as aeon, sktime and tslearn themselves make and check them."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort
from percdl.signals.extras import hushed

pytestmark = pytest.mark.filterwarnings("ignore:h5py not installed")  # tslearn's, on import

LENGTHS = (7, 5, 9)
SUBJECTS = ("b", "a", "10")


def library(name):
    """Import a module of a library, or skip."""
    with hushed():
        return pytest.importorskip(name, reason=f"{name.partition('.')[0]} is not installed")


@pytest.fixture
def ragged():
    """Three recordings of two channels, one sample missing, in no alphabetical order."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 2)) for n in LENGTHS]
    arrays[1][2, 0] = np.nan
    return Cohort.from_arrays(arrays, subjects=SUBJECTS, channels=["x", "y"])


@pytest.fixture
def square(ragged):
    """The same, of equal lengths and complete."""
    cut = [np.nan_to_num(recording.values[:5]) for recording in ragged]
    return Cohort.from_arrays(cut, subjects=SUBJECTS, channels=["x", "y"])


def test_aeon_knows_its_collections(ragged, square):
    types = library("aeon.utils.validation.collection")
    for cohort, name in ((ragged, "np-list"), (square, "numpy3D")):
        X = cohort.to_aeon()
        assert types.get_type(X) == name
        assert types.get_n_cases(X) == 3
        assert types.get_n_channels(X) == 2
        assert types.is_equal_length(X) == (name == "numpy3D")
        assert Cohort.from_aeon(X, subjects=SUBJECTS, channels=["x", "y"]) == cohort


def test_aeon_converts_to_what_sktime_frames_are(square):
    """aeon's multi-index frame, made from our array, is read as the same recordings."""
    conversion = library("aeon.utils.conversion")
    panel = conversion.convert_collection(square.to_aeon(), "pd-multiindex")
    read = Cohort.from_sktime(panel, subjects=SUBJECTS, channels=["x", "y"])
    assert read == square


@pytest.mark.filterwarnings("ignore")  # aeon's own
def test_aeon_estimator_takes_a_cohort(ragged, square):
    """The simplest there is: what matters is that aeon accepts collection and labels."""
    model = library("aeon.classification").DummyClassifier()
    complete = Cohort.from_arrays([np.nan_to_num(recording.values) for recording in ragged])
    for cohort in (square, complete):
        X, y = cohort.to_aeon(), np.array(["old", "old", "young"])
        assert list(model.fit(X, y).predict(X)) == ["old"] * 3


@pytest.mark.parametrize("mtype", ["pd-multiindex", "df-list", "numpy3D"])
@pytest.mark.filterwarnings("ignore")  # sktime's own, of pandas to come
def test_sktime_checks_and_converts_its_panels(mtype, ragged, square):
    datatypes = library("sktime.datatypes")
    cohort = square if mtype == "numpy3D" else ragged
    X = cohort.to_sktime(mtype)
    valid, reason, facts = datatypes.check_is_mtype(X, mtype, "Panel", return_metadata=True)
    assert valid, reason
    assert facts["n_instances"] == 3
    assert facts["is_equal_length"] == (cohort is square)
    labels = {"subjects": SUBJECTS, "channels": ["x", "y"]}
    assert Cohort.from_sktime(X, **labels) == cohort
    for other in ("pd-multiindex", "df-list"):
        again = datatypes.convert(X, mtype, other, as_scitype="Panel")
        assert Cohort.from_sktime(again, **labels) == cohort


@pytest.mark.filterwarnings("ignore")
def test_sktime_numpy3d_has_our_order(square):
    datatypes = library("sktime.datatypes")
    cube = datatypes.convert(square.to_sktime(), "pd-multiindex", "numpy3D", as_scitype="Panel")
    assert_array_equal(cube, square.to_sktime("numpy3D"))


def test_tslearn_makes_the_same_dataset(ragged):
    utils = library("tslearn.utils")
    values = [recording.values for recording in ragged]
    X = utils.to_time_series_dataset(values)
    assert_array_equal(X, ragged.to_tslearn())
    assert [utils.ts_size(series) for series in X] == list(LENGTHS)
    assert Cohort.from_tslearn(X, subjects=SUBJECTS, channels=["x", "y"]) == ragged


def test_tslearn_sees_a_recording_that_ends_in_nan_as_shorter():
    """The ambiguity is tslearn's own; the lengths resolve it."""
    utils = library("tslearn.utils")
    cohort = Cohort.from_arrays([[1.0, 2.0, np.nan], [1.0, 2.0, 3.0]])
    X = cohort.to_tslearn()
    assert [utils.ts_size(series) for series in X] == [2, 3]
    assert Cohort.from_tslearn(X).lengths.tolist() == [2, 3]
    assert Cohort.from_tslearn(X, lengths=cohort.lengths) == cohort


def test_tslearn_estimator_takes_a_cohort(ragged):
    scaler = library("tslearn.preprocessing").TimeSeriesScalerMeanVariance()
    scaled = Cohort.from_tslearn(scaler.fit_transform(ragged.to_tslearn()), subjects=SUBJECTS)
    for recording, by_us in zip(scaled, ragged.zscore(), strict=True):
        assert_allclose(recording.values, by_us.values)


def test_frames_of_pandas_groupby_are_panels(ragged):
    """Any long frame with two index levels is a panel."""
    long = pd.concat(
        [pd.DataFrame(r.values, columns=["x", "y"]).assign(id=r.subject, t=range(r.n_times))
         for r in ragged]
    )  # fmt: skip
    assert Cohort.from_sktime(long.set_index(["id", "t"])) == ragged
