"""What corrupts a synthetic recording: Gaussian noise and impulses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from percdl.exceptions import InvalidParameterError


@dataclass(frozen=True)
class Noise:
    """How recordings are corrupted.

    Attributes
    ----------
    std : float
        Standard deviation of white Gaussian noise.
    snr_db : float or None
        The same, given by the ratio of the mean square of each recording to that of its
        noise, in decibels.
    impulse_rate : float
        Share of the samples of a hit recording that receive an impulse.
    impulse_subjects : float
        Share of the recordings that are hit, at random.
    impulse_range : (float, float)
        Least and largest size of an impulse; its sign is random.
    """

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
        if not self.std >= 0:
            raise InvalidParameterError(f"`noise_std={self.std}` must be 0 or more.")
        for name in ("impulse_rate", "impulse_subjects"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidParameterError(
                    f"`{name}={getattr(self, name)}` is a share and must lie between 0 and 1."
                )
        low, high = self.impulse_range
        if not 0 <= low <= high:
            raise InvalidParameterError(
                f"`impulse_range={self.impulse_range}` must be (least, largest) size, "
                "with 0 <= least <= largest."
            )


def corrupt(clean: np.ndarray, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """Return recordings (S, N, P) with the noise added; the clean ones are left as they are.

    Every recording has a stream of its own, so the noise of one does not depend on the
    number of the others.
    """
    # Three streams, so that switching one kind of noise on leaves the others as they were.
    gaussian, impulses, lottery = rng.spawn(3)
    n_subjects = len(clean)
    noisy = clean + _gaussian(clean, noise, gaussian)
    n_hit = round(noise.impulse_subjects * n_subjects) if noise.impulse_rate > 0 else 0
    streams = impulses.spawn(n_subjects)
    for s in lottery.permutation(n_subjects)[:n_hit]:
        noisy[s] += _impulses(clean[s].shape, noise, streams[s])
    return noisy


def _gaussian(clean: np.ndarray, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    std = np.full(len(clean), noise.std)
    if noise.snr_db is not None:
        std = np.sqrt((clean**2).mean((1, 2)) / 10 ** (noise.snr_db / 10))
    streams = zip(rng.spawn(len(clean)), std, strict=True)
    return np.stack([s * stream.standard_normal(clean.shape[1:]) for stream, s in streams])


def _impulses(shape: tuple[int, ...], noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """Return an array that is zero but for randomly placed impulses of random sign."""
    impulses = np.zeros(np.prod(shape))
    hit = rng.permutation(impulses.size)[: round(noise.impulse_rate * impulses.size)]
    sign = rng.choice([-1.0, 1.0], hit.size)
    impulses[hit] = sign * rng.uniform(*noise.impulse_range, hit.size)
    return impulses.reshape(shape)
