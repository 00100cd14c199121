"""Baselines under activations: an offset or a straight line in each channel, which is ignored.

Within its window each activation has its own baseline b: ``y = z g + b + noise``. The best
baseline is that of ``y - z g``, so the activation explains ``<P y, P g>^2 / |P g|^2``, where P
removes baselines from a window. Coding stays exact: atoms without their baselines are correlated
with the unchanged recordings. All later steps use recordings from which the baselines of the
activations were subtracted, at the atoms of the coding. This is one step of block descent, so
later steps lower the objective.

Missing samples are left out of both fits. A channel with too few observed samples to separate a
pattern from its baseline does not count in that window.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from percdl.signals.reconstruction import baseline_terms, make_basis
from percdl.steps.coders import L0Coder
from percdl.steps.durations import dilate_atoms
from percdl.steps.types import Events, Signals
from percdl.transforms.base import divide

# The baseline of a window is known if the determinant of its normal equations is above this. It
# is 1 if all samples are observed, and 0.001 if one fifth of them, in a row, is observed.
KNOWN = 1e-3


def window_energy(
    values: Float[np.ndarray, "S N P"], length: int, n_terms: int
) -> Float[np.ndarray, "S V"]:
    """Return the energy of each window, without its baselines."""

    def sums(x: np.ndarray) -> np.ndarray:
        total = np.cumsum(np.pad(x, ((0, 0), (1, 0), (0, 0))), axis=1)
        return total[:, length:] - total[:, :-length]

    energy = sums((values**2).sum(2, keepdims=True))[..., 0]
    time = np.arange(values.shape[1])[:, None]
    start = time[: energy.shape[1]]
    (slope,) = np.diff(baseline_terms(np.arange(2.0), length, 2)[1])
    of_line = slope * (sums(values * time) - (start + (length - 1) / 2) * sums(values))
    terms = [sums(values) / length**0.5, of_line][:n_terms]
    return np.maximum(energy - sum((term**2).sum(2) for term in terms), 0)


def level_atoms(
    atoms: Float[Array, "S C W P"], basis: Float[np.ndarray, "C W n"]
) -> Float[Array, "S C W P"]:
    """Return atoms without their baselines."""
    own = jnp.asarray(basis, atoms.dtype)
    return atoms - jnp.einsum("cwn,scnp->scwp", own, jnp.einsum("cwn,scwp->scnp", own, atoms))


def solve_baselines(
    sums: Float[Array, "*#batch n"], gram: Float[Array, "*#batch n n"]
) -> tuple[Float[Array, "*#batch n"], Bool[Array, "*#batch"]]:
    """Solve the normal equations of baselines; also return which are known (others are 0)."""
    if sums.shape[-1] == 1:
        determinant, solved = gram[..., 0, 0], sums
    else:
        a, b, c = gram[..., 0, 0], gram[..., 0, 1], gram[..., 1, 1]
        determinant = a * c - b * b
        first, second = sums[..., 0], sums[..., 1]
        solved = jnp.stack([c * first - b * second, a * second - b * first], axis=-1)
    known = determinant > KNOWN
    return jnp.where(known[..., None], divide(solved, determinant[..., None]), 0), known


def remove_baselines(
    signals: Signals,
    events: Events,
    atoms: Float[Array, "S_or_1 K L P"],
    rules: L0Coder,
    margin: int,
) -> Signals:
    """Return recordings without the baselines of their activations, coded with ``atoms``.

    Baselines extend ``margin`` samples beyond both ends, or halfway to the next activation.
    Channels whose baseline is unknown count as missing there. Cost O(N P).
    """
    values, observed = signals.values, signals.observed
    lengths, n_terms = rules.lengths(atoms.shape[2]), rules.n_terms
    rows = jnp.arange(len(values))[:, None]
    which = jnp.zeros_like(events.onset) if events.length is None else events.length
    size = jnp.asarray(lengths)[which]
    basis = jnp.asarray(make_basis(n_terms, lengths), values.dtype)[which]
    times = events.onset[..., None] + jnp.arange(max(lengths))

    def cut(x):
        return x.at[rows[..., None], times].get(mode="fill", fill_value=0)

    seen = jnp.ones((*times.shape, 1), values.dtype) if observed is None else cut(observed)
    if len(lengths) > 1:
        atoms = dilate_atoms(atoms, lengths)
    own = jnp.broadcast_to(atoms, (len(values), *atoms.shape[1:]))
    fit = own[rows, events.atom * len(lengths) + which] * events.amplitude[..., None, None]
    rest = cut(values) - seen * fit
    gram = jnp.einsum("sewn,sewm,sewq->seqnm", basis, basis, seen)
    found, known = solve_baselines(jnp.einsum("sewn,sewp->sepn", basis, rest), gram)
    # Every sample belongs to the activation that it is in or closest to.
    end = events.onset + size
    halfway = (end[:, :-1] + events.onset[:, 1:] + 1) // 2
    steps = jnp.zeros(values.shape[:2], jnp.int32).at[rows, halfway].add(1, mode="drop")
    owner = jnp.cumsum(steps, axis=1)
    time = jnp.arange(values.shape[1]) - events.onset[rows, owner]
    length = size[rows, owner]
    near = (time >= -margin) & (time < length + margin) & (events.amplitude[rows, owner] != 0)
    terms = jnp.stack(baseline_terms(time, length.astype(values.dtype), n_terms), axis=-1)
    baseline = jnp.einsum("stn,stpn->stp", terms * near[..., None], found[rows, owner])
    if observed is None:
        inside = jnp.arange(values.shape[1]) < signals.lengths[:, None]
        return Signals(values - baseline * inside[..., None], signals.lengths, None)
    observed = jnp.where(near[..., None] & ~known[rows, owner], 0, observed)
    return Signals((values - baseline) * observed, signals.lengths, observed)
