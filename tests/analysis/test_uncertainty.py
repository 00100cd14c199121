"""Standard errors against dense oracles, analytic cases and simulation."""

from copy import copy
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import scipy.linalg
import small_models
import toy
from scipy.special import ndtri, stdtrit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from percdl import Cohort, Compose, Huber, L0Coder, PerCDL, Rotation, TimeWarp
from percdl.analysis import bootstrap_atoms, estimate_uncertainty
from percdl.analysis.effects import log_speed
from percdl.analysis.linearization import Linearization
from percdl.analysis.uncertainty import _draw_maxima
from percdl.estimators.personalization import invert_warps
from percdl.exceptions import InvalidParameterError

LENGTH = toy.LENGTH
SIGMA = 0.05


@pytest.fixture(scope="module")
def cohort():
    """Four subjects; some samples of the first are missing."""
    arrays = small_models.spaced_recordings(3, noise=SIGMA)
    arrays[0][30:34] = np.nan
    return Cohort.from_arrays(arrays, sfreq=small_models.SFREQ, subjects=small_models.SUBJECTS)


@pytest.fixture(scope="module")
def model(cohort):
    return small_models.make("PerCDL", dtype="float64").fit(cohort)


@pytest.fixture(scope="module")
def population(cohort):
    return small_models.make("PopCDL", dtype="float64").fit(cohort)


@partial(jax.jit, static_argnames="transform")
def derivatives(transform, params, atom):
    by_params, by_atom = jax.jacfwd(transform.apply, argnums=(0, 1))(params, atom)
    return by_atom, by_params, jax.jacfwd(lambda a: transform.warp(a, *atom.shape))(params)


def tangents(model, s, k):
    """Return T (L, L), J (L, M) and the derivative of the warp (L, M), in double precision."""
    with jax.enable_x64(True):
        found = derivatives(
            model.resolve("transformation"), model.params_[s, k], model.dictionary_[k]
        )
    return (np.asarray(x).reshape(LENGTH, -1) for x in found)


class Joint:
    """All unknowns of one atom in one dense system: phi, then everyone's parameters, then Z."""

    def __init__(self, model, cohort, k, local):
        n_subjects, _, n_params = model.params_.shape
        variance = SIGMA**2
        events = model.events_[model.events_["atom"] == k].reset_index()
        self.n_params, size = n_params, LENGTH + n_subjects * n_params
        self.precision = np.zeros((size + len(events),) * 2)
        self.warp_sum = np.zeros((LENGTH, size + len(events)))
        for s, subject in enumerate(model.subjects_):
            by_atom, by_params, warp = tangents(model, s, k)
            own = self.own(s)
            self.precision[own, own] += local.people[s].prior
            self.warp_sum[:, own] = warp
            for e in events.index[events["subject"] == subject]:
                onset, amplitude = events["onset_sample"][e], events["amplitude"][e]
                seen = ~np.isnan(cohort[s].values[onset : onset + LENGTH, 0])
                rows = np.zeros((LENGTH, len(self.precision)))
                rows[:, :LENGTH], rows[:, own] = amplitude * by_atom, amplitude * by_params
                rows[:, size + e] = model.personal_dictionary_[s, k, :, 0]
                self.precision += rows[seen].T @ rows[seen] / variance
        self.norm = np.zeros((1, len(self.precision)))
        self.norm[0, :LENGTH] = model.dictionary_[k, :, 0]

    def own(self, s):
        """Return where the parameters of a subject are."""
        return slice(LENGTH + s * self.n_params, LENGTH + (s + 1) * self.n_params)

    def covariance(self, *constraints):
        """Invert on what the constraints leave free."""
        free = scipy.linalg.null_space(np.concatenate(constraints), rcond=1e-9)
        return free @ np.linalg.inv(free.T @ self.precision @ free) @ free.T


