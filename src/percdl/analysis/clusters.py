"""Runs of samples that differ, and how often chance brings as much: cluster permutation tests."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from percdl.analysis.contrasts import Statistic
from percdl.exceptions import InvalidParameterError
from percdl.signals.extras import require


@dataclass(frozen=True)
class Cluster:
    """Neighbouring samples of one channel whose statistic passes the threshold, on one side.

    Attributes
    ----------
    channel, start, stop : int
        Where: samples ``start`` to ``stop - 1`` of a channel.
    mass : float
        Sum of the statistic over the samples; negative where the first group is below the
        second, or the slope is negative.
    p_value : float
        How often the largest cluster of permuted people has as much mass, anywhere in any
        channel.
    """

    channel: int
    start: int
    stop: int
    mass: float
    p_value: float


def permute_clusters(
    samples: Sequence[np.ndarray],
    statistic: Statistic,
    threshold: float,
    *,
    two_sided: bool,
    n_permutations: int,
    random_state: Any,
) -> tuple[Cluster, ...]:
    """Return the clusters (Maris and Oostenveld, 2007), the least probable first.

    Parameters
    ----------
    samples : list of arrays (n, L, P)
        Curves of people who are exchangeable if nothing differs; all are permuted together.
    statistic : function of arrays (P', n) to array (P',)
        See `percdl.analysis.contrasts`.
    threshold : float
        Samples beyond it form clusters: neighbours in time, of one channel, of one sign.
    two_sided : bool
        Whether the statistic has a sign.
    n_permutations : int
        The order of the data counts as one of them.
    random_state : int, RandomState or None
        Decides the permutations.
    """
    mne = require("mne", "A cluster permutation test", "stats")
    length, n_channels = samples[0].shape[1:]
    with warnings.catch_warnings(), mne.use_log_level("ERROR"):
        warnings.filterwarnings("ignore", "No clusters found", RuntimeWarning)
        _, runs, p_values, _ = mne.stats.permutation_cluster_test(
            [_line_up(sample, two_sided) for sample in samples],
            threshold=threshold,
            n_permutations=n_permutations,
            tail=1,
            stat_fun=lambda *parts: statistic(*(part.T for part in parts)),
            out_type="mask",
            buffer_size=None,
            seed=check_random_state(random_state),
        )
    observed = statistic(*(_line_up(sample, two_sided).T for sample in samples))
    found = []
    for (run,), p_value in zip(runs, p_values, strict=True):
        line, start = divmod(run.start, length + 1)
        side, channel = divmod(line, n_channels)
        mass = float(observed[run].sum()) * (-1) ** side
        stop = start + run.stop - run.start
        found.append(Cluster(channel, start, stop, mass, float(p_value)))
    return tuple(sorted(found, key=lambda c: (c.p_value, -abs(c.mass))))


def _line_up(curves: np.ndarray, two_sided: bool) -> np.ndarray:
    """Return curves (n, L, P) as lines: channel after channel, a still sample behind each.

    The still samples part the channels: clusters are runs of the line. With two sides, the
    curves turned upside down follow. (Asked for both tails of two samples, MNE 1.13 compares
    the largest cluster of either sign with the largest positive one of each permutation, if it
    has one. Where clusters of both signs are common, as in rough curves, false alarms are then
    up to twice as frequent as they should be.)
    """
    parted = np.pad(np.moveaxis(curves, 2, 1), ((0, 0), (0, 0), (0, 1)))
    lines = parted.reshape(len(curves), -1)
    return np.hstack([lines, -lines]) if two_sided else lines


def tabulate_clusters(
    clusters: Sequence[Cluster], differences: np.ndarray | None, sfreq: float | None
) -> pd.DataFrame:
    """Return one row per cluster; with a sampling rate, its ends in seconds too."""
    rows = []
    for cluster in clusters:
        row: dict[str, Any] = {
            "channel": cluster.channel,
            "start_sample": cluster.start,
            "stop_sample": cluster.stop,
        }
        if sfreq is not None:
            row |= {
                "start_seconds": cluster.start / sfreq,
                "stop_seconds": cluster.stop / sfreq,
            }
        if differences is not None:
            inside = differences[cluster.start : cluster.stop, cluster.channel]
            row["difference"] = float(inside.mean())
        rows.append(row | {"mass": cluster.mass, "p_value": cluster.p_value})
    columns = ["channel", "start_sample", "stop_sample"]
    columns += ["start_seconds", "stop_seconds"] if sfreq is not None else []
    columns += ["difference"] if differences is not None else []
    return pd.DataFrame(rows, columns=[*columns, "mass", "p_value"])


def check_permutations(name: str, n_permutations: int, level: float) -> None:
    """Raise where the settings of a permutation test are out of range."""
    if not isinstance(n_permutations, (int, np.integer)) or n_permutations < 20:
        raise InvalidParameterError(
            f"`{name}(n_permutations={n_permutations!r})` must be an integer of at least 20: "
            "with fewer no p value can be as small as 0.05."
        )
    if not 0 < level < 1:
        raise InvalidParameterError(
            f"`{name}(pointwise_level={level!r})` must be between 0 and 1, such as 0.05."
        )
