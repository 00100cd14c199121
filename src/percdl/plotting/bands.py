"""Curves with their confidence bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style


def plot_atom_band(
    atom: Float[np.ndarray, "L P"],
    band: tuple[Float[np.ndarray, "L P"], Float[np.ndarray, "L P"]],
    truth: Float[np.ndarray, "L P"] | None = None,
    *,
    level: float = 0.95,
    sfreq: float | None = None,
    channels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one atom, common or personal, with its confidence band.

    Parameters
    ----------
    atom : array (L, P)
        Such as ``model.dictionary_[0]``.
    band : pair of arrays (L, P)
        Lower and upper ends, such as ``[end[0] for end in uncertainty.atom_band(0.95)]``.
    truth : array (L, P), optional
        The true atom, drawn dashed in black.
    level : float
        The level of the band, for the legend.
    sfreq : float, optional
        Samples per second; without it the time axis counts samples.
    channels : list of str, optional
        Names of the channels.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    ax = style.make_axes(ax)
    n_times, n_channels = atom.shape
    time, unit = style.time_axis(n_times, sfreq)
    names = style.names(channels, n_channels, "channel") if n_channels > 1 else ["atom"]
    low, high = band
    for p, name in enumerate(names):
        tint = style.color(p)
        label = f"{level:.0%} band" if p == 0 else None
        ax.fill_between(
            time, low[:, p], high[:, p], color=tint, alpha=0.25, linewidth=0, label=label
        )
        ax.plot(time, atom[:, p], color=tint, linewidth=1.5, label=name)
    if truth is not None:
        lines = ax.plot(time, truth, "--", color=style.SHARED, linewidth=1)
        lines[0].set_label("truth")
    style.label(ax, f"time ({unit})", "amplitude")
    n_entries = len(ax.get_legend_handles_labels()[1])
    style.add_legend(ax, headroom=0.1 * (1 + n_entries // 3), n_columns=3)
    return ax