def test_given_parameters_and_activations_it_is_the_covariance_of_theorem_1(model, cohort):
    found = estimate_uncertainty(model, cohort, conditional=True, sigma=SIGMA)
    for k in range(2):
        total = np.zeros((LENGTH, LENGTH))
        for event in model.events_[model.events_["atom"] == k].itertuples():
            s = cohort.subjects.index(event.subject)
            operator, _, _ = tangents(model, s, k)
            window = cohort[s].values[event.onset_sample : event.onset_sample + LENGTH, 0]
            seen = ~np.isnan(window)
            total += event.amplitude**2 * operator[seen].T @ operator[seen]
        expected = SIGMA**2 * np.linalg.inv(total)
        np.testing.assert_allclose(found.atom_covariance[k], expected, rtol=1e-6, atol=1e-12)
    assert (found.warp_se == 0).all()


@pytest.mark.parametrize("centred", [False, True])
def test_noise_is_propagated_as_by_one_system_of_all_unknowns(model, cohort, centred):
    for k in range(2):
        local = linearize(model, cohort, k, centred)
        joint = Joint(model, cohort, k, local)
        if centred:  # with the mean warp held, the answer to scores is the constrained inverse
            expected = joint.covariance(joint.norm, joint.warp_sum)[:LENGTH, :LENGTH]
            np.testing.assert_allclose(SIGMA**2 * local.solve()[:, :LENGTH], expected, atol=1e-7)
        else:
            expected = joint.covariance(joint.norm)[:LENGTH, :LENGTH]
            np.testing.assert_allclose(local.common()[0], expected, rtol=1e-4, atol=1e-9)


def linearize(model, cohort, k, centred):
    local = Linearization(model, cohort, k, conditional=False, sigma=SIGMA)
    local.centred = centred
    return local


def test_personal_errors_are_those_of_one_system_of_all_unknowns(model, cohort):
    for k in range(2):
        local = linearize(model, cohort, k, centred=False)
        joint = Joint(model, cohort, k, local)
        covariance = joint.covariance(joint.norm)
        common = local.common()
        for i, person in enumerate(local.people):
            s, found = person.index, local.of_person(i, *common)
            by_atom, by_params, warp = tangents(model, s, k)
            moves = np.zeros((2, LENGTH, len(covariance)))
            moves[0, :, :LENGTH], moves[:, :, joint.own(s)] = by_atom, [by_params, warp]
            for own, move in zip(found, moves, strict=True):
                np.testing.assert_allclose(own, move @ covariance @ move.T, rtol=1e-4, atol=1e-9)


def test_the_gauge_adds_the_sampling_error_of_the_mean_warp():
    """Without noise, a common atom moves with the mean warp of the subjects drawn."""
    cohort = small_models.spaced_cohort(3, bend=0.05, noise=1e-4)
    model = small_models.make("PerCDL", dtype="float64").fit(cohort)
    nearly_no_noise = estimate_uncertainty(model, cohort, sigma=1e-5)
    atom = model.dictionary_[0, :, 0]
    moved = model.warps_[:, 0, 0] - model.warps_[:, 0, 0].mean(0)
    shifts = np.gradient(atom) * moved / np.sqrt(len(moved) * (len(moved) - 1))
    shifts -= (shifts @ atom)[:, None] * atom
    expected = np.sqrt((shifts**2).sum(0))
    found = nearly_no_noise.atom_se[0, :, 0]
    np.testing.assert_allclose(found, expected, atol=0.1 * expected.max())


def test_a_mean_of_segments_has_the_error_of_a_mean():
    arrays = small_models.spaced_recordings(5, noise=SIGMA)
    model = small_models.make("PopCDL", dtype="float64").fit(arrays)
    found = estimate_uncertainty(model, arrays, sigma=SIGMA)
    for k, atom in enumerate(model.dictionary_[..., 0]):
        weight = (model.events_["amplitude"][model.events_["atom"] == k] ** 2).sum()
        expected = (np.eye(LENGTH) - np.outer(atom, atom)) * SIGMA**2 / weight
        np.testing.assert_allclose(found.atom_covariance[k], expected, rtol=1e-6, atol=1e-9)


