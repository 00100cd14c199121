"""Standard errors and confidence bands of atoms and warps (Theorem 1 and the delta method)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from percdl.analysis.segments import cut_segments
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort, as_cohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.transforms import Transform

# Most numbers in one matrix (L P, L P) for each subject of a chunk.
CHUNK_SIZE = 2**22
MAX_ROWS = 64
# Fixed-point iterations for the noise level; each gains about a digit.
N_ITERATIONS = 30
# Samples that no subject's warp visits carry no information, and get a large error, not none.
RIDGE = 1e-10


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """How well a fitted model knows what it has learned.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise.
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
        return band(self.dictionary, self.atom_se, level)

    def personal_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, L, P) of pointwise bands of personal atoms."""
        return band(self.personal_dictionary, self.personal_se, level)

    def warp_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the two ends (S, K, C, L) of pointwise bands of warps, in samples."""
        return band(self.warps, self.warp_se, level)


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
    local = _Linearization(model, cohort, conditional)
    variance = local.noise_variance() if sigma is None else float(sigma) ** 2
    noise = local.noise_covariance(variance)
    covariance = local.atom_covariance(noise)
    personal, warps = local.personal_variances(variance, noise)
    diagonal = np.diagonal(covariance, axis1=1, axis2=2).reshape(model.dictionary_.shape)
    return Uncertainty(
        sigma=float(np.sqrt(variance)),
        dictionary=model.dictionary_,
        atom_covariance=covariance,
        atom_se=np.sqrt(np.maximum(diagonal, 0)),
        personal_dictionary=model.personal_dictionary_,
        personal_se=np.sqrt(personal),
        warps=local.warps,
        warp_se=np.sqrt(warps),
    )


