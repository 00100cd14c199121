"""Standard errors and bands of atoms and warps, by the sandwich formula."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit
from sklearn.utils.validation import check_is_fitted

from percdl.analysis.checks import check_fitted_on, check_level, has_own_windows
from percdl.analysis.linearization import Linearization
from percdl.estimators.base import BaseCDL
from percdl.estimators.personalization import SLOWEST, invert_warps
from percdl.exceptions import InvalidParameterError
from percdl.steps.csc_l1 import L1Coder

# Draws of the largest deviation along a curve, for simultaneous bands.
N_MAXIMA = 1000


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard errors of a fitted model.

    Attributes
    ----------
    sigma, dof : float
        Standard deviation of a cycle around the mean of its person, and degrees of freedom of the
        bands: between subjects, or of the noise if it is the only error.
    dictionary, atom_se : array (K, L, P)
        The common atoms, at unit norm, and their standard errors.
    atom_covariance : array (K, L P, L P)
        Covariance of each common atom, channels flattened behind time.
    personal_dictionary, personal_se : array (S, K, L, P)
        Personal atoms and their standard errors; NaN for subjects without the atom.
    warps, warp_se : array (S, K, C, L)
        Warps and their standard errors, in samples; C = 0 if the transform does not warp.
    misfit : array (K, L P, L P)
        Covariance of the shapes that the model does not explain.
    linear : list of Linearization
        The linearized model per atom; errors of persons are computed on first access.
    """

    sigma: float
    dof: float
    dictionary: Float[np.ndarray, "K L P"]
    atom_covariance: Float[np.ndarray, "K LP LP"]
    personal_dictionary: Float[np.ndarray, "S K L P"]
    warps: Float[np.ndarray, "S K C L"]
    misfit: Float[np.ndarray, "K LP LP"]
    linear: list[Linearization]

    def __repr__(self) -> str:
        n_subjects, n_atoms = self.personal_se.shape[:2]
        return (
            f"Uncertainty({n_atoms} atoms, {n_subjects} subjects, sigma {self.sigma:.3g}, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    @property
    def atom_se(self) -> Float[np.ndarray, "K L P"]:
        """Standard errors of the common atoms."""
        errors = [_standard_errors(covariance) for covariance in self.atom_covariance]
        return np.reshape(errors, self.dictionary.shape)

    @property
    def personal_se(self) -> Float[np.ndarray, "S K L P"]:
        """Standard errors of the personal atoms."""
        return self._of_people[0]

    @property
    def warp_se(self) -> Float[np.ndarray, "S K C L"]:
        """Standard errors of the warps."""
        return self._of_people[1]

    @cached_property
    def _of_people(self) -> tuple[np.ndarray, np.ndarray]:
        found = np.full(self.personal_dictionary.shape, np.nan), np.full(self.warps.shape, np.nan)
        for i, at, covariance in self._personal():
            found[i][at] = _standard_errors(covariance).reshape(found[i].shape[2:])
        return found

    @cached_property
    def _maxima(self) -> tuple[np.ndarray, np.ndarray]:
        shape = (*self.personal_dictionary.shape[:2], N_MAXIMA)
        found, draw = (np.full(shape, np.nan), np.full(shape, np.nan)), self._draw()
        for i, at, covariance in self._personal():
            found[i][at] = draw(covariance)
        return found

    def _personal(self) -> Iterator[tuple[int, tuple[int, int], np.ndarray]]:
        """Yield the covariances of personal atoms (0) and warps (1), with subject and atom."""
        for k, atom in enumerate(self.linear):
            for at, person in enumerate(atom.people):
                pair = atom.of_person(at, self.atom_covariance[k], self.misfit[k])
                yield from (
                    (i, (person.index, k), covariance) for i, covariance in enumerate(pair)
                )

    def warp_covariances(self) -> Iterator[tuple[int, int, Float[np.ndarray, "CL CL"]]]:
        """Yield the covariance of each warp, in squared samples, after its subject and atom."""
        for k, atom in enumerate(self.linear):
            for person in atom.people:
                yield person.index, k, atom.warp(person, self.atom_covariance[k])

    def _draw(self) -> Callable[[np.ndarray], np.ndarray]:
        return partial(_draw_maxima, np.random.default_rng(0), self.dof)

    def atom_band(self, level: float = 0.95, simultaneous: bool = False):
        """Return the lower and upper ends (K, L, P) of bands of common atoms.

        Each sample is covered with probability ``level``, or all samples of a curve at once if
        ``simultaneous``.
        """
        maxima = [*map(self._draw(), self.atom_covariance)] if simultaneous else None
        return self._band(self.dictionary, self.atom_se, level, maxima)

    def personal_band(self, level: float = 0.95, simultaneous: bool = False):
        """Return the two ends (S, K, L, P) of bands of personal atoms; see `atom_band`."""
        maxima = self._maxima[0] if simultaneous else None
        return self._band(self.personal_dictionary, self.personal_se, level, maxima)

    def warp_band(self, level: float = 0.95, simultaneous: bool = False):
        """Return the two ends (S, K, C, L) of bands of warps, in samples; see `atom_band`."""
        maxima = self._maxima[1] if simultaneous else None
        return self._band(self.warps, self.warp_se, level, maxima)

    def half_widths(
        self, subject: int, atom: int, level: float = 0.95
    ) -> tuple[Float[np.ndarray, "L P"], Float[np.ndarray, "C L"]]:
        """Return half widths of the bands of one person, sample by sample.

        The first is that of `personal_band`, the second that of the logarithm of the local speed
        at each sample of the common atom, as in `Effects`. NaN without the atom. Cost O((L P)^3).
        """
        check_level(level)
        linear, warps = self.linear[atom], self.warps[subject, atom]
        order = [person.index for person in linear.people]
        if subject not in order:
            return np.full(self.dictionary.shape[1:], np.nan), np.full(warps.shape, np.nan)
        known = order.index(subject), self.atom_covariance[atom], self.misfit[atom]
        own, warp = linear.of_person(*known)
        n, length = warps.shape
        blocks = warp.reshape(n, length, n, length)[np.arange(n), :, np.arange(n)]
        slopes = [_differentiate_log_speed(time) for time in invert_warps(warps)]
        pairs = zip(slopes, blocks, strict=True)
        variance = [((slope @ block) * slope).sum(1) for slope, block in pairs]
        q = stdtrit(self.dof, 0.5 + level / 2)
        half = q * _standard_errors(own).reshape(self.dictionary.shape[1:])
        return half, q * np.sqrt(np.maximum(variance, 0)).reshape(warps.shape)

    def _band(self, estimate, error, level: float, maxima: Any):
        """Return ``estimate -+ q error``, q a quantile of Student's t or of the maximum."""
        check_level(level)
        half = stdtrit(self.dof, 0.5 + level / 2)
        if maxima is not None:
            half = np.maximum(half, np.quantile(maxima, level, axis=-1)[..., None, None])
        return estimate - half * error, estimate + half * error


def estimate_uncertainty(
    model: BaseCDL, X: Any, *, conditional: bool = False, sigma: float | None = None
) -> Uncertainty:
    r"""Return standard errors of common atoms, personal atoms and warps.

    The model is linearized around the fit. By default covariances are cluster-robust: subjects
    are independent, and so are the cycles of a person, but noise within a cycle may have any
    covariance. Cost O(S K (L P)^3), in double precision.

    - The band of a common atom is for the atom of the *population*, up to its scale and a whole
      number of samples. It contains noise, misfit, the sampling error of the mean warp, and the
      common onset where the recordings do not show it.
    - The band of a personal atom is for the mean cycle of that person, up to the same. It contains
      the posterior of the warp, the spread between cycles, and the usual size of the shape that
      the model does not explain.
    - With ``sigma``, the noise is white and known.
    - With ``conditional``, noise is white, and parameters and activations are known, as in
      Theorem 1: the covariance of the common atom is :math:`\sigma^2 \Sigma^{-1}`,
      :math:`\Sigma = \sum_s w_s T_s^\top T_s`, and warps have no error.

    Parameters
    ----------
    model, X : PerCDL or PopCDL, Cohort or arrays
        Fitted, with ``weighting="amplitude"``, and the recordings it was fitted on.
    conditional : bool
        Whether parameters and activations are known.
    sigma : float, optional
        Standard deviation of white noise.

    Returns
    -------
    Uncertainty

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(8, noise_std=0.1, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> estimate_uncertainty(model, truth.cohort).atom_se.shape
    (2, 50, 1)
    """
    check_is_fitted(model)
    if reason := _reason_against(model):
        raise InvalidParameterError(
            f"`estimate_uncertainty` cannot use a model {reason}. Use `bootstrap_atoms`."
        )
    if sigma is not None and not sigma > 0:
        raise InvalidParameterError(f"`estimate_uncertainty(sigma={sigma!r})` must be positive.")
    unused = np.flatnonzero(~(model.n_activations_ > 0).any(0))
    if len(unused):
        raise InvalidParameterError(
            f"No subject uses atom {unused[0]}: it has no error. Fit fewer, or lower the penalty."
        )
    cohort, n_atoms = check_fitted_on(model, X), len(model.dictionary_)
    linear = [Linearization(model, cohort, k, conditional, sigma) for k in range(n_atoms)]
    covariances, misfits = zip(*(atom.common() for atom in linear), strict=True)
    return Uncertainty(
        sigma=float(np.sqrt(np.mean([np.diagonal(atom.noise) for atom in linear]))),
        dof=min(atom.degrees_of_freedom() for atom in linear),
        dictionary=model.dictionary_,
        atom_covariance=np.stack(covariances),
        personal_dictionary=model.personal_dictionary_,
        warps=model.warps_,
        misfit=np.stack(misfits),
        linear=linear,
    )


def _differentiate_log_speed(time: Float[np.ndarray, " L"]) -> Float[np.ndarray, "L L"]:
    """Return the derivatives of the log speed at each phase in the samples of the warp.

    ``time`` is the inverse T of the warp. A change d of the warp changes T by ``-T' d(T)``,
    and the log speed is ``-log T'``.
    """
    samples, pace = np.arange(len(time)), np.maximum(np.gradient(time), SLOWEST)
    read = np.stack([np.interp(time, samples, one) for one in np.eye(len(time))], axis=1)
    return np.gradient(pace[:, None] * read, axis=0) / pace[:, None]


def _standard_errors(covariance: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.diagonal(covariance), 0))


