"""Write a fitted model and its recordings as one interactive HTML page."""

import base64
import hashlib
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from percdl.analysis import Deviation
from percdl.estimators.base import BaseCDL
from percdl.estimators.summary import (
    ERROR,
    RATE,
    Fact,
    count,
    describe_choices,
    describe_cohort,
    describe_model,
    say_duration,
    say_lengths,
)
from percdl.estimators.suspects import KINDS, describe_suspects
from percdl.report import as_script, read_asset, render
from percdl.report.packing import draw_recordings, pack
from percdl.report.people import (
    MOST_COLUMNS,
    Groups,
    People,
    describe_groups,
    find_recordings,
    gather_people,
    place_people,
    tabulate_groups,
    tabulate_people,
    write_median,
)
from percdl.report.words import Words
from percdl.signals.extras import require
from percdl.signals.files import replace_file
from percdl.signals.recording import abbreviate

SCRIPTS = (
    "packed", "data", "charts", "help", "overview", "table", "signal", "subject", "groups", "main",
)  # fmt: skip
# Names listed in a warning.
N_NAMED = 6
# Speeds are limited to this ratio: the picture ends at 4.3.
FASTEST = 20.0
# Warps and z-scores need fewer levels than atoms.
N_WARP_LEVELS, N_SCORE_LEVELS = 1023, 255
# z-scores are limited to this: the picture ends at 10.
FARTHEST = 15.0
# Quantiles of the band of personal atoms.
CROWD = (0.025, 0.975)
# The common atom is drawn lighter where the warps of fewer people pass. Set by hand.
WELL_VISITED = 0.8


def write_report(
    model: BaseCDL,
    path: str | os.PathLike[str],
    cohort: Any = None,
    *,
    reference: str | None = None,
    metadata: pd.DataFrame | None = None,
    person: str | None = None,
    title: str | None = None,
) -> Path:
    """Write one HTML file that shows a fitted model, its people and their groups.

    It opens offline in any browser from 2023 on; see docs/report.md for its contents.

    Parameters
    ----------
    model, path : PerCDL, PopCDL or IndCDL, path
        Fitted; and where to write, an existing file is replaced atomically.
    cohort : Cohort or arrays, optional
        The recordings: those of the fit (the default, if the model was fitted in this process),
        or of other people, who are then personalized.
    reference : str, optional
        The group that others are compared with; by default the one called healthy, control,
        normal or similar, otherwise everyone.
    metadata : DataFrame, optional
        More columns for the table of people; one row per subject, named by the index or by a
        column ``subject``.
    person : str, optional
        Column of the metadata with the person of each recording, if people have several: they are
        compared as one, and left out of the reference together.
    title : str, optional
        Heading of the page.

    Returns
    -------
    Path
    """
    check_is_fitted(model)
    plotly = require("plotly.offline", "A report", "plot")
    people = gather_people(model, find_recordings(model, cohort), reference, metadata, person)
    groups, words = Groups(people), Words(people)
    content = collect(people, groups)
    drawn = draw_recordings([record.values for record in people.cohort])
    content["run"] = drawn.run
    content["people"] = [
        describe_person(words, s) | {"piece": {"start": 0, "run": drawn.run, "seen": seen}}
        for s, seen in enumerate(drawn.recordings)
    ]
    title = title or f"{type(model).__name__} report"
    scripts = [plotly.get_plotlyjs(), join_scripts()]
    hashes = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    page = render(
        "cohort.html.j2",
        **fill_page(people, groups, words, content, title),
        scripts=[Markup(script) for script in scripts],
        sources=Markup(" ".join(f"'sha256-{base64.b64encode(x).decode()}'" for x in hashes)),
    )
    replace_file(Path(path), page.encode("utf-8"))
    return Path(path)


def join_scripts(*more: str) -> str:
    """Return the scripts of the page as one; those given come before the last, which starts."""
    *first, last = (read_asset("report", f"{name}.js") for name in SCRIPTS)
    return as_script(*first, *more, last)


