"""Plots of one recording: its reconstruction, and the activations in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes

from percdl.plotting import style
from percdl.plotting.checks import as_shape, check_events, check_position, same_shape

SIZE = (9.0, 3.0)
STEMS = 0.3  # share of the panel for the activations, at the bottom
N_BINS = 2000  # more than the pixels of a figure's width


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
        The recording. Long ones are drawn by the smallest and largest sample of every bin.
    reconstruction : array (N, P), optional
        An item of ``model.reconstruct(cohort)``.
    events : DataFrame, optional
        The rows of ``model.events_`` of this subject. Each onset is a vertical line.
    atom_length : int, optional
        L; shades the samples that each activation covers.
    channel, name : int, str
        Which channel to draw, and the label of the vertical axis.
    units, sfreq, ax : optional
        See `plot_atoms`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> plot_reconstruction(beats, 0.9 * beats, sfreq=100, units="mV").get_ylabel()
    'signal (mV)'
    """
    values = as_shape(values, "values", "N, P", such_as="cohort[0].values")
    check_position(channel, values.shape[1], "channel")
    ax = style.make_axes(ax, SIZE)
    unit = _draw_signal(ax, values[:, channel], sfreq, style.OBSERVED, 2.5, "recording")
    if reconstruction is not None:
        rebuilt = same_shape(reconstruction, values, "reconstruction", "values")
        _draw_signal(ax, rebuilt[:, channel], sfreq, style.SHARED, 1.0, "reconstruction")
    if events is not None:
        check_events(events)
        _mark_onsets(ax, events, sfreq or 1.0, atom_length)
    ax.margins(x=0)
    return style.finish(ax, f"time ({unit})", style.with_units(name, units), 6)


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
    channel, name, units, sfreq, ax : optional
        See `plot_reconstruction`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> beats = np.tile(np.hanning(50), 4)[:, None]
    >>> events = pd.DataFrame({"atom": 0, "onset_sample": [0, 50, 100, 150], "amplitude": 1.0})
    >>> plot_activations(beats, events, sfreq=100).get_xlabel()
    'time (s)'
    """
    values = as_shape(values, "values", "N, P", such_as="cohort[0].values")
    check_position(channel, values.shape[1], "channel")
    check_events(events)
    ax = style.make_axes(ax, SIZE)
    unit = _draw_signal(ax, values[:, channel], sfreq, style.OBSERVED, 1.2, "recording")
    stems = ax.twinx()
    stems.spines[["top", "left", "bottom"]].set_visible(False)
    for atom in sorted(events["atom"].unique().tolist()):
        part = events.loc[events["atom"] == atom, ["onset_sample", "amplitude"]]
        _draw_stems(stems, part.to_numpy(float), atom, sfreq or 1.0)
    handles = [*ax.get_legend_handles_labels()[0], *stems.get_legend_handles_labels()[0]]
    signal_range = tuple(ax.dataLim.intervaly)
    _share_height(ax, stems, events["amplitude"].to_numpy(float))
    ax.margins(x=0.01)
    style.label(ax, f"time ({unit})", style.with_units(name, units))
    stems.set_ylabel("activation", loc="bottom")
    style.add_legend(ax, headroom=0.1, n_columns=6, handles=handles)
    low, high = signal_range  # the left axis ends with the signal, above the stems
    ax.spines["left"].set_bounds(low, high)
    ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= high])
    return ax


def _draw_signal(
    ax: Axes, signal, sfreq: float | None, color: str, width: float, name: str
) -> str:
    """Draw a signal and return the unit of its time."""
    at = envelope_samples(signal)
    time, unit = style.time_axis(len(signal), sfreq)
    thinner = 1.0 if len(at) == len(signal) else 0.4  # an envelope looks like an area
    ax.plot(time[at], signal[at], color=color, linewidth=thinner * width, label=name)
    return unit


def _mark_onsets(ax: Axes, events: pd.DataFrame, rate: float, atom_length: int | None) -> None:
    """Draw lines and shades up to the height of the data, below the legend."""
    low, high = ax.dataLim.intervaly
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    for atom in sorted(events["atom"].unique().tolist()):
        tint, line, _ = style.look(atom)
        starts = np.sort(events.loc[events["atom"] == atom, "onset_sample"].to_numpy()) / rate
        name = f"onset of atom {atom}"
        ax.vlines(starts, low, high, colors=tint, linestyles=line, linewidth=1.2, label=name)
        if atom_length is not None:
            spans = [(start, atom_length / rate) for start in starts]
            ax.broken_barh(spans, (low, high - low), color=tint, alpha=0.12, linewidth=0)


def _draw_stems(stems: Axes, events: Float[np.ndarray, "E 2"], atom: int, rate: float) -> None:
    tint, _, marker = style.look(atom)
    onsets, amplitudes = events[:, 0] / rate, events[:, 1]
    size = float(np.clip(60 / np.sqrt(len(onsets)), 2.5, 6.0))
    stems.vlines(onsets, 0, amplitudes, colors=tint, linewidth=1)
    stems.plot(onsets, amplitudes, marker, color=tint, markersize=size, label=f"atom {atom}")


def _share_height(ax: Axes, stems: Axes, amplitudes: np.ndarray) -> None:
    """Give the stems the lower part of the panel, and the signal the rest."""
    low, high = amplitudes.min(initial=0.0), amplitudes.max(initial=0.0)
    span = (high - low) or 1.0
    stems.set_ylim(low - 0.15 * span, low - 0.15 * span + 1.3 * span / STEMS)
    stems.spines["right"].set_bounds(low, low + span)
    stems.axhline(0, color=style.OBSERVED, linewidth=0.8)
    ticks = sorted({low, 0.0, high})
    stems.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    bottom, top = ax.dataLim.intervaly
    # A share of the rest, and of the space that the legend will add above.
    below = 1.6 * STEMS / (1 - STEMS) * ((top - bottom) or 1.0)
    ax.update_datalim([(ax.dataLim.x0, bottom - below)])
    ax.autoscale_view()


def envelope_samples(
    values: Float[np.ndarray, " N"], n_bins: int = N_BINS
) -> Int[np.ndarray, " kept"]:
    """Return the samples to draw: the first and last, and the extremes of each bin.

    The line through them fills the same pixels as the line through all samples. A recording of at
    most two samples per bin is kept whole. Bins without observed samples keep one NaN.
    """
    n_times = len(values)
    if n_times <= 2 * n_bins:
        return np.arange(n_times)
    size = -(-n_times // n_bins)
    padded = np.full(-(-n_times // size) * size, np.nan)
    padded[:n_times] = values
    bins = padded.reshape(-1, size)
    missing, first = np.isnan(bins), size * np.arange(len(bins))
    lowest = first + np.where(missing, np.inf, bins).argmin(1)
    largest = first + np.where(missing, -np.inf, bins).argmax(1)
    return np.unique(np.concatenate([[0], lowest, largest, [n_times - 1]]))
