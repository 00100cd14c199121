"""Kinds of cycle of one person: sorted by shape, without labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from percdl.analysis.checks import check_columns
from percdl.exceptions import InvalidParameterError
from percdl.parameters import in_samples
from percdl.seeds import Seed, as_generator
from percdl.signals import as_cohort
from percdl.steps.kinds import count_kinds, sort_segments


def sort_cycles(
    events: pd.DataFrame,
    cohort: Any,
    n_kinds: int | Literal["auto"] = "auto",
    *,
    window: int | str,
    pre: int | str = 0,
    reach: int | str = 0,
    random_state: Seed = 0,
) -> pd.DataFrame:
    """Sort the cycles of each person by shape, such as normal and ventricular beats.

    Kinds are numbered per person: kind 1 of one person need not be kind 1 of another. A straight
    line is removed from each segment, so drift does not create kinds. To learn an atom for each
    kind, pass the kinds as labels: ``average_segments(cohort, sorted, window, pre, by="kind")``
    is a first dictionary for ``init=``. Cost O(E L^2 P K) per person with E events.

    Parameters
    ----------
    events, cohort
        A frame with columns subject and onset_sample, such as ``model.events_``, and the
        recordings.
    n_kinds : int or "auto"
        Number of kinds per person. "auto" divides a kind while its cycles form two groups of at
        least 5 cycles, up to 6 kinds.
    window, pre : int or duration
        Length of the window that is compared, and the time from its start to the onset, in
        samples or as durations (``"0.5s"``).
    reach : int or duration
        How far a window may be shifted to fit better.
    random_state : int, Generator, RandomState or None
        Seed of the first means.

    Returns
    -------
    DataFrame
        The events whose windows lie within the recordings, with columns ``kind`` (0 is the
        person's most frequent), ``kind_probability`` and ``residual`` (share of the energy of
        the window that the mean of the kind does not explain).

    Examples
    --------
    >>> x = np.zeros(400)
    >>> x[20:400:40], x[25:400:80] = 1, -1
    >>> events = pd.DataFrame({"subject": "0", "onset_sample": np.arange(18, 380, 40)})
    >>> found = sort_cycles(events, [x[:, None]], 2, window=10)
    >>> found["kind"].tolist()
    [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    """
    check_columns(events, {"subject", "onset_sample"})
    cohort = as_cohort(cohort)
    length, before, slack = (in_samples(time, cohort.sfreq) for time in (window, pre, reach))
    if (n_kinds != "auto" and n_kinds < 1) or length < 3 or not 0 <= before < length or slack < 0:
        raise InvalidParameterError(
            f"`sort_cycles(n_kinds={n_kinds!r}, window={window!r}, pre={pre!r}, "
            f"reach={reach!r})`: there is at least one kind, a window has at least 3 samples and "
            "holds the onset, and `reach` is not negative."
        )
    parts = []
    for subject, rows in events.groupby("subject", sort=False):
        values = np.asarray(cohort[str(subject)].values, float)
        starts = rows["onset_sample"].to_numpy(int) - before - slack
        wide = starts[:, None] + np.arange(length + 2 * slack)
        inside = (wide[:, 0] >= 0) & (wide[:, -1] < len(values))
        segments = values[np.clip(wide, 0, len(values) - 1)]
        inside &= np.isfinite(segments).all((1, 2))
        if not inside.any():
            continue
        rng = as_generator(random_state)
        if n_kinds == "auto":
            found = count_kinds(segments[inside], length, rng)
        else:
            found = sort_segments(segments[inside], length, int(n_kinds), rng)
        own = np.arange(len(found.kind)), found.kind
        energy = np.maximum((found.aligned**2).sum((1, 2)), 1e-300)
        parts.append(
            rows[inside].assign(
                kind=found.kind,
                kind_probability=found.probabilities[own],
                residual=found.errors[own] / energy,
            )
        )
    empty = events[:0].assign(kind=0, kind_probability=1.0, residual=0.0)
    return pd.concat(parts) if parts else empty
