"""``percdl events``: where patterns occur, for other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.data_options import DataOptions, read_cohort
from percdl.cli.errors import NOTHING_FOUND, prepare_file, prepare_folder, writing
from percdl.cli.personalize import Model
from percdl.cli.voice import Voice

if TYPE_CHECKING:
    import pandas as pd


class Format(StrEnum):
    """How events are written."""

    CSV = "csv"
    BIDS = "bids"
    WFDB = "wfdb"


def events(
    model: Model,
    source: DataOptions,
    voice: Voice,
    out: Annotated[Path, typer.Option(help="A file (csv) or a folder (bids, wfdb).")],
    format: Annotated[Format, typer.Option("--format", help="How to write them.")] = Format.CSV,
    task: Annotated[str, typer.Option(help="BIDS: what subjects did.")] = "recording",
    datatype: Annotated[str, typer.Option(help="BIDS: folder of the recordings.")] = "beh",
    extension: Annotated[str, typer.Option(help="WFDB: ending of the annotations.")] = "percdl",
) -> None:
    """Find the patterns of a model in recordings, and write where they are.

    percdl events gait.percdl new/ --format bids --out study/

    Without DATA, those of the recordings it was fitted on. How files are read and processed is as
    in the fit, unless options say otherwise. Exit code 3: there are no events.
    """
    from percdl.estimators.persistence import load

    (prepare_file if format is Format.CSV else prepare_folder)(out, "--out")
    with voice.hearing_warnings():
        fitted = load(model)
        table, subjects = fitted.events_, fitted.subjects_
        if source.data:
            cohort = read_cohort(source, fitted.settings_)
            voice.say(repr(cohort))
            voice.event("start", command="events", model=model, subjects=len(cohort))
            table, subjects = fitted.personalize(cohort).events, cohort.subjects
        options: dict[str, Any] = {}
        if format is Format.BIDS:
            length = fitted.atom_length_ / fitted.sfreq_
            options = {"duration": length, "task": task, "datatype": datatype}
            options["subjects"] = subjects
        elif format is Format.WFDB:
            options = {"sfreq": fitted.sfreq_, "extension": extension}
        with writing(out, "--out"):
            written = _write(format, table, out, options)
    voice.event("done", out=out, events=len(table), files=written)
    voice.say(f"{len(table)} events in {len(subjects)} recording(s).")
    voice.say(f"Events: {out}" + ("" if format is Format.CSV else f" ({len(written)} files)"))
    if not len(table):
        raise typer.Exit(NOTHING_FOUND)


def _write(format: Format, table: pd.DataFrame, out: Path, options: dict[str, Any]) -> list[Path]:
    """Write all files of a format or none; return them."""
    from percdl.signals import events_to_bids, events_to_csv, events_to_wfdb

    if format is Format.CSV:
        events_to_csv(table, out)
        return [out]
    with _staged(out) as folder:
        (events_to_bids if format is Format.BIDS else events_to_wfdb)(table, folder, **options)
        names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [out / name for name in names]


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """Yield a folder beside the files to be; what is in it at the end takes their place."""
    from percdl.signals.writers.leftovers import scratch_folder

    with scratch_folder(folder, "events") as stage:
        yield stage
        for file in sorted(path for path in stage.rglob("*") if path.is_file()):
            target = folder / file.relative_to(stage)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