def test_errors_scale_with_the_noise_and_the_number_of_subjects(population, cohort):
    once = estimate_uncertainty(population, cohort, sigma=SIGMA)
    louder = estimate_uncertainty(population, cohort, sigma=2 * SIGMA)
    np.testing.assert_allclose(louder.atom_covariance, 4 * once.atom_covariance, rtol=1e-6)
    twice = Cohort(replace(r, subject=f"{i}") for i, r in enumerate([*cohort, *cohort]))
    again = small_models.make("PopCDL", dtype="float64").fit(twice)
    np.testing.assert_allclose(again.dictionary_, population.dictionary_, atol=1e-8)
    halved = estimate_uncertainty(again, twice, sigma=SIGMA)
    np.testing.assert_allclose(2 * halved.atom_covariance, once.atom_covariance, rtol=1e-5)


def test_missing_samples_make_an_atom_less_certain():
    arrays = small_models.spaced_recordings(5, noise=SIGMA)
    model = small_models.make("PopCDL", dtype="float64").fit(arrays)
    whole = estimate_uncertainty(model, arrays, sigma=SIGMA)
    for event in model.events_[model.events_["atom"] == 0].iloc[1:].itertuples():
        arrays[int(event.subject)][event.onset_sample + 5] = np.nan
    holed = estimate_uncertainty(model, arrays, sigma=SIGMA)
    ratio = holed.atom_se[0, :, 0] / whole.atom_se[0, :, 0]
    assert ratio[5] > 1.5
    assert ratio.argmax() == 5
    np.testing.assert_array_equal(holed.atom_se[1], whole.atom_se[1])


def test_the_noise_level_is_found():
    arrays = small_models.spaced_recordings(0, (128,) * 24, noise=SIGMA, bend=0.0)
    model = small_models.make("PopCDL", dtype="float64").fit(arrays)
    assert estimate_uncertainty(model, arrays).sigma == pytest.approx(SIGMA, rel=0.06)


def test_the_sandwich_is_the_formula_of_the_model_in_white_noise():
    arrays = small_models.spaced_recordings(2, (256,) * 40, noise=SIGMA, bend=0.0)
    model = small_models.make("PopCDL", dtype="float64").fit(arrays)
    robust = estimate_uncertainty(model, arrays)
    formula = estimate_uncertainty(model, arrays, sigma=robust.sigma)
    ratio = np.trace(robust.atom_covariance, axis1=1, axis2=2) / np.trace(
        formula.atom_covariance, axis1=1, axis2=2
    )
    np.testing.assert_allclose(ratio, 1, atol=0.2)


def test_what_repeats_in_all_cycles_of_a_person_widens_the_bands():
    """Cycles of one person share its pace; to a model without warps they are one observation."""
    arrays = small_models.spaced_recordings(2, (256,) * 12, noise=SIGMA, bend=0.3)
    model = small_models.make("PopCDL", dtype="float64").fit(arrays)
    robust = estimate_uncertainty(model, arrays)
    formula = estimate_uncertainty(model, arrays, sigma=robust.sigma)
    assert robust.atom_se.mean() > 1.2 * formula.atom_se.mean()


def test_order_and_unit_of_the_recordings_do_not_matter(model, cohort):
    found = estimate_uncertainty(model, cohort)
    turned = Cohort(reversed(list(cohort)))
    again = estimate_uncertainty(copy(model).fit(turned), turned)
    np.testing.assert_allclose(again.atom_se, found.atom_se, rtol=1e-3)
    np.testing.assert_allclose(again.personal_se[::-1], found.personal_se, rtol=1e-3)
    louder = Cohort(replace(record, values=8 * record.values) for record in cohort)
    penalty = 64 * model.penalty_
    again = estimate_uncertainty(copy(model).set_params(penalty=penalty).fit(louder), louder)
    np.testing.assert_allclose(again.atom_se, found.atom_se, rtol=1e-3)
    assert again.sigma == pytest.approx(8 * found.sigma, rel=1e-4)


