"""Kinds of cycle: segments sorted by shape, and how many shapes there are.

A straight line is removed from segments, and they are compared at the best of a few shifts, so
that baseline drift and small errors of onsets do not create kinds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from percdl.steps.period import NORMAL_MAD

# First means that are tried, and rounds of assigning and averaging from each.
N_STARTS, N_ROUNDS = 8, 30
# Number of kinds that `count_kinds` begins with, and the fewest cycles of one that it finds.
MOST_KINDS, FEWEST = 6, 6
# Kinds are apart if their separation is at least this; see `separation`.
APART = 4.0
# Atoms are copies of each other from this cosine on.
ALIKE = 0.9


class Sorted(NamedTuple):
    """Segments by kind, without their straight lines; the first kind has most of them."""

    kind: Int[np.ndarray, " E"]
    shift: Int[np.ndarray, " E"]  # samples after the middle position
    means: Float[np.ndarray, "K L P"]  # of each kind
    errors: Float[np.ndarray, "E K"]  # squared distance to each mean, at the best shift
    aligned: Float[np.ndarray, "E L P"]  # the segments at their shifts

    @property
    def probabilities(self) -> Float[np.ndarray, "E K"]:
        """Posterior probabilities of the kinds, for Gaussian noise as large as the residuals."""
        n_kinds = len(self.means)
        if n_kinds == 1:
            return np.ones((len(self.kind), 1))
        own = self.errors[np.arange(len(self.kind)), self.kind]
        residual = (self.aligned - self.means[self.kind]).reshape(len(own), -1)
        scale = free_variance(residual, own)
        share = np.bincount(self.kind, minlength=n_kinds) / len(own)
        with np.errstate(divide="ignore"):
            return softmax(np.log(share) - self.errors / (2 * scale), axis=1)


def free_variance(residuals: Float[np.ndarray, "E n"], squares: Float[np.ndarray, " E"]) -> float:
    """Return the variance of independent residuals, given their sum of squares in each segment.

    Neighbouring residuals are correlated: the sums are divided by the effective number of
    dimensions, not by the number of samples.
    """
    spread = np.linalg.svd(residuals, compute_uv=False) ** 2
    n_free = spread.sum() ** 2 / np.maximum((spread**2).sum(), 1e-300)
    return np.maximum(np.median(squares) / n_free, 1e-300)


def detrend(segments: Float[np.ndarray, "*E L P"]) -> Float[np.ndarray, "*E L P"]:
    """Subtract the best straight line from every channel of segments.

    >>> np.abs(detrend(np.arange(4.0)[None, :, None])).round(9).ravel().tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    length = segments.shape[-2]
    line = np.linalg.qr(np.stack([np.ones(length), np.linspace(-1, 1, length)], 1))[0]
    return segments - line @ (line.T @ segments)


def sort_segments(
    wide: Float[np.ndarray, "E W P"], length: int, n_kinds: int, rng: np.random.Generator
) -> Sorted:
    """Sort segments into kinds by least squares: k-means with shifts.

    Each segment comes with ``(W - length) // 2`` samples more on either side, which is how far it
    may be shifted. Every round assigns each segment to the nearest mean at the best shift, and
    then averages. Both steps lower the sum of squares; the best of several first means is kept,
    which need not be the best of all. Cost O(E W L P K) per round.
    """
    n_kinds = min(n_kinds, len(wide))
    flat, energy = _cut(wide, length)
    middle, best = flat.shape[1] // 2, None
    for _ in range(N_STARTS if n_kinds > 1 else 1):
        means = flat[[rng.integers(len(flat))], middle]
        while len(means) < n_kinds:  # the next first mean is far from the others
            far = _nearest(flat, energy, means)[0].min(1)
            chance = far / far.sum() if far.sum() > 0 else None
            means = np.append(means, flat[[rng.choice(len(flat), p=chance)], middle], axis=0)
        found = _improve(flat, energy, means)
        if best is None or found[0] < best[0]:
            best = found
    return _finish(wide, length, best)


