"""One person, one page, made to be printed: sentences, then pictures, numbers and methods."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from percdl.analysis.groups import average_persons
from percdl.estimators.base import BaseCDL
from percdl.estimators.summary import describe_cohort, describe_model
from percdl.exceptions import InvalidParameterError
from percdl.plotting import style
from percdl.report import as_data_uri, as_png, render
from percdl.report.people import People, find_recordings, gather_people, tabulate_people
from percdl.report.words import Phase, Words
from percdl.signals.files import replace_file
from percdl.signals.reconstruction import rebuild
from percdl.signals.recording import abbreviate

# Ends and middle of the range of the reference.
QUANTILES = (0.05, 0.5, 0.95)
# Part of the recording that is drawn, in lengths of the atom.
SHOWN = 8
# Of the pictures, in inches.
WIDTH = 7.2


def write_person(
    model: BaseCDL,
    path: str | os.PathLike[str],
    subject: str,
    cohort: Any = None,
    *,
    reference: str | None = None,
    metadata: pd.DataFrame | None = None,
    person: str | None = None,
) -> Path:
    """Write one page about one person, to read or to print.

    It contains no recordings or names of other people and no script, and needs no network.

    Parameters
    ----------
    model, path : PerCDL, PopCDL or IndCDL, path
        Fitted; and where to write, an existing file is replaced atomically.
    subject : str
        The subject of the page.
    cohort, reference, metadata, person
        The recordings, with those of the reference, and options, as in
        `percdl.report.cohort.write_report`.

    Returns
    -------
    Path
    """
    check_is_fitted(model)
    recordings = find_recordings(model, cohort)
    if subject not in recordings.subjects:
        raise InvalidParameterError(
            f"There is no recording of {subject!r}, only of {abbreviate(recordings.subjects)}."
        )
    people = gather_people(model, recordings, reference, metadata, person)
    words, s = Words(people), recordings.subjects.index(subject)
    page = render(
        "person.html.j2",
        subject=subject,
        group=recordings.groups[s],
        norm=people.norm,
        sentences=words.describe(s),
        intervals=[text for text, unusual in words.intervals(s) if not unusual],  # others are said
        doubts=people.suspects.loc[people.suspects["subject"] == subject, "message"],
        numbers=tabulate_person(people, words, s),
        pictures=[(as_data_uri(image), alt) for image, alt in draw_person(people, words, s)],
        method=describe_model(model),
        recording=describe_cohort(recordings[s : s + 1]),
        n_fitted=len(model.subjects_),
    )
    replace_file(Path(path), page.encode("utf-8"))
    return Path(path)


def tabulate_person(people: People, words: Words, s: int) -> list[tuple[str, str, str, str]]:
    """Return each number of a person: its name, value, range in the reference, and meaning."""
    rows = []
    for column in tabulate_people(people):
        value = column["values"][s]
        if value is None or column["name"] == "subject":
            continue
        if column["kind"] == "text":
            rows.append((column["label"], str(value), "", column["title"]))
            continue
        style, values = f".{column['digits']}f", np.array(column["values"], float)
        others = words.others(s)
        known = others[np.isfinite(values[others])]
        usual = ""
        if len(known):
            by_person = average_persons(values[known], words.who[known])[0]
            low, middle, high = np.quantile(by_person, QUANTILES)
            usual = f"{middle:{style}} ({low:{style}} to {high:{style}})"
        rows.append((column["label"], format(value, style), usual, column["title"]))
    return rows


def draw_person(people: People, words: Words, s: int) -> list[tuple[bytes, str]]:
    """Return pictures with captions: the recording, the cycle, and the speed.

    They show the atom and the channel of the first phase that the sentences name.
    """
    if not (people.found.n_activations[s] > 0).any():
        return [_draw_recording(people, s, 0)]
    phases = words.phases(s)
    atom, channel = int(np.argmax(people.found.n_activations[s])), 0
    if phases:
        atom, channel = phases[0].atom, phases[0].row
    shown = [phase for phase in phases if (phase.atom, phase.row) == (atom, channel)]
    label, norm = _signal_label(people, channel), f"the middle 90 % of {people.norm}"
    curves = people.sizes[atom] * people.found.personal_dictionary[:, atom, :, channel]
    which = "Cycle" if len(people.atom_names) == 1 else f"Cycle of {people.atom_names[atom]}"
    drawn = [_draw_recording(people, s, channel)]
    named = [phase for phase in shown if phase.kind == "height"]
    drawn.append((_draw_curve(words, s, atom, curves, label, named), f"{which}, against {norm}."))
    if n_warps := people.found.warps.shape[2]:
        speeds = np.exp(people.log_speeds[:, atom, channel % n_warps])
        named = [phase for phase in shown if phase.kind == "pace"]
        picture = _draw_curve(words, s, atom, speeds, "local speed", named, one=True)
        about = "Speed along the cycle (1 is the population's; shown from 0.23 to 4.3)"
        drawn.append((picture, f"{about}, against {norm}."))
    return drawn


def _draw_curve(
    words: Words, s: int, atom: int, curves: np.ndarray, label: str, named: list[Phase],
    one: bool = False,
) -> bytes:  # fmt: skip
    """Draw a person's curve over the range of the others; one = the level of the population."""
    people, ax = words.people, style.make_axes(None, (WIDTH, 3.3))
    time = np.arange(curves.shape[1]) / people.clocks[atom]
    others = curves[words.others(s)]
    others = others[np.isfinite(others).all(1)]
    if len(others):
        low, middle, high = np.quantile(others, QUANTILES, axis=0)
        ax.fill_between(time, low, high, color=style.FAINT, label=f"90 % of {people.norm}")
        ax.plot(time, middle, "--", color=style.SHARED, lw=1, label=f"median of {people.norm}")
    ax.plot(time, curves[s], color=style.COLORS[1], lw=2, label="this person")
    for i, phase in enumerate(named):
        ends = time[phase.start], time[phase.stop]
        ax.axvspan(*ends, color=style.NAMED, alpha=0.3, lw=0, label="" if i else "named above")
    if one:
        ax.set_yscale("log")
        ax.set_ylim(0.23, 4.3)
        ax.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"], minor=False)
        ax.minorticks_off()
    return _finish(ax, "time in the cycle of the population (s)" if one else "time (s)", label)


