"""Events: which activations are events, their rhythm, how common they are and of which kinds."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import expit

from percdl.analysis.checks import (
    Fitted,
    Labels,
    as_personalization,
    check_complete,
    check_lengths,
)
from percdl.analysis.segmentation import ratio, relative_amplitude
from percdl.exceptions import InvalidParameterError
from percdl.parameters import in_samples
from percdl.seeds import Seed, as_generator
from percdl.signals import as_cohort
from percdl.signals.events import SUCH_AS, event_lengths, usual_interval
from percdl.signals.recording import abbreviate
from percdl.signals.tables import check_columns
from percdl.steps.kinds import count_kinds, sort_segments
from percdl.steps.period import NORMAL_MAD

# Activations of at least this share of the median amplitude define the rhythm. Set by hand.
TYPICAL_SHARE = 0.5
# Keeps the logarithm of a zero amplitude finite.
LEAST_SHARE = np.finfo(float).tiny
# Intervals further than this many spreads from the period count as breaks; a Gaussian weight is
# then below exp(-32), far below any break rate.
REACH = 8.0


def judge_events(
    events: pd.DataFrame,
    *,
    even_share: float = 0.07,
    spread: float = 0.3,
    break_rate: float = 0.02,
) -> pd.DataFrame:
    """Return the probability that each activation is an event, from its strength and the rhythm.

    Every subset of the activations of one subject and atom is a possible set of events, of weight

    ``prod_i (r_i / even_share)^2  prod_j ((1 - break_rate) exp(-log(g_j)^2 / (2 spread^2)) +
    break_rate)``

    where ``r_i`` is the amplitude over the subject's median and ``g_j`` the interval between
    consecutive events over the median interval of the typical activations (at least half the
    median amplitude). The probability of an activation is the share of the weight of the subsets
    that contain it, computed exactly. The defaults were chosen on 150 annotated gait recordings
    (docs/segmentation.md). Cost O(n m) for n activations, m of them within a few intervals.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``: columns subject, atom, onset_sample, amplitude.
    even_share : float
        Share of the typical amplitude at which an activation that neither keeps nor breaks a
        rhythm has probability one half.
    spread, break_rate : float
        Standard deviation of the logarithm of an interval (that of the subject if it is larger),
        and how common breaks of the rhythm are (pauses, turns); 1 ignores the rhythm.

    Returns
    -------
    DataFrame
        The events, with a column ``probability``.

    Examples
    --------
    >>> steps = pd.DataFrame({"subject": "A", "atom": 0, "amplitude": [9, 8, 1, 9, 1, 8]})
    >>> steps["onset_sample"] = [0, 100, 200, 300, 350, 400]
    >>> judge_events(steps)["probability"].round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.03, 1.0]
    """
    check_columns("The events", events, ("subject", "atom", "onset_sample", "amplitude"), SUCH_AS)
    check_complete(events, ["onset_sample", "amplitude"])
    if not (even_share > 0 and spread > 0 and 0 < break_rate <= 1):
        raise InvalidParameterError(
            f"`judge_events(even_share={even_share!r}, spread={spread!r}, break_rate="
            f"{break_rate!r})`: all must be above 0, and `break_rate` at most 1."
        )
    shares = relative_amplitude(events).to_numpy()
    onsets = events["onset_sample"].to_numpy()
    probability = np.zeros(len(events))
    for rows in events.groupby(["subject", "atom"], sort=False).indices.values():
        rows = rows[np.argsort(onsets[rows], kind="stable")]
        onset, share = onsets[rows], shares[rows]
        intervals = np.diff(np.unique(onset[share >= TYPICAL_SHARE]))
        # Without an interval of typical activations there is no rhythm.
        period, breaks = (np.median(intervals), break_rate) if len(intervals) else (np.inf, 1.0)
        deviation = np.abs(np.log(intervals / period)) if len(intervals) else np.zeros(1)
        own_spread = max(spread, np.median(deviation) / NORMAL_MAD)
        strength = 2 * np.log(np.maximum(share, LEAST_SHARE) / even_share)
        probability[rows] = expit(chain_log_odds(strength, onset / period, own_spread, breaks))
    return events.assign(probability=probability)


def chain_log_odds(
    strength: Float[np.ndarray, " n"],
    time: Float[np.ndarray, " n"],
    spread: float,
    break_rate: float,
) -> Float[np.ndarray, " n"]:
    """Return the log odds that each point, at increasing times, belongs to a chain (a subset)."""
    before = _sum_chains(strength, time, spread, break_rate)
    after = _sum_chains(strength[::-1], -time[::-1], spread, break_rate)[::-1]
    total = np.logaddexp.reduce(before, initial=0.0)
    through = np.minimum(before + after - strength - total, 0.0)
    with np.errstate(divide="ignore"):
        without = np.log(-np.expm1(through))
    return through - without


def _sum_chains(strength, time, spread, break_rate) -> np.ndarray:
    """Return the log weight of all chains that end at each point."""
    sums = np.empty(len(strength))
    with np.errstate(over="ignore"):
        reach = np.exp(REACH * spread)
    n_far = np.searchsorted(time, time - reach)
    # Links beyond the reach all have the weight of a break, so one running sum holds their chains
    # and the empty chain, to which a first point adds no link.
    far, counted = 0.0, 0
    for i, value in enumerate(strength):
        broken = np.logaddexp.reduce(sums[counted : n_far[i]], initial=-np.inf)
        far, counted = np.logaddexp(far, np.log(break_rate) + broken), n_far[i]
        with np.errstate(divide="ignore"):
            gap = np.log(time[i] - time[counted:i])
        link = np.log((1 - break_rate) * np.exp(-0.5 * (gap / spread) ** 2) + break_rate)
        sums[i] = value + np.logaddexp.reduce(sums[counted:i] + link, initial=far)
    return sums


def measure_regularity(
    events: pd.DataFrame,
    X: Any,
    *,
    atom_length: int | None = None,
    n_atoms: int | None = None,
    pause_ratio: float = 1.5,
) -> pd.DataFrame:
    """Return how often and how regularly each atom occurs, per subject.

    An interval is the time between consecutive onsets of one atom; one much longer than the
    subject's median is a *pause*. Cost O(S K N P + E (L + log E)) for E events.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``: columns subject, atom, onset_sample; duration_samples if the
        coder tries several lengths.
    X : Cohort or arrays
        The recordings, for their durations and sampling rates.
    atom_length, n_atoms : int, optional
        L and K. Without L, ``time_share`` is NaN unless events have durations; K defaults to the
        atoms that occur.
    pause_ratio : float
        An interval above this many median intervals is a pause; ``inf`` for no pauses.

    Returns
    -------
    DataFrame
        One row per subject and atom, times in seconds: subject, group, atom, n_activations; rate
        (per minute of recording, missing samples left out); activation_share and time_share (of
        all activations of the subject, and of the recording); cadence (per minute, from the
        mean of the middle half of the intervals); interval_median, and without pauses
        interval_mean, interval_sd, interval_cv (sd / mean); interval_robust_cv (1.4826 times the
        median absolute deviation over the median); rmssd (root mean square of the differences of
        successive intervals, without pauses); n_pauses, longest_pause (0 without). NaN with fewer
        than two activations, or two intervals for the variability.

    Examples
    --------
    >>> steps = pd.DataFrame({"subject": "0", "atom": 0, "onset_sample": [0, 50, 100, 300, 350]})
    >>> found = measure_regularity(steps, np.zeros((1, 600))).iloc[0]
    >>> float(found["cadence"]), float(found["longest_pause"])
    (1.2, 200.0)
    """
    check_columns("The events", events, ("subject", "atom", "onset_sample"), SUCH_AS)
    check_complete(events, ["onset_sample"])
    if not pause_ratio > 1:
        raise InvalidParameterError(f"`pause_ratio={pause_ratio!r}` must be above 1.")
    cohort, subjects = as_cohort(X), events["subject"].astype(str)
    if unknown := sorted(set(subjects) - set(cohort.subjects)):
        raise InvalidParameterError(
            f"`events` holds {len(unknown)} subject(s) that `X` does not have: "
            f"{abbreviate(unknown)}. Pass the recordings that the events were found in."
        )
    atoms = events["atom"].to_numpy(int)
    n_atoms = int(atoms.max(initial=0)) + 1 if n_atoms is None else n_atoms
    lengths = event_lengths(events, atom_length or 0)
    has_lengths = atom_length or lengths.any()
    order = np.argsort(events["onset_sample"].to_numpy(), kind="stable")
    columns = np.stack([events["onset_sample"].to_numpy(int), lengths.astype(int)])[:, order]
    keys = pd.DataFrame({"subject": subjects.to_numpy()[order], "atom": atoms[order]})
    rows_of = keys.groupby(["subject", "atom"]).indices
    parts = {key: columns[:, rows] for key, rows in rows_of.items()}
    rows = []
    for record in cohort:
        own = [parts.get((record.subject, k), np.empty((2, 0), int)) for k in range(n_atoms)]
        total = sum(onsets.size for onsets, _ in own)
        observed = np.asarray(~np.isnan(record.values).all(1))
        n_observed = int(observed.sum())
        for k, (onsets, durations) in enumerate(own):
            # Ends count as minus one: a sample is covered while more have begun than ended.
            steps = np.zeros(record.n_times + 1, int)
            np.add.at(steps, np.minimum(onsets, record.n_times), 1)
            np.add.at(steps, np.minimum(onsets + durations, record.n_times), -1)
            covered = int((observed & (np.cumsum(steps[:-1]) > 0)).sum())
            rows.append(
                {
                    "subject": record.subject,
                    "group": record.group,
                    "atom": k,
                    "n_activations": len(onsets),
                    "rate": ratio(60 * len(onsets) * record.sfreq, n_observed),
                    "activation_share": ratio(len(onsets), total),
                    "time_share": ratio(covered, n_observed if has_lengths else 0),
                    **describe_intervals(np.diff(onsets) / record.sfreq, pause_ratio),
                }
            )
    return pd.DataFrame(rows)


def describe_intervals(
    intervals: Float[np.ndarray, " n"], pause_ratio: float = 1.5
) -> dict[str, float]:
    """Return the statistics of one subject's intervals, in order; see `measure_regularity`."""
    median = _over(np.median, intervals)
    is_pause = intervals > pause_ratio * median
    steady = intervals[~is_pause]
    changes = np.diff(intervals)[~is_pause[1:] & ~is_pause[:-1]]
    mean, sd = _over(np.mean, steady), _over(partial(np.std, ddof=1), steady, 2)
    spread = _over(np.median, np.abs(intervals - median)) / NORMAL_MAD
    return {
        "cadence": ratio(60, usual_interval(intervals)),
        "interval_median": median,
        "interval_mean": mean,
        "interval_sd": sd,
        "interval_cv": ratio(sd, mean),
        "interval_robust_cv": ratio(spread, median if len(intervals) > 1 else 0),
        "rmssd": np.sqrt(_over(np.mean, changes**2)),
        "n_pauses": int(is_pause.sum()),
        "longest_pause": intervals[is_pause].max(initial=0.0) if len(intervals) else np.nan,
    }


