"""Which activations are events: strong ones, and weaker ones that keep the rhythm."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import expit

from percdl.analysis.segmentation import check_columns
from percdl.analysis.trade_off import relative_amplitude
from percdl.exceptions import InvalidParameterError

# An activation at least this share of its subject's median amplitude is typical: the rhythm is
# read off those.
TYPICAL_SHARE = 0.5
# The median distance from the median of a normal variable, in standard deviations.
NORMAL_MAD = 0.6745
# An amplitude of zero has a logarithm too.
LEAST_SHARE = np.finfo(float).tiny
# Rhythm says nothing beyond so many spreads: all intervals there count as breaks.
REACH = 8.0


def judge_events(
    events: pd.DataFrame,
    *,
    even_share: float = 0.07,
    spread: float = 0.3,
    break_rate: float = 0.02,
) -> pd.DataFrame:
    """Give each activation the probability that it is an event, by its strength and the rhythm.

    A steady pace is evidence: a step that continues it may be weak (a turn, a stop), and one
    that is close to another, or far from all, must be strong. Among the activations of one
    subject and atom, every subset is a possible set of events; its weight is

    ``prod_i (r_i / even_share)^2  prod_j ((1 - break_rate) exp(-log(g_j)^2 / (2 spread^2)) +
    break_rate)``

    with ``r_i`` the amplitude over the median of the subject's, ``r_i^2`` thus the energy it
    explains, and ``g_j`` the intervals between consecutive events over the median interval of
    the subject's typical activations (those of at least half the median amplitude). The
    probability of an activation is the share of the weight of the subsets that hold it; it is
    exact, by the forward-backward recursion. No annotation is used, and the units of the
    signals cancel. The three default values were chosen on 150 annotated gait recordings
    (docs/segmentation.md); for other movements check them. Cost O(n m) for n activations, m of
    them within a few intervals of each.

    Parameters
    ----------
    events : DataFrame
        Such as ``model.events_``: columns subject, atom, onset_sample, amplitude.
    even_share : float
        Share of the typical amplitude at which an activation that neither keeps nor breaks a
        rhythm is as likely an event as not.
    spread : float
        Standard deviation of the logarithm of an interval. A subject whose own intervals
        spread more is judged by that, so that irregular events are not punished.
    break_rate : float
        How common it is that the rhythm breaks: pauses, turns. An activation out of all
        rhythm is an event, more likely than not, from a share of about
        ``even_share / sqrt(break_rate)`` on. With 1 there is no rhythm: the probability is
        ``r^2 / (r^2 + even_share^2)``.

    Returns
    -------
    DataFrame
        The events, with a column ``probability``. Keep, say,
        ``judged[judged["probability"] > 0.5]``.

    Examples
    --------
    >>> steps = pd.DataFrame({"subject": "A", "atom": 0, "amplitude": [9, 8, 1, 9, 1, 8]})
    >>> steps["onset_sample"] = [0, 100, 200, 300, 350, 400]
    >>> judge_events(steps)["probability"].round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.03, 1.0]
    """
    check_columns(events, {"subject", "atom", "onset_sample", "amplitude"})
    _check_options(even_share=even_share, spread=spread, break_rate=break_rate)
    shares = relative_amplitude(events).to_numpy()
    onsets = events["onset_sample"].to_numpy()
    probability = np.zeros(len(events))
    for rows in events.groupby(["subject", "atom"], sort=False).indices.values():
        rows = rows[np.argsort(onsets[rows], kind="stable")]
        onset, share = onsets[rows], shares[rows]
        period, own_spread = measure_rhythm(onset[share >= TYPICAL_SHARE])
        strength = 2 * np.log(np.maximum(share, LEAST_SHARE) / even_share)
        # Without two typical activations there is no rhythm to keep.
        breaks = break_rate if np.isfinite(period) else 1.0
        odds = chain_log_odds(strength, onset / period, max(spread, own_spread), breaks)
        probability[rows] = expit(odds)
    return events.assign(probability=probability)


def measure_rhythm(onset: Int[np.ndarray, " n"]) -> tuple[float, float]:
    """Return the median interval and the spread of the logarithms of the intervals, robustly.

    Infinity and zero where there is no interval.
    """
    intervals = np.diff(np.unique(onset))
    if not len(intervals):
        return np.inf, 0.0
    period = float(np.median(intervals))
    deviation = np.abs(np.log(intervals / period))
    return period, float(np.median(deviation)) / NORMAL_MAD


def chain_log_odds(
    strength: Float[np.ndarray, " n"],
    time: Float[np.ndarray, " n"],
    spread: float,
    break_rate: float,
) -> Float[np.ndarray, " n"]:
    """Return the log odds that each point belongs to a chain.

    A chain is a subset; its log weight is the sum of the strengths of its points and of the
    links between consecutive ones, see `judge_events`. ``time`` increases, in periods.
    """
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
    # Links beyond the reach are breaks, all of one price: one running sum holds their chains,
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


def _check_options(**options: float) -> None:
    for name, value in options.items():
        most = 1 if name == "break_rate" else np.inf
        if not 0 < value <= most:
            raise InvalidParameterError(
                f"`judge_events({name}={value!r})` must be above 0"
                + (" and at most 1." if most == 1 else ".")
            )
