"""Finding the parameters of a warp that is given as a curve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.transforms.base import Params, WarpTransform


def fit_warp(
    transform: WarpTransform,
    target: Float[Array, "B C L"],
    params: Params,
    n_channels: int,
    n_steps: int = 6,
) -> Params:
    """Return parameters whose warp is close to ``target`` (in samples), by least squares.

    Damped Gauss-Newton on ``|psi_a - target|^2``, projected onto Theta, each step kept only
    if it comes closer. Cost O(B L M^2) a step.
    """
    length = target.shape[-1]

    def distance(params):
        return jnp.sum((transform.warp(params, (length, n_channels)) - target) ** 2, axis=(1, 2))

    def advance(state, _):
        params, best, damping = state
        psi, basis, _ = transform.warp_jacobian(params, (length, n_channels))
        system = jnp.einsum("bclm,bcln->bcmn", basis, basis)
        scale = jnp.trace(system, axis1=-2, axis2=-1) / basis.shape[-1]
        ridge = (damping[:, None] * scale)[..., None, None] * jnp.eye(basis.shape[-1], dtype=psi.dtype)
        pull = jnp.einsum("bclm,bcl->bcm", basis, target - psi)
        step = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(system + ridge), True), pull[..., None])
        trial = transform.project(params + step.reshape(params.shape))
        reached = distance(trial)
        better = reached < best
        params = jnp.where(better[:, None], trial, params)
        damping = damping * jnp.where(better, 0.2, 6.0)
        return (params, jnp.where(better, reached, best), damping), None

    start = (params, distance(params), jnp.full(params.shape[0], 1e-3, params.dtype))
    (params, _, _), _ = jax.lax.scan(advance, start, length=n_steps)
    return params