def _over(statistic: Any, values: np.ndarray, least: int = 1) -> float:
    """Return a statistic of values; NaN if there are too few."""
    return float(statistic(values)) if len(values) >= least else np.nan


def atom_prevalence(fitted: Fitted, groups: Labels | None = None) -> pd.DataFrame:
    """Return how common each atom is among the subjects.

    Cost O(S (K + G)) for G groups.

    Parameters
    ----------
    fitted, groups : estimator or Personalization, list of str
        The subjects and, for one row per group and atom, their groups; None or NaN leaves one out.

    Returns
    -------
    DataFrame
        Columns (group,) atom, n_subjects, n_showing (subjects with the atom), prevalence (their
        share), n_activations, activation_share and median_activations (per subject with the atom).

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> cohort = make_synthetic(4, random_state=0).cohort
    >>> model = PopCDL(2, 50, penalty=1.0, random_state=0).fit(cohort)
    >>> atom_prevalence(model)["prevalence"].tolist()
    [1.0, 1.0]
    """
    counts = as_personalization(fitted).n_activations
    given = ["all"] * len(counts) if groups is None else groups
    of = [None if pd.isna(name) else name for name in given]
    check_lengths("subjects", len(counts), of, "groups")
    names, tables = [name for name in dict.fromkeys(of) if name is not None], []
    if not names:
        raise InvalidParameterError("`groups` names no group: all are None.")
    for name in names:
        own = pd.DataFrame(counts[[g == name for g in of]])
        total = own.sum()
        columns = {
            "group": name,
            "atom": own.columns,
            "n_subjects": len(own),
            "n_showing": (own > 0).sum(),
            "prevalence": (own > 0).mean(),
            "n_activations": total,
            "activation_share": total / total.sum() if total.any() else np.nan,
            "median_activations": own[own > 0].median(),
        }
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    return table.drop(columns="group") if groups is None else table


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
    check_columns("The events", events, ("subject", "onset_sample"), SUCH_AS)
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
