"""Commands that read a model file, such as ``percdl personalize``, ``report`` and ``info``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from percdl.cli.data_options import DataOptions, protect_recordings, read_cohort, read_metadata
from percdl.cli.options import OpenPage, optional
from percdl.cli.output import (
    NOTHING_FOUND,
    Output,
    fail,
    prepare_file,
    prepare_folder,
    require_packages,
    to_json,
    writing,
)

if TYPE_CHECKING:
    import pandas as pd

    from percdl.signals import Cohort

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `percdl fit`.")]


Format = Literal["csv", "bids", "wfdb"]


def personalize(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[
        Path, typer.Option(help="CSV file of parameters, one row per subject and atom.")
    ],
    events: Annotated[Path | None, optional("CSV file of events, optional.")] = None,
    people: Annotated[
        Path | None, optional("CSV file, one row per person: size, sign, kinds; optional.")
    ] = None,
) -> None:
    """Estimate the parameters of new subjects with the atoms of a fitted model.

    percdl personalize gait.percdl new/ --out params.csv --events events.csv

    The parameters of a time warp are written as its displacement in seconds and its speed along
    the cycle (`PerCDL.parameters`). Files are read and processed as in the fit, unless options
    say otherwise. Exit code 3: no pattern was found in any recording.
    """
    from percdl.estimators.people import check_names, describe_parameters, describe_people
    from percdl.signals import events_to_csv
    from percdl.signals.files import replace_file

    files: dict[str, Any] = {"--out": out, "--events": events, "--people": people}
    for option, path in files.items():
        if path is not None:
            prepare_file(path, option)
    protect_recordings(source, files)
    with output.showing_warnings():
        fitted, cohort = start("personalize", model, source, output)
        found = fitted.personalize(cohort)
    tables = {"--out": describe_parameters(fitted, found)}
    if people is not None:
        names = check_names(fitted.atom_names_, fitted.n_atoms_)
        tables["--people"] = describe_people(found, cohort, names)
    for option, table in tables.items():
        with writing(files[option], option):
            text = table.to_csv(index=False, lineterminator="\n")
            replace_file(files[option], text.encode("utf-8"))
    about = {"events_file": events, "people_file": people, "events": len(found.events)}
    output.event("done", out=out, **about)
    output.say(f"{len(found.events)} events in {len(cohort)} recording(s).\nParameters: {out}")
    if events is not None:
        with writing(events, "--events"):
            events_to_csv(found.events, events)
        output.say(f"Events: {events}")
    if people is not None:
        output.say(f"People: {people}")
    if not len(found.events):
        raise typer.Exit(NOTHING_FOUND)


def start(command: str, model: Path, source: DataOptions, output: Output) -> tuple[Any, Cohort]:
    """Load a model, and read recordings as in its fit."""
    from percdl.estimators.modelfile import load

    fitted = load(model)
    cohort = read_cohort(source, fitted)
    output.say(repr(cohort))
    output.event("start", command=command, model=model, subjects=len(cohort))
    return fitted, cohort


def events(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, typer.Option(help="A file (csv) or a folder (bids, wfdb).")],
    format: Annotated[Format, typer.Option("--format", help="File format.")] = "csv",
    task: Annotated[str, typer.Option(help="BIDS: name of the task.")] = "recording",
    datatype: Annotated[str, typer.Option(help="BIDS: folder of the recordings.")] = "beh",
    extension: Annotated[str, typer.Option(help="WFDB: file extension.")] = "percdl",
    quality: Annotated[
        bool, typer.Option("--quality", help="Add quality, residual and warp of each event.")
    ] = False,
    min_quality: Annotated[
        float, typer.Option(help="Leave out events of lower quality, a p-value.")
    ] = 0.0,
) -> None:
    """Find the patterns of a model in recordings and write the times at which they occur.

    percdl events gait.percdl new/ --format bids --out study/

    Without DATA, the events of the fit are written. With DATA, each recording is personalized
    from the start with the final atoms, so events of recordings of the fit can differ slightly.
    Files are read and processed as in the fit, unless options say otherwise. Exit code 3: there
    are no events.
    """
    from percdl.estimators.modelfile import load

    (prepare_file if format == "csv" else prepare_folder)(out, "--out")
    with output.showing_warnings():
        fitted = load(model)
        table, subjects = fitted.events_, fitted.subjects_
        if source.data:
            fitted, cohort = start("events", model, source, output)
            subjects = cohort.subjects
            if quality or min_quality:
                table = fitted.cycles(cohort, min_quality=min_quality)
            else:
                table = fitted.personalize(cohort).events
        elif quality or min_quality:
            fail("--quality and --min-quality need the recordings: pass DATA.")
        options: dict[str, Any] = {}
        if format == "bids":
            length = fitted.atom_length_ / fitted.sfreq_
            options = {"duration": length, "task": task, "datatype": datatype}
            options["subjects"] = subjects
        elif format == "wfdb":
            options = {"sfreq": fitted.sfreq_, "extension": extension}
        with writing(out, "--out"):
            written = _write_events(format, table, out, options)
    output.event("done", out=out, events=len(table), files=written)
    output.say(f"{len(table)} events in {len(subjects)} recording(s).")
    output.say(f"Events: {out}" + ("" if format == "csv" else f" ({len(written)} files)"))
    if not len(table):
        raise typer.Exit(NOTHING_FOUND)


def _write_events(
    format: Format, table: pd.DataFrame, out: Path, options: dict[str, Any]
) -> list[Path]:
    """Write all files of a format or none; return their paths."""
    from percdl.signals import events_to_bids, events_to_csv, events_to_wfdb
    from percdl.signals.files import scratch_folder

    if format == "csv":
        events_to_csv(table, out)
        return [out]
    write = events_to_bids if format == "bids" else events_to_wfdb
    with scratch_folder(out, "events") as folder:
        write(table, folder, **options)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        targets = [out / file.relative_to(folder) for file in files]
        for file, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
    return targets


def report(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    reference: Annotated[
        str | None,
        optional("Group to compare others with. (default: healthy, control, normal, ...)"),
    ] = None,
    person: Annotated[
        str | None,
        optional("Column of --metadata that identifies people with several recordings."),
    ] = None,
    title: Annotated[str | None, optional("Heading of the page.")] = None,
    open_page: OpenPage = False,
) -> None:
    """Write an interactive HTML page about a model: subjects, cycles, atoms, warps, groups.

    percdl report gait.percdl walks/ --metadata subjects.csv --group diagnosis --out gait.html

    DATA are the recordings of the fit, or others, which are personalized first. With the DATA of
    the fit, its --metadata and --group are used too. The page is one file that works offline.
    """
    require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
    from percdl.report.cohort import write_report

    prepare_file(out, "--out")
    protect_recordings(source, {"--out": out})
    with output.showing_warnings():
        fitted, cohort = start("report", model, source, output)
        table = (fitted.settings_ or {}).get("metadata")
        if table is not None and source.metadata is None and not any(cohort.groups):
            output.warn(
                f"there are no groups. The fit used --metadata {table}, but to other DATA or in "
                "another folder: pass it here too."
            )
        options = {"reference": reference, "person": person, "title": title}
        metadata = read_metadata(source, cohort, fitted)
        with writing(out, "--out"):
            write_report(fitted, out, cohort, metadata=metadata, **options)
    output.event("done", out=out, bytes=out.stat().st_size)
    output.say(f"Page: {out}")
    if open_page:
        typer.launch(out.resolve().as_uri())


def person(
    model: Model,
    source: DataOptions,
    output: Output,
    about: Annotated[str, typer.Option(help="The subject of the page.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("person.html"),
    reference: Annotated[
        str | None,
        optional("Group to compare with. (default: healthy, control, normal, ...)"),
    ] = None,
    person: Annotated[
        str | None,
        optional("Column of --metadata that identifies people with several recordings."),
    ] = None,
    open_page: OpenPage = False,
) -> None:
    """Write one page about one person: sentences, pictures, numbers; print it from a browser.

    percdl person gait.percdl walks/ --metadata subjects.csv --group diagnosis --about P07

    DATA are the recordings of the person and of those to compare with. With the DATA of the fit,
    its --metadata and --group are used too. The page contains no names or recordings of others.
    """
    require_packages(("jinja2", "matplotlib"), "plot", "the page draws pictures")
    from percdl.report.person import write_person

    prepare_file(out, "--out")
    protect_recordings(source, {"--out": out})
    with output.showing_warnings():
        fitted, cohort = start("person", model, source, output)
        options = {"reference": reference, "person": person}
        metadata = read_metadata(source, cohort, fitted)
        with writing(out, "--out"):
            write_person(fitted, out, about, cohort, metadata=metadata, **options)
    output.event("done", out=out, bytes=out.stat().st_size)
    output.say(f"Page: {out}")
    if open_page:
        typer.launch(out.resolve().as_uri())


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model or a checkpoint.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Describe a model file: the model, its subjects and the options of the fit.

    percdl info gait.percdl
    """
    from rich.console import Console

    from percdl.estimators import container
    from percdl.estimators.modelfile import load

    kind, version = container.origin_of(file)
    origin: dict[str, Any] = {"file": file, "version": version}
    model = None if kind == container.CHECKPOINT else load(file)
    described = _describe_checkpoint(file) if model is None else _describe_model(model)
    if json:
        typer.echo(to_json(origin | described))
        return
    settings = described.pop("settings")
    for name, value in (origin if model is not None else origin | described).items():
        typer.echo(f"{name.replace('_', ' '):<24} {_text(value)}")
    if model is not None:
        Console(highlight=False).print("", model.summary(), "")
    typer.echo("settings" if settings else f"{'settings':<24} not fitted from the command line")
    for name, value in (settings or {}).items():
        if value is not None:
            typer.echo(f"  {name.replace('_', '-'):<22} {_text(value)}")


