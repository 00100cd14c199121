"""Plots of one recording: reconstruction, activations, cycles, landmarks; and of a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from percdl.analysis import Segmentation
from percdl.plotting import style
from percdl.plotting.style import as_shape, check_events, check_position, same_shape
from percdl.signals.events import event_lengths
from percdl.signals.tables import check_columns

FLAGGED = style.COLORS[1]
# Bars of the histogram of a score.
N_BARS = 30
STEMS = 0.3  # share of the panel for the activations, at the bottom


@style.plot
def plot_reconstruction(
    values: np.ndarray,
    reconstruction: np.ndarray | None = None,
    events: pd.DataFrame | None = None,
    *,
    atom_length: int | None = None,
    channel: int = 0,
    name: str = "signal",
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one channel of a recording with the cycles detected in it.

    Parameters
    ----------
    values : array (N, P)
        The recording.
    reconstruction : array (N, P), optional
        An item of ``model.reconstruct(cohort)``.
    events : DataFrame, optional
        The rows of ``model.events_`` of this subject. Each onset is a vertical line.
    atom_length : int, optional
        L; shades the samples that each activation covers, if events have no duration_samples.

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> plot_reconstruction(beats, 0.9 * beats, sfreq=100, units="mV").get_ylabel()
    'signal (mV)'
    """
    ax, time, label = _draw_signal(values, channel, sfreq, ax, 2.5)
    if reconstruction is not None:
        rebuilt = same_shape(reconstruction, np.asarray(values), "reconstruction", "values")
        ax.plot(time, rebuilt[:, channel], color=style.SHARED, lw=1.0, label="reconstruction")
    if events is not None:
        check_events(events)
        _mark_onsets(ax, events, sfreq or 1.0, atom_length)
    ax.margins(x=0)
    return style.finish(ax, label, name, 6, units)


