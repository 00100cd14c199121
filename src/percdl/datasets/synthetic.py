"""The synthetic cohorts of the paper (Section 3.1), with their true parameters.

JAX is loaded when a cohort is made, not when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.datasets.scoring import atom_distance
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed, as_generator
from percdl.signals import Cohort

if TYPE_CHECKING:
    from percdl.transforms.interpolation import Interpolation


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticCohort:
    """A cohort and everything it was made from.

    Attributes
    ----------
    cohort : Cohort
        The recordings X, noise included.
    dictionary, params, personal_dictionary : arrays (K, L, P), (S, K, M), (S, K, L, P)
        The true common atoms Phi (not at unit norm), personalization A and personal atoms.
    events, transform : DataFrame, Transform
        The true activations Z, and the f that made the personal atoms.
    """

    cohort: Cohort
    dictionary: Float[np.ndarray, "K L P"]
    params: Float[np.ndarray, "S K M"]
    personal_dictionary: Float[np.ndarray, "S K L P"]
    events: pd.DataFrame
    transform: Any

    def __repr__(self) -> str:
        n_atoms, length, _ = self.dictionary.shape
        return f"SyntheticCohort({self.cohort!r}, {n_atoms} true atoms of {length} samples)"

    def distance_to_truth(self, dictionary: Float[np.ndarray, "_ _ _"]) -> float:
        """Return the mean distance of unit-norm atoms to the true ones, see `atom_distance`."""
        return atom_distance(np.asarray(dictionary, float), self.dictionary)

    def gauge_floor(self) -> float:
        """Return the distance to the true atoms that remains with perfect parameters.

        ``phi o h`` with warps ``h^-1 o psi_s`` fits as well as ``phi`` with ``psi_s``. If the mean
        warp is the identity, the atom is ``phi o psi_bar``, psi_bar the mean of the true warps.
        """
        atoms = _of_each_atom(_center, self.transform, self.params, self.dictionary)
        return self.distance_to_truth(np.stack(atoms))


def make_synthetic(
    n_subjects: int = 32,
    n_times: int = 500,
    *,
    atom_length: int = 50,
    n_repetitions: int = 3,
    depth: int = 3,
    width: int = 10,
    interpolation: Interpolation = "cubic",
    noise_std: float = 0.0,
    snr_db: float | None = None,
    impulse_rate: float = 0.0,
    impulse_subjects: float = 0.25,
    impulse_range: tuple[float, float] = (2.0, 2.5),
    sfreq: float = 100.0,
    random_state: Seed = None,
) -> SyntheticCohort:
    """Make a cohort of subjects who repeat two common patterns, each at their own pace.

    Every subject warps two patterns (two periods of a sine, and two arcs) and repeats them at
    amplitude 1, in random order, with random gaps and without overlap. Cost O(S (L M + N)).

    Parameters
    ----------
    n_subjects, n_times, atom_length, n_repetitions : int
        S, N, L, and the number of activations of each pattern.
    depth, width, interpolation
        The warps, see `TimeWarp`. Parameters are uniform in (-1, 1); a row with an l1 norm
        above 0.99 is scaled down to it (decision 5).
    noise_std, snr_db : float
        Standard deviation of white Gaussian noise, or its signal-to-noise ratio in decibels.
    impulse_rate, impulse_subjects, impulse_range
        Share of the samples with an impulse, share of the recordings that have impulses, and
        smallest and largest size of an impulse; signs are random.
    sfreq : float, default=100.0
        Samples per second.
    random_state : int, Generator, RandomState or None
        The first subjects of a larger cohort are those of a smaller one, and the clean signals
        do not depend on the noise.

    Returns
    -------
    SyntheticCohort

    Examples
    --------
    >>> data = make_synthetic(n_subjects=4, random_state=0)
    >>> data.cohort
    Cohort(4 recordings, 1 channel (signal), 100 Hz, 500 samples)
    >>> data.dictionary.shape, data.params.shape, len(data.events)
    ((2, 50, 1), (4, 2, 30), 24)
    """
    from percdl.transforms import TimeWarp

    noise = Noise(noise_std, snr_db, impulse_rate, impulse_subjects, impulse_range)
    transform = TimeWarp(depth, width, interpolation)
    return _make(
        transform, common_patterns, partial(draw_warps, 2, depth, width), noise,
        (n_subjects, n_times, atom_length, n_repetitions), random_state, sfreq=sfreq,
        channels="signal", units="a.u.",
    )  # fmt: skip


def _make(
    transform: Any,
    patterns: Callable[[int], np.ndarray],
    draw: Callable[..., np.ndarray],
    noise: Noise,
    sizes: tuple[int, int, int, int],
    random_state: Seed,
    **labels: Any,
) -> SyntheticCohort:
    """Make a cohort of two warped patterns; ``draw`` draws the parameters of one subject."""
    n_subjects, n_times, atom_length, n_repetitions = sizes
    transform.validate()
    needed = 2 * n_repetitions * atom_length
    if n_subjects < 1 or n_repetitions < 1 or atom_length < 4 or n_times < needed:
        raise InvalidParameterError(
            f"n_subjects={n_subjects} and n_repetitions={n_repetitions} must be at least 1, "
            f"atom_length={atom_length} at least 4, and n_times={n_times} at least {needed}: "
            f"2 patterns x {n_repetitions} repetitions x {atom_length} samples."
        )
    dictionary = patterns(atom_length)
    signal_rng, noise_rng = as_generator(random_state).spawn(2)
    streams = signal_rng.spawn(n_subjects)
    params = np.stack([draw(rng=rng) for rng in streams])
    personal, codes, clean = repeat_patterns(
        transform, params, dictionary, n_repetitions, n_times, streams
    )
    cohort = Cohort.from_arrays(corrupt(clean, noise, noise_rng), **labels)
    onsets, atoms = (np.concatenate(column) for column in zip(*codes, strict=True))
    events = pd.DataFrame(
        {
            "subject": np.repeat(cohort.subjects, [len(onset) for onset, _ in codes]),
            "atom": atoms,
            "onset_sample": onsets,
            "onset_seconds": onsets / cohort.sfreq,
            "amplitude": 1.0,
        }
    )
    return SyntheticCohort(cohort, dictionary, params, personal, events, transform)


def common_patterns(atom_length: int) -> Float[np.ndarray, "2 L 1"]:
    """Return two periods of a sine, and two positive arcs, the second lower (decision 15)."""
    i, half = np.arange(atom_length), atom_length // 2
    sine = np.sin(4 * np.pi * i / (atom_length - 1))
    first = np.abs(np.sin(np.pi * i / half))
    second = 0.3 * np.abs(np.sin(np.pi * (i - half) / (half - 1)))
    return np.stack([sine, np.where(i < half, first, second)])[:, :, None]


def repeat_patterns(
    transform: Any,
    params: Float[np.ndarray, "S K M"],
    dictionary: Float[np.ndarray, "K L P"],
    n_repetitions: int,
    n_times: int,
    streams: list[np.random.Generator],
) -> tuple[Float[np.ndarray, "S K L P"], list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Place the patterns of each subject; return personal atoms, codes and signals (S, N, P)."""
    atom_length = dictionary.shape[1]
    personal = personalize(transform, params, dictionary)
    order = np.repeat(np.arange(len(dictionary)), n_repetitions)
    # Uniform among all placements without overlap: shrink every segment to one sample, draw
    # distinct samples, and grow the segments back.
    room, grown = n_times - order.size * (atom_length - 1), np.arange(order.size)
    codes = []
    for rng in streams:
        shrunk = np.sort(rng.choice(room, order.size, replace=False))
        codes.append((shrunk + (atom_length - 1) * grown, rng.permutation(order)))
    clean = np.zeros((len(streams), n_times, dictionary.shape[2]))
    for signal, (onsets, sequence), atoms in zip(clean, codes, personal, strict=True):
        for onset, k in zip(onsets, sequence, strict=True):
            signal[onset : onset + atom_length] += atoms[k]
    return personal, codes, clean


