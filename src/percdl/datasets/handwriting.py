"""Cohorts of writers: the same letters, each written at another pace with the pen held askew."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from percdl.datasets.noise import Noise, corrupt
from percdl.datasets.synthetic import (
    SyntheticCohort,
    check_sizes,
    draw_warps,
    list_events,
    repeat_patterns,
)
from percdl.signals import Cohort


def make_handwriting(
    n_subjects: int = 32,
    n_times: int = 500,
    *,
    atom_length: int = 50,
    n_repetitions: int = 3,
    depth: int = 3,
    width: int = 10,
    tilt_degrees: float = 10.0,
    noise_std: float = 0.0,
    sfreq: float = 100.0,
    random_state: int | np.random.Generator | None = None,
) -> SyntheticCohort:
    """Make a cohort of the three accelerations of a pen that repeats two letters.

    Every subject warps both letters in time, as in `make_synthetic`, and holds the pen turned
    about a random axis. Cost O(S (L M + N)).

    Parameters
    ----------
    n_subjects, n_times, atom_length, n_repetitions, depth, width, sfreq, random_state
        As in `make_synthetic`.
    tilt_degrees : float, default=10.0
        Standard deviation of each component of the rotation vector, so that the usual angle
        is about 1.6 times as large.
    noise_std : float, default=0.0
        Standard deviation of white Gaussian noise.

    Returns
    -------
    SyntheticCohort
        The cohort and the truth; ``transform`` is ``Compose(TimeWarp, Rotation)``.

    Examples
    --------
    >>> data = make_handwriting(n_subjects=4, random_state=0)
    >>> data.cohort
    Cohort(4 recordings, 3 channels (x, y, z), 100 Hz, 500 samples)
    """
    from percdl.transforms import Compose, Rotation, TimeWarp

    check_sizes("make_handwriting", n_subjects, n_times, atom_length, n_repetitions)
    transform = Compose(TimeWarp(depth, width), Rotation(allow_reflections=False))
    transform.validate()
    signal_rng, noise_rng = np.random.default_rng(random_state).spawn(2)
    streams = signal_rng.spawn(n_subjects)
    letters = common_letters(atom_length)
    params = np.stack([_draw_params(len(letters), depth, width, tilt_degrees, r) for r in streams])
    personal, codes, clean = repeat_patterns(
        transform, params, letters, n_repetitions, n_times, streams
    )
    values = corrupt(clean, Noise(noise_std), noise_rng)
    cohort = Cohort.from_arrays(values, sfreq=sfreq, channels=["x", "y", "z"], units="g")
    return SyntheticCohort(
        cohort, letters, params, personal, list_events(codes, cohort), transform
    )


def common_letters(atom_length: int) -> Float[np.ndarray, "2 L 3"]:
    """Return the accelerations of two letters, a loop and a zigzag, from pen down to pen up.

    Parameters
    ----------
    atom_length : int
        L.

    Returns
    -------
    array (2, L, 3)
        Time before channels x, y, z.

    Examples
    --------
    >>> common_letters(50).shape
    (2, 50, 3)
    """
    time = np.linspace(0, 1, atom_length)
    turn = 2 * np.pi * time
    loop = [np.cos(turn), np.sin(turn), 0.5 * np.sin(2 * turn)]
    zigzag = [np.sin(3 * turn), np.cos(turn) - 0.5, 0.6 * np.cos(2 * turn)]
    return np.stack([np.stack(letter, axis=1) for letter in (loop, zigzag)])


def _draw_params(
    n_atoms: int, depth: int, width: int, tilt_degrees: float, rng: np.random.Generator
) -> Float[np.ndarray, "K M"]:
    """Draw the warps of each letter, and one rotation for both, of one subject."""
    from scipy.spatial.transform import Rotation

    warps = draw_warps(n_atoms, depth, width, rng)
    turn = Rotation.from_rotvec(np.radians(tilt_degrees) * rng.standard_normal(3)).as_matrix()
    return np.hstack([warps, np.tile(turn.ravel(), (n_atoms, 1))])
