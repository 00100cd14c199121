"""Reconstructions of recordings from events and atoms, their error, and matched onsets."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import InvalidParameterError
from percdl.signals.events import event_lengths
from percdl.signals.recording import Recording


def rebuild(
    recordings: Iterable[Recording],
    events: pd.DataFrame,
    personal_dictionary: Float[np.ndarray, "S K L P"],
    n_terms: int = 0,
) -> list[np.ndarray]:
    """Return ``sum_k z_k * phi_sk`` for each recording, arrays (n_times, n_channels).

    ``events`` has columns subject, atom, onset_sample and amplitude, and duration_samples if
    they are not as long as the atoms; the atoms are in the order of the recordings. With
    ``n_terms``, each event has its own baseline of this many terms.
    """
    recordings = list(recordings)
    rebuilt = {record.subject: np.zeros(record.values.shape) for record in recordings}
    values = {record.subject: record.values for record in recordings}
    atoms = {r.subject: own for r, own in zip(recordings, personal_dictionary, strict=True)}
    length = personal_dictionary.shape[2]
    columns = [events[c] for c in ("subject", "atom", "onset_sample", "amplitude")]
    durations = event_lengths(events, length)
    for subject, k, onset, amplitude, duration in zip(*columns, durations, strict=True):
        atom = atoms[subject][k]
        if duration != length:
            atom = read_dilated(length, int(duration)) @ atom
        fit = amplitude * atom
        if n_terms:
            fit = fit + _baseline(values[subject][onset : onset + duration] - fit, n_terms)
        rebuilt[subject][onset : onset + duration] += fit
    return list(rebuilt.values())


def _baseline(windows: Float[np.ndarray, "L P"], n_terms: int) -> Float[np.ndarray, "L P"]:
    """Return the baselines of a window, fitted to the observed samples of each channel."""
    basis, observed = make_basis(n_terms, (len(windows),))[0], ~np.isnan(windows)
    fits = [
        basis @ np.linalg.lstsq(basis[seen], x[seen])[0]
        for x, seen in zip(windows.T, observed.T, strict=True)
    ]
    return np.stack(fits, axis=1)


@lru_cache(maxsize=256)
def read_dilated(n_known: int, n_wanted: int) -> Float[np.ndarray, "n m"]:
    """Return the map that reads a window of one length at the samples of another."""
    spacing = (n_known - 1) / (n_wanted - 1)
    return read_between(np.arange(n_wanted) * spacing, np.arange(n_known), max(1.0, spacing))


def read_between(at: np.ndarray, known: np.ndarray, width: float) -> Float[np.ndarray, "n m"]:
    """Return the map that reads values known at some times at other times.

    It is linear interpolation, or an average with triangular weights if ``width`` is more than
    the distance of the times ``known``.
    """
    weights = np.maximum(1 - np.abs(np.subtract.outer(at, known)) / width, 0)
    return weights / np.maximum(weights.sum(1, keepdims=True), np.finfo(float).tiny)


@lru_cache(maxsize=64)
def make_basis(n_terms: int, lengths: tuple[int, ...]) -> Float[np.ndarray, "D W n"]:
    """Return orthonormal baselines of windows of some lengths, zero beyond their ends."""
    basis = np.zeros((len(lengths), max(lengths), n_terms))
    for own, length in zip(basis, lengths, strict=True):
        for n, term in enumerate(baseline_terms(np.arange(length), length, n_terms)):
            own[:length, n] = term
    return basis


def baseline_terms(time: Any, length: Any, n_terms: int) -> list[Any]:
    """Return an offset and a line of unit norm, at times from the start of a window."""
    middle, spread = (length - 1) / 2, (length * (length**2 - 1) / 12) ** 0.5
    return [(0 * time + 1) / length**0.5, (time - middle) / spread][:n_terms]


def level(
    windows: Float[np.ndarray, "*batch L P"], n_terms: int
) -> Float[np.ndarray, "*batch L P"]:
    """Return windows without their baselines."""
    basis = make_basis(n_terms, (windows.shape[-2],))[0]
    return windows - (basis @ (basis.T @ windows)).astype(windows.dtype)


def normalized_reconstruction_error(
    recordings: Iterable[Recording], reconstructions: Iterable[np.ndarray]
) -> float:
    """Return ``sum |x - x_hat|^2 / sum |x|^2`` over all recordings (decision 12).

    Missing samples are ignored. Both arguments may be generators, so that neither has to fit in
    memory. Cost O(S N P).

    Parameters
    ----------
    recordings, reconstructions
        The recordings x, and one array x_hat (n_times, n_channels) for each of them, such as
        ``model.reconstruct(cohort)``.

    Returns
    -------
    float
        The unexplained share of the energy: 0 is perfect, zeros give 1.

    Examples
    --------
    >>> x = Recording([3.0, np.nan, 4.0])
    >>> normalized_reconstruction_error([x], [np.array([[3.0], [9.0], [0.0]])])
    0.64
    """
    missed = energy = 0.0
    for record, rebuilt in zip(recordings, reconstructions, strict=True):
        if record.values.shape != np.shape(rebuilt):
            raise InvalidParameterError(
                f"A recording has shape {record.values.shape}, its reconstruction "
                f"{np.shape(rebuilt)}. Pass one (n_times, n_channels) array for each recording."
            )
        missed += np.nansum((record.values - np.asarray(rebuilt)) ** 2)
        energy += np.nansum(np.square(record.values, dtype=float))
    if not energy > 0:
        raise InvalidParameterError(
            "The recordings are all zero or missing, so the relative error is undefined."
        )
    return float(missed / energy)


def match_onsets(
    detected: Sequence[float] | np.ndarray, true: Sequence[float] | np.ndarray, tolerance: float
) -> Int[np.ndarray, "n 2"]:
    """Pair detected onsets with true ones, one to one and within a tolerance.

    The number of pairs is the largest possible; among all such pairings, the sum of distances
    is the smallest. Returns positions in the two lists, sorted by the true onsets. Cost
    O(n log n) for n onsets, and O(m^3) for each m of them in a row within the tolerance.

    >>> match_onsets([9, 55, 11], [10, 12], tolerance=5).tolist()
    [[0, 0], [2, 1]]
    """
    from scipy.optimize import linear_sum_assignment

    times = np.concatenate([np.asarray(detected, float), np.asarray(true, float)])
    order = np.argsort(times, kind="stable")
    is_true = order >= len(detected)
    # Onsets further apart than the tolerance never match, nor do those on either side of a gap.
    cuts = np.flatnonzero(np.diff(times[order]) > tolerance) + 1
    pairs = [np.empty((0, 2), int)]
    for part, kinds in zip(np.split(order, cuts), np.split(is_true, cuts), strict=True):
        mine, theirs = part[~kinds], part[kinds]
        if not (len(mine) and len(theirs)):
            continue
        gaps = np.abs(np.subtract.outer(times[theirs], times[mine]))
        allowed = gaps <= tolerance
        # One more pair outweighs all distances together.
        reward = 1 + min(gaps.shape) * gaps.max(where=allowed, initial=0)
        rows, columns = linear_sum_assignment(np.where(allowed, gaps - reward, 0))
        kept = allowed[rows, columns]
        pairs.append(np.column_stack([mine[columns[kept]], theirs[rows[kept]]]))
    found = np.concatenate(pairs) - [0, len(detected)]
    return found[np.argsort(found[:, 1], kind="stable")]
