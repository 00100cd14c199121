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

# Segments that are tried as first means, and rounds of assigning and averaging after each.
N_CANDIDATES, N_PARTS, N_ROUNDS = 300, 6, 15
# Degrees of freedom of the noise: the smaller, the more the noise of segments differs.
FREEDOM = 1.0
# Number of kinds before any are joined, and the fewest cycles of one that `count_kinds` finds.
MOST_KINDS, FEWEST = 16, 6
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
    return np.maximum(np.median(squares) / _count_free(residuals), 1e-300)


def _count_free(residuals) -> float:
    """Return the effective number of dimensions of residuals (E, n)."""
    short = residuals.T if len(residuals) > residuals.shape[1] else residuals
    gram = short @ short.T
    return max(np.trace(gram) ** 2 / max((gram**2).sum(), 1e-300), 1.0)


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
    """Sort segments into kinds by shape.

    Each segment comes with ``(W - length) // 2`` samples more on either side, which is how far it
    may be shifted. Segments are divided into more kinds than needed (`_divide`), and the two that
    are least apart (`separation`) are joined until ``n_kinds`` are left: a kind may vary
    continuously. Cost O(E W L P K) per round.
    """
    flat, energy = _cut(wide, length)
    n_fine = max(MOST_KINDS, n_kinds) if n_kinds > 1 else 1
    kind, shift, _ = _divide(flat, energy, n_fine, rng)
    everyone = np.ones(len(wide), bool)
    found = _join(flat, energy, kind, shift, everyone, everyone, n_kinds)
    return _finish(wide, length, found)


def _cut(wide, length):
    """Return the windows of segments at all shifts, array (E, shifts, L P), and their energy."""
    windows = np.lib.stride_tricks.sliding_window_view(wide, length, axis=1)
    flat = detrend(windows.swapaxes(2, 3)).reshape(*windows.shape[:2], -1)
    return flat, (flat**2).sum(2)


def _finish(wide, length, found) -> Sorted:
    """Order the kinds by size."""
    kind, shift, means, errors = found
    flat, n_kinds = _cut(wide, length)[0], len(means)
    order = np.argsort(-np.bincount(kind, minlength=n_kinds), kind="stable")
    shape = (length, wide.shape[2])
    aligned = flat[np.arange(len(flat)), shift].reshape(len(flat), *shape)
    means = means[order].reshape(n_kinds, *shape)
    return Sorted(
        np.argsort(order)[kind], shift - flat.shape[1] // 2, means, errors[:, order], aligned
    )


def _divide(flat, energy, n_kinds, rng):
    """Return kinds, shifts and means: a mixture with a noise variance of its own for each segment.

    With that variance unknown, the distances have a multivariate t distribution: a noisy segment
    hardly moves a mean, and belongs to a frequent kind unless it is clearly nearer to a rare one.
    Kinds are added one by one; the first mean of the next is the segment that raises the
    likelihood most, of `N_CANDIDATES`. Every round assigns, estimates and averages.
    """
    middle, rows = flat.shape[1] // 2, np.arange(len(flat))
    candidates = flat[rng.permutation(len(flat))[:N_CANDIDATES], middle]
    distances = np.concatenate(
        [_nearest(flat, energy, part)[0] for part in np.array_split(candidates, N_PARTS)], axis=1
    )
    first = int(np.median(distances, axis=0).argmin())
    means, share = candidates[[first]], np.ones(1)
    least = 1e-12 * max(energy.mean(), 1e-300)
    n_free, variance = 1.0, max(np.median(distances[:, first]), least)
    while True:
        for _ in range(N_ROUNDS):
            errors, shifts = _nearest(flat, energy, means)
            fit = np.log(share) - _surprise(errors, n_free, variance)
            kind = fit.argmax(1)
            shift, own = shifts[rows, kind], errors[rows, kind]
            segments = flat[rows, shift]
            weight = (FREEDOM + n_free) / (FREEDOM + own / variance)
            for k in np.unique(kind):
                mine = kind == k
                means[k] = weight[mine] @ segments[mine] / weight[mine].sum()
            residual = np.sqrt(weight)[:, None] * (segments - means[kind])
            n_free = _count_free(residual)
            variance = max((residual**2).sum() / (n_free * len(flat)), least)
            share = np.maximum(np.bincount(kind, minlength=len(means)), 0.5) / len(flat)
        gain = _surprise(own, n_free, variance)[:, None] - _surprise(distances, n_free, variance)
        gain = np.maximum(gain, 0).sum(0)
        if len(means) == n_kinds or gain.max() <= 0:
            return kind, shift, means
        means = np.append(means, candidates[[gain.argmax()]], axis=0)
        share = np.append(share, share.mean())


