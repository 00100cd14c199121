"""Information of the segments about the common atom and the parameters of each subject.

Around a fit, a segment is linear in all unknowns,
``y_j = z_j g + g dz_j + z_j (J da + T dphi) + noise``, with ``g = f(phi, a)``, J its
derivative in a and T in phi. The amplitudes are profiled out segment by segment and the
parameters subject by subject (a Schur complement). The rest is the information about phi, a sum
over subjects.

Parameters are written ``da = root u``, where u has unit variance without data, so their errors
stay bounded.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from percdl.steps.compilation import program
from percdl.transforms.base import Transform, WarpTransform, divide

# Compiled programs accept NumPy arrays as well as JAX arrays.
Values = Array | np.ndarray


class Chunk(NamedTuple):
    """Parameters and segments of one atom in B subjects, E slots each.

    Empty slots have amplitude 0. Channels are flattened behind time.
    """

    params: Float[Values, "B M"]
    values: Float[Values, "B E LP"]
    seen: Bool[Values, "B E LP"]
    amplitude: Float[Values, "B E"]


class Information(NamedTuple):
    """Sums over subjects that determine the error of a common atom.

    Attributes
    ----------
    atom : array (L P, L P)
        Information about phi, parameters and amplitudes eliminated.
    pull : array (C L, L P)
        By how much the sum of the warps moves against phi.
    looseness : array (C L, C L)
        Covariance of the sum of the warps, phi held fixed.
    """

    atom: Float[Values, "LP LP"]
    pull: Float[Values, "CL LP"]
    looseness: Float[Values, "CL CL"]


class Tangent(NamedTuple):
    """A subject's personal atom and its derivatives.

    ``by_params`` (L P, M) and ``warp`` (C L, M) are derivatives in u, ``by_atom`` (L P, L P) is
    T; ``weight`` Q (L P, L P) is ``sum_j z_j^2`` over the observed samples, less the share that
    the amplitudes absorb.
    """

    value: Float[Array, " LP"]
    by_params: Float[Array, "LP M"]
    by_atom: Float[Array, "LP LP"]
    warp: Float[Array, "CL M"]
    weight: Float[Array, "LP LP"]


class Model(NamedTuple):
    """Linear model of one atom: phi, root, sigma^2."""

    atom: Float[Values, "L P"]
    root: Float[Values, "M M"]
    variance: Float[Values, ""] | float


@partial(program, static_argnames=("transform", "profile"))
def measure_fit(transform: Transform, profile: bool, model: Model, chunk: Chunk):
    """Return the squared residual of each subject, and eigenvalues (B, M) of its information.

    These are the eigenvalues of ``root^T J^T Q J root``: a direction with eigenvalue e takes
    ``e / (e + sigma^2)`` degrees of freedom.
    """

    def one(subject: Chunk):
        tangent = _linearize(transform, profile, model, subject)
        fitted = subject.amplitude[:, None] * tangent.value
        residual = jnp.sum(jnp.where(subject.seen, subject.values - fitted, 0) ** 2)
        curvature = tangent.by_params.T @ tangent.weight @ tangent.by_params
        return residual, jnp.linalg.eigvalsh(curvature)

    return jax.lax.map(one, chunk)


@partial(program, static_argnames=("transform", "profile"))
def sum_information(
    transform: Transform, profile: bool, model: Model, chunk: Chunk
) -> Information:
    """Sum the information of the subjects about the common atom.

    With neither parameters nor amplitudes unknown (root zero, no profile), ``atom`` is
    ``Sigma / sigma^2`` of Theorem 1.
    """

    def one(subject: Chunk) -> Information:
        tangent = _linearize(transform, profile, model, subject)
        own, coupling, response = _eliminate(tangent, model.variance)
        direct = tangent.by_atom.T @ tangent.weight @ tangent.by_atom / model.variance
        active = jnp.any(subject.amplitude != 0)
        loose = jnp.where(active, tangent.warp @ own @ tangent.warp.T, 0)
        return Information(direct - coupling.T @ response, tangent.warp @ response, loose)

    def add(total: Information, subject: Chunk):
        return jax.tree.map(jnp.add, total, one(subject)), None

    shapes = jax.eval_shape(one, jax.tree.map(lambda x: x[0], chunk))
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.lax.scan(add, nothing, chunk)[0]


@partial(program, static_argnames=("transform", "profile"))
def spread_errors(
    transform: Transform,
    profile: bool,
    model: Model,
    covariance: Float[Array, "LP LP"],
    chunk: Chunk,
) -> tuple[Float[Array, "B LP"], Float[Array, "B CL"]]:
    """Return the variances of personal atoms and of warps due to the noise.

    A subject's parameters have errors of their own, and follow those of the common atom.
    """

    def one(subject: Chunk):
        tangent = _linearize(transform, profile, model, subject)
        own, _, response = _eliminate(tangent, model.variance)
        follow = tangent.by_atom - tangent.by_params @ response
        return (
            _diagonal(tangent.by_params, own) + _diagonal(follow, covariance),
            _diagonal(tangent.warp, own) + _diagonal(tangent.warp @ response, covariance),
        )

    return jax.lax.map(one, chunk)


def _linearize(transform: Transform, profile: bool, model: Model, subject: Chunk) -> Tangent:
    atom, root, params = (jnp.asarray(x) for x in (model.atom, model.root, subject.params))
    value = transform.apply(params, atom).reshape(-1)
    by_params = jax.jacfwd(transform.apply)(params, atom)
    by_atom = jax.jacfwd(transform.apply, argnums=1)(params, atom)
    warp = jnp.zeros((0, len(root)))
    if isinstance(transform, WarpTransform):
        psi = partial(transform.warp, atom_length=atom.shape[0], n_channels=atom.shape[1])
        warp = jax.jacfwd(psi)(params).reshape(-1, len(root))
    strength = subject.amplitude**2
    weight = jnp.diag(strength @ subject.seen)
    if profile:
        seen = subject.seen * value
        power = jnp.sum(seen**2, axis=1)
        share = divide(jnp.asarray(strength), power)
        weight = weight - (seen * share[:, None]).T @ seen
    return Tangent(
        value=value,
        by_params=by_params.reshape(atom.size, -1) @ root,
        by_atom=by_atom.reshape(atom.size, -1),
        warp=warp @ root,
        weight=weight,
    )


def _eliminate(tangent: Tangent, variance: Float[Values, ""] | float):
    """Return the covariance (M, M) of u given phi, its coupling to phi, and ``-du / dphi``."""
    pull = tangent.by_params.T @ tangent.weight / variance
    own = jnp.linalg.inv(pull @ tangent.by_params + jnp.eye(len(pull)))
    coupling = pull @ tangent.by_atom
    return own, coupling, own @ coupling


def _diagonal(factor: Float[Array, "n m"], covariance: Float[Array, "m m"]) -> Float[Array, " n"]:
    """Return the diagonal of ``factor covariance factor^T``."""
    return jnp.einsum("im,mn,in->i", factor, covariance, factor)
