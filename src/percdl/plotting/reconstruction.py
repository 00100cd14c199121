"""A recording, the model's view of it, and the onsets found in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style


def plot_reconstruction(
    values: Float[np.ndarray, "N P"],
    reconstruction: Float[np.ndarray, "N P"] | None = None,
    events: pd.DataFrame | None = None,
    *,
    atom_length: int | None = None,
    channel: int = 0,
    name: str = "signal",
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw one channel of a recording with the cycles detected in it.

    Parameters
    ----------
    values : array (N, P)
        The recording.
    reconstruction : array (N, P), optional
        What the model makes of it, an item of ``model.reconstruct(cohort)``.
    events : DataFrame, optional
        The rows of ``model.events_`` that belong to this subject: columns ``atom`` and
        ``onset_sample``. Each onset is a vertical line, in the colour of its atom.
    atom_length : int, optional
        L; shades the samples that each activation covers.
    channel : int
        Which channel to draw.
    name : str
        What the vertical axis shows, unit included, e.g. ``"angular velocity (deg/s)"``.
    sfreq, ax : optional
        See `plot_atoms`.
    """
    ax = style.make_axes(ax, size=(9.0, 3.0))
    time, unit = style.time_axis(len(values), sfreq)
    ax.plot(time, values[:, channel], color=style.OBSERVED, linewidth=2.5, label="recording")
    if reconstruction is not None:
        ax.plot(
            time,
            reconstruction[:, channel],
            color=style.SHARED,
            linewidth=1,
            label="reconstruction",
        )
    if events is not None:
        _mark_onsets(ax, events, 1.0 if sfreq is None else sfreq, atom_length)
    ax.margins(x=0)
    style.label(ax, f"time ({unit})", name)
    style.add_legend(ax, headroom=0.2, n_columns=6)
    return ax


def _mark_onsets(ax: Axes, events: pd.DataFrame, sfreq: float, atom_length: int | None) -> None:
    named = set()
    by_atom = events.sort_values(["atom", "onset_sample"])
    for atom, onset in zip(by_atom["atom"].tolist(), by_atom["onset_sample"], strict=True):
        tint, start = style.color(atom), onset / sfreq
        name = None if atom in named else f"onset of atom {atom}"
        named.add(atom)
        ax.axvline(start, color=tint, linewidth=1.2, label=name)
        if atom_length is not None:
            ax.axvspan(start, start + atom_length / sfreq, color=tint, alpha=0.12, linewidth=0)
