"""Slow and obvious twins of the fast code: loops and dense algebra in NumPy."""

from functools import cache
from itertools import combinations, pairwise, product

import numpy as np


def cross_correlation(x, atoms):
    """Return ``<x[t:t+L], phi_k>`` for a signal (N, P) and atoms (K, L, P), array (K, V)."""
    n_atoms, length, _ = atoms.shape
    n_positions = len(x) - length + 1
    return np.array(
        [
            [np.sum(x[t : t + length] * atoms[k]) for t in range(n_positions)]
            for k in range(n_atoms)
        ]
    )


def disjoint_sets(n_positions, span, most=None):
    """Yield every tuple of increasing positions that lie at least ``span`` apart."""
    largest = -(-n_positions // span)
    for count in range((largest if most is None else min(largest, most)) + 1):
        for onsets in combinations(range(n_positions), count):
            if all(b - a >= span for a, b in pairwise(onsets)):
                yield onsets


def best_activations(gain, spans, most=None, covered=()):
    """Return the largest total gain (D, V) of disjoint activations, each of one of the spans.

    Samples that must be ``covered`` lie in an activation; minus infinity where that cannot be.
    """

    @cache
    def best_from(t, left):
        if t >= gain.shape[1] or left == 0:
            return -np.inf if np.any(covered[t:]) else 0.0
        ways = [gain[d, t] + best_from(t + span, left - 1) for d, span in enumerate(spans)]
        if not np.any(covered[t : t + 1]):
            ways.append(best_from(t + 1, left))
        return max(ways)

    return best_from(0, -1 if most is None else most)


def codes(x, atoms, observed, signed=False, min_gap=0, max_activations=None):
    """Return every code as (squared error, events).

    ``x`` (N, P), ``atoms`` (K, L, P), ``observed`` (N, P) of ones and zeros. Events are
    triples (onset, atom, amplitude). For each support the residual itself is formed.
    """
    n_atoms, length, _ = atoms.shape
    amplitude = {}
    for k, t in product(range(n_atoms), range(len(x) - length + 1)):
        seen = observed[t : t + length]
        norm = np.sum(seen * atoms[k] ** 2)
        match = np.sum(seen * x[t : t + length] * atoms[k])
        amplitude[k, t] = match / norm if norm > 0 else 0.0
        if not signed:
            amplitude[k, t] = max(amplitude[k, t], 0.0)
    found = []
    for onsets in disjoint_sets(len(x) - length + 1, length + min_gap, max_activations):
        for which in product(range(n_atoms), repeat=len(onsets)):
            residual = x.copy()
            for k, t in zip(which, onsets, strict=True):
                residual[t : t + length] -= amplitude[k, t] * atoms[k]
            events = [(t, k, amplitude[k, t]) for k, t in zip(which, onsets, strict=True)]
            found.append((np.sum(observed * residual**2), events))
    return found


def best_codes(found, penalty):
    """Return codes as (objective, events), the best first."""
    priced = [(error + penalty * len(events), events) for error, events in found]
    return sorted(priced, key=lambda code: code[0])


def cost(x, atoms, penalty, observed, events):
    """Return the objective of a code given as triples (onset, atom, amplitude)."""
    residual = np.array(x, float)
    for t, k, amplitude in events:
        residual[t : t + len(atoms[k])] -= amplitude * atoms[k]
    return np.sum(observed * residual**2) + penalty * len(events)


def convolution_matrix(atoms, n_times):
    """Return the matrix (N P, K V) that turns activations into their superposition."""
    n_atoms, length, n_channels = atoms.shape
    columns = []
    for k, t in product(range(n_atoms), range(n_times - length + 1)):
        signal = np.zeros((n_times, n_channels))
        signal[t : t + length] = atoms[k]
        columns.append(signal.ravel())
    return np.array(columns).T


def activation_matrix(activations, length):
    """Return the matrix (N, K L) that turns the atoms of a channel into their superposition."""
    n_atoms, n_positions = activations.shape
    matrix = np.zeros((n_positions + length - 1, n_atoms * length))
    for k, t, i in product(range(n_atoms), range(n_positions), range(length)):
        matrix[t + i, k * length + i] += activations[k, t]
    return matrix


def l1_cost(x, atoms, penalty, weights, activations):
    """Return the objective of overlapping activations (K, V) of a signal (N, P)."""
    fit = (convolution_matrix(atoms, len(x)) @ activations.ravel()).reshape(x.shape)
    return np.sum(weights * (x - fit) ** 2) + penalty * np.abs(activations).sum()


def spectral_curvature(atoms, n_times):
    """Return twice the largest absolute row sum of the atoms' Gram matrices of spectra, (K,)."""
    spectra = np.fft.fft(atoms, n_times, axis=1)
    gram = np.einsum("kfp,jfp->fkj", spectra, spectra.conj())
    return 2 * np.abs(gram).sum(2).max(0)


def fista(matrix, target, penalty, curvature, signed, n_steps, tolerance):
    """Return where restarted FISTA stands, from zero, after some steps or at a small enough gap.

    Minimizes ``|y - M z|^2 + penalty |z|_1``; ``curvature`` has an entry for each of z.
    """
    point = before = np.zeros(matrix.shape[1])
    pace = 1.0
    for _ in range(n_steps):
        objective, dual = _primal_and_dual(matrix, target, penalty, point, signed)
        if objective - dual <= tolerance * objective:
            break
        next_pace = 0.5 + np.sqrt(0.25 + pace**2)
        ahead = point + (pace - 1) / next_pace * (point - before)
        moved = ahead + 2 * matrix.T @ (target - matrix @ ahead) / curvature
        after = np.sign(moved) * np.maximum(np.abs(moved) - penalty / curvature, 0)
        after = after if signed else np.maximum(after, 0)
        uphill = np.sum(curvature * (ahead - after) * (after - point)) > 0
        point, before, pace = after, point, 1.0 if uphill else next_pace
    return point


def _primal_and_dual(matrix, target, penalty, point, signed):
    """Return the objective, and the best lower bound that a multiple of the residual proves."""
    residual = target - matrix @ point
    slopes = 2 * matrix.T @ residual
    steepest = (np.abs(slopes) if signed else slopes).max()
    most = penalty / steepest if steepest > 0 else np.inf
    share = np.clip(residual @ target / (residual @ residual), 0, most)
    dual = target @ target - np.sum((target - share * residual) ** 2)
    return residual @ residual + penalty * np.abs(point).sum(), dual


def segments(x, observed, onsets, length, margin=0):
    """Cut windows (E, L + 2R, P) of a signal and of its mask; outside the signal is unseen."""
    wide = np.pad(x, ((margin, margin), (0, 0)))
    seen = np.pad(observed, ((margin, margin), (0, 0)))
    window = length + 2 * margin
    return (
        np.array([wide[t : t + window] * seen[t : t + window] for t in onsets]),
        np.array([seen[t : t + window] for t in onsets]),
    )


def segment_statistics(x, observed, events, n_atoms, length, margin=0):
    """Return moment (K, L + 2R, P), weight (K, L + 2R, P) and count (K,) of one recording."""
    window, n_channels = length + 2 * margin, x.shape[1]
    moment = np.zeros((n_atoms, window, n_channels))
    weight = np.zeros((n_atoms, window, n_channels))
    count = np.zeros(n_atoms, int)
    for onset, atom, amplitude in events:
        for i in range(window):
            t = onset - margin + i
            if 0 <= t < len(x):
                moment[atom, i] += amplitude * observed[t] * x[t]
                weight[atom, i] += amplitude**2 * observed[t]
        count[atom] += 1
    return moment, weight, count


def least_squares_atom(cut, seen, amplitudes, operators):
    """Return ``argmin over phi of sum_j |y_j - z_j T_j phi|^2`` over the samples seen.

    ``cut``, ``seen`` (J, L, P), ``amplitudes`` (J,), ``operators`` (J, L P, L P): one dense
    least-squares problem in all entries of the atom.
    """
    root = np.sqrt(seen).reshape(len(cut), -1)
    rows = root[..., None] * amplitudes[:, None, None] * operators
    right = root * cut.reshape(len(cut), -1)
    found = np.linalg.lstsq(rows.reshape(-1, rows.shape[-1]), right.ravel(), rcond=None)[0]
    return found.reshape(cut.shape[1:])


def warp(layers, length):
    """Return psi_D o ... o psi_1 at i / (L - 1), in samples, one layer and sine at a time."""
    time = np.arange(length) / (length - 1)
    for layer in layers:
        moved = time.copy()
        for w, coefficient in enumerate(layer, start=1):
            moved += coefficient * np.sin(w * np.pi * time) / (w * np.pi)
        time = moved
    return time * (length - 1)


def project_onto_l1_ball(row, radius):
    """Project by sorting (Duchi et al., 2008)."""
    if np.abs(row).sum() <= radius:
        return row.copy()
    ordered = np.sort(np.abs(row))[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, len(row) + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.sign(row) * np.maximum(np.abs(row) - threshold, 0)
