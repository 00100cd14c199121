"""Time warps, against the identity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.plotting import style
from percdl.plotting.crowd import draw_crowd


def plot_warps(
    warps: Float[np.ndarray, "S L"],
    *,
    highlight: Sequence[int] = (),
    subjects: Sequence[str] | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw psi, the time of the common atom against the time of the subject.

    Above the identity the subject is ahead of the population, below it is behind; a slope
    above one means that it runs through this phase faster.

    Parameters
    ----------
    warps : array (S, L)
        psi of each subject at samples 0 to L-1, in samples, as `TimeWarp.warp` returns it;
        subjects without the atom (NaN) are left out.
    highlight : list of int, optional
        Positions of the subjects to draw in colour, with their names.
    subjects : list of str, optional
        Names of all subjects.
    sfreq : float, optional
        Samples per second; without it both axes count samples.
    ax : Axes, optional
        Where to draw; a new figure by default.
    """
    ax = style.make_axes(ax, size=(4.0, 4.0))
    time, unit = style.time_axis(warps.shape[1], sfreq)
    curves = warps if sfreq is None else warps / sfreq
    draw_crowd(ax, time, curves, highlight, subjects)
    ax.plot(time, time, "--", color=style.SHARED, linewidth=1, label="identity")
    ax.set_aspect("equal")
    style.label(ax, f"subject's time ({unit})", f"common time ({unit})")
    style.add_legend(ax)
    return ax
