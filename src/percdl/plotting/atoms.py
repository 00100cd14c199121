"""Atoms: what the population shares, and what each person makes of it."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from percdl.plotting import style
from percdl.plotting.checks import Labels, as_shape, check_position, names_of, same_shape
from percdl.plotting.crowd import draw_crowd


def plot_atoms(
    dictionary: np.ndarray,
    truth: np.ndarray | None = None,
    *,
    units: str | None = None,
    sfreq: float | None = None,
    channels: Labels | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the atoms of a dictionary over time.

    A colour per atom and a line style per channel; with a single atom, a colour per channel too.

    Parameters
    ----------
    dictionary : array (K, L, P)
        Such as ``model.dictionary_``.
    truth : array (K, L, P), optional
        The true atoms in the same order, drawn dashed in black at the norm of the atom
        they belong to.
    units : str, optional
        Unit of the amplitude, e.g. ``"mV"``, or the whole label of the axis with its unit in
        brackets, e.g. ``"angular velocity (deg/s)"``.
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
    >>> dictionary = np.sin(np.linspace(0, 6, 50)).reshape(1, 50, 1)
    >>> plot_atoms(dictionary, sfreq=100).get_xlabel()
    'time (s)'
    """
    dictionary = as_shape(dictionary, "dictionary", "K L P", such_as="model.dictionary_")
    ax = style.make_axes(ax)
    n_atoms, n_times, n_channels = dictionary.shape
    time, unit = style.time_axis(n_times, sfreq)
    channel_names = names_of(channels, n_channels, "channel")
    for k, p in np.ndindex(n_atoms, n_channels):
        parts = [f"atom {k}"] * (n_atoms > 1) + [channel_names[p]] * (n_channels > 1)
        line = style.look(p).line
        tint = style.color(p if n_atoms == 1 else k)
        name = ", ".join(parts) or "common atom"
        ax.plot(time, dictionary[k, :, p], line, color=tint, linewidth=2, label=name)
    if truth is not None:
        truth = same_shape(truth, dictionary, "truth", "dictionary")
        scaled = truth * (_norms(dictionary) / _norms(truth))
        curves = np.moveaxis(scaled, 1, 0).reshape(n_times, -1)
        lines = ax.plot(time, curves, "--", color=style.SHARED, linewidth=1)
        lines[0].set_label("truth")
    style.label(ax, f"time ({unit})", style.with_units("amplitude", units))
    style.add_legend(ax, headroom=0.1, n_columns=3)
    return ax


def plot_personal_atoms(
    personal_dictionary: np.ndarray,
    dictionary: np.ndarray | None = None,
    *,
    atom: int = 0,
    channel: int = 0,
    highlight: Labels = (),
    subjects: Labels | None = None,
    units: str | None = None,
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
    highlight : list of int or str, optional
        Positions or names of the subjects to draw in colour, with their names.
    subjects : list of str, optional
        Names of all subjects.
    units, sfreq, ax : optional
        See `plot_atoms`.

    Returns
    -------
    Axes
        Where it was drawn.

    Examples
    --------
    >>> personal = np.sin(np.linspace(0, 6, 50) + np.arange(5)[:, None]).reshape(5, 1, 50, 1)
    >>> ax = plot_personal_atoms(personal, personal.mean(0), highlight=[2], sfreq=100)
    >>> ax.get_xlabel()
    'time (s)'
    """
    personal = as_shape(
        personal_dictionary,
        "personal_dictionary",
        "S K L P",
        such_as="model.personal_dictionary_",
    )
    check_position(atom, personal.shape[1], "atom")
    check_position(channel, personal.shape[3], "channel")
    ax = style.make_axes(ax)
    curves = personal[:, atom, :, channel]
    time, unit = style.time_axis(curves.shape[1], sfreq)
    draw_crowd(ax, time, curves, highlight, subjects)
    if dictionary is not None:
        dictionary = same_shape(dictionary, personal[0], "dictionary", "personal_dictionary[0]")
        common = dictionary[atom, :, channel]
        ax.plot(time, common, color=style.SHARED, linewidth=2.5, label="common atom")
    style.label(ax, f"time ({unit})", style.with_units("amplitude", units))
    style.add_legend(ax, headroom=0.1, n_columns=3)
    return ax


def _norms(dictionary: np.ndarray) -> np.ndarray:
    return np.sqrt((dictionary**2).sum((1, 2), keepdims=True))
