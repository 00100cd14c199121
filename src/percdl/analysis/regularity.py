"""How often each atom comes, and how regularly: prevalence, cadence, intervals, pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import median_abs_deviation

from percdl.analysis.fitted import as_personalization
from percdl.analysis.members import Groups
from percdl.analysis.rhythm import NORMAL_MAD
from percdl.analysis.segmentation import check_columns
from percdl.exceptions import InvalidParameterError
from percdl.signals import Recording, as_cohort
from percdl.signals.recording import abbreviate

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.estimators.personalization import Personalization


def measure_regularity(
    events: pd.DataFrame,
    X: Any,
    *,
    atom_length: int | None = None,
    n_atoms: int | None = None,
    pause_ratio: float = 1.5,
) -> pd.DataFrame:
    """Return how often and how regularly each atom comes, for each subject.

    An interval is the time between consecutive onsets of one atom. One that is much longer than
    the subject's median interval is a *pause*: a turn, a stop, a cycle that was missed. Pauses
    are counted, and take no part in the mean and the variability; the median and
    ``interval_robust_cv`` hardly feel them anyway. Cost O(S K N P + E (L + log E)) for E events.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``, or what `judge_events` leaves of it: columns subject, atom,
        onset_sample.
    X : Cohort or arrays
        The recordings, for their durations and sampling rates.
    atom_length : int, optional
        L, such as ``model.atom_length_``; ``time_share`` is unknown without it.
    n_atoms : int, optional
        K; by default all atoms that occur.
    pause_ratio : float
        An interval above so many median intervals is a pause; with ``inf`` none is.

    Returns
    -------
    DataFrame
        One row per subject and atom, times in seconds:

        - subject, group, atom, n_activations;
        - rate: activations per minute of recording, pauses included; missing samples are not
          recorded;
        - activation_share: of all activations of the subject;
        - time_share: of the recording that the atom covers, overlaps counted once;
        - cadence: per minute, from the median interval: the pace while it lasts;
        - interval_median, of all intervals; interval_mean, interval_sd and interval_cv (sd over
          mean), of those that are no pauses;
        - interval_robust_cv: 1.4826 times the median distance from the median, over the median,
          of all intervals; equal to the coefficient of variation of normal intervals;
        - rmssd: root mean square of the differences of successive intervals, neither a pause;
        - n_pauses, longest_pause (0 without).

        Unknown where there is too little: all of intervals with fewer than two activations,
        variability with fewer than two intervals.

    Examples
    --------
    >>> steps = pd.DataFrame({"subject": "0", "atom": 0, "onset_sample": [0, 50, 100, 300, 350]})
    >>> found = measure_regularity(steps, np.zeros((1, 600))).iloc[0]
    >>> float(found["cadence"]), float(found["interval_cv"]), float(found["longest_pause"])
    (1.2, 0.0, 200.0)
    """
    check_columns(events, {"subject", "atom", "onset_sample"})
    if not pause_ratio > 1:
        raise InvalidParameterError(
            f"`measure_regularity(pause_ratio={pause_ratio!r})` must be above 1: pauses are "
            "longer than the usual interval."
        )
    cohort = as_cohort(X)
    unknown = sorted(set(events["subject"].astype(str)) - set(cohort.subjects))
    if unknown:
        raise InvalidParameterError(
            f"`events` has {len(unknown)} subject(s) that `X` does not have: "
            f"{abbreviate(unknown)}. Pass the recordings that the events were found in."
        )
    atoms = events["atom"].to_numpy(int)
    n_atoms = int(atoms.max(initial=0)) + 1 if n_atoms is None else n_atoms
    whole = zip(events["subject"].astype(str), atoms, events["onset_sample"], strict=True)
    parts: dict[tuple[str, int], list[int]] = {}
    for subject, atom, onset in whole:
        parts.setdefault((subject, int(atom)), []).append(onset)
    rows = []
    for record in cohort:
        onsets = [np.sort(parts.get((str(record.subject), k), [])) for k in range(n_atoms)]
        total = sum(map(len, onsets))
        for k, own in enumerate(onsets):
            rows.append(
                {
                    "subject": str(record.subject),
                    "group": record.group,
                    "atom": k,
                    "n_activations": len(own),
                    **_presence(own, record, total, atom_length),
                    **describe_intervals(np.diff(own) / record.sfreq, pause_ratio),
                }
            )
    return pd.DataFrame(rows)


def _presence(
    onsets: np.ndarray, record: Recording, total: int, atom_length: int | None
) -> dict[str, float]:
    """Return how much of a recording an atom takes."""
    observed = ~np.isnan(record.values).all(1)
    n_observed = int(observed.sum())
    time_share = np.nan
    if atom_length is not None and n_observed:
        covered = np.zeros(record.n_times, bool)
        for onset in onsets.astype(int):
            covered[onset : onset + atom_length] = True
        time_share = (covered & observed).sum() / n_observed
    return {
        "rate": 60 * len(onsets) * record.sfreq / n_observed if n_observed else np.nan,
        "activation_share": len(onsets) / total if total else np.nan,
        "time_share": time_share,
    }


def describe_intervals(
    intervals: Float[np.ndarray, " n"], pause_ratio: float = 1.5
) -> dict[str, float]:
    """Return the statistics of one subject's intervals, in order; see `measure_regularity`."""
    if not len(intervals):
        names = ("cadence", "interval_median", "interval_mean", "interval_sd", "interval_cv",
                 "interval_robust_cv", "rmssd", "n_pauses", "longest_pause")  # fmt: skip
        return {**dict.fromkeys(names, np.nan), "n_pauses": 0}
    median = float(np.median(intervals))
    is_pause = intervals > pause_ratio * median
    steady = intervals[~is_pause]
    mean = float(steady.mean())
    sd = float(steady.std(ddof=1)) if len(steady) > 1 else np.nan
    changes = np.diff(intervals)[~is_pause[1:] & ~is_pause[:-1]]
    spread = float(median_abs_deviation(intervals)) / NORMAL_MAD
    return {
        "cadence": 60 / median if median else np.nan,
        "interval_median": median,
        "interval_mean": mean,
        "interval_sd": sd,
        "interval_cv": sd / mean if mean else np.nan,
        "interval_robust_cv": spread / median if median and len(intervals) > 1 else np.nan,
        "rmssd": float(np.sqrt(np.mean(changes**2))) if len(changes) else np.nan,
        "n_pauses": int(is_pause.sum()),
        "longest_pause": float(intervals[is_pause].max(initial=0.0)),
    }


