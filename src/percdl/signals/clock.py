"""Whether time stamps tick uniformly, and how fast."""

import numpy as np
from jaxtyping import Float

# Without a sampling rate to hold them against, steps may differ from their median by this share:
# far above the rounding of floats, far below a lost sample.
UNIFORM = 1e-3
# With a rate, times may be rounded: a step may be off by this share of a period.
ROUNDED = 0.5
# And the clock as a whole by this share of the duration.
DRIFT = 0.01


def first_gap(seconds: Float[np.ndarray, " n_times"], sfreq: float | None = None) -> int | None:
    """Return the position before the first step that is not one sampling period.

    >>> first_gap(np.array([0.0, 0.01, 0.02, 0.05]), sfreq=100)
    2
    """
    steps = np.diff(seconds)
    if steps.size == 0:
        return None
    period = float(np.median(steps)) if sfreq is None else 1 / sfreq
    tolerance = UNIFORM if sfreq is None else ROUNDED
    wrong = np.flatnonzero(~(np.abs(steps - period) <= tolerance * period))
    return int(wrong[0]) if wrong.size else None


def has_drifted(seconds: Float[np.ndarray, " n_times"], sfreq: float) -> bool:
    """Whether the time that passed is not that of so many samples at this rate."""
    n_periods = len(seconds) - 1
    excess = abs((seconds[-1] - seconds[0]) * sfreq - n_periods)
    return bool(excess > max(1.0, DRIFT * n_periods))


def mean_rate(seconds: Float[np.ndarray, " n_times"]) -> float:
    """Return the samples per second of a uniform clock.

    Seven digits: rounded times must not give two subjects two different rates.
    """
    return float(f"{(len(seconds) - 1) / (seconds[-1] - seconds[0]):.7g}")
