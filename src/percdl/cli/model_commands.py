"""Commands that read a model file, such as ``percdl personalize``, ``report`` and ``info``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import percdl
from percdl.cli.data_options import (
    DataOptions,
    Person,
    Reference,
    keep_inputs,
    prepare_files,
    read_cohort,
    read_metadata,
)
from percdl.cli.options import Model, OpenPage, argument, option
from percdl.cli.output import (
    Output,
    fail,
    prepare_folder,
    require_packages,
    to_json,
    write_table,
    writing,
)
from percdl.exceptions import visible

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["csv", "bids", "wfdb"]


def _start(
    command: str,
    model: Path,
    source: DataOptions,
    output: Output,
    results: Mapping[str, Path | None],
) -> tuple[Any, percdl.Cohort]:
    """Load a model, check that results can be written, and read recordings as in the fit."""
    fitted = percdl.load(model)
    prepare_files(results, source.with_table_of(fitted), [model])
    cohort = read_cohort(source, fitted)
    output.say(repr(cohort))
    output.event("start", command=command, model=model, subjects=len(cohort))
    return fitted, cohort


def personalize(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("CSV file of parameters, one row per subject and atom.")],
    events: Annotated[Path | None, option("CSV file of events, optional.")] = None,
    people: Annotated[Path | None, option("CSV file of people: size, sign, kinds.")] = None,
) -> None:
    """Estimate the parameters of new subjects with the atoms of a fitted model.

    percdl personalize gait.percdl new/ --out params.csv --events events.csv

    The parameters of a time warp are written as its displacement in seconds and its speed along
    the cycle (`PerCDL.parameters`). Files are read and processed as in the fit, unless options
    say otherwise. Exit code 3: no pattern was found in any recording.
    """
    from percdl.estimators.people import check_names, describe_parameters, describe_people

    results = {"--out": out, "--events": events, "--people": people}
    fitted, cohort = _start("personalize", model, source, output, results)
    found = fitted.personalize(cohort)
    n_events = len(found.events)
    text = f"{n_events} events in {len(cohort)} recording(s).\nParameters: {out}"
    write_table(describe_parameters(fitted, found), out, "--out")
    if events is not None:
        with writing(events, "--events"):
            percdl.events_to_csv(found.events, events)
        text += f"\nEvents: {events}"
    if people is not None:
        names = check_names(fitted.atom_names_, fitted.n_atoms_)
        write_table(describe_people(found, cohort, names), people, "--people")
        text += f"\nPeople: {people}"
    about = {"events_file": events, "people_file": people, "events": n_events}
    output.done(text, n_events, out=out, **about)


def events(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("A file (csv) or a folder (bids, wfdb).")],
    format: Annotated[Format, option("File format.")] = "csv",
    task: Annotated[str, option("BIDS: name of the task.")] = "recording",
    datatype: Annotated[str, option("BIDS: folder of the recordings.")] = "beh",
    extension: Annotated[str, option("WFDB: file extension.")] = "percdl",
    quality: Annotated[
        bool, option("Add quality, residual and warp of each event.", "--quality")
    ] = False,
    min_quality: Annotated[float, option("Leave out events of lower quality, a p-value.")] = 0.0,
) -> None:
    """Find the patterns of a model in recordings and write the times at which they occur.

    percdl events gait.percdl new/ --format bids --out study/

    Without DATA, the events of the fit are written. With DATA, each recording is personalized
    from the start with the final atoms, so events of recordings of the fit can differ slightly.
    Files are read and processed as in the fit, unless options say otherwise. Exit code 3: there
    are no events.
    """
    results = {"--out": out} if format == "csv" else {}
    if not results:
        prepare_folder(out, "--out")
    if source.data:
        fitted, cohort = _start("events", model, source, output, results)
        subjects = cohort.subjects
        if quality or min_quality:
            table = fitted.cycles(cohort, min_quality=min_quality)
        else:
            table = fitted.personalize(cohort).events
    else:
        if quality or min_quality:
            fail("--quality and --min-quality need the recordings: pass DATA.")
        prepare_files(results, others=[model])
        fitted = percdl.load(model)
        table, subjects = fitted.events_, fitted.subjects_
    options: dict[str, Any] = {}
    if format == "bids":
        length = fitted.atom_length_ / fitted.sfreq_
        options = {"duration": length, "task": task, "datatype": datatype, "subjects": subjects}
    elif format == "wfdb":
        options = {"sfreq": fitted.sfreq_, "extension": extension}
    with writing(out, "--out"):
        keep = partial(keep_inputs, read=source if source.data else None, others=[model])
        written = _write_events(format, table, out, options, keep)
    text = f"{len(table)} events in {len(subjects)} recording(s).\nEvents: {out}"
    text += "" if format == "csv" else f" ({len(written)} files)"
    output.done(text, len(table), out=out, events=len(table), files=written)


def _write_events(
    format: Format,
    table: pd.DataFrame,
    out: Path,
    options: dict[str, Any],
    keep: Callable[[Iterable[tuple[str, Path]]], None],
) -> list[Path]:
    """Write all files of a format or none; return their paths.

    ``keep`` raises if a file of a folder may not be replaced.
    """
    from percdl.signals.files import scratch_folder

    if format == "csv":
        percdl.events_to_csv(table, out)
        return [out]
    write: Any = percdl.events_to_bids if format == "bids" else percdl.events_to_wfdb
    with scratch_folder(out, "events") as folder:
        write(table, folder, **options)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        targets = [out / file.relative_to(folder) for file in files]
        keep(("--out", target) for target in targets)
        for file, target in zip(files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
    return targets


def mark(
    model: Model,
    source: DataOptions,
    output: Output,
    annotations: Annotated[
        str | None, option("WFDB (.ii), events.tsv or CSV: a file, a folder or a quoted pattern.")
    ] = None,
    label: Annotated[
        list[str] | None, option("Label or symbol of the annotations: N. (default: all)")
    ] = None,
    name: Annotated[str | None, option("Name of a landmark placed by hand.")] = None,
    at: Annotated[float | None, option("Its time on the atom, in seconds.")] = None,
    atom: Annotated[int, option("The atom.")] = 0,
    channel: Annotated[str | None, option("The channel that the landmarks belong to.")] = None,
    remove: Annotated[str | None, option("Name of a landmark to remove.")] = None,
    out: Annotated[Path | None, option("Model file to write. (default: MODEL)")] = None,
) -> None:
    """Place landmarks on the common atom of a model, by hand or from annotations, or remove one.

    percdl mark ecg.percdl --name "QRS onset" --at 0.21

    percdl mark ecg.percdl ludb/ --annotations "ludb/*.ii" --channel ii

    DATA are the recordings of the annotations; each label becomes a landmark. Landmarks are
    saved with the model.
    """
    from percdl.signals.annotations import find_annotations

    ways = (annotations is not None, name is not None and at is not None, remove is not None)
    if sum(ways) != 1:
        fail("pass either --annotations, or --name and --at, or --remove.")
    target = model if out is None else out
    if annotations is None:
        prepare_files({"--out": target})
    else:
        prepare_files({"--out": target}, source, find_annotations(annotations))
    fitted: Any = percdl.load(model)
    if remove is not None:
        fitted.unmark(remove)
    elif annotations is None:
        fitted.mark(name, atom, at, channel=channel)
    else:
        cohort = read_cohort(source, fitted)
        marks = percdl.read_annotations(annotations, labels=label, sfreq=cohort.sfreq)
        fitted.mark(None, atom, marks, channel=channel, X=cohort)
    with writing(target, "--out"):
        fitted.save(target)
    lines = []
    for one in fitted.marks_:
        spread = f" (s.d. {1e3 * one.spread:.1f} ms)" if one.spread else ""
        lines.append(f"{one.name:<16} atom {one.atom}  {1e3 * one.time:.1f} ms{spread}")
    text = "\n".join([*lines, f"Model: {target}"])
    output.done(text, out=target, landmarks=[one.name for one in fitted.marks_])


def landmarks(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("CSV file, one row per cycle and landmark.")],
    intervals: Annotated[Path | None, option("CSV file of intervals between landmarks.")] = None,
    interval: Annotated[
        list[str] | None,
        option("An interval: QT='QRS onset:T end'. (default: between neighbours)"),
    ] = None,
    level: Annotated[float, option("Level of the test that a wave is there.")] = 0.01,
) -> None:
    """Find the landmarks of a model in every cycle of recordings.

    percdl landmarks ecg.percdl new/ --out landmarks.csv --intervals intervals.csv

    Place landmarks first: `percdl mark`. Files are read and processed as in the fit, unless
    options say otherwise. Exit code 3: no pattern was found in any recording.
    """
    from percdl.estimators.landmarks import intervals as measure

    pairs = None if interval is None else dict(map(_read_interval, interval))
    results = {"--out": out, "--intervals": intervals}
    fitted, cohort = _start("landmarks", model, source, output, results)
    table = fitted.landmarks(cohort, level=level)
    spans = measure(table, pairs)
    write_table(table, out, "--out")
    if intervals is not None:
        write_table(spans, intervals, "--intervals")
    by_name: Any = table.groupby("landmark", sort=False)["present"].agg(["sum", "count"])
    lines = [f"{n:<16} in {row['sum']} of {row['count']} cycles" for n, row in by_name.iterrows()]
    medians = spans.groupby("interval", sort=False)["ms"].median()
    lines += [f"{name}: median {median:.0f} ms" for name, median in medians.items()]
    text = "\n".join([*lines, f"Landmarks: {out}"])
    output.done(text, len(table), out=out, intervals=intervals, rows=len(table))


def _read_interval(text: str) -> tuple[str, tuple[str, str]]:
    name, _, ends = text.partition("=")
    first, colon, last = ends.partition(":")
    if not (name and colon and first and last):
        fail(f"--interval {text} must be a name and two landmarks: QT='QRS onset:T end'.")
    return name, (first, last)


def report(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("HTML file to write.")] = Path("report.html"),
    reference: Reference = None,
    person: Person = None,
    title: Annotated[str | None, option("Heading of the page.")] = None,
    open_page: OpenPage = False,
) -> None:
    """Write an interactive HTML page about a model: subjects, cycles, atoms, warps, groups.

    percdl report gait.percdl walks/ --metadata subjects.csv --group diagnosis --out gait.html

    DATA are the recordings of the fit, or others, which are personalized first, as are all with
    --corrections. With the DATA of the fit, its --metadata and --group are used too. The page is
    one file that works offline.
    """
    require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
    fitted, cohort = _start("report", model, source, output, {"--out": out})
    table = (fitted.settings_ or {}).get("metadata")
    if table is not None and source.metadata is None and not any(cohort.groups):
        output.warn(
            f"there are no groups. The fit used --metadata {table}, but to other DATA or in "
            "another folder: pass it here too."
        )
    options = {"reference": reference, "person": person, "title": title}
    metadata = read_metadata(source, cohort, fitted)
    with writing(out, "--out"):
        fitted.report(out, cohort, metadata=metadata, **options)
    _show_page(out, output, open_page)


def person(
    model: Model,
    source: DataOptions,
    output: Output,
    about: Annotated[str, option("The subject of the page.")],
    out: Annotated[Path, option("HTML file to write.")] = Path("person.html"),
    reference: Reference = None,
    person: Person = None,
    open_page: OpenPage = False,
) -> None:
    """Write one page about one person: sentences, pictures, numbers; print it from a browser.

    percdl person gait.percdl walks/ --metadata subjects.csv --group diagnosis --about P07

    DATA are the recordings of the person and of those to compare with. With the DATA of the fit,
    its --metadata and --group are used too. The page contains no names or recordings of others.
    """
    require_packages(("jinja2", "matplotlib"), "plot", "the page draws pictures")
    fitted, cohort = _start("person", model, source, output, {"--out": out})
    options = {"reference": reference, "person": person}
    metadata = read_metadata(source, cohort, fitted)
    with writing(out, "--out"):
        fitted.person_page(out, about, cohort, metadata=metadata, **options)
    _show_page(out, output, open_page)


def _show_page(page: Path, output: Output, open_page: bool) -> None:
    output.done(f"Page: {page}", out=page, bytes=page.stat().st_size)
    if open_page:
        typer.launch(page.resolve().as_uri())


def info(
    file: Annotated[Path, argument("FILE", "A model or a checkpoint.")],
    json: Annotated[bool, option("Print one JSON object.", "--json")] = False,
) -> None:
    """Describe a model file: the model, its subjects and the options of the fit.

    percdl info gait.percdl
    """
    from rich.console import Console

    from percdl.estimators import container

    kind, version = container.origin_of(file)
    origin: dict[str, Any] = {"file": file, "version": version}
    model = None if kind == container.CHECKPOINT else percdl.load(file)
    described = _describe_checkpoint(file) if model is None else _describe_model(model)
    if json:
        typer.echo(to_json(origin | described))
        return
    settings = described.pop("settings")
    for name, value in (origin if model is not None else origin | described).items():
        typer.echo(f"{name.replace('_', ' '):<24} {visible(_text(value))}")
    if model is not None:
        Console(highlight=False).print("", model.summary(), "")
    typer.echo("settings" if settings else f"{'settings':<24} not fitted from the command line")
    for name, value in (settings or {}).items():
        if value is not None:
            typer.echo(f"  {name.replace('_', '-'):<22} {visible(_text(value))}")


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
    content = checkpoint.content
    n_atoms, atom_length, penalty, *_ = content["chosen"]
    return {
        "checkpoint_of": content["model"],
        "run": content["restart"] + 1,
        "rounds_done": checkpoint.n_rounds,
        "atoms": n_atoms,
        "atom_length": atom_length,
        "penalty": penalty,
        "objective": content["history"][-1][3],
        "to_continue": f"percdl fit --resume {path}",
        "settings": checkpoint.settings,
    }


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "unknown"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