def band(estimate: np.ndarray, error: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return ``estimate -+ q error``, with q the normal quantile of a two-sided level."""
    if not 0 < level < 1:
        raise InvalidParameterError(
            f"`level={level!r}` must be between 0 and 1, such as 0.95 for 95% bands."
        )
    half = ndtri(0.5 + level / 2) * error
    return estimate - half, estimate + half


class _Linearization:
    """A fitted model seen as a linear one: sums over chunks of subjects, atom by atom."""

    def __init__(self, model: BaseCDL, cohort: Cohort, conditional: bool):
        self.model, self.cohort = model, cohort
        self.transform: Transform = model._get_transform()
        self.profile = not conditional
        self.active = model.n_activations_ > 0
        self.warps = _warps(self.transform, model)
        n_atoms = len(model.dictionary_)
        self.roots = [self._spread(k) * (not conditional) for k in range(n_atoms)]
        self.centred = not conditional and getattr(model, "centering", "off") != "off"

    def noise_variance(self) -> float:
        """Return sigma^2: squared residuals over the degrees of freedom that are left."""
        from percdl.analysis.information import measure_fit

        residual, strengths, n_seen = 0.0, [], 0
        for k, _, chunk in self._chunks():
            squares, strength = self._run(measure_fit, k, 0.0, chunk)
            residual += squares.sum()
            strengths.append(strength.ravel())
            n_seen += int(chunk.seen.sum())
        atoms, strength = self.model.dictionary_, np.maximum(np.concatenate(strengths), 0)
        n_scales = len(self.model.events_) - len(atoms) if self.profile else 0
        left = n_seen - atoms.size - n_scales
        variance = residual / max(left, 1)
        for _ in range(N_ITERATIONS):
            taken = np.sum(strength / (strength + max(variance, np.finfo(float).tiny)))
            variance = residual / max(left - taken, 1)
        return float(variance)

    def noise_covariance(self, variance: float) -> np.ndarray:
        """Return the covariances (K, L P, L P) of the common atoms that the noise causes."""
        from percdl.analysis.information import Information, sum_information

        sums: dict[int, Information] = {}
        for k, _, chunk in self._chunks():
            part = self._run(sum_information, k, variance, chunk)
            sums[k] = part if k not in sums else Information(*map(np.add, sums[k], part))
        return np.stack([self._invert(k, *sums[k]) for k in sums])

    def personal_variances(self, variance: float, covariance: np.ndarray):
        """Return the variances of personal atoms (S, K, L, P) and of warps (S, K, C, L).

        What the noise causes, and what follows from another gauge h: the warps become
        ``h^-1 o psi``, and personal atoms change with the norm of ``phi o h``.
        """
        from percdl.analysis.information import spread_errors

        personal = np.full(self.model.personal_dictionary_.shape, np.nan)
        warps = np.full(self.warps.shape, np.nan)
        for k, rows, chunk in self._chunks():
            found = self._run(spread_errors, k, variance, covariance[k], chunk)
            for into, noise in zip((personal, warps), found, strict=True):
                shape = into[rows, k].shape
                into[rows, k] = noise[: shape[0]].reshape(shape)
        if self.centred:
            for k, gauge in enumerate(map(self.gauge_covariance, range(len(covariance)))):
                scale = self.model.dictionary_[k].ravel() @ self._slope(k)
                personal[:, k] += (
                    scale @ gauge @ scale
                ) * self.model.personal_dictionary_[:, k] ** 2
                warps[:, k] += _read(np.diagonal(gauge), self.warps[:, k])
        personal[~self.active] = warps[~self.active] = np.nan
        return personal, warps

    def gauge_covariance(self, k: int) -> np.ndarray:
        """Return the sampling covariance (C L, C L) of the mean warp of an atom."""
        warps = self.warps[self.active[:, k], k]
        moved = (warps - np.arange(warps.shape[-1])).reshape(len(warps), -1)
        return moved.T @ moved / (len(moved) * max(len(moved) - 1, 1))

    def atom_covariance(self, noise: np.ndarray) -> np.ndarray:
        """Return the covariances (K, L P, L P) of the atoms: noise, and the gauge's share."""
        if not self.centred:
            return noise
        total = noise.copy()
        for k, atom in enumerate(self.model.dictionary_):
            moved = _across(atom.ravel()) @ self._slope(k)
            total[k] += moved @ self.gauge_covariance(k) @ moved.T
        return total

    def _invert(self, k: int, information, pull, looseness) -> np.ndarray:
        """Return the covariance of an atom whose mean warp is held at the identity."""
        if self.centred:
            # As if the mean warp had been observed; its error is that of all warps together.
            information = information + pull.T @ _solve(looseness, pull)
        if not self.profile:
            return _solve(information, np.eye(len(information)))
        across = _across(self.model.dictionary_[k].ravel())
        along = (np.eye(len(across)) - across) * np.trace(information) / len(across)
        return across @ _solve(across @ information @ across + along, across)

    def _slope(self, k: int) -> np.ndarray:
        """Return the derivative (L P, C L) of ``phi o h`` in h, at the identity."""
        import jax

        atom, samples = self.model.dictionary_[k], np.arange(self.model.dictionary_.shape[1])
        identity = np.broadcast_to(samples.astype(float), self.warps.shape[2:])
        with jax.enable_x64(True):
            slope = jax.jacfwd(self.transform.resample, argnums=1)(atom, identity)
        return np.asarray(slope).reshape(atom.size, -1)

    def _spread(self, k: int) -> np.ndarray:
        """Return a root (M, M) of the parameters' covariance in the population."""
        import jax
        from sklearn.covariance import ledoit_wolf

        with jax.enable_x64(True):
            neutral = np.asarray(self.transform.neutral(self.model.dictionary_[k]))
        params = self.model.params_[self.active[:, k], k] - neutral
        if params.size == 0:
            return np.eye(neutral.size)
        covariance, _ = ledoit_wolf(params, assume_centered=True)
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.maximum(values, 0))

    def _chunks(self) -> Iterator[tuple[int, slice, Any]]:
        """Yield atom, subjects and what the programs need of them."""
        from percdl.analysis.information import Chunk

        params = np.nan_to_num(self.model.params_)
        n_atoms, length, n_channels = self.model.dictionary_.shape
        rows = min(MAX_ROWS, max(1, CHUNK_SIZE // (length * n_channels) ** 2), len(self.cohort))
        for k in range(n_atoms):
            pieces = cut_segments(self.cohort, self.model.events_, k, length, rows)
            for which, segments in pieces:
                padded = np.zeros((rows, params.shape[2]))
                padded[: which.stop - which.start] = params[which, k]
                yield k, which, Chunk(padded, *segments)

    def _run(self, program: Callable[..., Any], k: int, variance: float, *arrays: Any) -> Any:
        """Call a compiled program in double precision; return NumPy arrays."""
        import jax

        from percdl.analysis.information import Model

        model = Model(np.asarray(self.model.dictionary_[k], float), self.roots[k], variance)
        with jax.enable_x64(True):
            done = program(self.transform, self.profile, model, *arrays)
            return jax.tree.map(np.asarray, done)


def _warps(transform: Transform, model: BaseCDL) -> np.ndarray:
    """Return everyone's warps (S, K, C, L), in samples; C = 0 without a warp."""
    import jax

    from percdl.transforms import WarpTransform

    shape = model.dictionary_.shape[1:]
    if not isinstance(transform, WarpTransform):
        return np.zeros((*model.params_.shape[:2], 0, shape[0]))
    with jax.enable_x64(True):
        return np.asarray(transform.warp(model.params_, *shape))


def _across(atom: np.ndarray) -> np.ndarray:
    """Return the projection that removes what only changes the norm of an atom."""
    return np.eye(len(atom)) - np.outer(atom, atom) / (atom @ atom)


def _solve(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a symmetric positive system, which may lack a few directions."""
    scale = np.trace(system) / max(len(system), 1)
    if not scale > 0:
        return np.full(right.shape, np.nan)
    regular = system + RIDGE * scale * np.eye(len(system))
    return scipy.linalg.solve(regular, right, assume_a="pos")


def _read(curve: np.ndarray, warps: np.ndarray) -> np.ndarray:
    """Return curves (C L), read where the warps (S, C, L) are."""
    curves = curve.reshape(warps.shape[1:])
    samples = np.arange(warps.shape[-1])
    return np.stack(
        [[np.interp(x, samples, row) for x, row in zip(w, curves, strict=True)] for w in warps]
    )


def _check(model: BaseCDL, X: Any, sigma: float | None) -> Cohort:
    check_is_fitted(model)
    name = type(model).__name__
    if not model._get_transform().shares_structure:
        raise InvalidParameterError(
            f"`estimate_uncertainty` cannot use `{name}`: its common atom is a summary of atoms "
            "that share nothing. Use `bootstrap_atoms`."
        )
    if model.weighting != "amplitude":
        raise InvalidParameterError(
            f"`estimate_uncertainty` needs a model with weighting='amplitude', the maximum "
            f"likelihood estimate; this one has {model.weighting!r}. Use `bootstrap_atoms`."
        )
    if sigma is not None and not sigma > 0:
        raise InvalidParameterError(f"`estimate_uncertainty(sigma={sigma!r})` must be positive.")
    return check_fitted_on(model, X)


def check_fitted_on(model: BaseCDL, X: Any) -> Cohort:
    """Return the recordings as a cohort; raise unless they are those the model was fitted on."""
    check_is_fitted(model)
    cohort = as_cohort(X)
    if cohort.subjects != tuple(model.subjects_) or cohort.n_channels != model.n_channels_:
        raise InvalidParameterError(
            f"`{type(model).__name__}` was fitted on {len(model.subjects_)} recording(s) of "
            f"{model.n_channels_} channel(s), first subject {model.subjects_[0]!r}; X has "
            f"{len(cohort)} of {cohort.n_channels}, first subject {cohort.subjects[0]!r}. Pass "
            "the recordings of the fit, in the same order."
        )
    last = model.events_.groupby("subject")["onset_sample"].max() + model.atom_length
    for subject, stop in last.items():
        if stop > cohort[str(subject)].n_times:
            raise InvalidParameterError(
                f"The model has an activation of subject {subject!r} up to sample {stop}, but "
                f"the recording ends at {cohort[str(subject)].n_times}. Pass the recordings of "
                "the fit."
            )
    return cohort
