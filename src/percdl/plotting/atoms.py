"""Atoms: what the population shares, and what each person makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style
from percdl.plotting.crowd import draw_crowd


def plot_atoms(
    dictionary: Float[np.ndarray, "K L P"],
    truth: Float[np.ndarray, "K L P"] | None = None,
    *,
    sfreq: float | None = None,
    channels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the atoms of a dictionary over time.

    A colour per atom and a line style per channel; with a single atom, a colour per channel.

    Parameters
    ----------
    dictionary : array (K, L, P)
        Such as ``model.dictionary_``.
    truth : array (K, L, P), optional
        The true atoms in the same order, drawn dashed in black at the norm of the atom
        they belong to.
    sfreq : float, optional
        Samples per second; without it the time axis counts samples.
    channels : list of str, optional
        Names of the channels.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    ax = style.make_axes(ax)
    n_atoms, n_times, n_channels = dictionary.shape
    time, unit = style.time_axis(n_times, sfreq)
    channel_names = style.names(channels, n_channels, "channel")
    for k, p in np.ndindex(n_atoms, n_channels):
        parts = [f"atom {k}"] * (n_atoms > 1) + [channel_names[p]] * (n_channels > 1)
        line = "-" if n_atoms == 1 else style.LINE_STYLES[p % len(style.LINE_STYLES)]
        tint = style.color(p if n_atoms == 1 else k)
        name = ", ".join(parts) or "common atom"
        ax.plot(time, dictionary[k, :, p], line, color=tint, linewidth=2, label=name)
    if truth is not None:
        scaled = truth * (_norms(dictionary) / _norms(truth))
        curves = np.moveaxis(scaled, 1, 0).reshape(n_times, -1)
        lines = ax.plot(time, curves, "--", color=style.SHARED, linewidth=1)
        lines[0].set_label("truth")
    style.label(ax, f"time ({unit})", "amplitude")
    n_entries = len(ax.get_legend_handles_labels()[1])
    style.add_legend(ax, headroom=0.1 * (1 + n_entries // 3), n_columns=3)
    return ax


def plot_personal_atoms(
    personal_dictionary: Float[np.ndarray, "S K L P"],
    dictionary: Float[np.ndarray, "K L P"] | None = None,
    *,
    atom: int = 0,
    channel: int = 0,
    highlight: Sequence[int] = (),
    subjects: Sequence[str] | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw everyone's version of one atom, and the common atom over them.

    Parameters
    ----------
    personal_dictionary : array (S, K, L, P)
        Such as ``model.personal_dictionary_``; subjects without the atom (NaN) are left out.
    dictionary : array (K, L, P), optional
        The common atoms.
    atom, channel : int
        Which atom and channel to draw.
    highlight : list of int, optional
        Positions of the subjects to draw in colour, with their names.
    subjects : list of str, optional
        Names of all subjects.
    sfreq, ax : optional
        See `plot_atoms`.
    """
    ax = style.make_axes(ax)
    curves = personal_dictionary[:, atom, :, channel]
    time, unit = style.time_axis(curves.shape[1], sfreq)
    draw_crowd(ax, time, curves, highlight, subjects)
    if dictionary is not None:
        common = dictionary[atom, :, channel]
        ax.plot(time, common, color=style.SHARED, linewidth=2.5, label="common atom")
    style.label(ax, f"time ({unit})", "amplitude")
    style.add_legend(ax, headroom=0.1 * (2 + len(highlight) // 2), n_columns=1 + bool(highlight))
    return ax


def _norms(dictionary: np.ndarray) -> np.ndarray:
    return np.sqrt((dictionary**2).sum((1, 2), keepdims=True))