def _surprise(squares, n_free: float, variance: float):
    """Return minus the log density of squared distances, up to a constant."""
    return (FREEDOM + n_free) / 2 * np.log1p(squares / (FREEDOM * variance))


def _nearest(flat, energy, means):
    """Return the squared distance of each segment to each mean, and the shift it is reached at."""
    products = np.einsum("esl,kl->eks", flat, means, optimize=True)
    squares = energy[:, None] - 2 * products + (means**2).sum(1)[:, None]
    return np.maximum(squares.min(2), 0), squares.argmin(2)


def count_kinds(wide: Float[np.ndarray, "E W P"], length: int, rng: np.random.Generator) -> Sorted:
    """Sort segments into as many kinds as there are groups.

    Half of the segments are divided into `MOST_KINDS` kinds, more than needed. The other half,
    which was not used for the means, shows which kinds are apart (`separation`): the two that are
    least apart are joined until all are apart. Segments that vary continuously become one kind.
    """
    if len(wide) < 2 * FEWEST:
        return sort_segments(wide, length, 1, rng)
    # A random half: every other cycle may be of one kind.
    used = rng.permutation(len(wide)) < len(wide) // 2
    flat, energy = _cut(wide, length)
    means = _divide(flat[used], energy[used], MOST_KINDS, rng)[2]
    errors, shifts = _nearest(flat, energy, means)
    kind = errors.argmin(1)
    shift = shifts[np.arange(len(wide)), kind]
    found = _join(flat, energy, kind, shift, used, ~used, 1, APART, FEWEST // 2)
    return _finish(wide, length, found)


def _join(flat, energy, kind, shift, used, judged, n_kinds, enough=np.inf, fewest=2):
    """Join the kinds that are least apart until ``n_kinds`` are left, or all are far ``enough``.

    Means are those of the segments ``used``, and those ``judged`` show how far kinds are apart.
    """
    aligned = flat[np.arange(len(flat)), shift]
    while True:
        present, kind = np.unique(kind, return_inverse=True)
        own = [kind == k for k in range(len(present))]
        means = np.stack([aligned[k & used if (k & used).any() else k].mean(0) for k in own])
        if len(present) <= n_kinds:
            break
        squares = _nearest(flat[judged], energy[judged], means)[0]
        pair, apart = least_apart(kind[judged], squares, fewest)
        if apart >= enough:
            break
        kind = np.where(kind == pair[0], pair[1], kind)
    means = np.stack([aligned[k].mean(0) for k in own])
    return kind, shift, means, _nearest(flat, energy, means)[0]


def least_apart(
    kind: Int[np.ndarray, " E"], errors: Float[np.ndarray, "E K"], fewest: int
) -> tuple[tuple[int, int], float]:
    """Return two kinds to join, the smaller first, and how far they are apart.

    Two kinds are compared by how much nearer each of their segments is to the mean of one than
    to that of the other. A kind of less than the ``fewest`` segments joins the nearest.
    """
    sizes = np.bincount(kind, minlength=errors.shape[1])
    smallest = int(sizes.argmin())
    if sizes[smallest] < fewest:
        others = np.delete(np.arange(len(sizes)), smallest)
        own = errors[kind == smallest] if sizes[smallest] else errors
        return (smallest, int(others[own[:, others].mean(0).argmin()])), 0.0
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
    return pairs[least], apart[least]


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
