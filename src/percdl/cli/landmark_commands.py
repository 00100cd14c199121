"""``percdl mark`` and ``percdl landmarks``: times of waves in every cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from percdl.cli.data_options import DataOptions, protect_recordings, read_cohort
from percdl.cli.model_commands import Model, start
from percdl.cli.options import optional
from percdl.cli.output import NOTHING_FOUND, Output, fail, prepare_file, writing


def mark(
    model: Model,
    source: DataOptions,
    output: Output,
    annotations: Annotated[
        str | None,
        optional("WFDB (.ii), events.tsv or CSV: a file, a folder or a quoted pattern."),
    ] = None,
    label: Annotated[
        list[str] | None, optional("Label or symbol of the annotations: N. (default: all)")
    ] = None,
    name: Annotated[str | None, optional("Name of a landmark placed by hand.")] = None,
    at: Annotated[float | None, optional("Its time on the atom, in seconds.")] = None,
    atom: Annotated[int, typer.Option(help="The atom.")] = 0,
    channel: Annotated[str | None, optional("The channel that the landmarks belong to.")] = None,
    out: Annotated[Path | None, optional("Model file to write. (default: MODEL)")] = None,
) -> None:
    """Place landmarks on the common atom of a model, by hand or from annotations.

    percdl mark ecg.percdl --name "QRS onset" --at 0.21

    percdl mark ecg.percdl ludb/ --annotations "ludb/*.ii" --channel ii

    DATA are the recordings of the annotations; each label becomes a landmark. Landmarks are
    saved with the model.
    """
    from percdl.estimators.modelfile import load
    from percdl.signals import read_annotations

    if (annotations is None) == (name is None or at is None):
        fail("pass either --annotations, or --name and --at.")
    target = model if out is None else out
    prepare_file(target, "--out")
    if annotations is not None:
        protect_recordings(source, {"--out": target})
    with output.showing_warnings():
        fitted = load(model)
        if annotations is None:
            fitted.mark(name, atom, at, channel=channel)
        else:
            cohort = read_cohort(source, fitted)
            marks = read_annotations(annotations, labels=label, sfreq=cohort.sfreq)
            fitted.mark(None, atom, marks, channel=channel, X=cohort)
        with writing(target, "--out"):
            fitted.save(target)
    output.event("done", out=target, landmarks=[one.name for one in fitted.marks_])
    for one in fitted.marks_:
        spread = f" (s.d. {1e3 * one.spread:.1f} ms)" if one.spread else ""
        output.say(f"{one.name:<16} atom {one.atom}  {1e3 * one.time:.1f} ms{spread}")
    output.say(f"Model: {target}")


def landmarks(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, typer.Option(help="CSV file, one row per cycle and landmark.")],
    intervals: Annotated[
        Path | None, optional("CSV file of the intervals between landmarks, optional.")
    ] = None,
    interval: Annotated[
        list[str] | None,
        optional("An interval: QT='QRS onset:T end'. (default: between neighbours)"),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the test that a wave is there.")] = 0.01,
) -> None:
    """Find the landmarks of a model in every cycle of recordings.

    percdl landmarks ecg.percdl new/ --out landmarks.csv --intervals intervals.csv

    Place landmarks first: `percdl mark`. Files are read and processed as in the fit, unless
    options say otherwise. Exit code 3: no pattern was found in any recording.
    """
    from percdl.estimators.landmarks import intervals as measure
    from percdl.signals.files import replace_file

    pairs = None if interval is None else dict(map(_read_interval, interval))
    files = {"--out": out, "--intervals": intervals}
    for option, path in files.items():
        if path is not None:
            prepare_file(path, option)
    protect_recordings(source, files)
    with output.showing_warnings():
        fitted, cohort = start("landmarks", model, source, output)
        table = fitted.landmarks(cohort, level=level)
        spans = measure(table, pairs)
    tables: dict[str, Any] = {"--out": table, "--intervals": spans}
    for option, path in files.items():
        if path is not None:
            with writing(path, option):
                text = tables[option].to_csv(index=False, lineterminator="\n")
                replace_file(path, text.encode("utf-8"))
    output.event("done", out=out, intervals=intervals, rows=len(table))
    by_name = table.groupby("landmark", sort=False)["present"].agg(["sum", "count"])
    for name, row in by_name.iterrows():
        output.say(f"{name:<16} in {row['sum']} of {row['count']} cycles")
    for name, own in spans.groupby("interval", sort=False):
        output.say(f"{name}: median {own['ms'].median():.0f} ms")
    output.say(f"Landmarks: {out}")
    if not len(table):
        raise typer.Exit(NOTHING_FOUND)


def _read_interval(text: str) -> tuple[str, tuple[str, str]]:
    name, _, ends = text.partition("=")
    first, colon, last = ends.partition(":")
    if not (name and colon and first and last):
        fail(f"--interval {text} must be a name and two landmarks: QT='QRS onset:T end'.")
    return name, (first, last)
