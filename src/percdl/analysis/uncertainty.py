"""Standard errors and bands of atoms and warps: Theorem 1, the delta method, the bootstrap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from scipy.special import stdtrit
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from percdl.algorithm.settings import Huber
from percdl.analysis.checks import check_fitted_on, check_level
from percdl.analysis.linearization import Linearization
from percdl.estimators.start import make_settings
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort
from percdl.steps.csc_l1 import L1Coder
from percdl.transforms import Compose

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard errors of a fitted model.

    Attributes
    ----------
    sigma, dof : float
        Standard deviation of the noise, and degrees of freedom of the bands: those of the spread
        between subjects for centred warps, otherwise those of the noise.
    dictionary, atom_se : array (K, L, P)
        The common atoms, at unit norm, and their standard errors.
    atom_covariance : array (K, L P, L P)
        Covariance of each common atom, channels flattened behind time.
    personal_dictionary, personal_se : array (S, K, L, P)
        Personal atoms and their standard errors; NaN for subjects without the atom.
    warps, warp_se : array (S, K, C, L)
        Warps and their standard errors, in samples; C = 0 unless the transform is a warp.
    """

    sigma: float
    dof: float
    dictionary: Float[np.ndarray, "K L P"]
    atom_covariance: Float[np.ndarray, "K LP LP"]
    atom_se: Float[np.ndarray, "K L P"]
    personal_dictionary: Float[np.ndarray, "S K L P"]
    personal_se: Float[np.ndarray, "S K L P"]
    warps: Float[np.ndarray, "S K C L"]
    warp_se: Float[np.ndarray, "S K C L"]

    def __repr__(self) -> str:
        n_subjects, n_atoms = self.personal_se.shape[:2]
        return (
            f"Uncertainty({n_atoms} atoms, {n_subjects} subjects, sigma {self.sigma:.3g}, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    def atom_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends (K, L, P) of pointwise bands of common atoms."""
        return self._band(self.dictionary, self.atom_se, level)

    def personal_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, L, P) of pointwise bands of personal atoms."""
        return self._band(self.personal_dictionary, self.personal_se, level)

    def warp_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, C, L) of pointwise bands of warps, in samples."""
        return self._band(self.warps, self.warp_se, level)

    def _band(self, estimate: np.ndarray, error: np.ndarray, level: float):
        """Return ``estimate -+ q error``, with q the two-sided quantile of Student's t."""
        check_level(level)
        half = stdtrit(self.dof, 0.5 + level / 2) * error
        return estimate - half, estimate + half


def estimate_uncertainty(
    model: BaseCDL, X: Any, *, conditional: bool = False, sigma: float | None = None
) -> Uncertainty:
    r"""Return standard errors of common atoms, personal atoms and warps.

    The model is linearized around the fit. Noise is white, with the same variance in all
    channels. Cost O(S K (L P)^3), in double precision.

    - by default everything is unknown except the onsets. The bands of the common atom are for the
      atom of the *population*: they contain the noise and the sampling error of the mean warp over
      S subjects;
    - with ``conditional``, parameters and activations are known, as in Theorem 1: the covariance
      of the common atom is :math:`\sigma^2 \Sigma^{-1}`,
      :math:`\Sigma = \sum_s w_s T_s^\top T_s`, and warps have no error.

    Parameters
    ----------
    model, X : PerCDL or PopCDL, Cohort or arrays
        Fitted, with ``weighting="amplitude"``, and the recordings it was fitted on.
    conditional : bool
        Whether parameters and activations are known.
    sigma : float, optional
        Standard deviation of the noise; by default estimated from the residuals.

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
    local = Linearization(model, check_fitted_on(model, X), conditional)
    variance = local.noise_variance() if sigma is None else float(sigma) ** 2
    noise = local.noise_covariance(variance)
    covariance = local.atom_covariance(noise)
    personal, warps = local.personal_variances(variance, noise)
    diagonal = np.diagonal(covariance, axis1=1, axis2=2).reshape(model.dictionary_.shape)
    return Uncertainty(
        sigma=float(np.sqrt(variance)),
        dof=local.degrees_of_freedom(),
        dictionary=model.dictionary_,
        atom_covariance=covariance,
        atom_se=np.sqrt(np.maximum(diagonal, 0)),
        personal_dictionary=model.personal_dictionary_,
        personal_se=np.sqrt(personal),
        warps=local.warps,
        warp_se=np.sqrt(warps),
    )


def _reason_against(model: BaseCDL) -> str:
    """Return why the formulas do not hold for a model; empty if they do."""
    transform, weighting = model.resolve("transformation"), model.resolve("algorithm").weighting
    mixes = transform.channel_part(model.atom_length_, model.n_channels_)
    if not transform.shares_structure:
        return f"of {type(model).__name__}: its atoms share nothing"
    if isinstance(transform, Compose) or mixes:
        return f"of {transform!r}: it needs the gauge of a single warp"
    if model.loss != "squared" or isinstance(model.coder, L1Coder):
        return "without squared errors, or with activations that overlap"
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

    def atom_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends (K, L, P) of percentile bands."""
        check_level(level)
        lower, upper = np.quantile(self.draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return lower, upper


def bootstrap_atoms(
    model: BaseCDL, X: Any, n_draws: int = 100, random_state: Any = None
) -> Bootstrap:
    """Fit the model again to subjects drawn with replacement.

    Every fit starts from the dictionary of the model and uses its settings. The draws contain all
    that varies between subjects: noise, warps, amplitudes, misfit. Cost: ``n_draws`` fits.

    Parameters
    ----------
    model, X : PerCDL, PopCDL or IndCDL, Cohort or arrays
        Fitted, and the recordings it was fitted on.
    n_draws, random_state : int
        Number and seed of the draws; 50 are enough for standard errors, bands need hundreds.

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
    rng = check_random_state(random_state)
    again: BaseCDL = clone(model)  # pyright: ignore[reportAssignmentType]
    settings = make_settings(model, cohort)
    again.set_params(
        init=model.dictionary_, n_atoms=settings.n_atoms, atom_length=settings.atom_length,
        penalty=settings.penalty, progress=False,
        loss="squared" if settings.delta is None else Huber(settings.delta),
    )  # fmt: skip
    draws = []
    for _ in range(n_draws):
        drawn = rng.randint(len(cohort), size=len(cohort)).tolist()
        some = [replace(cohort[s], subject=f"draw {i}: {s}") for i, s in enumerate(drawn)]
        dictionary = again.fit(Cohort(some)).dictionary_
        draws.append(match_to(dictionary, model.dictionary_, settings.coder.signed))
    return Bootstrap(model.dictionary_, np.stack(draws))


def match_to(dictionary: np.ndarray, reference: np.ndarray, signed: bool = False) -> np.ndarray:
    """Return atoms of unit norm in the order, and with ``signed`` the signs, of a reference."""
    likeness = np.einsum("klp,jlp->kj", reference, dictionary)
    rows, order = linear_sum_assignment(np.abs(likeness) if signed else likeness, maximize=True)
    sign = np.where(signed & (likeness[rows, order] < 0), -1, 1)
    return dictionary[order] * sign[:, None, None]
