"""Standard errors and bands of atoms and warps: the sandwich formula, the bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.special import stdtrit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from percdl.algorithm.settings import Huber
from percdl.analysis.checks import check_fitted_on, check_level, has_own_windows
from percdl.analysis.linearization import Linearization
from percdl.analysis.resampling import redraw
from percdl.estimators.start import make_settings
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed, as_random_state
from percdl.signals import Cohort
from percdl.steps.csc_l1 import L1Coder

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


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
            for s, *pair in atom.personal(self.atom_covariance[k], self.misfit[k]):
                yield from ((i, (s, k), covariance) for i, covariance in enumerate(pair))

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
            f"No subject uses atom {unused[0]}, so it has no error. Fit fewer atoms, or lower the "
            "penalty."
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


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The common atoms of cohorts resampled from the subjects.

    Attributes
    ----------
    dictionary : array (K, L, P)
        The common atoms of the whole cohort.
    draws : array (B, K, L, P)
        Those of each resampled cohort, in the same order and with the same signs.
    """

    dictionary: Float[np.ndarray, "K L P"]
    draws: Float[np.ndarray, "B K L P"]

    def __repr__(self) -> str:
        return (
            f"Bootstrap({len(self.draws)} draws, {len(self.dictionary)} atoms, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    @cached_property
    def atom_se(self) -> Float[np.ndarray, "K L P"]:
        """Standard errors of the common atoms: their standard deviation over the draws."""
        return self.draws.std(0, ddof=1)

    def atom_band(self, level: float = 0.95, simultaneous: bool = False):
        """Return the lower and upper ends (K, L, P) of percentile bands.

        If ``simultaneous``, the bands hold whole atoms in a share ``level`` of the draws.
        """
        check_level(level)
        if not simultaneous:
            return tuple(np.quantile(self.draws, [0.5 - level / 2, 0.5 + level / 2], axis=0))
        error = np.maximum(self.atom_se, np.finfo(float).tiny)
        largest = (np.abs(self.draws - self.draws.mean(0)) / error).max((2, 3))
        half = np.quantile(largest, level, axis=0)[:, None, None] * error
        return self.dictionary - half, self.dictionary + half


def bootstrap_atoms(
    model: BaseCDL,
    X: Any,
    n_draws: int = 100,
    random_state: Seed = None,
    *,
    keep_onsets: bool = False,
) -> Bootstrap:
    """Fit the model again to subjects drawn with replacement.

    The draws include all variation between subjects: noise, warps, amplitudes, misfit. Cost:
    ``n_draws`` fits; with ``keep_onsets``, about as many personal rounds without coding.

    Parameters
    ----------
    model, X : PerCDL, PopCDL or IndCDL, Cohort or arrays
        Fitted, and the recordings it was fitted on.
    n_draws, random_state : int
        Number and seed of the draws; 50 are enough for standard errors, bands need hundreds.
    keep_onsets : bool
        Keep the activations of the fit, and repeat only its last rounds: warps, dictionary and
        gauge, all draws in one compiled program. That takes seconds, and is for `PopCDL` and a
        single warp. By default each draw is a whole fit from the dictionary of the model.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(4, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> bootstrap_atoms(model, truth.cohort, n_draws=2, random_state=0).draws.shape
    (2, 2, 50, 1)
    """
    cohort = check_fitted_on(model, X)
    if n_draws < 2:
        raise InvalidParameterError(f"`bootstrap_atoms(n_draws={n_draws!r})` must be at least 2.")
    rng = as_random_state(random_state)
    drawn = rng.randint(len(cohort), size=(n_draws, len(cohort)))
    if keep_onsets:
        return Bootstrap(model.dictionary_, redraw(model, cohort, drawn))
    again: BaseCDL = clone(model)  # pyright: ignore[reportAssignmentType]
    settings = make_settings(model, cohort)
    again.set_params(
        init=model.dictionary_, n_atoms=settings.n_atoms, atom_length=settings.atom_length,
        penalty=settings.penalty, progress=False,
        loss="squared" if settings.delta is None else Huber(settings.delta),
    )  # fmt: skip
    draws = []
    for subjects in drawn.tolist():
        some = [replace(cohort[s], subject=f"draw {i}: {s}") for i, s in enumerate(subjects)]
        dictionary = again.fit(Cohort(some)).dictionary_
        draws.append(match_to(dictionary, model.dictionary_, settings.coder.signed))
    return Bootstrap(model.dictionary_, np.stack(draws))


def match_to(dictionary: np.ndarray, reference: np.ndarray, signed: bool = False) -> np.ndarray:
    """Return atoms of unit norm in the order, and with ``signed`` the signs, of a reference."""
    likeness = np.einsum("klp,jlp->kj", reference, dictionary)
    rows, order = linear_sum_assignment(np.abs(likeness) if signed else likeness, maximize=True)
    sign = np.where(signed & (likeness[rows, order] < 0), -1, 1)
    return dictionary[order] * sign[:, None, None]