@pytest.mark.parametrize("correlation", [0.0, 1.0])
def test_the_largest_of_many_deviations_has_its_distribution(correlation):
    """Independent samples multiply their probabilities, equal ones are a single sample."""
    n, dof = 12, 1e9
    covariance = 4 * (np.eye(n) * (1 - correlation) + correlation)
    maxima = _draw_maxima(np.random.default_rng(0), dof, covariance)
    each = 0.9 if correlation else 0.9 ** (1 / n)
    assert np.quantile(maxima, 0.9) == pytest.approx(ndtri((1 + each) / 2), rel=0.05)


def test_simultaneous_bands_contain_pointwise_ones(model, cohort):
    found = estimate_uncertainty(model, cohort)
    for band in (found.atom_band, found.personal_band, found.warp_band):
        (low, high), (lower, higher) = band(0.9), band(0.9, simultaneous=True)
        assert (lower <= low).all()
        assert (high <= higher).all()


def test_bands_of_the_population_atom_cover_in_simulation():
    """Refit noise many times: the standard errors are those that are seen."""
    rng = np.random.default_rng(0)
    clean = small_models.spaced_recordings(1, (128,) * 6, noise=0.0, bend=0.0)
    model = small_models.make("PopCDL", dtype="float64")
    truth = toy.patterns() / np.linalg.norm(toy.patterns(), axis=(1, 2), keepdims=True)
    covered = []
    for _ in range(30):
        arrays = [x + SIGMA * rng.standard_normal(x.shape) for x in clean]
        low, high = estimate_uncertainty(model.fit(arrays), arrays).atom_band(0.95)
        covered.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_bands_widen_with_the_level(model, cohort):
    found = estimate_uncertainty(model, cohort)
    for band in (found.atom_band, found.personal_band, found.warp_band):
        (low, high), (lower, higher) = band(0.5), band(0.99)
        assert (lower <= low).all()
        assert (high <= higher).all()
    np.testing.assert_allclose(sum(found.atom_band()) / 2, model.dictionary_)


def test_one_person_has_the_band_of_everyone_and_one_of_the_speed(model, cohort):
    found = estimate_uncertainty(model, cohort)
    covariances = {(s, k): covariance for s, k, covariance in found.warp_covariances()}
    rng, shrink = np.random.default_rng(0), 1e-3
    for s, k in [(0, 0), (2, 1)]:
        half, speed = found.half_widths(s, k, 0.9)
        np.testing.assert_allclose(model.personal_dictionary_[s, k] + half,
                                   found.personal_band(0.9)[1][s, k])  # fmt: skip
        moved = rng.multivariate_normal(np.zeros(speed.size), covariances[s, k], 2_000)
        drawn = model.warps_[s, k] + shrink * moved.reshape(-1, *speed.shape)
        spread = log_speed(invert_warps(drawn[:, None]))[:, 0].std(0) / shrink
        np.testing.assert_allclose(speed, stdtrit(found.dof, 0.95) * spread, rtol=0.1, atol=1e-4)


def test_a_subject_without_the_atom_has_no_error_to_tell(model, cohort):
    fitted = copy(model)
    vars(fitted).pop("personalization_", None)
    silent = (model.events_["subject"] == "Di") & (model.events_["atom"] == 1)
    fitted.events_ = model.events_[~silent]
    fitted.n_activations_ = model.n_activations_.copy()
    fitted.params_ = model.params_.copy()
    fitted.n_activations_[3, 1], fitted.params_[3, 1] = 0, np.nan
    found = estimate_uncertainty(fitted, cohort)
    assert np.isnan(found.personal_se[3, 1]).all()
    assert all(np.isnan(half).all() for half in found.half_widths(3, 1))
    assert np.isfinite(found.personal_se[:, 0]).all()
    assert np.isfinite(found.atom_se).all()


