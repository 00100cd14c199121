"""``percdl report``: a model and its recordings as one interactive page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from percdl.cli.data_options import DataOptions, keep_recordings, read_cohort, read_metadata
from percdl.cli.errors import prepare_file, require_packages, writing
from percdl.cli.personalize import Model
from percdl.cli.voice import Voice


def report(
    model: Model,
    source: DataOptions,
    voice: Voice,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    reference: Annotated[
        str | None,
        typer.Option(
            help="Group that others are compared with. (default: healthy, control, normal, ...)",
            show_default=False,
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="Column of --metadata: who was recorded, where people have several recordings.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Heading of the page.", show_default=False)
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Write one HTML file about a model: people, their cycles, atoms and warps, groups.

    percdl report gait.percdl walks/ --metadata subjects.csv --group diagnosis --out gait.html

    DATA are the recordings of the fit, or of others, who are personalized first. The page is
    interactive and opens offline.
    """
    require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
    from percdl.estimators.persistence import load

    prepare_file(out, "--out")
    keep_recordings(source, {"--out": out})
    with voice.hearing_warnings():
        fitted = load(model)
        cohort = read_cohort(source, fitted.settings_)
        voice.say(repr(cohort))
        table = (fitted.settings_ or {}).get("metadata")
        if table is not None and source.metadata is None and not any(cohort.groups):
            voice.warn(
                f"there are no groups. The fit had --metadata {table}: say it here as well."
            )
        voice.event("start", command="report", model=model, subjects=len(cohort))
        more = read_metadata(source, cohort)
        with writing(out, "--out"):
            fitted.report(
                out, cohort, reference=reference, metadata=more, person=person, title=title
            )
    voice.event("done", out=out, bytes=out.stat().st_size)
    voice.say(f"Page: {out}")
    if open_page:
        typer.launch(out.resolve().as_uri())