def _cut(wide, length):
    """Return the windows of segments at all shifts, array (E, shifts, L P), and their energy."""
    windows = np.lib.stride_tricks.sliding_window_view(wide, length, axis=1)
    flat = detrend(windows.swapaxes(2, 3)).reshape(*windows.shape[:2], -1)
    return flat, (flat**2).sum(2)


def _finish(wide, length, found) -> Sorted:
    """Order the kinds by size."""
    _, kind, shift, means, errors = found
    flat, n_kinds = _cut(wide, length)[0], len(means)
    order = np.argsort(-np.bincount(kind, minlength=n_kinds), kind="stable")
    shape = (length, wide.shape[2])
    aligned = flat[np.arange(len(flat)), shift].reshape(len(flat), *shape)
    means = means[order].reshape(n_kinds, *shape)
    return Sorted(
        np.argsort(order)[kind], shift - flat.shape[1] // 2, means, errors[:, order], aligned
    )


def _improve(flat, energy, means):
    """Return the sum of squares, kinds, shifts, means and distances after rounds of k-means."""
    rows, before = np.arange(len(flat)), None
    for _ in range(N_ROUNDS):
        errors, shifts = _nearest(flat, energy, means)
        kind = errors.argmin(1)
        state = kind * flat.shape[1] + shifts[rows, kind]
        if before is not None and (state == before).all():
            break
        before, own = state, flat[rows, shifts[rows, kind]]
        for k in np.unique(kind):
            means[k] = own[kind == k].mean(0)
    return errors.min(1).sum(), kind, shifts[rows, kind], means, errors


def _nearest(flat, energy, means):
    """Return the squared distance of each segment to each mean, and the shift it is reached at."""
    products = np.einsum("esl,kl->eks", flat, means, optimize=True)
    squares = energy[:, None] - 2 * products + (means**2).sum(1)[:, None]
    return np.maximum(squares.min(2), 0), squares.argmin(2)


def count_kinds(wide: Float[np.ndarray, "E W P"], length: int, rng: np.random.Generator) -> Sorted:
    """Sort segments into as many kinds as there are groups.

    Half of the segments are sorted into `MOST_KINDS` kinds, more than needed. The other half,
    which was not used for the means, shows which kinds are apart (`separation`): the two that are
    least apart are joined until all are apart. Segments that vary continuously become one kind.
    """
    if len(wide) < 2 * FEWEST:
        return sort_segments(wide, length, 1, rng)
    # A random half: every other cycle may be of one kind.
    used = rng.permutation(len(wide)) < len(wide) // 2
    fine = sort_segments(wide[used], length, MOST_KINDS, rng)
    flat, energy = _cut(wide, length)
    errors, shifts = _nearest(flat, energy, fine.means.reshape(len(fine.means), -1))
    kind, rows = errors.argmin(1), np.arange(len(wide))
    shift = shifts[rows, kind]
    while True:
        present, kind = np.unique(kind, return_inverse=True)
        aligned = flat[rows, shift]
        own = [kind == k for k in range(len(present))]
        means = np.stack([aligned[k & used if (k & used).any() else k].mean(0) for k in own])
        pair = least_apart(kind[~used], _nearest(flat[~used], energy[~used], means)[0])
        if pair is None:
            break
        kind = np.where(kind == pair[0], pair[1], kind)
    means = np.stack([aligned[k].mean(0) for k in own])
    errors = _nearest(flat, energy, means)[0]
    return _finish(wide, length, (0.0, kind, shift, means, errors))