def _draw_maxima(rng: np.random.Generator, dof: float, covariance) -> np.ndarray:
    """Draw the largest deviation along a curve, in standard errors, for Student's t."""
    error = _standard_errors(covariance)
    positive = error > 1e-6 * error.max(initial=0)
    if not positive.any():
        return np.zeros(N_MAXIMA)
    scaled = covariance[np.ix_(positive, positive)] / np.outer(error[positive], error[positive])
    values, vectors = np.linalg.eigh(scaled)
    draws = (
        rng.standard_normal((N_MAXIMA, len(values))) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    )
    return np.abs(draws).max(1) / np.sqrt(rng.chisquare(dof, N_MAXIMA) / dof)


def _reason_against(model: BaseCDL) -> str:
    """Return why the formulas do not hold for a model; empty if they do."""
    transform, weighting = model.resolve("transformation"), model.resolve("algorithm").weighting
    if not transform.shares_structure:
        return f"of {type(model).__name__}: its atoms share nothing"
    if model.loss != "squared" or isinstance(model.coder, L1Coder):
        return "without squared errors, or with activations that overlap"
    if has_own_windows(model):
        return "whose cycles have individual lengths or baselines"
    if weighting != "amplitude":
        return f"of weighting={weighting!r}: it needs weighting='amplitude'"
    return ""