def test_one_person_is_enough_for_a_spread(model, cohort):
    fitted = copy(model)
    vars(fitted).pop("personalization_", None)
    events = model.events_
    fitted.events_ = events[(events["subject"] == "Di") | (events["atom"] == 0)]
    fitted.n_activations_, fitted.params_ = model.n_activations_.copy(), model.params_.copy()
    fitted.n_activations_[:3, 1], fitted.params_[:3, 1] = 0, np.nan
    fitted.n_activations_[4:, 1], fitted.params_[4:, 1] = 0, np.nan
    found = estimate_uncertainty(fitted, cohort)
    assert np.isfinite(found.atom_se).all()
    assert np.isfinite(found.personal_se[3]).all()


def test_an_unfitted_model_is_refused(cohort):
    with pytest.raises(NotFittedError):
        estimate_uncertainty(PerCDL(1, 50, penalty=0.01), cohort)


def test_another_cohort_is_refused(model, cohort):
    with pytest.raises(InvalidParameterError, match="recordings of the fit"):
        estimate_uncertainty(model, cohort[1:])
    short = [record.values[:40] for record in cohort]
    with pytest.raises(InvalidParameterError, match=r"samples. Pass the recordings of the fit"):
        estimate_uncertainty(model, Cohort.from_arrays(short, subjects=small_models.SUBJECTS))


def test_models_without_a_likelihood_are_refused(cohort, population):
    separate = small_models.make("IndCDL").fit(small_models.spaced_cohort(0))
    with pytest.raises(InvalidParameterError, match="bootstrap_atoms"):
        estimate_uncertainty(separate, cohort)
    balanced = copy(population).set_params(algorithm__weighting="subjects")
    with pytest.raises(InvalidParameterError, match="weighting='amplitude'"):
        estimate_uncertainty(balanced, cohort)


def test_models_that_the_formula_does_not_know_are_refused(cohort, model):
    with pytest.raises(InvalidParameterError, match="Use `bootstrap_atoms`"):
        estimate_uncertainty(copy(model).set_params(loss=Huber()), cohort)


@pytest.mark.parametrize("option", [{"stretch": 1.5}, {"baseline": "offset"}])
def test_cycles_that_are_no_plain_windows_are_refused(cohort, model, option):
    other = clone(model).set_params(coder=L0Coder(**option)).fit(cohort)
    for estimate in (estimate_uncertainty, partial(bootstrap_atoms, keep_onsets=True)):
        with pytest.raises(InvalidParameterError, match="individual lengths or baselines"):
            estimate(other, cohort)


def test_composed_transforms_have_bands():
    arrays = [np.hstack([x, x[::-1]]) for x in small_models.spaced_recordings(3, noise=SIGMA)]
    model = small_models.make(
        "PerCDL", transformation=Compose(TimeWarp(1, 3), Rotation()), realign=False,
        population_rounds=1, personal_rounds=1, init=np.repeat(toy.patterns(), 2, axis=2),
    )  # fmt: skip
    found = estimate_uncertainty(model.fit(arrays), arrays)
    assert found.atom_se.shape == (2, LENGTH, 2)
    assert np.isfinite(found.atom_se).all()
    assert np.isfinite(found.personal_band(simultaneous=True)).all()


def test_models_that_chose_their_length_are_understood(cohort):
    given = small_models.make("PopCDL", population_rounds=1, personal_rounds=0)
    chosen = small_models.make(
        "PopCDL", population_rounds=1, personal_rounds=0, atom_length="auto"
    ).fit(cohort)
    expected = estimate_uncertainty(given.fit(cohort), cohort).atom_se
    assert np.allclose(estimate_uncertainty(chosen, cohort).atom_se, expected)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_probability(model, cohort, level):
    with pytest.raises(InvalidParameterError, match="between 0 and 1"):
        estimate_uncertainty(model, cohort).atom_band(level)