def least_apart(
    kind: Int[np.ndarray, " E"], errors: Float[np.ndarray, "E K"]
) -> tuple[int, int] | None:
    """Return two kinds to join, the smaller first; None if all are apart.

    Two kinds are compared by how much nearer each of their segments is to the mean of one than
    to that of the other. A kind of few segments joins the nearest.
    """
    sizes = np.bincount(kind, minlength=errors.shape[1])
    if len(sizes) == 1:
        return None
    smallest = int(sizes.argmin())
    if sizes[smallest] < FEWEST // 2:
        others = np.delete(np.arange(len(sizes)), smallest)
        own = errors[kind == smallest] if sizes[smallest] else errors
        return smallest, int(others[own[:, others].mean(0).argmin()])
    pairs = [
        (a, b)
        for a in range(len(sizes))
        for b in range(len(sizes))
        if sizes[a] < sizes[b] or (sizes[a] == sizes[b] and a > b)
    ]
    apart = [
        separation(*((errors[:, a] - errors[:, b])[kind == k] for k in (a, b))) for a, b in pairs
    ]
    least = int(np.argmin(apart))
    return pairs[least] if apart[least] < APART else None


def separation(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " m"]) -> float:
    """Return how many standard deviations two groups of numbers are apart, at least.

    Medians, and the median absolute deviation of both together (Ashman's D, made robust), divided
    by ``1 + 1.5 / sqrt(n)`` for n numbers in the smaller group: a few are apart by chance. Halves
    of a large Gaussian group are 2.3 apart, of a uniform one 2.7, of a sine wave 3.9.

    >>> x = np.linspace(0, 1, 100)
    >>> separation(x[:50], x[50:]) < APART < separation(x, x + 5)
    True
    """
    first, second = np.median(one), np.median(other)
    spread = np.median(np.abs(np.concatenate([one - first, other - second]))) / NORMAL_MAD
    between = abs(second - first)
    chance = 1 + 1.5 / np.sqrt(min(len(one), len(other)))
    return float(between / max(spread, 1e-12 * between, 1e-300) / chance)


def find_alike(
    dictionary: Float[np.ndarray, "K L P"], signed: bool = False
) -> list[tuple[int, int, float]]:
    """Return pairs of atoms that are copies of each other, and their cosine, most alike first.

    Copies may be shifted by up to a quarter of the atom, longer or shorter by a sixth, bent in
    time by up to a tenth, and scaled; with ``signed`` also turned upside down. Cost O(K^2 L^2 P).

    >>> wave = np.sin(np.linspace(0, 7, 60))[:, None]
    >>> late = np.roll(np.pad(wave, ((0, 20), (0, 0))), 5, 0)
    >>> other = np.pad(wave**2, ((0, 20), (0, 0)))
    >>> [pair[:2] for pair in find_alike(np.stack([np.pad(wave, ((0, 20), (0, 0))), late, other]))]
    [(0, 1)]
    """
    n_atoms, length, _ = dictionary.shape
    size = np.sqrt((dictionary**2).sum((1, 2)))
    reach, pairs = length // 4, []
    for j in range(n_atoms):
        for k in range(j + 1, n_atoms):
            if min(size[j], size[k]) > 0:
                copies = _vary(dictionary[k])
                padded = np.pad(copies, ((0, 0), (reach, reach), (0, 0)))
                moved = np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)
                products = np.einsum("vspl,lp->vs", moved, dictionary[j])
                if signed:
                    products = np.abs(products)
                norms = np.sqrt((copies**2).sum((1, 2)))[:, None] * size[j]
                cosine = float((products / np.maximum(norms, 1e-300)).max())
                if cosine >= ALIKE:
                    pairs.append((j, k, cosine))
    return sorted(pairs, key=lambda pair: -pair[2])


def _vary(atom: Float[np.ndarray, "L P"]) -> Float[np.ndarray, "V L P"]:
    """Return an atom at several lengths and bends of its time."""
    time = np.linspace(0, 1, len(atom))
    warped = [
        0.5 + (time - 0.5) / stretch + bend * np.sin(np.pi * time)
        for stretch in (0.85, 0.92, 1.0, 1.08, 1.17)
        for bend in (-0.1, -0.05, 0.0, 0.05, 0.1)
    ]
    return np.stack(
        [
            np.stack([np.interp(t, time, own, left=0, right=0) for own in atom.T], axis=1)
            for t in warped
        ]
    )
