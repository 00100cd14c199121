"""A fitted model as a linear one: the information of the segments about its atoms and warps.

Around a fit, a segment is linear in all unknowns,
``y_j = z_j g + g dz_j + z_j (J da + T dphi) + noise``, with ``g = f(phi, a)``, J its derivative
in a and T in phi. The amplitudes are profiled out segment by segment and the parameters subject by
subject (a Schur complement). The rest is the information about phi, a sum over subjects.
Parameters are written ``da = root u``, where u has unit variance without data, so their errors
stay bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from percdl.signals import Cohort
from percdl.steps.compilation import program
from percdl.transforms import WarpTransform

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.transforms import Transform

# A parameter that the segments say nothing about is uniform in its bounded set Theta, ends
# included. Its error is then about twice its standard deviation in the population.
ROOM = 2.0
# Fixed-point iterations for the noise level; each gains about a digit.
N_ITERATIONS = 30
# Samples that no subject's warp visits carry no information: they get a large error, not none.
RIDGE = 1e-10


@partial(program, static_argnames=("transform",))
def differentiate(transform: Transform, params, atom):
    """Return f(phi, a) (L P,), T (L P, L P), J (L P, M), and the derivative of the warp in a."""
    by_params, by_atom = jax.jacfwd(transform.apply, argnums=(0, 1))(params, atom)
    warp = jnp.zeros((0, params.size))
    if isinstance(transform, WarpTransform):
        psi = partial(transform.warp, atom_length=atom.shape[0], n_channels=atom.shape[1])
        warp = jax.jacfwd(psi)(params).reshape(-1, params.size)
    flat = (x.reshape(atom.size, -1) for x in (by_atom, by_params))
    return transform.apply(params, atom).reshape(-1), *flat, warp


class Tangent(NamedTuple):
    """One atom of a subject: T, J root, the derivative of the warp in u, and the segments.

    ``weight`` Q (L P, L P) is ``sum_j z_j^2`` over the observed samples, less the share that the
    amplitudes absorb; ``residual`` is squared.
    """

    by_atom: Float[np.ndarray, "LP LP"]
    by_params: Float[np.ndarray, "LP M"]
    warp: Float[np.ndarray, "CL M"]
    weight: Float[np.ndarray, "LP LP"]
    residual: float
    n_seen: int

    def eliminate(self, variance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the covariance (M, M) of u given phi, its coupling to phi, and ``-du / dphi``."""
        pull = self.by_params.T @ self.weight / variance
        own = np.linalg.inv(pull @ self.by_params + np.eye(len(pull)))
        coupling = pull @ self.by_atom
        return own, coupling, own @ coupling


