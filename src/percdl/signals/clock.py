"""Whether time stamps tick uniformly, and how fast."""

import warnings

import numpy as np
from jaxtyping import Float

from percdl.exceptions import ClockUnitWarning

# Without a sampling rate to hold them against, steps may differ from their median by this share:
# far above the rounding of floats, far below a lost sample.
UNIFORM = 1e-3
# With a rate, times may be rounded: a step may be off by this share of a period.
ROUNDED = 0.5
# And the clock as a whole by this share of the duration.
DRIFT = 0.01
# Two rates that differ by about 1000 tell of milliseconds taken as seconds.
THOUSAND = (500, 2000)


# Steps may exceed all numbers: infinite ones are then no sampling period.
_beyond_numbers = np.errstate(over="ignore", invalid="ignore", divide="ignore")


@_beyond_numbers
def steps_of(seconds: Float[np.ndarray, " n_times"]) -> Float[np.ndarray, " n_steps"]:
    """Return the time between samples; infinite where it exceeds all numbers.

    >>> steps_of(np.array([0.0, 0.5, 2.0]))
    array([0.5, 1.5])
    """
    return np.diff(seconds)


@_beyond_numbers
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


@_beyond_numbers
def has_drifted(seconds: Float[np.ndarray, " n_times"], sfreq: float) -> bool:
    """Whether the time that passed is not that of so many samples at this rate."""
    n_periods = len(seconds) - 1
    excess = abs((seconds[-1] - seconds[0]) * sfreq - n_periods)
    return bool(excess > max(1.0, DRIFT * n_periods))


@_beyond_numbers
def mean_rate(seconds: Float[np.ndarray, " n_times"]) -> float:
    """Return the samples per second of a uniform clock.

    Seven digits: rounded times must not give two subjects two different rates.
    """
    return float(f"{(len(seconds) - 1) / (seconds[-1] - seconds[0]):.7g}")


def is_thousandfold(fast: float, slow: float) -> bool:
    """Whether one rate is about 1000 times the other, as if milliseconds were taken as seconds.

    >>> is_thousandfold(100, 0.1), is_thousandfold(1000, 100)
    (True, False)
    """
    return THOUSAND[0] * slow <= fast <= THOUSAND[1] * slow


def warn_of_slow_clock(column: str, rate: float) -> None:
    """Ask for the unit of a column of numbers that gives less than one sample per second."""
    if rate < 1:
        # No file is named: one warning does for all of a folder.
        warnings.warn(
            f"Column {column!r} gives {rate:g} samples per second, as times are taken as seconds. "
            "If they are milliseconds, divide them by 1000, or leave the column out and pass "
            f"sfreq={1000 * rate:g}.",
            ClockUnitWarning,
            stacklevel=2,
        )