def draw_warps(
    n_atoms: int, depth: int, width: int, rng: np.random.Generator
) -> Float[np.ndarray, "K M"]:
    """Draw the parameters of one subject, every row scaled into Theta."""
    from percdl.transforms.time_warp import MAX_ROW_NORM

    rows = rng.uniform(-1, 1, (n_atoms, depth, width))
    norm = np.abs(rows).sum(-1, keepdims=True)
    return (rows * np.minimum(1, MAX_ROW_NORM / norm)).reshape(n_atoms, -1)


def personalize(
    transform: Any, params: Float[np.ndarray, "S K M"], dictionary: Float[np.ndarray, "K L P"]
) -> Float[np.ndarray, "S K L P"]:
    """Return the personal atoms ``f(phi_k, a_sk)`` (Eq. 2), in double precision."""
    return np.stack(_of_each_atom(_personalize, transform, params, dictionary), axis=1)


def _of_each_atom(
    function: Callable[..., Any], transform: Any, params: np.ndarray, dictionary: np.ndarray
) -> list[np.ndarray]:
    import jax

    # Compiled once per shape: operation by operation, a first call would take seconds.
    program = jax.jit(function, static_argnums=0)
    with jax.enable_x64(True):
        pairs = zip(params.swapaxes(0, 1), dictionary, strict=True)
        return [np.asarray(program(transform, own, atom)) for own, atom in pairs]


def _personalize(transform: Any, params: Any, atom: Any) -> Any:
    return transform.apply(params, atom)