@style.plot
def plot_activations(
    values: np.ndarray,
    events: pd.DataFrame,
    *,
    channel: int = 0,
    name: str = "signal",
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one channel of a recording, and the onset and amplitude of each activation below.

    Parameters
    ----------
    values : array (N, P)
        The recording, see `plot_reconstruction`.
    events : DataFrame
        The rows of ``model.events_`` of this subject. Each activation is a stem at its onset, as
        high as its amplitude (right axis).

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> events = pd.DataFrame({"atom": 0, "onset_sample": [0, 50, 100, 150], "amplitude": 1.0})
    >>> plot_activations(beats, events, sfreq=100).get_xlabel()
    'time (s)'
    """
    check_events(events)
    ax, _, label = _draw_signal(values, channel, sfreq, ax, 1.2)
    stems, rate = ax.twinx(), sfreq or 1.0
    size = float(np.clip(60 / np.sqrt(len(events) + 1), 2.5, 6.0))
    by_atom: Any = events.groupby("atom")
    for atom, own in by_atom:
        tint, _, marker = style.look(atom)
        onsets, amplitudes = own[["onset_sample", "amplitude"]].to_numpy(float).T
        stems.vlines(onsets / rate, 0, amplitudes, colors=tint, linewidth=1)
        looks = {"color": tint, "markersize": size, "label": f"atom {atom}"}
        stems.plot(onsets / rate, amplitudes, marker, **looks)
    handles = [*ax.get_legend_handles_labels()[0], *stems.get_legend_handles_labels()[0]]
    # The stems take the lower part of the panel; the legend will add space above the signal.
    heights = np.append(events["amplitude"].to_numpy(float), 0.0)
    low, span = heights.min(), np.ptp(heights) or 1.0
    stems.set_ylim(low - 0.15 * span, low - 0.15 * span + 1.3 * span / STEMS)
    ticks = sorted({low, 0.0, heights.max()})
    stems.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    stems.axhline(0, color=style.OBSERVED, linewidth=0.8)
    first, last = ax.dataLim.intervaly  # ticks of the signal beside the signal only
    ax.set_yticks([tick for tick in ax.get_yticks() if first <= tick <= last])
    below = 1.6 * STEMS / (1 - STEMS) * (ax.dataLim.height or 1.0)
    ax.update_datalim([(ax.dataLim.x0, ax.dataLim.y0 - below)])
    ax.margins(x=0.01)
    style.label(ax, label, style.with_units(name, units))
    of_signal = units if units and "(" not in units else None
    stems.set_ylabel(style.with_units("activation", of_signal), loc="bottom")
    style.add_legend(ax, headroom=0.1, n_columns=6, handles=handles)
    return ax


@style.plot
def plot_cycles(
    values: np.ndarray,
    cycles: pd.DataFrame,
    atom: np.ndarray,
    *,
    channel: int = 0,
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the cycles of a person over their personal atom; those of low quality in colour.

    Parameters
    ----------
    values : array (N, P)
        The recording.
    cycles : DataFrame
        The rows of ``model.cycles()`` of this subject and one atom.
    atom : array (L, P)
        The personal atom, such as ``model.personal_dictionary_[0, 0]``. It is drawn at the median
        amplitude of the cycles.

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> cycles = pd.DataFrame({"atom": 0, "onset_sample": [0, 50, 100, 150], "amplitude": 1.0})
    >>> cycles["flagged"] = [False, False, True, False]
    >>> plot_cycles(beats, cycles, beats[:50], sfreq=100).get_xlabel()
    'time (s)'
    """
    check_events(cycles)
    check_columns("The cycles", cycles, ["flagged"], "Pass rows of `model.cycles()`.")
    values = as_shape(values, "values", "N, P", such_as="cohort[0].values")
    atom = as_shape(atom, "atom", "L, P", such_as="model.personal_dictionary_[0, 0]")
    check_position(channel, values.shape[1], "channel")
    ax, time, label = style.time_axes(ax, len(atom), sfreq)
    ends = np.full(len(cycles), len(atom))
    if sfreq is not None and "duration_seconds" in cycles:
        ends = np.rint(cycles["duration_seconds"].to_numpy(float) * sfreq).astype(int)
    usual: Any = {"color": style.OBSERVED, "linewidth": 0.7}
    odd: Any = {"color": FLAGGED, "linestyle": "--", "linewidth": 1.2, "zorder": 3}
    flagged = cycles["flagged"].to_numpy(bool)
    spans = np.stack([cycles["onset_sample"].to_numpy(int), ends], axis=1)
    for name, of, looks in (("cycle", ~flagged, usual), ("flagged cycle", flagged, odd)):
        for index, (onset, length) in enumerate(spans[of]):
            own = values[onset : onset + length, channel]
            at = np.arange(len(own)) / (sfreq or 1.0)
            ax.plot(at, own, label=None if index else name, **looks)
    typical = np.median(cycles["amplitude"].to_numpy(float)) * atom[:, channel]
    ax.plot(time, typical, color=style.SHARED, linewidth=2.5, label="personal atom", zorder=4)
    return style.finish(ax, label, "amplitude", 3, units)


@style.plot
def plot_marks(
    dictionary: np.ndarray,
    marks: Sequence[Any],
    sfreq: float,
    *,
    atom: int = 0,
    channel: int = 0,
    units: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the landmarks on a common atom; a band shows the spread of their annotations.

    Parameters
    ----------
    dictionary, atom : array (K, L, P), int
        The common atoms, and which to draw.
    marks : list of Mark
        Such as ``model.marks_``.

    Examples
    --------
    >>> from percdl.estimators import Mark
    >>> atoms = np.hanning(50)[None, :, None]
    >>> plot_marks(atoms, [Mark("peak", 0, 0.25, 0.02)], 100).get_xlabel()
    'time (s)'
    """
    atoms = as_shape(dictionary, "dictionary", "K, L, P", such_as="model.dictionary_")
    check_position(atom, len(atoms), "atom")
    check_position(channel, atoms.shape[2], "channel")
    ax, time, label = style.time_axes(ax, atoms.shape[1], sfreq)
    curve = atoms[atom, :, channel]
    ax.plot(time, curve, color=style.SHARED, linewidth=2, label="common atom")
    own = sorted((mark for mark in marks if mark.atom == atom), key=lambda mark: mark.time)
    for index, mark in enumerate(own):
        inside = np.abs(time - mark.time) <= mark.spread
        if inside.sum() > 1:
            low, high = curve.min(), curve.max()
            style.fill_band(ax, time[inside], low, high, style.color(index), alpha=0.15)
        _draw_landmark(ax, index, mark.name, mark.time, time, curve)
    return style.finish(ax, label, "amplitude", 4, units)


@style.plot
def plot_landmarks(
    values: np.ndarray,
    landmarks: pd.DataFrame,
    *,
    channel: int = 0,
    name: str = "signal",
    units: str | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one channel of a recording with its landmarks; absent ones are left out.

    Parameters
    ----------
    values : array (N, P)
        The recording.
    landmarks : DataFrame
        The rows of ``model.landmarks()`` of this subject.

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> peaks = pd.DataFrame({"landmark": "peak", "sample": [24.5, 74.5, np.nan, 174.5]})
    >>> plot_landmarks(beats, peaks, sfreq=100).get_ylabel()
    'signal'
    """
    advice = "Pass rows of `model.landmarks()`."
    check_columns("The landmarks", landmarks, ("landmark", "sample"), advice)
    ax, time, label = _draw_signal(values, channel, sfreq, ax, 1.2)
    curve = np.asarray(values)[:, channel]
    for index, (landmark, rows) in enumerate(landmarks.groupby("landmark", sort=False)):
        at = rows["sample"].dropna().to_numpy(float) / (sfreq or 1.0)
        _draw_landmark(ax, index, str(landmark), at, time, curve)
    ax.margins(x=0.01)
    return style.finish(ax, label, name, 6, units)


@style.plot
def plot_score(score: Segmentation, *, ax: Axes | None = None) -> Axes:
    """Draw how far events are from their annotations, and how many have no counterpart.

    Parameters
    ----------
    score : Segmentation
        Result of `percdl.analysis.score_events`. Times are drawn in ms if the tolerance was a
        duration. Two bars beside the histogram count missed annotations and false events.

    Examples
    --------
    >>> from percdl.analysis import score_events
    >>> plot_score(score_events({"A": [9, 55]}, {"A": [10, 110]}, 5)).get_xlabel()
    'event minus annotation (samples)'
    """
    ax = style.make_axes(ax)
    scale, unit = (1e3, "ms") if score.unit == "s" else (1.0, "samples")
    errors = scale * score.timing_errors
    edges = np.histogram_bin_edges(errors, N_BARS).tolist()
    heights, _, _ = ax.hist(errors, edges, color=style.COLORS[0], label=f"matched: {len(errors)}")
    if len(errors):
        mean, sd = scale * score.timing_bias, scale * score.timing_sd
        name = f"mean {mean:+.1f} {unit}, s.d. {sd:.1f} {unit}"
        ax.plot([mean, mean], [0, np.max(heights)], "--", color=style.SHARED, label=name)
    width = (edges[-1] - edges[0]) / 8
    ticks = [tick for tick in ax.get_xticks() if edges[0] <= tick <= edges[-1]]
    labels = [f"{tick:g}" for tick in ticks]
    lone = {
        "missed": (score.n_cycles - score.n_found, "annotations missed", "//"),
        "false": (score.n_detections - score.n_found, "false events", ".."),
    }
    for index, (short, (count, name, hatch)) in enumerate(lone.items(), start=1):
        at = edges[-1] + 1.5 * index * width
        looks: Any = {"facecolor": "white", "edgecolor": style.color(index), "hatch": hatch}
        ax.bar(at, count, width, label=f"{name}: {count}", **looks)
        ticks, labels = [*ticks, at], [*labels, short]
    ax.set_xticks(ticks, labels)
    return style.finish(ax, f"event minus annotation ({unit})", "number", 2)


def _draw_signal(
    values: np.ndarray, channel: int, sfreq: float | None, ax: Axes | None, width: float
) -> tuple[Axes, np.ndarray, str]:
    """Draw one channel of a recording; return the axes, the times and their label."""
    values = as_shape(values, "values", "N, P", such_as="cohort[0].values")
    check_position(channel, values.shape[1], "channel")
    ax, time, label = style.time_axes(ax, len(values), sfreq, size=(9.0, 3.0))
    ax.plot(time, values[:, channel], color=style.OBSERVED, linewidth=width, label="recording")
    return ax, time, label


def _mark_onsets(ax: Axes, events: pd.DataFrame, rate: float, atom_length: int | None) -> None:
    """Draw lines and shades up to the height of the data, below the legend."""
    low, high = ax.dataLim.intervaly
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    by_atom: Any = events.groupby("atom")
    for atom, own in by_atom:
        tint, line, _ = style.look(atom)
        starts = own["onset_sample"].to_numpy() / rate
        name = f"onset of atom {atom}"
        ax.vlines(starts, low, high, colors=tint, linestyles=line, linewidth=1.2, label=name)
        lengths = event_lengths(own, atom_length or 0)
        if lengths.any():
            spans = [*zip(starts, lengths / rate, strict=True)]
            ax.broken_barh(spans, (low, high - low), color=tint, alpha=0.12, linewidth=0)


def _draw_landmark(
    ax: Axes, index: int, name: str, at: Any, time: np.ndarray, curve: np.ndarray
) -> None:
    """Mark the times of a landmark on a curve."""
    tint, _, marker = style.look(index)
    looks: Any = {"color": tint, "markeredgecolor": "white", "linestyle": "none"}
    ax.plot(at, np.interp(at, time, curve), marker, markersize=7, label=name, **looks)