def atom_prevalence(fitted: BaseCDL | Personalization, groups: Groups = None) -> pd.DataFrame:
    """Return how common each atom is among the subjects.

    Cost O(S (K + G)) for G groups.

    Parameters
    ----------
    fitted : estimator or Personalization
        Whose activations count.
    groups : list of str, optional
        Group of each subject: one row per group and atom. Subjects of None are left out.

    Returns
    -------
    DataFrame
        Columns (group,) atom, n_subjects, n_showing (subjects with an activation of the atom),
        prevalence (their share), n_activations, activation_share (of all activations) and
        median_activations (per subject who shows the atom).

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> cohort = make_synthetic(4, random_state=0).cohort
    >>> model = PopCDL(2, 50, penalty=1.0, random_state=0).fit(cohort)
    >>> atom_prevalence(model)["prevalence"].tolist()
    [1.0, 1.0]
    """
    counts = as_personalization(fitted).n_activations
    if groups is None:
        return _prevalence(counts)
    if len(groups) != len(counts):
        raise InvalidParameterError(
            f"There are {len(counts)} subjects and {len(groups)} groups. Pass the group of each "
            "subject."
        )
    names = [name for name in dict.fromkeys(groups) if name is not None]
    tables = [_prevalence(counts[[g == name for g in groups]]) for name in names]
    if not tables:
        raise InvalidParameterError("`groups` names no group: all are None.")
    return (
        pd.concat(tables, keys=names, names=["group"]).reset_index("group").reset_index(drop=True)
    )


def _prevalence(counts: np.ndarray) -> pd.DataFrame:
    rows = [
        {
            "atom": k,
            "n_subjects": len(counts),
            "n_showing": int((own > 0).sum()),
            "prevalence": float((own > 0).mean()),
            "n_activations": int(own.sum()),
            "activation_share": float(own.sum() / counts.sum()) if counts.any() else np.nan,
            "median_activations": float(np.median(own[own > 0])) if own.any() else np.nan,
        }
        for k, own in enumerate(counts.T)
    ]
    return pd.DataFrame(rows)
