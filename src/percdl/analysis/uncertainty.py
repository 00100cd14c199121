"""Standard errors and confidence bands of atoms and warps (Theorem 1 and the delta method)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit
from sklearn.utils.validation import check_is_fitted

from percdl.analysis.fitted import check_fitted_on, check_level
from percdl.analysis.linearization import Linearization
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort
from percdl.steps.csc_l1 import L1Coder
from percdl.transforms import Compose

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How well a fitted model knows what it has learned.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise.
    dof : float
        Degrees of freedom of the bands: those of the spread between subjects, where that
        matters, else those of the noise.
    dictionary : array (K, L, P)
        The common atoms, at unit norm.
    atom_covariance : array (K, L P, L P)
        Covariance of each common atom, channels flattened behind time.
    atom_se : array (K, L, P)
        Standard errors of the common atoms.
    personal_dictionary, personal_se : array (S, K, L, P)
        Personal atoms and their standard errors; NaN where a subject has no activation.
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
        """Say how large the errors are: the arrays are long."""
        n_subjects, n_atoms = self.personal_se.shape[:2]
        return (
            f"Uncertainty({n_atoms} atoms, {n_subjects} subjects, sigma {self.sigma:.3g}, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    def atom_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper ends (K, L, P) of pointwise bands of common atoms."""
        return band(self.dictionary, self.atom_se, level, self.dof)

    def personal_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, L, P) of pointwise bands of personal atoms."""
        return band(self.personal_dictionary, self.personal_se, level, self.dof)

    def warp_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, C, L) of pointwise bands of warps, in samples."""
        return band(self.warps, self.warp_se, level, self.dof)


def estimate_uncertainty(
    model: BaseCDL, X: Any, *, conditional: bool = False, sigma: float | None = None
) -> Uncertainty:
    r"""Return standard errors of common atoms, personal atoms and warps.

    Around the fit, recordings are linear in the common atom, in everyone's parameters and in
    all amplitudes. Noise is white, with the same variance in all channels. Then:

    - by default everything is unknown but the onsets. The bands of the common atom are for
      the atom of the *population*: they contain the noise, and the sampling error of the
      mean warp, which has S subjects to go by however small the noise is;
    - with ``conditional``, parameters and activations are taken as known, as in Theorem 1:
      the covariance of the common atom is :math:`\sigma^2 \Sigma^{-1}`,
      :math:`\Sigma = \sum_s w_s T_s^\top T_s`, and warps have no error.

    Parameters
    ----------
    model : PerCDL or PopCDL
        Fitted, with ``weighting="amplitude"``.
    X : Cohort or arrays
        The recordings it was fitted on.
    conditional : bool
        Whether parameters and activations are known.
    sigma : float, optional
        Standard deviation of the noise; by default estimated from what is left of the
        segments, less the degrees of freedom of all that was fitted.

    Returns
    -------
    Uncertainty
        Standard errors and bands of common atoms, personal atoms and warps.

    Notes
    -----
    Cost O(S K (L P)^3), in double precision.

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(8, noise_std=0.1, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> estimate_uncertainty(model, truth.cohort).atom_se.shape
    (2, 50, 1)
    """
    cohort = _check(model, X, sigma)
    local = Linearization(model, cohort, conditional)
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


def band(
    estimate: np.ndarray, error: np.ndarray, level: float, dof: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``estimate -+ q error``, with q the quantile of Student's t, two-sided."""
    check_level(level)
    half = stdtrit(dof, 0.5 + level / 2) * error
    return estimate - half, estimate + half


def _check(model: BaseCDL, X: Any, sigma: float | None) -> Cohort:
    check_is_fitted(model)
    name = type(model).__name__
    if not model._get_transform().shares_structure:
        raise InvalidParameterError(
            f"`estimate_uncertainty` cannot use `{name}`: its common atom is a summary of atoms "
            "that share nothing. Use `bootstrap_atoms`."
        )
    part = model._get_transform().channel_part(model.atom_length_, model.n_channels_)
    composed = isinstance(model._get_transform(), Compose)
    if part is not None or composed:
        raise InvalidParameterError(
            f"`estimate_uncertainty` knows the gauge of a single warp only, not of "
            f"{model._get_transform()!r}. Use `bootstrap_atoms`."
        )
    if model.loss != "squared" or isinstance(model.coder, L1Coder):
        raise InvalidParameterError(
            "`estimate_uncertainty` is about squared errors and activations without overlap; this "
            f"model has loss={model.loss!r} and coder={model.coder!r}. Use `bootstrap_atoms`."
        )
    if model.weighting != "amplitude":
        raise InvalidParameterError(
            f"`estimate_uncertainty` needs a model with weighting='amplitude', the maximum "
            f"likelihood estimate; this one has {model.weighting!r}. Use `bootstrap_atoms`."
        )
    if sigma is not None and not sigma > 0:
        raise InvalidParameterError(f"`estimate_uncertainty(sigma={sigma!r})` must be positive.")
    unused = np.flatnonzero(~(model.n_activations_ > 0).any(0))
    if len(unused):
        raise InvalidParameterError(
            f"Nobody uses atom {unused[0]}, so nothing is known of it. Fit fewer atoms, or lower "
            "the penalty."
        )
    return check_fitted_on(model, X)
