"""Standard errors and confidence bands of atoms and warps (Theorem 1 and the delta method)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float
from scipy.special import stdtrit
from sklearn.utils.validation import check_is_fitted

from percdl.algorithm.chunks import bucket_length, bucket_rows
from percdl.analysis.checks import check_fitted_on, check_level
from percdl.analysis.information import (
    Chunk,
    Information,
    Model,
    measure_fit,
    spread_errors,
    sum_information,
)
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort
from percdl.steps.csc_l1 import L1Coder
from percdl.transforms import Compose, WarpTransform

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.transforms import Transform

# Most numbers in the matrices (L P, L P) of a chunk of subjects, and most subjects in one.
CHUNK_SIZE = 2**22
MAX_ROWS = 64
# A parameter that the segments say nothing about is uniform in its bounded set Theta, ends
# included. Its error is then about twice its standard deviation in the population.
ROOM = 2.0
# Fixed-point iterations for the noise level; each gains about a digit.
N_ITERATIONS = 30
# Samples that no subject's warp visits carry no information: they get a large error, not none.
RIDGE = 1e-10


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard errors of a fitted model.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise.
    dof : float
        Degrees of freedom of the bands: those of the spread between subjects for centred warps,
        otherwise those of the noise.
    dictionary : array (K, L, P)
        The common atoms, at unit norm.
    atom_covariance : array (K, L P, L P)
        Covariance of each common atom, channels flattened behind time.
    atom_se : array (K, L, P)
        Standard errors of the common atoms.
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
    channels. Then:

    - by default everything is unknown except the onsets. The bands of the common atom are for the
      atom of the *population*: they contain the noise and the sampling error of the mean warp over
      S subjects;
    - with ``conditional``, parameters and activations are known, as in Theorem 1: the covariance
      of the common atom is :math:`\sigma^2 \Sigma^{-1}`,
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
        Standard deviation of the noise; by default estimated from the residuals and the degrees
        of freedom of the fit.

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
    _check(model, sigma)
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


def _check(model: BaseCDL, sigma: float | None) -> None:
    check_is_fitted(model)
    transform, weighting = model.resolve("transformation"), model.resolve("algorithm").weighting
    reason = None
    if not transform.shares_structure:
        reason = f"of {type(model).__name__}: its atoms share nothing"
    elif isinstance(transform, Compose) or transform.channel_part(
        model.atom_length_, model.n_channels_
    ):
        reason = f"of {transform!r}: it needs the gauge of a single warp"
    elif model.loss != "squared" or isinstance(model.coder, L1Coder):
        reason = (
            f"of loss={model.loss!r} and coder={model.coder!r}: it needs squared errors and "
            "activations without overlap"
        )
    elif weighting != "amplitude":
        reason = (
            f"of weighting={weighting!r}: it needs weighting='amplitude', the maximum "
            "likelihood estimate"
        )
    if reason:
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


class Linearization:
    """A fitted model as a linear one: sums over chunks of subjects, atom by atom."""

    def __init__(self, model: BaseCDL, cohort: Cohort, conditional: bool):
        self.model, self.cohort = model, cohort
        self.transform: Transform = model.resolve("transformation")
        self.profile = not conditional
        self.active = model.n_activations_ > 0
        self.warps = model.warps_
        n_atoms = len(model.dictionary_)
        self.roots = [self._spread(k) * (not conditional) for k in range(n_atoms)]
        centers = model.resolve("algorithm").centering != "off"
        self.centred = not conditional and centers and self.warps.shape[2] > 0

    def noise_variance(self) -> float:
        """Return sigma^2: squared residuals over the remaining degrees of freedom."""
        residual, strengths = 0.0, []
        for k, _, chunk in self._chunks():
            squares, strength = self._run(measure_fit, k, 0.0, chunk)
            residual += squares.sum()
            strengths.append(np.maximum(strength.ravel(), 0))
        strength = np.concatenate(strengths)
        left = self._n_residuals()
        variance = residual / left
        for _ in range(N_ITERATIONS):
            taken = np.sum(strength / (strength + max(variance, np.finfo(float).tiny)))
            variance = residual / max(left - taken, 1)
        return float(variance)

    def degrees_of_freedom(self) -> float:
        """Return those of the spread between subjects, or of the noise without centred warps."""
        if self.centred:
            return float(max(self.active.sum(0).min() - 1, 1))
        return float(self._n_residuals())

    def _n_residuals(self) -> int:
        """Return the samples in segments, less common atoms and amplitudes (one scale shared)."""
        n_seen = sum(int(chunk.seen.sum()) for _, _, chunk in self._chunks())
        n_scales = len(self.model.events_) - len(self.roots) if self.profile else 0
        return max(n_seen - self.model.dictionary_.size - n_scales, 1)

    def noise_covariance(self, variance: float) -> np.ndarray:
        """Return the covariances (K, L P, L P) of the common atoms due to the noise."""
        sums: dict[int, Information] = {}
        for k, _, chunk in self._chunks():
            part = self._run(sum_information, k, variance, chunk)
            sums[k] = part if k not in sums else Information(*map(np.add, sums[k], part))
        return np.stack([self._invert(k, *sums[k]) for k in sums])

    def personal_variances(self, variance: float, covariance: np.ndarray):
        """Return the variances of personal atoms (S, K, L, P) and of warps (S, K, C, L).

        They are due to the noise and to the gauge h: the warps become ``h^-1 o psi``, and
        personal atoms change with the norm of ``phi o h``.
        """
        personal = np.full(self.model.personal_dictionary_.shape, np.nan)
        warps = np.full(self.warps.shape, np.nan)
        for k, rows, chunk in self._chunks():
            found = self._run(spread_errors, k, variance, covariance[k], chunk)
            for into, noise in zip((personal, warps), found, strict=True):
                shape = into[rows, k].shape
                into[rows, k] = noise[: shape[0]].reshape(shape)
        for k in range(len(covariance)) if self.centred else ():
            gauge = self.gauge_covariance(k)
            scale = self.model.dictionary_[k].ravel() @ self._slope(k)
            atoms = self.model.personal_dictionary_[:, k]
            personal[:, k] += (scale @ gauge @ scale) * atoms**2
            warps[:, k] += _read(np.diagonal(gauge), self.warps[:, k])
        personal[~self.active] = warps[~self.active] = np.nan
        return personal, warps

    def gauge_covariance(self, k: int) -> np.ndarray:
        """Return the sampling covariance (C L, C L) of the mean warp of an atom.

        The mean warp itself, if the fit has left any, counts as an error too.
        """
        warps = self.warps[self.active[:, k], k]
        moved = (warps - np.arange(warps.shape[-1])).reshape(len(warps), -1)
        mean, spread = moved.mean(0), moved - moved.mean(0)
        count = len(moved)
        return spread.T @ spread / (count * max(count - 1, 1)) + np.outer(mean, mean)

    def atom_covariance(self, noise: np.ndarray) -> np.ndarray:
        """Return the covariances (K, L P, L P) of the atoms due to noise and gauge."""
        if not self.centred:
            return noise
        total = noise.copy()
        for k, atom in enumerate(self.model.dictionary_):
            moved = _across(atom.ravel()) @ self._slope(k)
            total[k] += moved @ self.gauge_covariance(k) @ moved.T
        return total

    def _invert(self, k: int, information, pull, looseness) -> np.ndarray:
        """Return the covariance of an atom with its mean warp held at the identity."""
        if self.centred:
            # As if the mean warp had been observed, with the error of all warps together.
            information = information + pull.T @ _solve(looseness, pull)
        if not self.profile:
            return _solve(information, np.eye(len(information)))
        across = _across(self.model.dictionary_[k].ravel())
        along = (np.eye(len(across)) - across) * np.trace(information) / len(across)
        return across @ _solve(across @ information @ across + along, across)

    def _slope(self, k: int) -> np.ndarray:
        """Return the derivative (L P, C L) of ``phi o h`` in h, at the identity."""
        assert isinstance(self.transform, WarpTransform)
        atom, samples = self.model.dictionary_[k], np.arange(self.model.dictionary_.shape[1])
        identity = np.broadcast_to(samples.astype(float), self.warps.shape[2:])
        with jax.enable_x64(True):
            read = partial(self.transform.resample, jax.device_put(atom))
            slope = jax.jacfwd(read)(identity)
        return np.asarray(slope).reshape(atom.size, -1)

    def _spread(self, k: int) -> np.ndarray:
        """Return the root (M, M) of the covariance of the parameters, times ``ROOM``."""
        from sklearn.covariance import ledoit_wolf

        with jax.enable_x64(True):
            neutral = np.asarray(self.transform.neutral(jax.device_put(self.model.dictionary_[k])))
        params = self.model.params_[self.active[:, k], k] - neutral
        if params.size == 0:
            return np.eye(neutral.size)
        # A single row is repeated, because scikit-learn warns of one.
        params = np.resize(params, (max(2, len(params)), neutral.size))
        covariance, _ = ledoit_wolf(params, assume_centered=True)
        values, vectors = np.linalg.eigh(covariance)
        return ROOM * vectors * np.sqrt(np.maximum(values, 0))

    def _chunks(self) -> Iterator[tuple[int, slice, Chunk]]:
        """Yield the atom, the subjects and their chunk, padded to one of few sizes."""
        n_atoms, length, n_channels = self.model.dictionary_.shape
        few = bucket_rows(len(self.cohort), MAX_ROWS)
        rows = min(few, max(1, CHUNK_SIZE // (length * n_channels) ** 2))
        position = {subject: s for s, subject in enumerate(self.cohort.subjects)}
        for k in range(n_atoms):
            events = self.model.events_.loc[self.model.events_["atom"] == k]
            subject = events["subject"].map(position).to_numpy(int)
            slot = events.groupby(subject).cumcount().to_numpy()
            n_slots = bucket_length(int(slot.max(initial=0)) + 1)
            for start in range(0, len(self.cohort), rows):
                which = slice(start, min(start + rows, len(self.cohort)))
                inside = (subject >= start) & (subject < which.stop)
                places = subject[inside] - start, slot[inside]
                yield k, which, self._cut(k, which, (rows, n_slots), places, events[inside])

    def _cut(self, k: int, which: slice, shape: tuple[int, int], places, events) -> Chunk:
        """Return the segments of some events, each in its row and slot."""
        _, length, n_channels = self.model.dictionary_.shape
        params = np.zeros((shape[0], self.model.params_.shape[2]))
        params[: which.stop - which.start] = np.nan_to_num(self.model.params_[which, k])
        values, strength = np.zeros((*shape, length, n_channels)), np.zeros(shape)
        strength[places] = events["amplitude"]
        for row, slot, onset in zip(*places, events["onset_sample"], strict=True):
            values[row, slot] = self.cohort[which.start + row].values[onset : onset + length]
        values = values.reshape(*shape, -1)
        missing = np.isnan(values)
        seen = ~missing & (strength[..., None] != 0)
        return Chunk(params, np.where(missing, 0, values), seen, strength)

    def _run(self, program: Callable[..., Any], k: int, variance: float, *arrays: Any) -> Any:
        """Call a compiled program in double precision; return NumPy arrays."""
        model = Model(np.asarray(self.model.dictionary_[k], float), self.roots[k], variance)
        with jax.enable_x64(True):
            done = program(self.transform, self.profile, model, *arrays)
            return jax.tree.map(np.asarray, done)


def _across(atom: np.ndarray) -> np.ndarray:
    """Return the projection onto changes that keep the norm of an atom."""
    return np.eye(len(atom)) - np.outer(atom, atom) / (atom @ atom)


def _solve(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a symmetric positive system that may lack a few directions."""
    scale = np.trace(system) / max(len(system), 1)
    if not scale > 0:
        return np.full(right.shape, np.nan)
    regular = system + RIDGE * scale * np.eye(len(system))
    return scipy.linalg.solve(regular, right, assume_a="pos")


def _read(curve: np.ndarray, warps: np.ndarray) -> np.ndarray:
    """Return curves (C L), read at the warps (S, C, L)."""
    curves = curve.reshape(warps.shape[1:])
    samples = np.arange(warps.shape[-1])
    return np.stack(
        [[np.interp(x, samples, row) for x, row in zip(w, curves, strict=True)] for w in warps]
    )