def _center(transform: Any, params: Any, atom: Any) -> Any:
    """Return ``phi_k o psi_bar_k``, psi_bar the mean warp, turned by the mean (decision 6)."""
    if (part := transform.warp_part(*atom.shape)) is not None:
        warp, at = part
        atom = warp.resample(atom, warp.warp(params[:, at], *atom.shape).mean(0))
    if (part := transform.channel_part(*atom.shape)) is not None:
        mixer, at = part
        atom = mixer.apply(mixer.project(params[:, at].mean(0)), atom)
    return atom


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
    random_state: Seed = None,
) -> SyntheticCohort:
    """Make a cohort of the three accelerations of a pen that repeats two letters.

    Every subject warps both letters in time, as in `make_synthetic`, and holds the pen turned
    about a random axis. Cost O(S (L M + N)).

    Parameters
    ----------
    n_subjects, n_times, atom_length, n_repetitions, depth, width, noise_std, sfreq, random_state
        As in `make_synthetic`.
    tilt_degrees : float, default=10.0
        Standard deviation of each component of the rotation vector; the mean angle is about 1.6
        times as large.

    Returns
    -------
    SyntheticCohort
        Its ``transform`` is ``Compose(TimeWarp, Rotation)``.

    Examples
    --------
    >>> data = make_handwriting(n_subjects=4, random_state=0)
    >>> data.cohort
    Cohort(4 recordings, 3 channels (x, y, z), 100 Hz, 500 samples)
    """
    from scipy.spatial.transform import Rotation as Turn

    from percdl.transforms import Compose, Rotation, TimeWarp

    def draw(rng: np.random.Generator) -> Float[np.ndarray, "K M"]:
        """Draw the warps of each letter, and one rotation for both."""
        warps = draw_warps(2, depth, width, rng)
        turn = Turn.from_rotvec(np.radians(tilt_degrees) * rng.standard_normal(3)).as_matrix()
        return np.hstack([warps, np.tile(turn.ravel(), (2, 1))])

    transform = Compose(TimeWarp(depth, width), Rotation(allow_reflections=False))
    return _make(
        transform, common_letters, draw, Noise(noise_std),
        (n_subjects, n_times, atom_length, n_repetitions), random_state, sfreq=sfreq,
        channels=["x", "y", "z"], units="g",
    )  # fmt: skip


def common_letters(atom_length: int) -> Float[np.ndarray, "2 L 3"]:
    """Return the accelerations of two letters, a loop and a zigzag, from pen down to pen up."""
    time = np.linspace(0, 1, atom_length)
    turn = 2 * np.pi * time
    loop = [np.cos(turn), np.sin(turn), 0.5 * np.sin(2 * turn)]
    zigzag = [np.sin(3 * turn), np.cos(turn) - 0.5, 0.6 * np.cos(2 * turn)]
    return np.stack([np.stack(letter, axis=1) for letter in (loop, zigzag)])


@dataclass(frozen=True)
class Noise:
    """Noise of recordings; see `make_synthetic`."""

    std: float = 0.0
    snr_db: float | None = None
    impulse_rate: float = 0.0
    impulse_subjects: float = 0.25
    impulse_range: tuple[float, float] = (2.0, 2.5)

    def __post_init__(self) -> None:
        if self.snr_db is not None and self.std > 0:
            raise InvalidParameterError(
                f"`noise_std={self.std}` and `snr_db={self.snr_db}` both set the Gaussian noise. "
                "Pass one of them."
            )
        low, high = self.impulse_range
        shares = 0 <= self.impulse_rate <= 1 and 0 <= self.impulse_subjects <= 1
        if not (self.std >= 0 and shares and 0 <= low <= high):
            raise InvalidParameterError(
                f"`noise_std={self.std}` must be 0 or more, `impulse_rate={self.impulse_rate}` "
                f"and `impulse_subjects={self.impulse_subjects}` shares between 0 and 1, and "
                f"`impulse_range={self.impulse_range}` (smallest, largest) size."
            )


def corrupt(clean: np.ndarray, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """Return recordings (S, N, P) with noise; that of one does not depend on the others."""
    # Three streams, so that adding one kind of noise does not change the others.
    gaussian, impulses, lottery = rng.spawn(3)
    n_subjects, n_samples = len(clean), clean[0].size
    std = np.full(n_subjects, noise.std)
    if noise.snr_db is not None:
        std = np.sqrt((clean**2).mean((1, 2)) / 10 ** (noise.snr_db / 10))
    streams = zip(gaussian.spawn(n_subjects), std, strict=True)
    noisy = clean + np.stack([s * own.standard_normal(clean.shape[1:]) for own, s in streams])
    n_hit = round(noise.impulse_subjects * n_subjects) if noise.impulse_rate > 0 else 0
    own = impulses.spawn(n_subjects)
    for s in lottery.permutation(n_subjects)[:n_hit]:
        hit = own[s].permutation(n_samples)[: round(noise.impulse_rate * n_samples)]
        sign = own[s].choice([-1.0, 1.0], hit.size)
        noisy[s].reshape(-1)[hit] += sign * own[s].uniform(*noise.impulse_range, hit.size)
    return noisy
