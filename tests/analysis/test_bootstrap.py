"""The bootstrap over subjects."""

import numpy as np
import pytest
import small_models

from percdl import Cohort
from percdl.analysis import bootstrap_atoms, estimate_uncertainty
from percdl.analysis.bootstrap import match_to
from percdl.analysis.checks import check_fitted_on
from percdl.analysis.linearization import Linearization
from percdl.exceptions import InvalidParameterError


def test_atoms_are_put_in_order_and_turned():
    reference = np.eye(5)[:3, :, None]
    mixed = np.stack([-reference[2], reference[0], reference[1]])
    np.testing.assert_array_equal(match_to(mixed, reference, signed=True), reference)
    kept = match_to(mixed, reference, signed=False)
    np.testing.assert_array_equal(kept, [*reference[:2], -reference[2]])


@pytest.mark.parametrize(("name", "keep"), [("PopCDL", False), ("PopCDL", True), ("PerCDL", True)])
def test_subjects_that_are_alike_leave_nothing_to_chance(name, keep):
    one = small_models.spaced_recordings(0)[3]
    cohort = Cohort.from_arrays([one] * 4)
    model = small_models.make(name).fit(cohort)
    found = bootstrap_atoms(model, cohort, n_draws=3, random_state=0, keep_onsets=keep)
    assert found.draws.shape == (3, *model.dictionary_.shape)
    assert found.atom_se.max() < 1e-5


def test_draws_are_decided_by_the_random_state():
    cohort = small_models.spaced_cohort(0)
    model = small_models.make("PopCDL").fit(cohort)
    first, second, other = (
        bootstrap_atoms(model, cohort, n_draws=2, random_state=seed).draws for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_it_agrees_with_the_formula_where_that_holds():
    """Without warps, what varies between subjects is the noise of Theorem 1."""
    arrays = small_models.spaced_recordings(1, (128,) * 24, noise=0.1, bend=0.0)
    model = small_models.make("PopCDL").fit(arrays)
    found = bootstrap_atoms(model, arrays, n_draws=40, random_state=0)
    formula = estimate_uncertainty(model, arrays).atom_se
    assert np.sqrt(np.mean(found.atom_se**2) / np.mean(formula**2)) == pytest.approx(1, abs=0.2)
    low, high = found.atom_band(0.9)
    inside = (low <= model.dictionary_) & (model.dictionary_ <= high)
    assert inside.mean() > 0.8
    kept = bootstrap_atoms(model, arrays, n_draws=40, random_state=0, keep_onsets=True)
    np.testing.assert_allclose(kept.draws, found.draws, atol=0.3 * found.atom_se.max())


def test_kept_onsets_give_the_error_of_the_formula_with_warps():
    arrays = small_models.spaced_recordings(1, (128,) * 24, noise=0.05, bend=0.3)
    model = small_models.make("PerCDL").fit(arrays)
    found = bootstrap_atoms(model, arrays, n_draws=100, random_state=0, keep_onsets=True)
    formula = []
    for k in range(2):
        local = Linearization(model, check_fitted_on(model, arrays), k, False, None)
        local.blind = np.zeros(len(arrays))  # onsets are kept
        formula.append(np.diagonal(local.common()[0]))
    assert np.sqrt(np.mean(found.atom_se**2) / np.mean(formula)) == pytest.approx(1, abs=0.3)
    (low, high), (lower, higher) = found.atom_band(), found.atom_band(simultaneous=True)
    assert (higher - lower).mean() > (high - low).mean()


def test_bad_arguments_are_refused():
    cohort = small_models.spaced_cohort(0)
    model = small_models.make("PopCDL").fit(cohort)
    with pytest.raises(InvalidParameterError, match="n_draws=1"):
        bootstrap_atoms(model, cohort, n_draws=1)
    with pytest.raises(InvalidParameterError, match="recordings of the fit"):
        bootstrap_atoms(model, cohort[:2], n_draws=2)
    model.set_params(algorithm__weighting="subjects")
    with pytest.raises(InvalidParameterError, match="keep_onsets"):
        bootstrap_atoms(model, cohort, n_draws=2, keep_onsets=True)
