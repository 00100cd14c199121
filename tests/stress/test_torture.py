"""Whatever the size of the numbers, a fit is the same fit, or says whose recording it is."""

import warnings

import numpy as np
import pytest

from benchmarks.stress import torture
from percdl import Cohort, PerCDL, TimeWarp, load
from percdl.algorithm.magnitude import choose_unit
from percdl.exceptions import InvalidRecordingError, NoActivationWarning, NumericalError
from percdl.signals import Recording
from percdl.signals.reconstruction import normalized_reconstruction_error
from percdl.transforms import Compose, Rotation

ODD_SIZES = (2.0**-100, 2.0**-40, 2.0**40, 2.0**100)


@pytest.fixture(scope="module")
def ordinary():
    """The fit of signals of ordinary size."""
    return torture.fit("warp")


@pytest.mark.parametrize("c", ODD_SIZES)
def test_a_fit_does_not_depend_on_the_unit(ordinary, c):
    assert torture.distance(torture.fit("warp", c), ordinary, c) == 0


@pytest.mark.parametrize("c", [1e-12, 1e12])
def test_other_factors_round(ordinary, c):
    assert torture.distance(torture.fit("warp", c), ordinary, c) < 1e-2


@pytest.mark.parametrize("name", ["ratio", "auto"])
def test_penalties_that_are_chosen_follow_the_unit(name):
    small, large = (torture.fit(name, c) for c in (2.0**-40, 2.0**40))
    assert torture.distance(large, torture.fit(name), 2.0**40) == 0
    assert large.penalty_ == 2.0**160 * small.penalty_


def test_new_recordings_may_have_another_unit(ordinary):
    x = torture.recordings()
    here, there = (ordinary.personalize(c * x) for c in (1.0, 2.0**100))
    np.testing.assert_array_equal(there.params, here.params)
    np.testing.assert_array_equal(there.events["amplitude"], 2.0**100 * here.events["amplitude"])


def test_samples_of_ordinary_size_are_taken_as_they_are():
    units = {c: choose_unit(Cohort.from_arrays([[0.0, c, np.nan]])) for c in (1e-4, 1, 6e4)}
    assert set(units.values()) == {1.0}
    assert choose_unit(Cohort.from_arrays(np.zeros((2, 3)))) == 1


def test_one_odd_recording_does_not_choose_the_unit():
    assert choose_unit(Cohort.from_arrays(np.array([[1.0], [1.0], [1e30]]))) == 1


def test_prices_of_warps_follow_the_unit():
    warp = Compose(TimeWarp(1, 4, roughness=3.0), Rotation())
    assert warp.reprice(0.5) == Compose(TimeWarp(1, 4, roughness=0.75), Rotation())


@pytest.mark.parametrize("penalty", [1e39, 1e300])
def test_a_price_beyond_all_numbers_is_paid_by_nobody(penalty):
    model = PerCDL(1, torture.LENGTH, TimeWarp(1, 4), penalty, **torture.SHORT)
    with pytest.warns(NoActivationWarning, match="Every activation is zero"):
        model.fit(torture.recordings())
    assert np.isfinite(model.objective_)
    assert torture.faults(model) == []


def test_a_recording_too_loud_for_the_others_is_named():
    x = torture.recordings() * np.where(np.arange(8) == 5, 1e30, 1)[:, None, None]
    cohort = Cohort.from_arrays(x, subjects=list("ABCDEFGH"))
    given = {"init": torture.pattern()[None], **torture.SHORT}
    with pytest.raises(NumericalError, match="squares of subject F overflow in float32"):
        PerCDL(1, torture.LENGTH, TimeWarp(1, 4), torture.PENALTY, **given).fit(cohort)


def test_errors_of_faint_single_precision_recordings_have_a_meaning():
    x = Recording(np.array([3e-30, 4e-30], np.float32))
    assert normalized_reconstruction_error([x], [np.array([[3e-30], [0]])]) == pytest.approx(0.64)


def test_a_missing_sample_may_be_anywhere():
    # Without warps, whose programs are many; the claim has them.
    found = torture.fit("PopCDL").personalize(list(torture.spoil_each(np.nan)))
    assert len(found.subjects) == torture.N_TIMES
    assert np.isfinite(found.events["amplitude"]).all()
    assert (found.n_activations > 0).all()


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_an_infinite_sample_is_named_wherever_it_is(bad):
    for place, x in enumerate(torture.spoil_each(bad)):
        with pytest.raises(InvalidRecordingError, match=rf"'P' *: .* first at sample {place} of"):
            Recording(x, subject="P")


@pytest.mark.parametrize(
    "name",
    ["offset of 1e+12", "penalty of 0", "denormals, single", "denormals, double",
     "sizes from 1e-12 to 1e12", "one subject 1e30 times quieter", "all silent"],
)  # fmt: skip
def test_nothing_that_is_not_finite_comes_out(name):
    case = torture.cases()[name]
    assert torture.suffer(case) == ("refused" if case.refused else "finite")


def test_subjects_who_are_the_same_get_the_same():
    x = torture.recordings()
    x[6] = x[1]
    model = PerCDL(1, torture.LENGTH, TimeWarp(1, 4), torture.PENALTY, **torture.SHORT).fit(x)
    np.testing.assert_array_equal(model.params_[6], model.params_[1])


def test_a_model_of_faint_recordings_can_be_kept(tmp_path):
    model = torture.fit("warp", 1e-12)
    model.save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score = load(tmp_path / "model").score(1e-12 * torture.recordings())
    assert score == model.score(1e-12 * torture.recordings())