def fill_page(
    people: People, groups: Groups, words: Words, content: dict[str, Any], title: str
) -> dict[str, Any]:
    """Return the values of the template of the page, all but its scripts."""
    columns, rows = tabulate_groups(groups)
    errors = people.uncertainty
    untested = groups.clusters if isinstance(groups.clusters, str) else ""
    return {
        "title": title,
        "people": people,
        "groups": groups,
        "content": content,
        "has_deviation": isinstance(people.deviation, Deviation),
        "tiles": _tiles(people),
        "warnings": _warnings(people),
        "suspects": list(describe_suspects(people.suspects, code=False).values()),
        "no_band": f"There is no confidence band: {errors}" if isinstance(errors, str) else "",
        "untested": untested,
        "clusters": [] if untested else groups.clusters,
        "group_columns": columns,
        "column_titles": {column["label"]: column["title"] for column in content["columns"]},
        "group_rows": rows,
        "introduction": words.introduce(),
        "facts": [
            *describe_cohort(people.cohort),
            Fact("Reference", people.reference or "everyone"),
        ],
        "sentence": describe_model(people.model),
        "chosen": describe_choices(people.model),
        "settings": _describe_settings(people.model),
        "style": Markup(read_asset("report", "report.css")),
        "data": as_script_data(content),
    }


def as_script_data(content: Any) -> Markup:
    """Return JSON for a script element, which no name in it can close."""
    return htmlsafe_json_dumps(content, allow_nan=False, separators=(",", ":"))


def _tiles(people: People) -> list[tuple[Fact, str]]:
    """Return the first numbers of the page, each with its unit."""
    found, cohort = people.found, people.cohort
    recorded, unit = say_duration(float(cohort.lengths.sum() / cohort.sfreq))
    read = "Files or arrays that were read; a person can have several."
    cycles = "How often an atom, the shape of one cycle, was found in all recordings."
    length = "How long the learned pattern lasts; cycles may be longer."
    whole = "Duration of all recordings together."
    n_groups = f"in {len(people.groups)} groups" if people.groups else ""
    n_atoms = len(found.dictionary)
    tiles = [
        (Fact("Recordings", str(len(cohort)), read), n_groups),
        (Fact("Cycles found", f"{len(found.events):,}", cycles), f"of {count(n_atoms, 'atom')}"),
        (Fact("Length of the atom", say_lengths(people.model), length), "s"),
        (Fact("Recorded", recorded, whole), unit),
        (Fact("Error", write_median(people.errors, ".3f"), ERROR), "median"),
    ]
    if n_atoms == 1:
        cadence = write_median(people.regularity["cadence"], ".3g")
        tiles.insert(2, (Fact("Cadence", cadence, RATE), "per minute, median"))
    return tiles


def _describe_settings(model: Any) -> list[tuple[str, str]]:
    """Return the settings of the model, with the chosen values for "auto"."""
    chosen = {name: getattr(model, f"{name}_") for name in ("n_atoms", "atom_length", "penalty")}
    values = {"model": type(model).__name__, **model.get_params(deep=False)}
    for name, value in chosen.items():
        if values[name] != value:
            values[name] = f"{values[name]}: {value:g}"
    if not isinstance(values["init"], str):
        values["init"] = "given"
    return [(name, str(value)) for name, value in values.items()]


def _warnings(people: People) -> list[str]:
    """Return the warnings at the top of the page."""
    found = []
    subjects = np.array(people.cohort.subjects)
    doubts = {
        "No cycle was found in": ~(people.found.n_activations > 0).any(1),
        "The model explains nothing of": people.errors > 1,
    }
    for doubt, where in doubts.items():
        if where.any():
            names = abbreviate(subjects[where], N_NAMED)
            found.append(f"{doubt} {where.sum()} recording(s): {names}.")
    trained = people.model.processing_
    if trained is not None and tuple(trained) != tuple(people.cohort.processing):
        found.append(
            "These recordings were processed differently from those of the fit: "
            f"{'; '.join(people.cohort.processing) or 'not at all'}, instead of "
            f"{'; '.join(trained) or 'not at all'}."
        )
    if not isinstance(people.deviation, Deviation):
        found.append(f"There is no deviation index. {people.deviation}")
    if people.metadata is not None and people.metadata.shape[1] > MOST_COLUMNS:
        found.append(
            f"The table shows the first {MOST_COLUMNS} of {people.metadata.shape[1]} columns of "
            "the metadata."
        )
    return found


