"""The first dictionary: the segments that recur most across people.

A consensus motif is a segment of one recording that occurs several times in all the others.
Candidates are the loudest windows of many recordings. Each is scored by the exact code of every
recording with it. Atoms are added one by one: the next is the candidate that explains most in
addition to the earlier ones.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int
from scipy.ndimage import gaussian_filter1d
from scipy.signal import find_peaks

from percdl.signals.reconstruction import level, make_basis, read_dilated
from percdl.steps.baseline import level_atoms, window_energy
from percdl.steps.coders import SizedCoder
from percdl.steps.compilation import program
from percdl.steps.csc import L0Coder, encode
from percdl.steps.dictionary import normalize
from percdl.steps.types import Signals
from percdl.transforms.base import divide

N_CANDIDATES = 96
# Lengths of windows that are tried for an atom if activations differ in length.
N_ZOOMS = 8
# Smoothness of random shapes, as shares of an atom: from a spike to half a wave.
FINEST, COARSEST = 0.04, 0.25


def choose_segments(
    signals: Signals,
    n_atoms: int,
    atom_length: int,
    penalty: float,
    rules: L0Coder,
    rng: np.random.Generator,
    chosen: np.ndarray | None = None,
    share: float = 1.0,
) -> np.ndarray:
    """Choose segments of the recordings as atoms (K, L, P), greedily by explained energy.

    Each candidate is tried as the next atom, in addition to those of ``chosen`` (fewer than K
    initial atoms, none by default), by coding all the recordings exactly. The score is the
    explained share of a recording, averaged over recordings, so a segment that recurs in everyone
    wins over one that explains a loud recording well. Then the windows around the winners are
    tried in the same way, so that no atom cuts its pattern. Atoms of different lengths are added
    in two orders, and the better outcome is kept. A random ``share`` of the candidates gives
    another start. Cost O(K) times ``N_CANDIDATES`` codings, times the number of lengths.
    """
    # Unused slots hold zero atoms, which are never activated, so one program serves every step.
    shape = (n_atoms, atom_length, signals.values.shape[2])
    dictionary = np.zeros(shape, signals.values.dtype)
    n_given = 0 if chosen is None else len(chosen)
    if n_given:
        dictionary[:n_given] = chosen
    sizes = rules.sizes if isinstance(rules, SizedCoder) else (atom_length,) * n_atoms
    candidates = {
        size: propose_windows(signals, size, rng, share, rules.n_terms)
        for size in dict.fromkeys(sizes)
    }

    def try_out(
        k: int, windows: np.ndarray, atoms: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the best share with one of the windows as atom k, its segment and the window."""
        segments = cut_segments(signals, windows, atom_length, rules.n_terms)
        trials = np.repeat(atoms[None], len(segments), axis=0)
        trials[:, k] = segments
        shares = np.asarray(mean_shares(signals, trials, penalty, rules))
        best = int(shares.argmax())
        return float(shares[best]), segments[best], windows[best]

    def add_all(shortest_first: bool) -> tuple[float, np.ndarray, dict[int, np.ndarray]]:
        """Return the share that all atoms explain, the atoms, and their windows.

        The next atom is the shortest one, or that of all lengths which explains most.
        """
        atoms, winners, total = dictionary.copy(), {}, 0.0
        left = list(range(n_given, n_atoms))
        while left:
            slots = {sizes[k]: k for k in reversed(left)}  # the next of each length
            if shortest_first:
                slots = {min(slots): slots[min(slots)]}
            tried = {k: try_out(k, candidates[size], atoms) for size, k in slots.items()}
            k = max(tried, key=lambda k: tried[k][0])
            total, atoms[k], winners[k] = tried[k]
            left.remove(k)
        return total, atoms, winners

    ways = [add_all(shortest_first) for shortest_first in (True, False)[: len(candidates)]]
    _, dictionary, winners = max(ways, key=lambda way: way[0])
    for k in range(n_given, n_atoms):
        lengths = rules.lengths_of(k, atom_length)
        if len(lengths) == 1:
            windows = _windows_around(winners[k], signals, *lengths)
        else:
            windows = _zoomed_windows(winners[k], signals, sizes[k], lengths)
        _, dictionary[k], _ = try_out(k, windows, dictionary)
    return dictionary


