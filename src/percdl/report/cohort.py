"""A fitted model and its recordings as one interactive page, which needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.suspects import describe_suspects
from percdl.exceptions import InvalidParameterError
from percdl.report import facts
from percdl.report.comparison import Groups, tabulate_differences, tabulate_groups
from percdl.report.content import collect
from percdl.report.pages import render
from percdl.report.people import People, gather_people
from percdl.signals import as_cohort
from percdl.signals.extras import require
from percdl.signals.files import replace_file

if TYPE_CHECKING:
    import pandas as pd

    from percdl.estimators.base import BaseCDL

SCRIPTS = ("data", "charts", "overview", "table", "signal", "subject", "groups", "main")
NO_GROUPS = (
    "The recordings carry fewer than two groups with two people in each, so there is nothing to "
    "compare. Groups come with the recordings: a column of a table (--metadata and --group on "
    "the command line), or the groups of Cohort.from_arrays in Python."
)


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

    It opens offline in any browser from 2023 on: the common atom; a table of people to search and
    sort; of the chosen person the recording with its cycles, the personal atom, the warp, where it
    departs from the reference, and the events as CSV; groups and where they differ; settings.

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        Fitted.
    path : path
        Where to write; a file there is replaced, at once or not at all.
    cohort : Cohort or arrays, optional
        The recordings: those of the fit (the default, as long as the model was fitted in this
        process), or of other people, who are then personalized.
    reference : str, optional
        The group others are compared with; by default the one called healthy, control, normal
        or so, else everyone.
    metadata : DataFrame, optional
        More columns of the table of people; one row per subject, named by the index or by a
        column ``subject``.
    person : str, optional
        Column of the metadata that says who was recorded, where people have several recordings:
        they are then compared as one, and left out of the reference together.
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
    own = "\n".join(files("percdl.report").joinpath(f"assets/{s}.js").read_text("utf-8")
                    for s in SCRIPTS)  # fmt: skip
    scripts = [plotly, f'"use strict";\n(() => {{\n{own}\n}})();']
    group_columns, group_rows = tabulate_groups(groups)
    cluster_columns, cluster_rows = tabulate_differences(groups)
    page = {
        "title": title,
        "subtitle": _subtitle(people),
        "tiles": facts.summarize(people),
        "warnings": facts.find_warnings(people),
        "suspects": describe_suspects(people.suspects).values(),
        "norm": people.norm,
        "base": groups.base,
        "no_groups": NO_GROUPS,
        "group_columns": group_columns,
        "group_rows": group_rows,
        "cluster_columns": cluster_columns,
        "cluster_rows": cluster_rows,
        "data_facts": facts.describe_data(people),
        "settings": facts.describe_settings(people),
        "stop_reason": people.model.stop_reason_,
        "made": facts.time_of_writing(),
        "versions": facts.describe_versions(),
        **notes,
    }
    return render(
        "cohort.html.j2",
        page=page,
        style=Markup(files("percdl.report").joinpath("assets/report.css").read_text("utf-8")),
        content=Markup(_as_json(content)),
        scripts=[Markup(script) for script in scripts],
        sources=Markup(" ".join(f"'sha256-{_digest(script)}'" for script in scripts)),
    )


def _digest(script: str) -> str:
    """Return what tells the browser that a script is ours: no other will run."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _as_json(content: Any) -> str:
    """Return JSON that no text inside can end: a name with markup stays a name."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _subtitle(people: People) -> str:
    counts = [f"{sum(g == n for g in people.cohort.groups)} {n}" for n in people.groups]
    n = len(people.cohort)
    return f"{n} recording{'s' * (n != 1)}" + (f": {', '.join(counts)}" if counts else "")
