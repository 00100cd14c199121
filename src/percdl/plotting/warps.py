"""Time warps against the identity, and the speed at which they run."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, find_subject, names_of
from percdl.plotting.crowd import draw_crowd

SUCH_AS = "model.warps_[:, 0, 0]"
FAST, SLOW = style.color(1), style.color(0)


def plot_warps(
    warps: np.ndarray,
    *,
    highlight: Labels = (),
    subjects: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw psi, the time of the common atom against the time of the subject.

    Above the identity the subject is ahead of the population, below it is behind; a slope
    above one means that it runs through this phase faster.

    Parameters
    ----------
    warps : array (S, L)
        psi of each subject at samples 0 to L-1, in samples, such as ``model.warps_[:, 0, 0]``;
        subjects without the atom (NaN) are left out.
    highlight : list of int or str, optional
        Positions or names of the subjects to draw in colour, with their names.
    subjects : list of str, optional
        Names of all subjects.
    sfreq : float, optional
        Samples per second; without it both axes count samples.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> time = np.arange(50.0)
    >>> warps = time + np.array([[-2], [2]]) * np.sin(np.pi * time / 49)
    >>> plot_warps(warps, highlight=[0], sfreq=100).get_xlabel()
    "subject's time (s)"
    """
    warps = as_shape(warps, "warps", "S L", such_as=SUCH_AS)
    ax = style.make_axes(ax, size=(4.0, 4.0))
    time, unit = style.time_axis(warps.shape[1], sfreq)
    curves = warps if sfreq is None else warps / sfreq
    draw_crowd(ax, time, curves, highlight, subjects)
    ax.plot(time, time, "--", color=style.SHARED, linewidth=1, label="identity")
    ax.set_aspect("equal")
    style.label(ax, f"subject's time ({unit})", f"common time ({unit})")
    # The corner that the warps, all near the diagonal, reach into less.
    ahead, behind = (np.nanmax(lead, initial=0) for lead in (curves - time, time - curves))
    style.add_legend(ax, place="upper left" if ahead < behind else "lower right")
    return ax


def plot_speed(
    warps: np.ndarray,
    subject: int | str | None = None,
    *,
    subjects: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw psi', how fast each subject runs through the cycle, phase by phase.

    One is the pace of the population. The phases that one subject runs through faster or
    slower are coloured.

    Parameters
    ----------
    warps : array (S, L)
        See `plot_warps`.
    subject : int or str, optional
        Position or name of the subject whose phases are coloured; nobody by default.
    subjects : list of str, optional
        Names of all subjects.
    sfreq : float, optional
        Samples per second; without it the time axis counts samples.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> time = np.arange(50.0)
    >>> warps = time + np.array([[-2], [2]]) * np.sin(np.pi * time / 49)
    >>> plot_speed(warps, 0, sfreq=100).get_xlabel()
    "subject's time (s)"
    """
    from percdl.analysis.deviation import local_speed  # loads JAX

    warps = as_shape(warps, "warps", "S L", such_as=SUCH_AS)
    ax = style.make_axes(ax)
    time, unit = style.time_axis(warps.shape[1], sfreq)
    speeds = local_speed(warps)
    draw_crowd(ax, time, speeds, (), subjects)
    ax.axhline(1, color=style.SHARED, linestyle="--", linewidth=1, label="common pace")
    if subject is not None:
        at = find_subject(subject, subjects, len(speeds))
        name = names_of(subjects, len(speeds), "subject")[at]
        if np.isnan(speeds[at]).any():
            raise InvalidParameterError(
                f"{name!r} has no warp: it never uses this atom. Choose another subject."
            )
        _color_phases(ax, time, speeds[at], name)
    ax.margins(x=0.02)
    style.label(ax, f"subject's time ({unit})", "local speed ψ' (common pace = 1)")
    style.add_legend(ax, headroom=0.1, n_columns=3)
    return ax


def _color_phases(
    ax: Axes, time: Float[np.ndarray, " L"], speed: Float[np.ndarray, " L"], name: str
) -> None:
    """Fill between the speed and one; hatches tell fast from slow without colour."""
    phases = (("faster", FAST, "///", speed > 1), ("slower", SLOW, "\\\\\\", speed < 1))
    for phase, tint, hatch, where in phases:
        if where.any():
            ax.fill_between(
                time,
                1,
                speed,
                where=where,
                interpolate=True,
                facecolor=(tint, 0.5),
                edgecolor=tint,
                hatch=hatch,
                linewidth=0,
                zorder=1.5,
                label=phase,
            )
    ax.plot(time, speed, color=style.SHARED, linewidth=1.8, label=name)