def collect(people: People, groups: Groups) -> dict[str, Any]:
    """Return the content of the page without people's curves."""
    found, cohort, history = people.found, people.cohort, people.model.history_
    errors, band = people.uncertainty, None
    if not isinstance(errors, str):
        band = [pack(_by_channel(end)) for end in errors.atom_band()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an atom without activations
        crowd = np.nanquantile(found.personal_dictionary, CROWD, axis=0)
    return {
        "sfreq": cohort.sfreq,
        "clocks": people.clocks.tolist(),
        "length": int(found.dictionary.shape[1]),
        "own_lengths": "duration_samples" in found.events,
        "n_atoms": len(found.dictionary),
        "atoms": people.atom_names,
        "n_subjects": len(cohort),
        "n_warps": int(found.warps.shape[2]),
        "channels": list(cohort.channels),
        "units": list(cohort.units),
        "sizes": people.sizes.tolist(),
        "common": pack(_by_channel(found.dictionary)),
        "crowd": [pack(_by_channel(end)) for end in crowd],
        "band": band,
        "visits": _visits(people),
        "well_visited": WELL_VISITED,
        "columns": tabulate_people(people),
        "suspects": _mark_suspects(people),
        "groups": {
            "names": people.groups,
            "reference": people.norm,
            "of": [people.groups.index(g) if g is not None else -1 for g in cohort.groups],
        },
        "marks": describe_marks(people),
        "lengths": cohort.lengths.tolist(),
        "comparison": describe_groups(groups),
        "plane": place_people(people),
        "history": {
            "phase": history["phase"].tolist(),
            "objective": [float(x) for x in history["objective"]],
        },
    }


def describe_person(words: Words, s: int) -> dict[str, Any]:
    """Return the words, curves and events about one person, as the page stores them."""
    people = words.people
    found, deviation = people.found, people.deviation
    # The logarithm of a speed is packed, because its ratio to others then has the same error.
    speeds = np.clip(people.log_speeds[s], -np.log(FASTEST), np.log(FASTEST))
    departure = None
    if isinstance(deviation, Deviation):
        parts = [deviation.timing_profile[s], _by_channel(deviation.profile[s])]
        # A single huge z-score would leave few levels to all others.
        scores = np.clip(np.concatenate(parts, axis=1), -FARTHEST, FARTHEST)
        departure = pack(scores, N_SCORE_LEVELS)
    return {
        "words": words.describe(s),
        "personal": pack(_by_channel(found.personal_dictionary[s])),
        "phases": [phase._asdict() for phase in words.phases(s)],
        "times": pack(people.found.own_times[s], N_WARP_LEVELS),
        "speeds": pack(speeds),
        "departure": departure,
        "events": _events(people, s),
    }


def _visits(people: People) -> list[list[float]] | None:
    """Return the share of people whose warps pass each sample of each atom, by atom.

    The common atom is the mean of the people who pass; where few do, it can have kinks. None if
    nothing warps time.
    """
    warps = people.found.warps
    if not warps.shape[2]:
        return None
    n_atoms, length = warps.shape[1], warps.shape[3]
    shares = np.ones((n_atoms, length))
    for k in range(n_atoms):
        known = warps[np.isfinite(warps[:, k]).all((1, 2)), k].reshape(-1, length)
        passed = np.zeros((len(known), length))
        for side in (np.floor, np.ceil):
            np.put_along_axis(passed, side(known).astype(int), 1, axis=1)
        shares[k] = passed.mean(0) if len(known) else 1
    return [[float(f"{x:.3g}") for x in own] for own in shares]


def _by_channel(atoms: Float[np.ndarray, "*batch L P"]) -> np.ndarray:
    """Return atoms with time along the last axis."""
    return np.moveaxis(atoms, -1, -2)


def _events(people: People, s: int) -> dict[str, Any]:
    """Return the events of a person, one list per column."""
    rows, events, cycles = people.found.rows_of[s], people.found.events, people.cycles

    def read(table: pd.DataFrame, column: str) -> list[Any]:
        return table[column].to_numpy()[rows].tolist()

    return {
        "atom": read(events, "atom"),
        "onset": read(events, "onset_sample"),
        "amplitude": read(events, "amplitude"),
        "length": read(events, "duration_samples") if "duration_samples" in events else None,
        "quality": [None if np.isnan(p) else float(f"{p:.3g}") for p in read(cycles, "quality")],
        "flagged": read(cycles, "flagged"),
    }


def describe_marks(people: People) -> list[dict[str, Any]] | None:
    """Return the landmarks of the model, with the time of each in every person's usual cycle.

    None for models without common atoms, which have no landmarks.
    """
    marks = people.model.marks_
    if not people.found.transform.shares_structure:
        return None
    return [
        asdict(mark) | {"own": [None if np.isnan(t) else float(f"{t:.6g}") for t in own]}
        for mark, own in zip(marks, people.mark_times(marks), strict=True)
    ]


def _mark_suspects(people: People) -> list[str]:
    """Return the doubts about each recording, possibly empty."""
    marks = dict.fromkeys(people.cohort.subjects, "")
    for subject, kind, message in people.suspects.itertuples(index=False):
        if subject in marks:  # other doubts concern all recordings
            marks[subject] += f"{KINDS[kind].found}: {message}. "
    return [text.strip() for text in marks.values()]
