"""The Huber loss, by reweighting the samples: impulses and artefacts have a bounded influence.

``rho(r) = r^2`` for residuals up to delta and ``2 delta |r| - delta^2`` beyond. For weights
``v = min(1, delta / |r0|)``

``rho(r) <= v r^2 + (delta / v - delta) delta``, with equality at ``|r| = |r0|``,

(Huber and Dutter, 1974). The right side is a weighted least-squares problem, as with missing
samples but with weights between 0 and 1. So all later steps, from the statistics to the
dictionary, apply unchanged and still lower the objective.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from percdl.steps.csc import L0Coder, encode
from percdl.steps.types import Events, Signals

# Number of codings, each with the weights of the previous residual.
N_CODINGS = 4


def encode_robustly(
    signals: Signals,
    atoms: Float[Array, "S_or_1 K L P"],
    penalty: Float[Array, ""],
    delta: Float[Array, ""],
    rules: L0Coder,
) -> tuple[Events, Signals, Float[Array, " S"], Float[Array, " S"]]:
    """Return codes for the Huber loss, the weighted signals, their energy and the loss.

    The energy is the objective of the weighted problem without activations. Weights and codes
    alternate, so the result is not guaranteed to be optimal. Cost of `N_CODINGS` codings.
    """
    seen = _seen(signals)

    def recode(_, weights):
        events, _ = encode(_weigh(signals, weights), atoms, penalty, rules)
        return weigh_residual(_residual(signals, events, atoms), delta) * seen

    whole = jnp.broadcast_to(seen, signals.values.shape)
    weights = jax.lax.fori_loop(0, N_CODINGS - 1, recode, whole)
    events, _ = encode(_weigh(signals, weights), atoms, penalty, rules)
    residual = _residual(signals, events, atoms)
    weights = weigh_residual(residual, delta) * seen
    slack = delta * jnp.maximum(jnp.abs(residual) - delta, 0) * seen
    loss = jnp.sum(weights * residual**2 + slack, axis=(1, 2))
    energy = jnp.sum(weights * signals.values**2 + slack, axis=(1, 2))
    return events, _weigh(signals, weights), energy, loss


def weigh_residual(residual: Array, delta: Float[Array, ""]) -> Array:
    """Return ``min(1, delta / |r|)``, for a delta above 0."""
    return delta / jnp.maximum(jnp.abs(residual), delta)


def rebuild(events: Events, atoms: Float[Array, "S_or_1 K L P"], n_times: int):
    """Return ``sum_k z_k * phi_k``, array (S, N, P)."""
    length, n_channels = atoms.shape[2:]
    shared = jnp.broadcast_to(atoms, (events.onset.shape[0], *atoms.shape[1:]))

    def one(onset, atom, amplitude, atoms):
        times = onset[:, None] + jnp.arange(length)
        whole = jnp.zeros((n_times, n_channels), atoms.dtype)
        # Empty slots start beyond the end, so they write nothing.
        return whole.at[times].add(amplitude[:, None, None] * atoms[atom], mode="drop")

    return jax.vmap(one)(*events[:3], shared)


def _residual(signals: Signals, events: Events, atoms) -> Float[Array, "S N P"]:
    return signals.values - rebuild(events, atoms, signals.values.shape[1])


def _seen(signals: Signals) -> Float[Array, "S N Q"]:
    """Return one for observed samples, zero for missing ones and beyond the end."""
    if signals.observed is not None:
        return signals.observed
    inside = jnp.arange(signals.values.shape[1]) < signals.lengths[:, None]
    return inside[..., None].astype(signals.values.dtype)


def _weigh(signals: Signals, weights: Float[Array, "S N P"]) -> Signals:
    return Signals(signals.values * weights, signals.lengths, weights, pins=signals.pins)
