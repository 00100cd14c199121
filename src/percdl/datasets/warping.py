"""The two compiled programs behind synthetic cohorts; the only file here that loads JAX.

Compiled once per shape: operation by operation, a first call would take seconds.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from percdl.transforms.base import Transform


def personalize(
    transform: Transform,
    params: Float[np.ndarray, "S K M"],
    dictionary: Float[np.ndarray, "K L P"],
) -> Float[np.ndarray, "S K L P"]:
    """Return the personal atoms ``f(phi_k, a_sk)`` (Eq. 2), in double precision."""
    return np.stack(_of_each_atom(_apply, transform, params, dictionary), axis=1)


def center(
    transform: Transform,
    params: Float[np.ndarray, "S K M"],
    dictionary: Float[np.ndarray, "K L P"],
) -> Float[np.ndarray, "K L P"]:
    """Return ``phi_k o psi_bar_k``, psi_bar the mean warp, turned by the mean (decision 6)."""
    return np.stack(_of_each_atom(_center, transform, params, dictionary))


def _of_each_atom(program, transform, params, dictionary) -> list[np.ndarray]:
    with jax.enable_x64(True):
        return [
            np.asarray(program(transform, params[:, k], atom)) for k, atom in enumerate(dictionary)
        ]


@partial(jax.jit, static_argnames="transform")
def _apply(transform, params, atom):
    return transform.apply(params, jnp.asarray(atom))


@partial(jax.jit, static_argnames="transform")
def _center(transform, params, atom):
    atom = jnp.asarray(atom)
    if (part := transform.warp_part(*atom.shape)) is not None:
        warp, at = part
        atom = warp.resample(atom, warp.warp(params[:, at], *atom.shape).mean(0))
    if (part := transform.channel_part(*atom.shape)) is not None:
        mixer, at = part
        atom = mixer.apply(mixer.project(params[:, at].mean(0)), atom)
    return atom
