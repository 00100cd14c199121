"""Finding the parameters of a warp that is given as a curve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.steps.ipu import solve_positive
from percdl.transforms.base import WarpTransform

DAMPING_START, DAMPING_UP, DAMPING_DOWN = 1e-3, 6.0, 0.2


def fit_warp(
    transform: WarpTransform,
    target: Float[Array, "B C L"],
    params: Float[Array, "B M"],
    n_channels: int,
    n_steps: int = 4,
) -> Float[Array, "B M"]:
    """Return parameters whose warp is close to ``target`` (in samples), by least squares.

    Damped Gauss-Newton on ``|psi_a - target|^2`` from ``params``, projected onto Theta; a
    step is kept only if it comes closer. Cost O(B L M^2) a step.
    """
    length = target.shape[-1]

    def linearize(params):
        psi, basis = transform.warp_jacobian(params, length, n_channels)
        return params, jnp.sum((psi - target) ** 2, axis=(1, 2)), psi, basis

    def advance(state, _):
        (params, distance, psi, basis), damping = state
        system = jnp.einsum("bclm,bcln->bcmn", basis, basis)
        scale = jnp.trace(system, axis1=-2, axis2=-1)[..., None, None] / basis.shape[-1]
        eye = jnp.eye(basis.shape[-1], dtype=psi.dtype)
        pull = jnp.einsum("bclm,bcl->bcm", basis, target - psi)
        step = solve_positive(system + damping[:, None, None, None] * scale * eye, pull[..., None])
        trial = linearize(transform.project(params + step.reshape(params.shape)))
        closer = trial[1] < distance
        kept = jax.tree.map(
            lambda new, old: jnp.where(closer.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            trial,
            (params, distance, psi, basis),
        )
        return (kept, damping * jnp.where(closer, DAMPING_DOWN, DAMPING_UP)), None

    damping = jnp.full(params.shape[0], DAMPING_START, params.dtype)
    ((params, *_), _), _ = jax.lax.scan(advance, (linearize(params), damping), length=n_steps)
    return params
