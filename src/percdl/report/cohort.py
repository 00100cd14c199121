"""Write a fitted model and its recordings as one interactive HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from percdl.analysis import Deviation
from percdl.estimators.suspects import describe_suspects
from percdl.exceptions import InvalidParameterError
from percdl.report.comparison import Groups, tabulate_differences, tabulate_groups
from percdl.report.content import collect
from percdl.report.pages import render
from percdl.report.people import MOST_COLUMNS, People, gather_people, write_median
from percdl.signals import as_cohort
from percdl.signals.extras import require
from percdl.signals.files import replace_file
from percdl.signals.recording import abbreviate

if TYPE_CHECKING:
    import pandas as pd

    from percdl.estimators.base import BaseCDL

SCRIPTS = ("data", "charts", "overview", "table", "signal", "subject", "groups", "main")
NO_GROUPS = (
    "The recordings have fewer than two groups with at least two people each, so there is nothing "
    "to compare. Groups come with the recordings: a column of a table (--metadata and --group on "
    "the command line), or the groups of Cohort.from_arrays in Python."
)
# Packages whose versions influence the numbers.
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "mne")
# Names listed in a warning.
N_NAMED = 6


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

    It opens offline in any browser from 2023 on and shows: the common atom; a table of people to
    search and sort; for the selected person the recording with its cycles, the personal atom, the
    warp, the deviation from the reference, and the events as CSV; groups and where they differ;
    settings.

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        Fitted.
    path : path
        Where to write; an existing file is replaced atomically.
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
        The file.
    """
    check_is_fitted(model)
    plotly = require("plotly.offline", "A report", "plot")
    people = gather_people(model, _recordings(model, cohort), reference, metadata, person)
    page = _render(people, title or f"{type(model).__name__} report", plotly.get_plotlyjs())
    replace_file(Path(path), page.encode("utf-8"))
    return Path(path)


def _recordings(model: BaseCDL, cohort: Any):
    if cohort is not None:
        return as_cohort(cohort)
    if (kept := model.recordings_) is None:
        raise InvalidParameterError(
            "The model does not hold the recordings it was fitted on: model files and pickles "
            "leave them out. Pass them: `model.report(path, cohort)`."
        )
    return kept


def _render(people: People, title: str, plotly: str) -> str:
    groups = Groups(people)
    content, notes = collect(people, groups)
    assets = files("percdl.report") / "assets"
    own = "\n".join((assets / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    scripts = [plotly, f'"use strict";\n(() => {{\n{own}\n}})();']
    group_columns, group_rows = tabulate_groups(groups)
    cluster_columns, cluster_rows = tabulate_differences(groups)
    page = {
        "title": title,
        "subtitle": _subtitle(people),
        "tiles": _tiles(people),
        "warnings": _warnings(people),
        "suspects": describe_suspects(people.suspects).values(),
        "norm": people.norm,
        "base": groups.base,
        "no_groups": NO_GROUPS,
        "group_columns": group_columns,
        "group_rows": group_rows,
        "cluster_columns": cluster_columns,
        "cluster_rows": cluster_rows,
        "data_facts": _describe_data(people),
        "settings": _describe_settings(people.model),
        "stop_reason": people.model.stop_reason_,
        "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z").strip(),
        "versions": _describe_versions(),
        **notes,
    }
    return render(
        "cohort.html.j2",
        page=page,
        style=Markup((assets / "report.css").read_text("utf-8")),
        content=Markup(_as_json(content)),
        scripts=[Markup(script) for script in scripts],
        sources=Markup(" ".join(f"'sha256-{_digest(script)}'" for script in scripts)),
    )


def _digest(script: str) -> str:
    """Return the hash by which the browser accepts a script; no other script runs."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _as_json(content: Any) -> str:
    """Return JSON without markup, so that no name can close the script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _subtitle(people: People) -> str:
    n, counts = len(people.cohort), people.cohort.groups.count
    named = ", ".join(f"{counts(name)} {name}" for name in people.groups)
    return f"{n} recording{'s' * (n != 1)}" + (f": {named}" if named else "")


def _tiles(people: People) -> list[dict[str, str]]:
    """Return the first numbers of the page: name, value, unit."""
    found, cohort = people.found, people.cohort
    n_groups = f"in {len(people.groups)} groups" if people.groups else ""
    tiles = [
        ("Recordings", str(len(cohort)), n_groups),
        ("Cycles found", f"{len(found.events):,}", f"of {len(found.dictionary)} atom(s)"),
        ("Length of the atom", f"{people.model.atom_length_ / cohort.sfreq:.3g}", "s"),
        ("Recorded", *_duration(cohort.lengths.sum() / cohort.sfreq)),
        ("Error", write_median(people.errors, ".3f"), "median"),
    ]
    if len(found.dictionary) == 1:
        cadence = write_median(people.regularity["cadence"], ".3g")
        tiles.insert(2, ("Cadence", cadence, "per minute, median"))
    return [dict(zip(("name", "value", "unit"), tile, strict=True)) for tile in tiles]


def _duration(seconds: float) -> tuple[str, str]:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g}", unit
    return f"{seconds:.3g}", "s"


def _describe_data(people: People) -> list[tuple[str, str]]:
    cohort = people.cohort
    lengths = cohort.lengths / cohort.sfreq
    missing = sum(int(np.isnan(record.values).sum()) for record in cohort)
    total = sum(record.values.size for record in cohort)
    pairs = zip(cohort.channels, cohort.units, strict=True)
    channels = [f"{name} ({unit})" if unit else name for name, unit in pairs]
    groups = ", ".join(f"{n}: {cohort.groups.count(n)}" for n in people.groups)
    return [
        ("Recordings", str(len(cohort))),
        ("Groups", groups or "none given"),
        ("Reference", people.reference or "everyone"),
        ("Channels", abbreviate(channels, 16)),
        ("Sampling rate", f"{cohort.sfreq:g} Hz"),
        ("Lengths", f"{lengths.min():.3g} to {lengths.max():.3g} s"),
        ("Missing samples", f"{missing / total:.2%}" if missing else "none"),
        ("Processing", "; ".join(cohort.processing) or "none recorded"),
    ]


def _describe_settings(model: Any) -> list[tuple[str, str]]:
    """Return the settings of the model, with the chosen values for "auto"."""
    chosen = {name: getattr(model, f"{name}_") for name in ("n_atoms", "atom_length", "penalty")}
    facts = [("model", type(model).__name__)]
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray) or (name == "init" and not isinstance(value, str)):
            text = "given"
        elif name in chosen and value != chosen[name]:
            text = f"{value}: {chosen[name]:g}"
        else:
            text = str(value)
        facts.append((name, text))
    return facts


def _describe_versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _warnings(people: People) -> list[str]:
    """Return the warnings at the top of the page."""
    found = []
    subjects = np.array(people.cohort.subjects)
    inactive = subjects[~(people.found.n_activations > 0).any(1)]
    if len(inactive):
        names = abbreviate(inactive, N_NAMED)
        found.append(f"No cycle was found in {len(inactive)} recording(s): {names}.")
    poor = subjects[people.errors > 1]
    if len(poor):
        names = abbreviate(poor, N_NAMED)
        found.append(f"The model explains nothing of {len(poor)} recording(s): {names}.")
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
