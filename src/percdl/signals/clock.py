"""Checks of time stamps: uniform steps, sampling rate, likely units."""

import warnings

import numpy as np
from jaxtyping import Float

from percdl.exceptions import ClockUnitWarning

# Without a known rate, steps may differ from their median by this fraction: far above the
# rounding of floats, far below a lost sample.
UNIFORM = 1e-3
# With a known rate, times may be rounded: a step may be off by this fraction of a period.
ROUNDED = 0.5
# The whole recording may be off by this fraction of its duration.
DRIFT = 0.01
# Rates that differ by about this factor suggest milliseconds read as seconds.
THOUSAND = (500, 2000)

# Time spans can exceed the float range; infinite steps then count as gaps.
_overflow_ignored = np.errstate(over="ignore", invalid="ignore", divide="ignore")


@_overflow_ignored
def steps_of(seconds: Float[np.ndarray, " n_times"]) -> Float[np.ndarray, " n_steps"]:
    """Return the time between samples; infinite where it exceeds the float range.

    >>> steps_of(np.array([0.0, 0.5, 2.0]))
    array([0.5, 1.5])
    """
    return np.diff(seconds)


@_overflow_ignored
def first_gap(seconds: Float[np.ndarray, " n_times"], sfreq: float | None = None) -> int | None:
    """Return the position before the first step that is not one sampling period.

    >>> first_gap(np.array([0.0, 0.01, 0.02, 0.05]), sfreq=100)
    2
    """
    steps = steps_of(seconds)
    if steps.size == 0:
        return None
    period = float(np.median(steps)) if sfreq is None else 1 / sfreq
    tolerance = UNIFORM if sfreq is None else ROUNDED
    uniform = (np.abs(steps - period) <= tolerance * period) & (period > 0)
    wrong = np.flatnonzero(~uniform)
    return int(wrong[0]) if wrong.size else None


@_overflow_ignored
def has_drifted(seconds: Float[np.ndarray, " n_times"], sfreq: float) -> bool:
    """Whether the total duration does not match the number of samples at this rate."""
    n_periods = len(seconds) - 1
    excess = abs((seconds[-1] - seconds[0]) * sfreq - n_periods)
    return bool(excess > max(1.0, DRIFT * n_periods))


@_overflow_ignored
def mean_rate(seconds: Float[np.ndarray, " n_times"]) -> float:
    """Return the sampling rate of a uniform clock.

    Rounded to seven digits, so that rounded times do not give subjects different rates.
    """
    return float(f"{(len(seconds) - 1) / (seconds[-1] - seconds[0]):.7g}")


def is_thousandfold(fast: float, slow: float) -> bool:
    """Whether one rate is about 1000 times the other, as if milliseconds were read as seconds.

    >>> is_thousandfold(100, 0.1), is_thousandfold(1000, 100)
    (True, False)
    """
    return THOUSAND[0] * slow <= fast <= THOUSAND[1] * slow


def warn_of_slow_clock(column: str, rate: float) -> None:
    """Warn about a column of numbers that gives less than one sample per second."""
    if rate < 1:
        warnings.warn(
            f"Column {column!r} gives {rate:g} samples per second, as times are read as seconds. "
            "If they are milliseconds, divide them by 1000, or leave the column out and pass "
            f"sfreq={1000 * rate:g}.",
            ClockUnitWarning,
            stacklevel=2,
        )
