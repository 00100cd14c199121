"""Plots of one recording: its reconstruction, and the activations in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from percdl.plotting import style
from percdl.plotting.style import as_shape, check_events, check_position, same_shape
from percdl.signals.events import event_lengths

SIZE = (9.0, 3.0)
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
    ax, time, unit = draw_signal(values, channel, sfreq, ax, 2.5)
    if reconstruction is not None:
        rebuilt = same_shape(reconstruction, np.asarray(values), "reconstruction", "values")
        ax.plot(time, rebuilt[:, channel], color=style.SHARED, lw=1.0, label="reconstruction")
    if events is not None:
        check_events(events)
        _mark_onsets(ax, events, sfreq or 1.0, atom_length)
    ax.margins(x=0)
    return style.finish(ax, f"time ({unit})", style.with_units(name, units), 6)


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
    ax, _, unit = draw_signal(values, channel, sfreq, ax, 1.2)
    stems, rate = ax.twinx(), sfreq or 1.0
    size = float(np.clip(60 / np.sqrt(len(events) + 1), 2.5, 6.0))
    for atom in sorted(events["atom"].unique().tolist()):
        tint, _, marker = style.look(atom)
        onsets, amplitudes = events.loc[
            events["atom"] == atom, ["onset_sample", "amplitude"]
        ].T.to_numpy(float)
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
    style.label(ax, f"time ({unit})", style.with_units(name, units))
    of_signal = units if units and "(" not in units else None
    stems.set_ylabel(style.with_units("activation", of_signal), loc="bottom")
    style.add_legend(ax, headroom=0.1, n_columns=6, handles=handles)
    return ax


def draw_signal(
    values: np.ndarray, channel: int, sfreq: float | None, ax: Axes | None, width: float
) -> tuple[Axes, np.ndarray, str]:
    """Draw one channel of a recording; return the axes, the times and their unit."""
    values = as_shape(values, "values", "N, P", such_as="cohort[0].values")
    check_position(channel, values.shape[1], "channel")
    ax = style.make_axes(ax, SIZE)
    time, unit = style.time_axis(len(values), sfreq)
    ax.plot(time, values[:, channel], color=style.OBSERVED, linewidth=width, label="recording")
    return ax, time, unit


def _mark_onsets(ax: Axes, events: pd.DataFrame, rate: float, atom_length: int | None) -> None:
    """Draw lines and shades up to the height of the data, below the legend."""
    low, high = ax.dataLim.intervaly
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
    for atom in sorted(events["atom"].unique().tolist()):
        tint, line, _ = style.look(atom)
        own = events.loc[events["atom"] == atom]
        starts = own["onset_sample"].to_numpy() / rate
        name = f"onset of atom {atom}"
        ax.vlines(starts, low, high, colors=tint, linestyles=line, linewidth=1.2, label=name)
        lengths = event_lengths(own, atom_length or 0)
        if lengths.any():
            spans = [*zip(starts, lengths / rate, strict=True)]
            ax.broken_barh(spans, (low, high - low), color=tint, alpha=0.12, linewidth=0)
