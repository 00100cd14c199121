"""A fitted model seen as a linear one: how noise and the choice of subjects move its atoms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from percdl.analysis.segments import cut_segments
from percdl.signals import Cohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.transforms import Transform

# Most numbers in one matrix (L P, L P) for each subject of a chunk.
CHUNK_SIZE = 2**22
MAX_ROWS = 64
# Parameters cannot leave Theta: one that the noise throws about in it (uniform, ends included)
# is off by twice the spread that it has in the population.
ROOM = 2.0
# Fixed-point iterations for the noise level; each gains about a digit.
N_ITERATIONS = 30
# Samples that no subject's warp visits carry no information, and get a large error, not none.
RIDGE = 1e-10


class Linearization:
    """A fitted model seen as a linear one: sums over chunks of subjects, atom by atom."""

    def __init__(self, model: BaseCDL, cohort: Cohort, conditional: bool):
        self.model, self.cohort = model, cohort
        self.transform: Transform = model._get_transform()
        self.profile = not conditional
        self.active = model.n_activations_ > 0
        self.warps = model.warps_
        n_atoms = len(model.dictionary_)
        self.roots = [self._spread(k) * (not conditional) for k in range(n_atoms)]
        centers = getattr(model, "centering", "off") != "off"
        self.centred = not conditional and centers and self.warps.shape[2] > 0

    def noise_variance(self) -> float:
        """Return sigma^2: squared residuals over the degrees of freedom that are left."""
        from percdl.analysis.information import measure_fit

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
        """Return those of the spread between subjects, or of the noise if warps play no part."""
        if self.centred:
            return float(max(self.active.sum(0).min() - 1, 1))
        return float(self._n_residuals())

    def _n_residuals(self) -> int:
        """Return the samples in segments, less common atoms and amplitudes (one scale shared)."""
        n_seen = sum(int(chunk.seen.sum()) for _, _, chunk in self._chunks())
        n_scales = len(self.model.events_) - len(self.roots) if self.profile else 0
        return max(n_seen - self.model.dictionary_.size - n_scales, 1)

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
                personal[:, k] += (scale @ gauge @ scale) * self.model.personal_dictionary_[
                    :, k
                ] ** 2
                warps[:, k] += _read(np.diagonal(gauge), self.warps[:, k])
        personal[~self.active] = warps[~self.active] = np.nan
        return personal, warps

    def gauge_covariance(self, k: int) -> np.ndarray:
        """Return the sampling covariance (C L, C L) of the mean warp of an atom.

        What the fit has left of the mean warp itself counts as an error, too.
        """
        warps = self.warps[self.active[:, k], k]
        moved = (warps - np.arange(warps.shape[-1])).reshape(len(warps), -1)
        mean, spread = moved.mean(0), moved - moved.mean(0)
        count = len(moved)
        return spread.T @ spread / (count * max(count - 1, 1)) + np.outer(mean, mean)

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

        from percdl.transforms import WarpTransform

        assert isinstance(self.transform, WarpTransform)
        atom, samples = self.model.dictionary_[k], np.arange(self.model.dictionary_.shape[1])
        identity = np.broadcast_to(samples.astype(float), self.warps.shape[2:])
        with jax.enable_x64(True):
            read = partial(self.transform.resample, jax.device_put(atom))
            slope = jax.jacfwd(read)(identity)
        return np.asarray(slope).reshape(atom.size, -1)

    def _spread(self, k: int) -> np.ndarray:
        """Return how far (M, M) parameters can be off: a root of their covariance, doubled."""
        import jax
        from sklearn.covariance import ledoit_wolf

        with jax.enable_x64(True):
            neutral = np.asarray(self.transform.neutral(jax.device_put(self.model.dictionary_[k])))
        params = self.model.params_[self.active[:, k], k] - neutral
        if params.size == 0:
            return np.eye(neutral.size)
        # One person says the same twice as once; scikit-learn warns of a single row.
        params = np.resize(params, (max(2, len(params)), neutral.size))
        covariance, _ = ledoit_wolf(params, assume_centered=True)
        values, vectors = np.linalg.eigh(covariance)
        return ROOM * vectors * np.sqrt(np.maximum(values, 0))

    def _chunks(self) -> Iterator[tuple[int, slice, Any]]:
        """Yield atom, subjects and what the programs need of them."""
        from percdl.algorithm.chunks import bucket_rows
        from percdl.analysis.information import Chunk

        params = np.nan_to_num(self.model.params_)
        n_atoms, length, n_channels = self.model.dictionary_.shape
        # Few possible sizes, so that few programs are compiled.
        few = bucket_rows(len(self.cohort), MAX_ROWS)
        rows = min(few, max(1, CHUNK_SIZE // (length * n_channels) ** 2))
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