class Linearization:
    """A fitted model as a linear one: sums over subjects, atom by atom."""

    def __init__(self, model: BaseCDL, cohort: Cohort, conditional: bool):
        self.model, self.cohort = model, cohort
        self.transform: Transform = model.resolve("transformation")
        self.dictionary = np.asarray(model.dictionary_, float)
        self.profile = not conditional
        self.active = model.n_activations_ > 0
        self.warps = model.warps_
        self.roots = [self._spread(k) * self.profile for k in range(len(self.dictionary))]
        centers = model.resolve("algorithm").centering != "off"
        self.centred = self.profile and centers and self.warps.shape[2] > 0

    def tangents(self, k: int) -> Iterator[tuple[int, Tangent]]:
        """Yield the subjects with an atom, and their linear models."""
        atom, root, events = self.dictionary[k], self.roots[k], self.model.events_
        segments = events[events["atom"] == k].groupby("subject")
        for s in np.flatnonzero(self.active[:, k]).tolist():
            own: Any = segments.get_group(self.cohort.subjects[s])
            with jax.enable_x64(True):
                found = differentiate(
                    self.transform, np.asarray(self.model.params_[s, k], float), atom
                )
            value, by_atom, by_params, warp = map(np.asarray, found)
            z = own["amplitude"].to_numpy(float)[:, None]
            window = own["onset_sample"].to_numpy()[:, None] + np.arange(len(atom))
            values = np.asarray(self.cohort[s].values, float)[window].reshape(len(z), -1)
            seen = np.isfinite(values)
            weight = np.diag((z**2 * seen).sum(0))
            if self.profile:
                shape = seen * value
                power = (shape**2).sum(1, keepdims=True)
                share = np.divide(z**2, power, out=np.zeros_like(power), where=power > 0)
                weight -= (shape * share).T @ shape
            residual = float(np.nansum((values - z * value) ** 2))
            n_seen = int(seen.sum())
            yield s, Tangent(by_atom, by_params @ root, warp @ root, weight, residual, n_seen)

    @cached_property
    def fit(self) -> tuple[float, np.ndarray, int]:
        """Squared residuals, eigenvalues of ``root^T J^T Q J root``, degrees of freedom left.

        Those of the samples in segments, less common atoms and amplitudes (one scale shared).
        """
        residual, strengths = 0.0, []
        n_scales = len(self.model.events_) - len(self.roots) if self.profile else 0
        n_left = -self.dictionary.size - n_scales
        for k in range(len(self.roots)):
            for _, own in self.tangents(k):
                residual += own.residual
                n_left += own.n_seen
                curvature = own.by_params.T @ own.weight @ own.by_params
                strengths.append(np.maximum(np.linalg.eigvalsh(curvature), 0))
        return residual, np.concatenate(strengths), max(n_left, 1)

    def noise_variance(self) -> float:
        """Return sigma^2: squared residuals over the remaining degrees of freedom.

        A direction of the parameters with eigenvalue e takes ``e / (e + sigma^2)`` of them.
        """
        residual, strength, n_left = self.fit
        variance = residual / n_left
        for _ in range(N_ITERATIONS):
            taken = np.sum(strength / (strength + max(variance, np.finfo(float).tiny)))
            variance = residual / max(n_left - taken, 1)
        return float(variance)

    def degrees_of_freedom(self) -> float:
        """Return those of the spread between subjects, or of the noise without centred warps."""
        if self.centred:
            return float(max(self.active.sum(0).min() - 1, 1))
        return float(self.fit[2])

    def noise_covariance(self, variance: float) -> np.ndarray:
        """Return the covariances (K, L P, L P) of the common atoms due to the noise.

        The inverse of the information, the mean warp held at the identity. With neither
        parameters nor amplitudes unknown, the information is ``Sigma / sigma^2`` of Theorem 1.
        """
        found = []
        for k, atom in enumerate(self.dictionary):
            information, n_warps = np.zeros((atom.size, atom.size)), self.warps[0, 0].size
            pull, looseness = np.zeros((n_warps, atom.size)), np.zeros((n_warps, n_warps))
            for _, own in self.tangents(k):
                u, coupling, response = own.eliminate(variance)
                information += own.by_atom.T @ own.weight @ own.by_atom / variance
                information -= coupling.T @ response
                if self.centred:
                    pull += own.warp @ response
                    looseness += own.warp @ u @ own.warp.T
            if self.centred:
                # As if the mean warp had been observed, with the error of all warps together.
                information += pull.T @ _solve(looseness, pull)
            if self.profile:
                across = _across(atom.ravel())
                along = (np.eye(atom.size) - across) * np.trace(information) / atom.size
                found.append(across @ _solve(across @ information @ across + along, across))
            else:
                found.append(_solve(information, np.eye(atom.size)))
        return np.stack(found)

    def personal_variances(self, variance: float, covariance: np.ndarray):
        """Return the variances of personal atoms (S, K, L, P) and of warps (S, K, C, L).

        They are due to the noise and to the gauge h: the warps become ``h^-1 o psi``, and
        personal atoms change with the norm of ``phi o h``. A subject's parameters have errors of
        their own, and follow those of the common atom.
        """
        personal = np.full(self.model.personal_dictionary_.shape, np.nan)
        warps = np.full(self.warps.shape, np.nan)
        samples = np.arange(self.warps.shape[-1])
        for k, atom in enumerate(self.dictionary):
            gauge = self.gauge_covariance(k) if self.centred else np.zeros((0, 0))
            scale = atom.ravel() @ self._slope(k) if self.centred else np.zeros(0)
            curves = np.diagonal(gauge).reshape(-1, len(samples))
            for s, own in self.tangents(k):
                u, _, response = own.eliminate(variance)
                follow = own.by_atom - own.by_params @ response
                noise = _diagonal(own.by_params, u) + _diagonal(follow, covariance[k])
                personal[s, k] = noise.reshape(atom.shape)
                personal[s, k] += (
                    scale @ gauge @ scale * self.model.personal_dictionary_[s, k] ** 2
                )
                moved = _diagonal(own.warp, u) + _diagonal(own.warp @ response, covariance[k])
                warps[s, k] = moved.reshape(warps.shape[2:])
                for c, curve in enumerate(curves):
                    warps[s, k, c] += np.interp(self.warps[s, k, c], samples, curve)
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
        moved = [_across(x.ravel()) @ self._slope(k) for k, x in enumerate(self.dictionary)]
        return noise + np.stack([x @ self.gauge_covariance(k) @ x.T for k, x in enumerate(moved)])

    def _slope(self, k: int) -> np.ndarray:
        """Return the derivative (L P, C L) of ``phi o h`` in h, at the identity."""
        assert isinstance(self.transform, WarpTransform)
        atom, samples = self.dictionary[k], np.arange(self.dictionary.shape[1])
        identity = np.broadcast_to(samples.astype(float), self.warps.shape[2:])
        with jax.enable_x64(True):
            read = partial(self.transform.resample, jax.device_put(atom))
            slope = jax.jacfwd(read)(identity)
        return np.asarray(slope).reshape(atom.size, -1)

    def _spread(self, k: int) -> np.ndarray:
        """Return the root (M, M) of the covariance of the parameters, times ``ROOM``."""
        from sklearn.covariance import ledoit_wolf

        with jax.enable_x64(True):
            neutral = np.asarray(self.transform.neutral(jax.device_put(self.dictionary[k])))
        params = self.model.params_[self.active[:, k], k] - neutral
        if params.size == 0:
            return np.eye(neutral.size)
        # A single row is repeated, because scikit-learn warns of one.
        params = np.resize(params, (max(2, len(params)), neutral.size))
        covariance, _ = ledoit_wolf(params, assume_centered=True)
        values, vectors = np.linalg.eigh(covariance)
        return ROOM * vectors * np.sqrt(np.maximum(values, 0))


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


def _diagonal(factor: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the diagonal of ``factor covariance factor^T``."""
    return np.sum(factor @ covariance * factor, axis=1)