def draw_shapes(
    n_shapes: int, atom_length: int, n_channels: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw smooth random shapes (n, L, P) at unit norm, without looking at recordings.

    The shapes are filtered noise of random smoothness that fades at both ends, with random
    weights of the channels. Coding with a shape finds segments that resemble it a little, and
    their mean is a better atom.
    """
    reach = 2 * atom_length
    fade = np.sqrt(np.hanning(atom_length + 2)[1:-1])
    shapes = np.empty((n_shapes, atom_length, n_channels))
    for shape in shapes:
        width = atom_length * rng.uniform(FINEST, COARSEST)
        wave = gaussian_filter1d(rng.standard_normal(atom_length + 2 * reach), width)
        wave = wave[reach:-reach] - wave[reach:-reach].mean()
        shape[:] = (wave * fade)[:, None] * rng.standard_normal(n_channels)
    return normalize(shapes)


def propose_windows(
    signals: Signals,
    atom_length: int,
    rng: np.random.Generator,
    share: float = 1.0,
    n_terms: int = 0,
) -> Int[np.ndarray, "n 3"]:
    """Draw windows (recording, first sample, length), about the same number from each recording.

    Windows have more energy than slightly earlier or later ones, so that a pattern is in the
    middle of its window. Louder windows have a higher probability. Baselines do not count.
    """
    energy = window_energy(np.asarray(signals.values, float), atom_length, n_terms)
    n_positions = np.asarray(signals.lengths) - atom_length + 1
    rows = [row for row, n in enumerate(n_positions) if n > 0 and energy[row, :n].max() > 0]
    quota = -(-N_CANDIDATES // len(rows))
    windows = []
    for row in rows:
        inside = energy[row, : n_positions[row]]
        starts = _loud_windows(inside, atom_length)
        weight = inside[starts] / inside[starts].sum()
        drawn = rng.choice(starts, min(quota, len(starts)), replace=False, p=weight)
        windows += [(row, start, atom_length) for start in np.sort(drawn)]
    kept = np.sort(rng.permutation(len(windows))[: max(1, round(share * len(windows)))])
    return _resize(np.array(windows)[kept])


def cut_segments(
    signals: Signals, windows: np.ndarray, atom_length: int, n_terms: int = 0
) -> np.ndarray:
    """Return the segments (n, L, P) of some windows, at unit norm; a silent one stays zero.

    Windows of another length are read at L samples. Baselines are removed.
    """
    rows, starts, lengths = windows.T
    values = np.asarray(signals.values)
    if (lengths == atom_length).all():
        segments = values[rows[:, None], starts[:, None] + np.arange(atom_length)]
    else:
        cuts = windows.tolist()
        segments = np.stack(
            [read_dilated(n, atom_length) @ values[r, t : t + n] for r, t, n in cuts]
        ).astype(values.dtype)
    return normalize(level(segments, n_terms))


def _windows_around(window: np.ndarray, signals: Signals, atom_length: int) -> np.ndarray:
    """Return windows up to half an atom earlier and later in the same recording."""
    row, start = window[:2]
    reach = np.arange(start - atom_length // 2, start + atom_length // 2 + 1)
    last = int(signals.lengths[row]) - atom_length
    starts = reach[(reach >= 0) & (reach <= last)]
    return _resize(np.array([(row, start, atom_length) for start in starts]))


def _zoomed_windows(
    window: np.ndarray, signals: Signals, atom_length: int, tried: tuple[int, ...]
) -> np.ndarray:
    """Return longer and shorter windows whose middle is near that of a window."""
    row, start = window[:2]
    lengths = np.array(tried)
    lengths = np.unique(lengths[np.linspace(0, len(lengths) - 1, N_ZOOMS).astype(int)])
    last = int(signals.lengths[row]) - lengths[:, None]
    shifts = np.linspace(-0.5, 0.5, N_CANDIDATES // N_ZOOMS) * atom_length
    starts = np.rint(start + (atom_length - lengths[:, None]) / 2 + shifts).astype(int)
    inside = (starts >= 0) & (starts <= last)
    sizes = np.broadcast_to(lengths[:, None], starts.shape)
    return _resize(np.stack([np.full(inside.sum(), row), starts[inside], sizes[inside]], axis=1))


def _resize(windows: np.ndarray) -> np.ndarray:
    """Return ``N_CANDIDATES`` windows, evenly spaced: programs have a fixed number of trials."""
    return windows[np.arange(N_CANDIDATES) * len(windows) // N_CANDIDATES]


def _loud_windows(energy: np.ndarray, atom_length: int) -> np.ndarray:
    """Return the starts of windows louder than their neighbours, including the loudest."""
    floor = energy.max() * 1e-6
    peaks, _ = find_peaks(np.pad(energy, 1), height=floor, distance=atom_length // 2)
    return peaks - 1


@partial(program, static_argnames=("rules",))
def mean_shares(signals: Signals, dictionaries, penalty, rules: L0Coder):
    """Return the share of a recording that each dictionary explains, averaged over recordings."""
    length = dictionaries.shape[2]
    energy = jnp.sum(signals.values**2, axis=(1, 2))
    if rules.n_terms:  # that of windows side by side, without their baselines
        rows, n_times, n_channels = signals.values.shape
        whole = n_times // length * length
        windows = signals.values[:, :whole].reshape(rows, -1, length, n_channels)
        basis = np.repeat(make_basis(rules.n_terms, (length,)), windows.shape[1], axis=0)
        energy = jnp.sum(level_atoms(windows, basis) ** 2, axis=(1, 2, 3))

    def share(dictionary):
        gain = encode(signals, dictionary[None], penalty, rules)[1]
        return jnp.sum(divide(gain, energy))

    return jax.lax.map(share, dictionaries) / jnp.maximum(jnp.sum(energy > 0), 1)
