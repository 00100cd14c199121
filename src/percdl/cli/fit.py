"""``percdl fit``: from recordings to a model."""

from __future__ import annotations

import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.config import Context, set_defaults
from percdl.cli.data_options import DataOptions, keep_recordings, read_metadata
from percdl.cli.errors import NOTHING_FOUND, prepare_file, require_packages, writing
from percdl.cli.interruption import stopping_between_rounds
from percdl.cli.model_options import ModelOptions
from percdl.cli.scale import connected, read_any_cohort
from percdl.cli.voice import Voice, plain

if TYPE_CHECKING:
    import pandas as pd

    from percdl.estimators import PerCDL
    from percdl.runtimes.protocol import Place
    from percdl.signals import AnyCohort

# How a checkpoint is called: like the model, and this.
ENDING = ".checkpoint"


def _as_before(context: Context, path: Path | None) -> Path | None:
    """Make the settings of the fit that was interrupted the defaults of this one."""
    if path is not None and not context.resilient_parsing:
        from percdl.cli.errors import told
        from percdl.estimators.checkpoint import read_checkpoint

        with told():
            set_defaults(context, _trusted(read_checkpoint(path).settings or {}, path))
    return path


def _trusted(settings: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return what a checkpoint, whoever it comes from, may decide: the data and the model.

    The model is written where the checkpoint is, whatever it says, and no address is called. A
    report goes where it was to go if that is beside the checkpoint or in this folder.
    """
    from percdl.estimators import container
    from percdl.signals.contents import ByName, Choice, Either, Flag, Many, Number, Text

    word = Either((Choice((None,)), Flag(), Number(), Text()))  # what an option can be told
    known = {field.name for field in (*fields(DataOptions), *fields(ModelOptions))} - {"config"}
    chosen = {name: value for name, value in settings.items() if name in known}
    with container.naming(path, container.CHECKPOINT):
        ByName(Either((word, Many(word)))).check(chosen, "settings")
    if path.name.endswith(ENDING):
        chosen["out"] = str(path.with_name(path.name.removesuffix(ENDING)))
    report = settings.get("report")
    if isinstance(report, str) and report.isprintable() and report.endswith(".html"):
        if Path(report).resolve().parent in (path.resolve().parent, Path.cwd().resolve()):
            return {**chosen, "report": report}
    if report is not None:
        typer.echo(f"To have the report of that fit as well: --report {report!r}", err=True)
    return chosen


def fit(
    source: DataOptions,
    options: ModelOptions,
    voice: Voice,
    out: Annotated[Path, typer.Option(help="The model file; an old one is replaced.")] = Path(
        "model.percdl"
    ),
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report as well.", show_default=False)
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on from the checkpoint of an interrupted fit, with its settings.",
            is_eager=True,
            callback=_as_before,
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option(help="Write OUT.checkpoint after each round; Ctrl-C leaves it.")
    ] = True,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Run on the workers of a Dask scheduler: its address, or its scheduler file.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Learn the patterns that people share, and how each person differs.

    percdl fit walks/ --channels RRY --sfreq 100 --atom-length 1.0s --out gait.percdl

    Number of atoms, atom length and penalty are chosen from the data unless given. After Ctrl-C,
    `percdl fit --resume OUT.checkpoint` goes on and ends with the same result. DATA may be
    a folder written by `percdl.write_shards`, which need not fit in memory.

    Exit codes: 0 done, 1 an error of PerCDL, 2 wrong options or files, 3 done but nothing was
    found, 130 interrupted.
    """
    from percdl.signals import as_cohort

    began = time.perf_counter()
    _prepare(out, report)
    keep_recordings(source, {"--out": out, "--report": report})
    with voice.hearing_warnings(), connected(dask, voice) as runtime:
        cohort = read_any_cohort(source)
        if report is not None:
            as_cohort(cohort)  # a report draws all recordings: those on disk are refused now
        voice.say(repr(cohort))
        settings = plain({**asdict(source), **asdict(options), "out": out, "report": report})
        del settings["config"]  # what it said is here
        kept = _beside(out) if checkpoint else None
        model = _fit(cohort, options, settings, voice, resume, kept, runtime)
        with writing(out, "--out"):
            model.save(out)
        for finished in (resume, kept):
            if finished is not None:
                finished.unlink(missing_ok=True)
        if report is not None:
            _write_report(model, report, cohort, read_metadata(source, as_cohort(cohort)))
    _conclude(model, cohort, voice, out, report, time.perf_counter() - began)


def _beside(out: Path) -> Path:
    return out.with_name(out.name + ENDING)


def _prepare(out: Path, report: Path | None) -> None:
    prepare_file(out, "--out")
    if report is not None:
        require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
        prepare_file(report, "--report")


def _fit(
    cohort: AnyCohort,
    options: ModelOptions,
    settings: dict[str, Any],
    voice: Voice,
    resume: Path | None,
    checkpoint: Path | None,
    runtime: Place | None,
) -> PerCDL:
    """Fit, from the start or from a checkpoint; interrupted, say how to go on."""
    from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
    from percdl.estimators.restarts import count_rounds

    model: Any = options.build(cohort.sfreq)
    before = None if resume is None else read_checkpoint(resume)
    if before is None and checkpoint is not None and checkpoint.exists():
        voice.warn(f"{checkpoint} is of an earlier fit and is replaced; --resume goes on from it.")
    n_rounds = count_rounds(model)
    done = 0 if before is None else before.content["restart"] * (model.n_init + model.n_perso)
    done += 0 if before is None else before.n_rounds
    voice.event(
        "start",
        command="fit",
        subjects=len(cohort),
        channels=cohort.channels,
        sfreq=cohort.sfreq,
        rounds=n_rounds,
        rounds_done=done,
        settings=settings,
    )
    saved: list[Path] = [] if resume is None else [resume]
    with voice.rounds(n_rounds - done) as tell, stopping_between_rounds(voice.warn) as check:

        def report(phase: str, index: int, objective: float) -> None:
            if checkpoint is not None:
                saved.append(checkpoint)
            tell(phase, index, objective)
            check()

        try:
            return fit_with_checkpoints(  # pyright: ignore[reportReturnType]
                model,
                cohort,
                checkpoint,
                resume=before,
                report=report,
                settings=settings,
                runtime=runtime,
            )
        except KeyboardInterrupt as stop:
            kept = [path for path in saved if path.exists()]
            raise KeyboardInterrupt(_how_to_resume(kept[-1] if kept else None)) from stop


def _how_to_resume(checkpoint: Path | None) -> str:
    import shlex

    if checkpoint is None:
        return "Stopped; nothing was written that one could go on from."
    return (
        f"Stopped. What was learned is in {checkpoint}. Go on with:\n"
        f"percdl fit --resume {shlex.quote(str(checkpoint))}"
    )


def _write_report(
    model: PerCDL, path: Path, cohort: AnyCohort, metadata: pd.DataFrame | None
) -> None:
    from percdl.report.cohort import write_report

    with writing(path, "--report"):
        write_report(model, path, cohort, metadata=metadata)


def _conclude(
    model: PerCDL, cohort: AnyCohort, voice: Voice, out: Path, report: Path | None, seconds: float
) -> None:
    """Say what came out; leave with another code where nothing did."""
    from percdl.estimators.scoring import explained_share

    found = len(model.events_)
    explained = explained_share(cohort, model.personalization_)
    voice.event(
        "done",
        out=out,
        report=report,
        n_atoms=model.n_atoms_,
        atom_length=model.atom_length_,
        penalty=model.penalty_,
        objective=model.objective_,
        explained=explained,
        events=found,
        stop_reason=model.stop_reason_,
        seconds=round(seconds, 3),
    )
    voice.say(
        f"{model.n_atoms_} atom(s) of {model.atom_length_} samples "
        f"({model.atom_length_ / model.sfreq_:.3g} s), penalty {model.penalty_:.3g}: "
        f"{found} events in {len(cohort)} recording(s), {explained:.1%} of the energy explained."
    )
    voice.say(f"Model: {out}" if report is None else f"Model: {out}\nReport: {report}")
    if not found:
        raise typer.Exit(NOTHING_FOUND)
