"""Curves with their confidence bands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, names_of, same_shape


def plot_atom_band(
    atom: np.ndarray,
    band: Sequence[np.ndarray],
    truth: np.ndarray | None = None,
    *,
    level: float = 0.95,
    units: str | None = None,
    sfreq: float | None = None,
    channels: Labels | None = None,
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
    units : str, optional
        See `plot_atoms`.
    sfreq : float, optional
        Samples per second; without it the time axis counts samples.
    channels : list of str, optional
        Names of the channels.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> atom = np.sin(np.linspace(0, 6, 50))[:, None]
    >>> plot_atom_band(atom, (atom - 0.1, atom + 0.1), sfreq=100).get_xlabel()
    'time (s)'
    """
    atom = as_shape(atom, "atom", "L P", such_as="model.dictionary_[0]")
    if len(band) != 2:
        raise InvalidParameterError(f"`band` has {len(band)} parts. Pass its two ends.")
    low, high = (same_shape(end, atom, "band", "atom") for end in band)
    ax = style.make_axes(ax)
    n_times, n_channels = atom.shape
    time, unit = style.time_axis(n_times, sfreq)
    names = names_of(channels, n_channels, "channel") if n_channels > 1 else ["atom"]
    for p, name in enumerate(names):
        tint = style.color(p)
        label = f"{level:.0%} band" if p == 0 else None
        ax.fill_between(
            time, low[:, p], high[:, p], color=tint, alpha=0.25, linewidth=0, label=label
        )
        ax.plot(time, atom[:, p], style.look(p).line, color=tint, linewidth=1.5, label=name)
    if truth is not None:
        truth = same_shape(truth, atom, "truth", "atom")
        lines = ax.plot(time, truth, "--", color=style.SHARED, linewidth=1)
        lines[0].set_label("truth")
    style.label(ax, f"time ({unit})", style.with_units("amplitude", units))
    style.add_legend(ax, headroom=0.1, n_columns=3)
    return ax
