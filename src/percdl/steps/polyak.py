"""The paper's own IPU solver: projected gradient descent with the Polyak step size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from percdl.steps.ipu import explained_energy, total_price
from percdl.transforms.base import Atom, Transform, divide

# Maximum step. The paper replaces the unknown infimum by zero; on noisy data the true minimum is
# positive, and the Polyak step overshoots.
MAX_STEP = 1.0


def polyak(
    transform: Transform,
    atom: Atom,
    moment: Float[Array, "B L P"],
    weight: Float[Array, "B L Q"],
    params: Float[Array, "B M"],
    n_steps: int,
) -> tuple[Float[Array, "B M"], Float[Array, " B"]]:
    """Fit by ``optax.polyak_sgd``, projecting onto Theta after each step (Section 2.3).

    Minimizes the unexplained share of the subject's segment energy, with an assumed infimum of 0.
    Returns the best parameters of all steps. Cost O(L M) per step and subject.
    """

    def fit_one(moment, weight, params):
        mean_energy = jnp.sum(divide(moment**2, weight))
        scale = jnp.where(mean_energy > 0, mean_energy, 1)

        def unexplained(params):
            explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
            return 1 - (explained - total_price(transform, params)) / scale

        solver = optax.polyak_sgd(max_learning_rate=MAX_STEP)

        def advance(carry, _):
            params, state, best, lowest = carry
            value, gradient = jax.value_and_grad(unexplained)(params)
            better = value < lowest
            best = jnp.where(better, params, best)
            updates, state = solver.update(gradient, state, params, value=value)
            params = transform.project(jnp.asarray(optax.apply_updates(params, updates)))
            return (params, state, best, jnp.minimum(value, lowest)), None

        start = (params, solver.init(params), params, unexplained(params))
        (_, _, best, lowest), _ = jax.lax.scan(advance, start, length=n_steps)
        return best, (1 - lowest) * scale

    return jax.vmap(fit_one)(moment, weight, params)
