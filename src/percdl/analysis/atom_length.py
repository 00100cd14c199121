"""How long should an atom be? As long as a cycle, of nearly everybody."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from percdl.exceptions import InvalidRecordingError, UnclearPeriodWarning
from percdl.signals import as_cohort
from percdl.steps.period import agree_on_length, estimate_periods

# Where cycles resemble one another less than this, there may be none.
UNCLEAR = 0.4


@dataclass(frozen=True)
class AtomLength:
    """A suggested atom length, and the periods it comes from.

    Attributes
    ----------
    length : int
        The suggestion, in samples: a low quantile of the periods, since atoms do not overlap
        and a cycle shorter than its atom would be lost.
    seconds : float
        The same in seconds.
    periods : array (S,)
        Each subject's period, in samples; NaN where there is none.
    strengths : array (S,)
        Autocorrelation at the period: 1 where all cycles of a subject are alike.
    subjects : tuple of str
        Who they are, in order.
    sfreq : float
        Samples per second.
    """

    length: int
    seconds: float
    periods: np.ndarray
    strengths: np.ndarray
    subjects: tuple[str, ...]
    sfreq: float

    @property
    def period(self) -> float:
        """The median period, in samples."""
        return float(np.nanmedian(self.periods))

    @property
    def confidence(self) -> float:
        """How clearly the recordings repeat themselves: the median strength, 0 to 1."""
        return float(np.median(self.strengths))

    def __repr__(self) -> str:
        """Say what is suggested, not the arrays it comes from."""
        known = int(np.isfinite(self.periods).sum())
        return (
            f"AtomLength({self.length} samples, {self.seconds:.3g} s; median period "
            f"{self.period:g} samples in {known} of {len(self.periods)} subjects, "
            f"confidence {self.confidence:.2f})"
        )


def suggest_atom_length(cohort: Any) -> AtomLength:
    """Suggest an atom length from the periods of the recordings.

    Every subject's period is the first high peak of its autocorrelation, in the range that the
    subjects agree on. The length is the longest that nearly all cycles have room for. Cost
    O(S P N log N).

    Parameters
    ----------
    cohort : Cohort, list of arrays (n_times, n_channels), array (S, N, P) or (S, N)
        The recordings; NaN marks missing samples.

    Returns
    -------
    AtomLength
        ``length`` is the suggestion; `percdl.plotting.plot_atom_length` draws it.

    Examples
    --------
    >>> time = np.arange(500)
    >>> walks = [np.sin(2 * np.pi * time / period) ** 3 for period in (38, 40, 42)]
    >>> suggest_atom_length(walks)
    AtomLength(38 samples, 38 s; median period 40 samples in 3 of 3 subjects, confidence 1.00)
    """
    cohort = as_cohort(cohort)
    found = estimate_periods([record.values for record in cohort])
    length = agree_on_length(found.period)
    if length is None:
        raise InvalidRecordingError(
            f"None of the {len(cohort)} recordings repeats itself: their autocorrelations have no "
            "peak at up to half their durations. Record for longer, or choose `atom_length` by "
            "eye: as long as the pattern you look for."
        )
    chosen = AtomLength(
        length, length / cohort.sfreq, found.period, found.strength, cohort.subjects, cohort.sfreq
    )
    if chosen.confidence < UNCLEAR:
        warnings.warn(
            f"The recordings hardly repeat themselves in time: {chosen!r}. Check it by eye, or "
            "choose `atom_length` yourself: as long as the pattern you look for.",
            UnclearPeriodWarning,
            stacklevel=2,
        )
    return chosen
