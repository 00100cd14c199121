"""The unit a site computes in: a power of two, so that a change of unit rounds nothing.

With a relative loss it is each recording's own standard deviation instead.

Some steps need fourth powers of samples. In single precision they overflow or underflow if samples
are above 1e9 or below 1e-9 (for example EEG in volts, or raw converter counts). Such recordings
are divided by a power of two when they are copied, and results are multiplied by it. The
arithmetic in between is the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from percdl.algorithm.exchange import Sums
from percdl.signals import AnyCohort
from percdl.signals.measured import measure

# Recordings within this many powers of two of 1 are not rescaled.
ORDINARY = 16
# Smallest exponent of a unit, so that its inverse is finite.
LEAST_EXPONENT = -1000
# Number of recordings sampled to estimate the amplitude.
N_LOOKED_AT = 64
# Sums in squared units; the second kind has no unit if every subject counts once.
_SQUARED = ("objective", "objective_fitted", "energy", "signal")
_BALANCED = ("moment", "weight", "ztx", "ztz", "gram", "transported", "misfit")


def choose_unit(cohort: AnyCohort, positions: Sequence[int] | np.ndarray | None = None) -> float:
    """Return a unit for recordings: 1 if their samples are of ordinary size.

    Otherwise the power of two just below the median of their largest magnitudes. At most
    `N_LOOKED_AT` recordings are read, of those at ``positions`` (by default all).

    >>> from percdl import Cohort
    >>> [choose_unit(Cohort.from_arrays([[0.0, size]])) for size in (100.0, 2.0**40, 2.0**-40)]
    [1.0, 1099511627776.0, 9.094947017729282e-13]
    """
    among = np.arange(len(cohort)) if positions is None else np.asarray(positions)
    looked_at = among[np.linspace(0, len(among) - 1, min(len(among), N_LOOKED_AT)).astype(int)]
    samples = (np.abs(cohort[int(i)].values) for i in looked_at)
    peaks = np.array([x.max(initial=0, where=~np.isnan(x)) for x in samples], float)
    if not peaks.any():
        return 1.0
    exponent = int(np.frexp(np.median(peaks[peaks > 0]))[1]) - 1
    return 1.0 if abs(exponent) <= ORDINARY else 2.0 ** max(exponent, LEAST_EXPONENT)


def find_spreads(cohort: AnyCohort, positions: np.ndarray | None = None) -> np.ndarray:
    """Return the standard deviation of each recording, over all channels around their means.

    The result is 1 for recordings not at ``positions`` (by default all) and for flat ones.

    >>> from percdl import Cohort
    >>> find_spreads(Cohort.from_arrays([[1.0, 3.0], [0.0, 20.0]])).tolist()
    [1.0, 10.0]
    """
    among = np.arange(len(cohort)) if positions is None else positions
    measures = measure([np.asarray(cohort[int(i)].values, float) for i in among])
    with np.errstate(invalid="ignore"):
        around = measures.square - np.nan_to_num(measures.total**2 / measures.count)
        variance = np.maximum(around, 0).sum(1) / measures.count.sum(1)
    spreads = np.ones(len(cohort))
    spreads[among] = np.where(variance > 0, np.sqrt(variance), 1)
    return spreads


def in_signal_units(sums: Sums, unit: float, by_subject: bool) -> Sums:
    """Convert sums from a unit to the units of the signals."""
    if unit == 1:
        return sums
    squared = _SQUARED if by_subject else _SQUARED + _BALANCED
    return replace(sums, **{name: getattr(sums, name) * unit * unit for name in squared})
