"""Plots of a model: choices before a fit, atoms, bands, personal atoms, warps, history."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from percdl.analysis import AtomLength, Selection
from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.plotting.style import Labels, as_shape, check_position, names_of, same_shape

# Atoms use the first colours; subjects, which may be drawn beside them, start at this one.
FIRST_COLOR = 2
WARPS = "model.warps_[:, 0, 0]"


@style.plot
def plot_atom_length(suggestion: AtomLength, ax: Axes | None = None) -> Axes:
    """Draw the periods of the subjects, and the atom length suggested from them.

    Parameters
    ----------
    suggestion : AtomLength
        Such as ``suggest_atom_length(cohort)``.

    Examples
    --------
    >>> from percdl.analysis import suggest_atom_length
    >>> beats = np.tile(np.hanning(40), (3, 20)) + 0.01 * np.random.default_rng(0).random((3, 800))
    >>> plot_atom_length(suggest_atom_length(beats)).get_xlabel()
    'period (s)'
    """
    ax = style.make_axes(ax)
    periods = suggestion.periods[np.isfinite(suggestion.periods)] / suggestion.sfreq
    ax.hist(periods, bins="auto", color=style.FAINT, edgecolor="white", label="period")
    median, length = suggestion.period / suggestion.sfreq, suggestion.seconds
    ax.axvline(median, color=style.OBSERVED, ls="--", label=f"median period, {median:.3g} s")
    name = f"atom length, {length:.3g} s ({suggestion.length} samples)"
    ax.axvline(length, color=style.color(1), linewidth=2, label=name)
    return style.finish(ax, "period (s)", "subjects")


@style.plot
def plot_selection(selection: Selection, ax: Axes | None = None) -> Axes:
    """Draw the held-out scores of models, and the chosen one.

    The parameter with most values runs along the axis; combinations of the others are lines.
    Bars are standard errors; the dotted line lies one standard error below the best score.

    Parameters
    ----------
    selection : Selection
        Such as ``select(cohort, {"n_atoms": [1, 2, 3]})``.

    Examples
    --------
    >>> from percdl import PerCDL
    >>> from percdl.analysis import Selection
    >>> table = pd.DataFrame({"n_atoms": [1, 2], "score": [0.7, 0.9]})
    >>> table = table.assign(error=0.02, chosen=[False, True])
    >>> plot_selection(Selection(table, {"n_atoms": 2}, PerCDL())).get_xlabel()
    'n_atoms'
    """
    ax, table = style.make_axes(ax), selection.table
    along = max(selection.chosen, key=lambda name: table[name].map(str).nunique())
    others = [name for name in selection.chosen if name != along]
    order = list(dict.fromkeys(table[along]))
    if pd.api.types.is_numeric_dtype(table[along]):
        order.sort()
    labels = table[others].astype(str).agg(", ".join, axis=1) if others else [""] * len(table)
    for index, (label, rows) in enumerate(table.groupby(labels, sort=False)):
        x = np.array([order.index(value) for value in rows[along]])
        rows, x = rows.iloc[np.argsort(x)], np.sort(x)
        name = f"{', '.join(others)}: {label}" if others else None
        ax.errorbar(
            x, rows["score"], rows["error"], label=name, color=style.color(index), marker="o",
            markersize=4, capsize=3,
        )  # fmt: skip
    best, chosen = table.loc[table["score"].idxmax()], table[table["chosen"]].iloc[0]
    ax.axhline(
        best["score"] - best["error"], color=style.OBSERVED, linestyle=":", label="best - 1 s.e."
    )
    ax.plot(
        order.index(chosen[along]), chosen["score"], "o", color=style.SHARED, label="chosen",
        markersize=12, fillstyle="none",
    )  # fmt: skip
    ax.set_xticks(range(len(order)), [f"{v:g}" if np.isreal(v) else str(v) for v in order])
    return style.finish(ax, along, "held-out score (share explained)")


@style.plot
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

    One colour per atom and one line style per channel; for a single atom, one colour per channel.

    Parameters
    ----------
    dictionary : array (K, L, P)
        Such as ``model.dictionary_``.
    truth : array (K, L, P), optional
        The true atoms in the same order, drawn dashed in black at the norm of the atoms.

    Examples
    --------
    >>> dictionary = np.sin(np.linspace(0, 6, 50)).reshape(1, 50, 1)
    >>> plot_atoms(dictionary, sfreq=100).get_xlabel()
    'time (s)'
    """
    dictionary = as_shape(dictionary, "dictionary", "K, L, P", such_as="model.dictionary_")
    n_atoms, n_times, n_channels = dictionary.shape
    ax, time, label = style.time_axes(ax, n_times, sfreq)
    channel_names = names_of(channels, n_channels, "channel")
    for k, p in np.ndindex(n_atoms, n_channels):
        parts = [f"atom {k}"] * (n_atoms > 1) + [channel_names[p]] * (n_channels > 1)
        tint = style.color(p if n_atoms == 1 else k)
        name = ", ".join(parts) or "atom"
        ax.plot(time, dictionary[k, :, p], style.look(p)[1], color=tint, lw=1.5, label=name)
    if truth is not None:
        truth = same_shape(truth, dictionary, "truth", "dictionary")
        norms = [np.sqrt((x**2).sum((1, 2), keepdims=True)) for x in (dictionary, truth)]
        curves = np.moveaxis(truth * (norms[0] / norms[1]), 1, 0).reshape(n_times, -1)
        ax.plot(time, curves, "--", color=style.SHARED, linewidth=1)[0].set_label("truth")
    return style.finish(ax, label, "amplitude", 3, units)


