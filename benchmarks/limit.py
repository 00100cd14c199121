"""The limit of speed: the Fourier transforms that exact coding cannot do without.

A CSC pass needs the correlation of every recording with every atom. This module computes
nothing but those, in single precision with SciPy on all cores, each recording at its own
best length: the transform of the recordings, that of the atoms, their product summed over
channels, and the way back. Reading, padding and reordering the data is not counted.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
from scipy import fft

from percdl import Cohort

# Rows of a batch: large enough to share between cores, small enough for their caches.
MOST_ROWS = 64


@dataclass(frozen=True)
class Batch:
    """Recordings of one transform length: values (S, P, N), and that length."""

    values: np.ndarray
    n_fft: int


def make_batches(cohort: Cohort) -> list[Batch]:
    """Sort the recordings by the length their transform has, time on the last axis."""
    lengths = np.array([fft.next_fast_len(int(n), real=True) for n in cohort.lengths])
    batches = []
    for n_fft in np.unique(lengths):
        members = np.flatnonzero(lengths == n_fft)
        for start in range(0, len(members), MOST_ROWS):
            rows = members[start : start + MOST_ROWS]
            values = np.zeros((len(rows), cohort.n_channels, n_fft), np.float32)
            for row, s in zip(values, rows, strict=True):
                row[:, : cohort[int(s)].n_times] = cohort[int(s)].values.T
            batches.append(Batch(values, int(n_fft)))
    return batches


def correlate_all(batches: list[Batch], atoms: np.ndarray, personal: bool) -> None:
    """Correlate all recordings with shared atoms (K, P, L), or with a copy for each of them."""
    workers = os.cpu_count()
    for batch in batches:
        shape = (len(batch.values) if personal else 1, *atoms.shape)
        own = np.broadcast_to(atoms, shape)
        signal_hat = fft.rfft(batch.values, batch.n_fft, workers=workers)
        atoms_hat = fft.rfft(own, batch.n_fft, workers=workers).conj()
        if personal:
            product = np.einsum("spf,skpf->skf", signal_hat, atoms_hat)
        else:
            product = np.einsum("spf,kpf->skf", signal_hat, atoms_hat[0])
        fft.irfft(product, batch.n_fft, workers=workers)


def limit_seconds(batches: list[Batch], start: np.ndarray, n_init: int, n_perso: int) -> float:
    """Time the correlations of a whole fit: its rounds, and the pass that closes it.

    ``start`` (K, L, P) gives the number and size of the atoms; their values play no part.
    """
    atoms = np.ascontiguousarray(np.swapaxes(start, 1, 2), np.float32)
    began = time.perf_counter()
    for _ in range(n_init):
        correlate_all(batches, atoms, personal=False)
    for _ in range(n_perso + 1):
        correlate_all(batches, atoms, personal=True)
    return time.perf_counter() - began
