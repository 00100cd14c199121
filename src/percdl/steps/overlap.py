"""Statistics and dictionary update for overlapping activations.

If activations overlap, the squared error is a quadratic form that couples the samples of all
atoms. `overlap_statistics` and `update_dictionary` treat it exactly, for atoms that all
recordings share. `overlapping_statistics` bounds it from above by a form without coupling, so
that all steps that work on `Statistics` apply unchanged.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from percdl.steps.ridge import solve_towards
from percdl.steps.types import Signals, Statistics

# Very regular activations do not determine single samples of an atom. The ridge is relative to the
# mean diagonal, and larger than the rounding of statistics in single precision.
RIDGE = 1e-6
# Projected gradient steps; they need not converge, because the codes change next.
N_STEPS = 300
# Weights below this many units of rounding of the FFT count as zero.
ROUNDING = 16


def overlap_statistics(
    signals: Signals, activations: Float[Array, "S K V"], atom_length: int
) -> tuple[Float[Array, "S K L P"], Float[Array, "S K K lags"]]:
    """Correlate activations with signals and with each other, if no sample is missing.

    Returns ``ztx[k, l] = sum_t z_k[t] x[t + l]`` and, for the 2 L - 1 lags tau from 1 - L to
    L - 1, ``ztz[k, j, tau] = sum_t z_k[t] z_j[t + tau]``. With these, for any atoms h shared by
    all recordings, ``|x - sum_k z_k * h_k|^2 = |x|^2 - 2 <ztx, h> + sum ztz[k, j, l - m]
    h_k[l] h_j[m]``. Cost O(K (K + P) N log N).
    """
    moment = _correlate(activations, signals.values, atom_length)
    # Shift by L - 1, so that all lags start at zero.
    moved = jnp.pad(activations, ((0, 0), (0, 0), (atom_length - 1, 0)))
    return moment, jnp.swapaxes(
        _correlate(activations, jnp.swapaxes(moved, 1, 2), 2 * atom_length - 1), 2, 3
    )


def overlapping_statistics(
    signals: Signals, activations: Float[Array, "S K V"], atoms: Float[Array, "S_or_1 K L P"]
) -> Statistics:
    """Return statistics that bound the squared error from above, with equality at ``atoms``.

    For any atoms h in place of the current ones g, and weights v of the samples,

    ``|x - sum_k z_k * h_k|_v^2 <= const - 2 <m, h> + <w, h^2>``, with equality at h = g,

    so atoms that lower the right side lower the left side at least as much. With the
    residual ``r = x - sum_k z_k * g_k`` and ``c[t]`` the sum of all |z| that reach sample t,

    ``w[k, l] = sum_t |z_k[t]| v[t + l] c[t + l]``,
    ``m[k, l] = sum_t z_k[t] v[t + l] r[t + l] + w[k, l] g_k[l]``:

    absolute row sums bound the coupled quadratic form. Without overlap these are the statistics
    of `segment_statistics`. There is no margin. Cost O(K (P + Q) N log N + N L).
    """
    seen = signals.observed
    length = atoms.shape[2]
    fit = superpose(activations, atoms)
    residual = signals.values - (fit if seen is None else seen * fit)
    size = jnp.abs(activations)
    cover = _cover(jnp.sum(size, axis=1), length)[..., None]
    weight = _correlate(size, cover if seen is None else seen * cover, length)
    most = jnp.sum(size, axis=2) * jnp.max(cover, axis=1)
    floor = ROUNDING * jnp.finfo(weight.dtype).eps * most[..., None, None]
    weight = jnp.where(weight > floor, weight, 0)
    slope = _correlate(activations, residual, length)
    return Statistics(
        moment=jnp.where(weight > 0, slope + weight * atoms, 0),
        weight=weight,
        count=jnp.sum(activations != 0, axis=2, dtype=jnp.int32),
    )


def superpose(
    activations: Float[Array, "S K V"], atoms: Float[Array, "S_or_1 K L P"]
) -> Float[Array, "S N P"]:
    """Return the reconstruction ``sum_k z_k * phi_k``. Cost O(K P N log N)."""
    n_times = activations.shape[2] + atoms.shape[2] - 1
    activations_hat = jnp.fft.rfft(activations, n_times)[..., None]
    atoms_hat = jnp.fft.rfft(atoms, n_times, axis=2)
    return jnp.fft.irfft(jnp.sum(activations_hat * atoms_hat, axis=1), n_times, axis=1)


def update_dictionary(
    ztz: Float[np.ndarray, "K K lags"],
    ztx: Float[np.ndarray, "K L P"],
    dictionary: Float[np.ndarray, "K L P"],
    most_norm: float = np.inf,
) -> Float[np.ndarray, "K L P"]:
    """Return the best atoms of norm at most ``most_norm``, with fixed codes.

    ``ztz`` and ``ztx`` are sums over recordings of `overlap_statistics`, in float64. The normal
    equations of all atoms are one block-Toeplitz system. If its solution is too large, because the
    penalty shrinks the codes, projected gradient steps from the old atoms replace it. An atom
    without activations is kept (decision 11). The squared error never increases if the old atoms
    are allowed. Cost O((K L)^3 + P (K L)^2).
    """
    n_atoms, length, n_channels = dictionary.shape
    used = np.flatnonzero(ztz[np.arange(n_atoms), np.arange(n_atoms), length - 1] > 0)
    updated = dictionary.copy()
    if not len(used):
        return updated
    gram = _gram(ztz[np.ix_(used, used)])
    right, old = (x[used].reshape(-1, n_channels) for x in (ztx, dictionary))
    ridge = RIDGE * np.trace(gram) / len(gram)
    solution = solve_towards(gram, right, old, ridge)
    found = solution.reshape(len(used), length, n_channels)
    if (_norms(found) > most_norm).any():
        found = _descend(gram, right, dictionary[used], most_norm)
    updated[used] = found
    return updated


def _descend(
    gram: np.ndarray, right: np.ndarray, atoms: np.ndarray, most_norm: float
) -> np.ndarray:
    """Take projected gradient steps; each lowers the squared error."""
    rate = 1 / np.linalg.eigvalsh(gram)[-1]
    for _ in range(N_STEPS):
        slope = gram @ atoms.reshape(right.shape) - right
        atoms = atoms - rate * slope.reshape(atoms.shape)
        atoms = atoms * np.minimum(1, most_norm / np.maximum(_norms(atoms), np.finfo(float).tiny))
    return atoms


def _norms(atoms: np.ndarray) -> np.ndarray:
    return np.sqrt((atoms**2).sum((1, 2), keepdims=True))


def explained(
    ztz: Float[np.ndarray, "K K lags"],
    ztx: Float[np.ndarray, "K L P"],
    dictionary: Float[np.ndarray, "K L P"],
) -> float:
    """Return the energy that the atoms explain with fixed codes."""
    atoms = dictionary.reshape(-1, dictionary.shape[2])
    return float(2 * np.vdot(ztx, dictionary) - np.vdot(atoms, _gram(ztz) @ atoms))


def _gram(ztz: Float[np.ndarray, "K K lags"]) -> Float[np.ndarray, "KL KL"]:
    """Lay out the blocks ``G[k, l, j, m] = ztz[k, j, l - m]``, symmetric beyond rounding."""
    n_atoms, length = ztz.shape[0], (ztz.shape[2] + 1) // 2
    lag = np.subtract.outer(np.arange(length), np.arange(length)) + length - 1
    gram = ztz[:, :, lag].transpose(0, 2, 1, 3).reshape(n_atoms * length, n_atoms * length)
    return (gram + gram.T) / 2


def _correlate(
    activations: Float[Array, "S K V"], x: Float[Array, "S N P"], n_lags: int
) -> Float[Array, "S K lags P"]:
    """Return ``sum_t z_k[t] x[t + l]`` for the lags l from zero on; x is zero beyond its end."""
    n_times = activations.shape[2] + n_lags - 1  # no lag goes beyond this
    activations_hat = jnp.conj(jnp.fft.rfft(activations, n_times))[..., None]
    product = activations_hat * jnp.fft.rfft(x, n_times, axis=1)[:, None]
    return jnp.fft.irfft(product, n_times, axis=2)[:, :, :n_lags]


def _cover(size: Float[Array, "S V"], length: int) -> Float[Array, "S N"]:
    """Sum, at each sample, the activations with atoms that cover it."""
    ends = ((0, 0), (length - 1, length - 1))
    return jax.lax.reduce_window(size, 0.0, jax.lax.add, (1, length), (1, 1), ends)