@style.plot
def plot_atom_band(
    atom: np.ndarray,
    band: Sequence[np.ndarray],
    truth: np.ndarray | None = None,
    *,
    whole: Sequence[np.ndarray] | None = None,
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
    truth, level : array (L, P), optional, float
        The true atom, and the level of the bands, for the legend.
    whole : pair of arrays (L, P), optional
        A simultaneous band, for the whole curve; drawn lighter behind the other.

    Examples
    --------
    >>> atom = np.sin(np.linspace(0, 6, 50))[:, None]
    >>> plot_atom_band(atom, (atom - 0.1, atom + 0.1), sfreq=100).get_xlabel()
    'time (s)'
    """
    atom = as_shape(atom, "atom", "L, P", such_as="model.dictionary_[0]")
    ax, time, _ = style.time_axes(ax, len(atom), sfreq)
    bands = [("band", f"{level:.0%} band", band, 0.25)]
    if whole is not None:
        bands.insert(0, ("whole", f"{level:.0%}, whole curve", whole, 0.15))
    for name, text, ends, alpha in bands:
        low, high = (same_shape(end, atom, name, "atom") for end in ends)
        for p in range(atom.shape[1]):
            drawn = {"alpha": alpha, "label": None if p else text}
            style.fill_band(ax, time, low[:, p], high[:, p], style.color(p), **drawn)
    true = None if truth is None else np.asarray(truth)[None]
    return plot_atoms(atom[None], true, units=units, sfreq=sfreq, channels=channels, ax=ax)


@style.plot
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
    """Draw the personal versions of one atom, and the common atom over them.

    Parameters
    ----------
    personal_dictionary : array (S, K, L, P)
        Such as ``model.personal_dictionary_``; subjects without the atom (NaN) are left out.
    dictionary, atom : array (K, L, P), optional, int
        The common atoms, and which atom to draw.

    Examples
    --------
    >>> personal = np.sin(np.linspace(0, 6, 50) + np.arange(5)[:, None]).reshape(5, 1, 50, 1)
    >>> plot_personal_atoms(personal, personal.mean(0), highlight=[2], sfreq=100).get_xlabel()
    'time (s)'
    """
    name = "personal_dictionary"
    personal = as_shape(personal_dictionary, name, "S, K, L, P", such_as=f"model.{name}_")
    check_position(atom, personal.shape[1], "atom")
    check_position(channel, personal.shape[3], "channel")
    curves = personal[:, atom, :, channel]
    ax, time, label = style.time_axes(ax, curves.shape[1], sfreq)
    _draw_crowd(ax, time, curves, highlight, subjects)
    if dictionary is not None:
        dictionary = same_shape(dictionary, personal[0], "dictionary", f"{name}[0]")
        common = dictionary[atom, :, channel]
        ax.plot(time, common, color=style.SHARED, linewidth=2.5, label="common atom")
    return style.finish(ax, label, "amplitude", 3, units)


@style.plot
def plot_warps(
    warps: np.ndarray,
    *,
    highlight: Labels = (),
    subjects: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw psi, the time of the common atom against the time of the subject.

    Above the identity the subject is ahead of the population, below it is behind.

    Parameters
    ----------
    warps : array (S, L)
        psi of each subject at samples 0 to L-1, in samples, such as ``model.warps_[:, 0, 0]``;
        subjects without the atom (NaN) are left out.

    Examples
    --------
    >>> warps = np.array([[0.0, 1.2, 2.0], [0.0, 0.8, 2.0]])
    >>> plot_warps(warps, highlight=[0], sfreq=100).get_xlabel()
    "subject's time (s)"
    """
    warps = as_shape(warps, "warps", "S, L", such_as=WARPS)
    ax, time, label = style.time_axes(ax, warps.shape[1], sfreq, size=(4.0, 4.0))
    curves = warps if sfreq is None else warps / sfreq
    _draw_crowd(ax, time, curves, highlight, subjects)
    ax.plot(time, time, "--", color=style.SHARED, linewidth=1, label="identity")
    ax.set_aspect("equal")
    style.label(ax, f"subject's {label}", f"common {label}")
    # The corner with more room: warps lie near the diagonal.
    ahead, behind = (np.nanmax(lead, initial=0) for lead in (curves - time, time - curves))
    style.add_legend(ax, place="upper left" if ahead < behind else "lower right")
    return ax


@style.plot
def plot_speed(
    warps: np.ndarray,
    subject: int | str | None = None,
    *,
    subjects: Labels | None = None,
    sfreq: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw psi', the local speed of each subject along the cycle.

    One is the pace of the population. The slow and fast phases of one subject are coloured.

    Parameters
    ----------
    warps : array (S, L)
        See `plot_warps`.
    subject : int or str, optional
        Position or name of the subject with coloured phases.

    Examples
    --------
    >>> warps = np.array([[0.0, 1.2, 2.0], [0.0, 0.8, 2.0]])
    >>> plot_speed(warps, 0, sfreq=100).get_xlabel()
    "subject's time (s)"
    """
    warps = as_shape(warps, "warps", "S, L", such_as=WARPS)
    ax, time, label = style.time_axes(ax, warps.shape[1], sfreq)
    speeds = np.gradient(warps, axis=-1)
    _draw_crowd(ax, time, speeds, (), subjects)
    ax.axhline(1, color=style.SHARED, linestyle="--", linewidth=1, label="common pace")
    if subject is not None:
        at = style.find_subject(subject, subjects, len(speeds))
        name = names_of(subjects, len(speeds), "subject")[at]
        if np.isnan(speeds[at]).any():
            raise InvalidParameterError(
                f"{name!r} has no warp: it never uses this atom. Choose another subject."
            )
        phases = {"faster": (1, "///", speeds[at] > 1), "slower": (0, "\\\\\\", speeds[at] < 1)}
        for phase, (index, hatch, where) in phases.items():  # hatches: colour is not the only cue
            if where.any():
                tint = style.color(index)
                ax.fill_between(
                    time, 1, speeds[at], where=where, interpolate=True, facecolor=(tint, 0.5),
                    edgecolor=tint, hatch=hatch, linewidth=0, zorder=1.5, label=phase,
                )  # fmt: skip
        ax.plot(time, speeds[at], color=style.SHARED, linewidth=1.8, label=name)
    ax.margins(x=0.02)
    return style.finish(ax, f"subject's {label}", "local speed ψ' (common pace = 1)", 3)


@style.plot
def plot_history(
    history: pd.DataFrame,
    *,
    against: Literal["half-step", "seconds"] = "half-step",
    ax: Axes | None = None,
) -> Axes:
    """Draw the objective after each half-step, on a logarithmic scale.

    Parameters
    ----------
    history : DataFrame
        Such as ``model.history_``: columns phase, objective, seconds.
    against : {"half-step", "seconds"}
        The horizontal axis: number of the half-step, or time since the start.

    Examples
    --------
    >>> history = pd.DataFrame({"phase": "population", "objective": [2.0, 1.0]})
    >>> plot_history(history).get_ylabel()
    'objective'
    """
    ax = style.make_axes(ax)
    x = history["seconds"].to_numpy() if against == "seconds" else np.arange(len(history))
    objective = history["objective"].to_numpy()
    ax.plot(x, objective, color=style.FAINT, linewidth=1, zorder=1)
    for index, phase in enumerate(history["phase"].unique()):
        at = (history["phase"] == phase).to_numpy()
        tint, _, marker = style.look(index)
        ax.plot(x[at], objective[at], color=tint, marker=marker, markersize=4, label=phase)
    ax.set_yscale("log")
    return style.finish(ax, "time (s)" if against == "seconds" else "half-step", "objective")


@style.plot
def plot_kinds_path(path: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw how ``n_atoms="auto"`` found the number of atoms: the objective after each fit.

    Parameters
    ----------
    path : DataFrame
        Such as ``model.kinds_path_``: columns step, n_atoms, objective.

    Examples
    --------
    >>> path = pd.DataFrame({"step": ["start"], "n_atoms": [1], "objective": [2.0]})
    >>> plot_kinds_path(path).get_ylabel()
    'objective'
    """
    ax = style.make_axes(ax)
    objective, rows = path["objective"].to_numpy(), np.arange(len(path))
    back = path["step"].str.endswith("taken back").to_numpy(bool)
    ax.plot(rows[~back], objective[~back], color=style.SHARED, marker="o", label="kept")
    if back.any():
        ax.plot(rows[back], objective[back], "x", color=style.color(1), label="taken back")
    names = [
        f"{re.sub(r' [(].*?[)]|: taken back', '', step)}\n{n} atom{'s' * (n > 1)}"
        for step, n in zip(path["step"], path["n_atoms"], strict=True)
    ]
    ax.set_xticks(rows, names)
    ax.set_xlim(-0.5, len(path) - 0.5)
    ax.set_ylim(0, 1.1 * objective.max())
    return style.finish(ax, "step", "objective")


def _draw_crowd(
    ax: Axes,
    time: Float[np.ndarray, " L"],
    curves: Float[np.ndarray, "S L"],
    highlight: Labels,
    subjects: Labels | None,
) -> None:
    """Draw one curve per subject in grey, and the highlighted ones in colour; NaN are left out."""
    chosen = [style.find_subject(one, subjects, len(curves)) for one in highlight]
    labels = names_of(subjects, len(curves), "subject")
    known = np.asarray(~np.isnan(curves).any(1))
    crowd = curves[known & ~np.isin(np.arange(len(curves)), chosen)]
    if len(crowd):
        width = np.clip(6.4 / np.sqrt(len(curves)), 0.2, 0.8)  # thinner for a larger crowd
        lines = np.stack([np.broadcast_to(time, crowd.shape), crowd], axis=-1)
        ax.add_collection(
            LineCollection(
                list(lines), label=f"all {known.sum()} subjects", colors=style.FAINT,
                linewidths=width, zorder=1,
            )
        )  # fmt: skip
    for index, s in enumerate(chosen):
        if known[s]:
            tint, line = style.color(FIRST_COLOR + index), style.look(index)[1]
            ax.plot(time, curves[s], line, color=tint, linewidth=1.8, label=labels[s])
    ax.autoscale_view()