def _draw_recording(people: People, s: int, channel: int) -> tuple[bytes, str]:
    """Draw the part of the recording that holds most cycles; return the picture and a caption."""
    found, record = people.found, people.cohort[s]
    own: Any = found.events.iloc[found.rows_of[s]]
    made = rebuild([record], own, found.personal_dictionary[s : s + 1], found.n_terms)[0]
    width = min(record.n_times, SHOWN * people.model.atom_length_)
    onsets = own["onset_sample"].to_numpy(int)
    held = [int(np.sum((onsets >= at) & (onsets < at + width))) for at in onsets]
    first = int(min(onsets[np.argmax(held)], record.n_times - width)) if held else 0
    part = slice(first, first + width)
    time = np.arange(first, first + width) / record.sfreq
    ax = style.make_axes(None, (WIDTH, 2.2))
    ax.plot(time, record.values[part, channel], color=style.OBSERVED, lw=2.5, label="recording")
    ax.plot(time, made[part, channel], color=style.COLORS[0], lw=1, label="reconstruction")
    shown = f"{width / record.sfreq:.3g} of {record.duration:.3g} s of the recording"
    whole = "The recording" if width == record.n_times else shown
    picture = _finish(ax, "time (s)", _signal_label(people, channel))
    return picture, f"{whole}, and its reconstruction by the model."


def _signal_label(people: People, channel: int) -> str:
    unit = people.cohort.units[channel]
    return people.cohort.channels[channel] + (f" ({unit})" if unit else "")


def _finish(ax: Any, x: str, y: str) -> bytes:
    """Label the axes, put the legend above them, and return the picture."""
    style.label(ax, x, y)
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3}
    ax.legend(frameon=False, fontsize=8, **place)
    return as_png(ax.figure, 160)
