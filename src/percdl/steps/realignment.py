"""Search for common shifts of a subject's onsets; not part of the paper's plain algorithm.

A warp has fixed ends, so it cannot undo a shift. If all onsets of a subject are a few samples
off, the fit is stuck, and the dictionary inherits the offset. Statistics on a window with margins
determine the moments at any common shift, so a shift can be tried without the signal.

Gauss-Newton from the identity ends in a local minimum for about one warp in ten. So each try
starts from an exact monotone alignment of the atom to the mean segment, on a half-sample grid.

A warp can imitate most of a shift, so real recordings hardly determine it: the windows of one
person would differ from recording to recording, and the warps with them. A shift must therefore
explain significantly more, given the residuals of the best fit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from scipy.special import chdtri

from percdl.steps.compilation import is_on_cpu
from percdl.steps.ipu import explained_energy, gauss_newton
from percdl.steps.prior import Prior
from percdl.steps.statistics import at_shift
from percdl.transforms.base import Atom, ClosedFormTransform, WarpTransform, divide, require

# Number of shifts that are fitted: those with the best alignment.
N_TRIES = 2
# Relative gain in explained energy that a try needs to be preferred.
PREFERENCE = 1e-6
# Gain that a shift needs, in variances of the residuals: the 5 % point of the chi-square
# distribution with one degree of freedom.
SIGNIFICANT = float(chdtri(1, 0.05))
# Largest correlation of neighbouring residuals; one means that they are all the same.
MOST_CORRELATED = 0.99
# The alignment moves through the atom at 0 to 3 times the normal speed, in half samples; in whole
# samples for atoms longer than LONG, where a sixtieth of the duration is fine enough.
LONG = 60
MAX_SPEED = 3
# Cost of an unusual speed, relative to the energy of the segment: breaks ties on flat parts.
SPEED_COST = 1e-3


def search(
    transform: WarpTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
    start: tuple[Float[Array, "B M"], Int[Array, " B"]],
    shifts: Int[Array, " T"],
    align_first: bool,
    n_steps: int,
    prior: Prior | None = None,
) -> tuple[Float[Array, "B M"], Int[Array, " B"]]:
    """Return the parameters and the shift of the best fit.

    Tries the parameters and shift of ``start``, an alignment at the same shift if ``align_first``,
    and the ``shifts`` (relative to it, with 0 among them) with the best alignment. A try has
    ``n_steps`` Gauss-Newton iterations. Cost O(T B L^2) to screen, O(B L M^2) per try.
    """
    advice = "Fit without a search: `realign=False, multistart=False`."
    require(transform, WarpTransform, "search", advice)
    length = atom.shape[0]
    margin = (moment.shape[1] - length) // 2
    params, shift = start

    def at(shift):
        return at_shift(moment, shift, length), at_shift(weight, shift, length)

    def screen(move):
        moved = jnp.clip(shift + move, -margin, margin)
        path = align(atom, *at(moved))[:, None] if align_first else own
        path = jnp.broadcast_to(path, own.shape)
        return explained_energy(transform.resample(atom, path), *at(moved))[0], moved, path

    def attempt(index):
        tried = tries[index], rows
        begin = transform.approximate(paths[tried]) if align_first else params
        begin = jnp.where(index == 0, params, begin)
        moved = shifts_tried[tried]
        found, explained = gauss_newton(transform, atom, *at(moved), begin, n_steps, prior=prior)
        atoms = transform.apply(found, atom)
        return explained, found, moved, _residual_variance(atoms, *at(moved))

    rows = jnp.arange(moment.shape[0])
    own = transform.warp(params, *atom.shape)
    # On a CPU, one shift at a time stays in the cache; an accelerator needs all at once.
    each = jax.lax.map if is_on_cpu() else lambda f, x: jax.vmap(f)(x)
    promise, shifts_tried, paths = each(screen, shifts)
    n_still = 2 if align_first else 1
    still = jnp.broadcast_to(jnp.argmax(shifts == 0), (n_still, len(rows)))
    promise = jnp.where((shifts == 0)[:, None], -jnp.inf, promise)
    moves = _rank(promise, min(N_TRIES, len(shifts) - 1))
    tries = jnp.concatenate([still, moves])
    explained, found, moved, variance = each(attempt, jnp.arange(len(tries)))
    toll = SIGNIFICANT * variance.min(0)
    best = _prefer(explained - jnp.where(moved == shift, 0, toll))
    return found[best, rows], moved[best, rows]


def _residual_variance(
    atoms: Float[Array, "B L P"], moment: Float[Array, "B L P"], weight: Float[Array, "B L Q"]
) -> Float[Array, " B"]:
    """Return the variance of the residuals of mean segments, in units of the explained energy.

    Residuals that vary together count as one: with a correlation r of neighbours there are
    ``(1 - r) / (1 + r)`` independent ones per sample, as in an autoregressive process.
    """
    amplitude = explained_energy(atoms, moment, weight)[1][:, None, None]
    n_seen = jnp.broadcast_to(weight > 0, moment.shape).sum((1, 2))
    rest = divide(moment - weight * amplitude * atoms, jnp.sqrt(weight))
    energy, lagged = (rest**2).sum((1, 2)), (rest[:, 1:] * rest[:, :-1]).sum((1, 2))
    r = jnp.clip(divide(lagged, energy), 0, MOST_CORRELATED)
    return energy / jnp.maximum(n_seen, 1) * (1 + r) / (1 - r)


def _prefer(explained: Float[Array, "n B"]) -> Int[Array, " B"]:
    """Return the try that explains most; a later one must explain clearly more."""
    best, most = jnp.zeros(explained.shape[1:], int), explained[0]
    for i in range(1, len(explained)):
        better = explained[i] > most * (1 + PREFERENCE)
        best, most = jnp.where(better, i, best), jnp.where(better, explained[i], most)
    return best


def _rank(promise: Float[Array, "T B"], n_first: int) -> Int[Array, "n B"]:
    """Return the indices of the largest entries along the first axis, largest first.

    A sort would take longer to compile than the rest of a try.
    """
    places = []
    for _ in range(n_first):
        place = jnp.argmax(promise, axis=0)
        places.append(place)
        promise = jnp.where(jnp.arange(len(promise))[:, None] == place, -jnp.inf, promise)
    return jnp.reshape(jnp.array(places, int), (-1, promise.shape[1]))


def best_window(
    transform: ClosedFormTransform,
    atom: Atom,
    moment: Float[Array, "B Lw P"],
    weight: Float[Array, "B Lw Q"],
) -> Int[Array, " B"]:
    """Return the common shift with the best closed-form fit; no shift in a tie."""
    length = atom.shape[0]
    margin = (moment.shape[1] - length) // 2
    still = jnp.zeros(moment.shape[0], jnp.int32)

    def explained(shift):
        at = at_shift(moment, shift, length), at_shift(weight, shift, length)
        return explained_energy(transform.apply(transform.solve(atom, *at), atom), *at)[0]

    def consider(index, best):
        shift, most = best
        moved = jnp.full_like(shift, index - margin)
        reached = explained(moved)
        better = reached > most * (1 + PREFERENCE)
        return jnp.where(better, moved, shift), jnp.where(better, reached, most)

    return jax.lax.fori_loop(0, 2 * margin + 1, consider, (still, explained(still)))[0]


def align(
    atom: Float[Array, "L P"], moment: Float[Array, "B L P"], weight: Float[Array, "B L Q"]
) -> Float[Array, "B L"]:
    """Return, per subject, the increasing path through the atom closest to its mean segment.

    The path starts at sample 0, ends at sample L-1 and is given in samples. Cost O(B L^2).
    """
    length = atom.shape[0]
    refinement = 1 if length > LONG else 2
    fine = _refine(atom, refinement)
    segment, trust = _mean_segment(atom, moment, weight)
    n_steps = MAX_SPEED * refinement + 1
    energy = jnp.sum(segment**2, axis=(1, 2)) / length
    price = SPEED_COST * energy[:, None] * (jnp.arange(n_steps) / refinement - 1) ** 2
    n_knots = fine.shape[0]
    power = fine**2 if trust.shape[2] > 1 else jnp.sum(fine**2, axis=1, keepdims=True)
    # trust (segment - fine)^2 up to a constant, at all samples and knots, as a single product.
    of_segment = jnp.concatenate([trust, -2 * trust * segment], axis=2)
    cost = jnp.einsum("blp,kp->blk", of_segment, jnp.concatenate([power, fine], axis=1))

    def advance(before, sample):
        reach, speed = before + price[:, :1], jnp.zeros(before.shape, jnp.int8)
        for step in range(1, min(n_steps, n_knots)):
            slower = jnp.pad(before[:, :-step], ((0, 0), (step, 0)), constant_values=jnp.inf)
            faster = slower + price[:, step : step + 1]
            speed = jnp.where(faster < reach, jnp.int8(step), speed)
            reach = jnp.minimum(faster, reach)
        return reach + cost[:, sample], speed

    start = jnp.full((moment.shape[0], n_knots), jnp.inf, moment.dtype).at[:, 0].set(0)
    # In one turn of a loop an accelerator would write little, and wait between the turns.
    unroll = 1 if is_on_cpu() else 8
    _, speeds = jax.lax.scan(advance, start, jnp.arange(1, length), unroll=unroll)

    def retreat(knot, speed):
        before = knot - jnp.squeeze(jnp.take_along_axis(speed, knot[:, None], axis=1), 1)
        return before, before

    last = jnp.full(moment.shape[0], n_knots - 1, jnp.int32)
    _, path = jax.lax.scan(retreat, last, speeds, reverse=True, unroll=unroll)
    path = jnp.concatenate([path.T, last[:, None]], axis=1)
    return path.astype(moment.dtype) / refinement


def _refine(atom, refinement):
    """Insert linearly interpolated points between samples."""
    between = jnp.arange(refinement)[:, None] / refinement
    woven = atom[:-1, None] + between * (atom[1:] - atom[:-1])[:, None]
    return jnp.concatenate([woven.reshape(-1, atom.shape[1]), atom[-1:]])


def _mean_segment(atom, moment, weight):
    """Return the mean segment at the scale of the atom, and the weight of each sample.

    A warp keeps the extreme values of an atom, so the scale uses the largest magnitude.
    """
    observed = weight > 0
    mean = divide(moment, weight)
    peak = jnp.abs(mean).max((1, 2), keepdims=True)
    scale = divide(jnp.abs(atom).max(), peak)
    return mean * scale, observed.astype(moment.dtype)