def _describe_model(model: Any) -> dict[str, Any]:
    n_subjects, n_atoms, n_params = model.params_.shape
    return {
        "model": type(model).__name__,
        "transform": repr(model.resolve("transformation")),
        "atoms": n_atoms,
        "atom_length": model.atom_length_,
        "atom_seconds": model.atom_length_ / model.sfreq_,
        "penalty": model.penalty_,
        "parameters_per_atom": n_params,
        "subjects": n_subjects,
        "channels": list(model.channels_),
        "units": list(model.units_),
        "sfreq": model.sfreq_,
        "processing": None if model.processing_ is None else list(model.processing_),
        "events": len(model.events_),
        "subjects_without_events": int((model.n_activations_.sum(1) == 0).sum()),
        "objective": model.objective_,
        "rounds": int(model.history_["step"].isin(["CDU", "PerCDU"]).sum()),
        "seconds": float(model.history_["seconds"].iloc[-1]),
        "stop_reason": model.stop_reason_,
        "settings": model.settings_,
    }


def _describe_checkpoint(path: Path) -> dict[str, Any]:
    from percdl.estimators.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(path)
    chosen = checkpoint.content["chosen"]
    return {
        "checkpoint_of": checkpoint.content["model"],
        "run": checkpoint.content["restart"] + 1,
        "rounds_done": checkpoint.n_rounds,
        "atoms": chosen[0],
        "atom_length": chosen[1],
        "penalty": chosen[2],
        "objective": checkpoint.content["history"][-1][3],
        "to_continue": f"percdl fit --resume {path}",
        "settings": checkpoint.settings,
    }


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
