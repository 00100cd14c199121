"""``percdl fit`` and ``percdl suggest``: from recordings to a model, or to its settings."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli import data_options as data
from percdl.cli.data_options import DataOptions
from percdl.cli.model_options import ModelOptions, check_atom_length
from percdl.cli.options import Seed, check_table, optional, set_defaults, types_of
from percdl.cli.output import (
    NOTHING_FOUND,
    CommandError,
    Output,
    fail,
    interruptible,
    prepare_file,
    require_packages,
    to_json,
    writing,
)
from percdl.exceptions import PerCDLError

if TYPE_CHECKING:
    from percdl.estimators import PerCDL
    from percdl.runtimes.protocol import Place
    from percdl.signals import AnyCohort

# A checkpoint has the name of the model file and this ending.
ENDING = ".checkpoint"
# Seconds to wait for a Dask scheduler.
PATIENCE = 10


def _resume(context: Any, path: Path | None) -> Path | None:
    """Make the settings of the interrupted fit the defaults of this one."""
    if path is not None and not context.resilient_parsing:
        from percdl.estimators.checkpoint import read_checkpoint

        try:
            set_defaults(context, _trusted(read_checkpoint(path).settings or {}, path))
        except (CommandError, PerCDLError, OSError) as error:
            raise typer.BadParameter(str(error)) from error
    return path


def _trusted(settings: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings that a checkpoint may decide, since it can come from anyone.

    These are the data and the model. The model is written beside the checkpoint, and no address
    is contacted. A report is written if its place is beside the checkpoint or the working folder.
    """
    types = types_of(DataOptions) | types_of(ModelOptions)
    del types["config"]
    known = {name: v for name, v in settings.items() if name in types and v is not None}
    chosen = check_table(known, types, str(path))
    if path.name.endswith(ENDING):
        chosen["out"] = path.with_name(path.name.removesuffix(ENDING))
    report = settings.get("report")
    if isinstance(report, str) and report.isprintable() and report.endswith(".html"):
        if Path(report).resolve().parent in (path.resolve().parent, Path.cwd().resolve()):
            return {**chosen, "report": report}
    if report is not None:
        typer.echo(f"To write the report of that fit as well: --report {report!r}", err=True)
    return chosen


Out = Annotated[Path, typer.Option(help="Model file to write or replace.")]
Page = Annotated[Path | None, optional("HTML report to write, optional.")]
Resume = Annotated[
    Path | None,
    optional(
        "Continue from the checkpoint of an interrupted fit, with its settings.",
        is_eager=True,
        callback=_resume,
    ),
]
Checkpoint = Annotated[
    bool, typer.Option(help="Write OUT.checkpoint after each round. Ctrl-C keeps it.")
]
Dask = Annotated[
    str | None,
    optional(
        "Run on Dask workers: address of the scheduler, or its scheduler file.", metavar="ADDRESS"
    ),
]


def fit(
    source: DataOptions,
    options: ModelOptions,
    output: Output,
    out: Out = Path("model.percdl"),
    report: Page = None,
    resume: Resume = None,
    checkpoint: Checkpoint = True,
    dask: Dask = None,
) -> None:
    """Learn the patterns that subjects share, and how each subject differs.

    percdl fit walks/ --channels RRY --sfreq 100 --atom-length 1.0s --out gait.percdl

    The number of atoms, their length and the penalty are estimated from the data unless given.
    After Ctrl-C, `percdl fit --resume OUT.checkpoint` continues and gives the same result. DATA
    can be a folder of `percdl.write_shards`, which need not fit in memory. Exit codes are those
    of `percdl --help`; 3: no pattern was found.
    """
    from percdl.signals import as_cohort

    began = time.perf_counter()
    prepare_file(out, "--out")
    if report is not None:
        require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
        prepare_file(report, "--report")
    data.protect_recordings(source, {"--out": out, "--report": report})
    with output.showing_warnings(), _connected(dask, output) as runtime:
        cohort = data.read_any_cohort(source)
        if report is not None:
            as_cohort(cohort)  # raises for shards: a report needs all recordings in memory
        output.say(repr(cohort))
        settings = {**asdict(source), **options.values, "out": out, "report": report}
        del settings["config"]  # its options are among the others
        settings = json.loads(to_json(settings, infinity="strings"))
        kept = out.with_name(out.name + ENDING) if checkpoint else None
        model = _fit(cohort, options.build(cohort), settings, output, (resume, kept), runtime)
        with writing(out, "--out"):
            model.save(out)
        for finished in filter(None, (resume, kept)):
            finished.unlink(missing_ok=True)
        if report is not None:
            from percdl.report.cohort import write_report

            with writing(report, "--report"):
                metadata = data.read_metadata(source, as_cohort(cohort))
                write_report(model, report, cohort, metadata=metadata)
    seconds = time.perf_counter() - began
    _conclude(model, cohort, output, {"out": out, "report": report}, seconds)


def _fit(
    cohort: AnyCohort,
    model: Any,
    settings: dict[str, Any],
    output: Output,
    checkpoints: tuple[Path | None, Path | None],
    runtime: Place | None,
) -> PerCDL:
    """Fit, from the start or from a checkpoint; if interrupted, say how to continue."""
    from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
    from percdl.estimators.fitting import count_rounds, rounds_per_run

    resume, checkpoint = checkpoints
    before = None if resume is None else read_checkpoint(resume)
    if before is None and checkpoint is not None and checkpoint.exists():
        output.warn(f"{checkpoint}, of an earlier fit, is replaced. To continue it: --resume.")
    n_rounds, done = count_rounds(model), 0
    if before is not None:
        done = before.content["restart"] * rounds_per_run(model) + before.n_rounds
    about = {"subjects": len(cohort), "channels": cohort.channels, "sfreq": cohort.sfreq}
    about |= {"rounds": n_rounds, "rounds_done": done, "settings": settings}
    output.event("start", command="fit", **about)

    def advise() -> str:
        saved = [path for path in (checkpoint, resume) if path is not None and path.exists()]
        if not saved:
            return "Stopped before a checkpoint was written."
        again = f"percdl fit --resume {shlex.quote(str(saved[0]))}"
        return f"Stopped. The last round is in {saved[0]}. Continue with:\n{again}"

    with interruptible(output, n_rounds - done, advise) as report:
        options = {"report": report, "settings": settings, "runtime": runtime}
        return fit_with_checkpoints(model, cohort, checkpoint, resume=before, **options)  # pyright: ignore


def _conclude(
    model: PerCDL, cohort: AnyCohort, output: Output, files: dict[str, Any], seconds: float
) -> None:
    """Print the result; exit with `NOTHING_FOUND` if there are no events."""
    from percdl.estimators.personalization import explained_share

    n_events, explained = len(model.events_), explained_share(cohort, model.personalization_)
    names = ("n_atoms", "atom_length", "penalty", "objective", "stop_reason")
    about = {name: getattr(model, f"{name}_") for name in names}
    about |= {"explained": explained, "events": n_events, "seconds": round(seconds, 3)}
    output.event("done", **files, **about)
    output.say(
        f"{model.n_atoms_} atom(s) of {model.atom_length_} samples "
        f"({model.atom_length_ / model.sfreq_:.3g} s), penalty {model.penalty_:.3g}: {n_events} "
        f"events in {len(cohort)} recording(s), {explained:.1%} of the energy explained.\n"
        f"Model: {files['out']}"
    )
    if files["report"] is not None:
        output.say(f"Report: {files['report']}")
    if not n_events:
        raise typer.Exit(NOTHING_FOUND)


@contextmanager
def _connected(address: str | None, output: Output) -> Iterator[Place | None]:
    """Yield the workers of a Dask scheduler as a runtime; None without an address."""
    if address is None:
        yield None
        return
    require_packages(("distributed",), "distributed", "--dask runs on Dask workers")
    from distributed import Client

    from percdl.runtimes.dask import DaskRuntime

    kind = "scheduler_file" if Path(address).is_file() else "address"
    where: dict[str, Any] = {kind: address}
    try:
        client = Client(**where, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        fail(
            f"--dask {address}: no scheduler answers ({error}). Pass an address such as "
            "tcp://scheduler:8786, or the file of a scheduler that runs."
        )
    with client:
        if not client.nthreads():
            output.warn(f"the scheduler at {address} has no workers yet. The fit waits for one.")
        yield DaskRuntime(client)


AtomLength = Annotated[
    str,
    typer.Option(
        help="If given, choose the rest for it: 1.0s, 250ms, 100 (samples).",
        callback=check_atom_length,
        metavar="DURATION",
    ),
]


def suggest(
    source: DataOptions, output: Output, atom_length: AtomLength = "auto", seed: Seed = 0
) -> None:
    """Suggest the atom length, the number of atoms and the penalty for recordings.

    percdl suggest walks/ --channels RRY --sfreq 100

    The atom length comes from the period of the recordings, the penalty from their noise. Exit
    code 3: the recordings are not periodic.
    """
    from percdl.analysis import suggest_atom_length
    from percdl.estimators import PerCDL
    from percdl.estimators.start import choose
    from percdl.estimators.validation import check_arguments
    from percdl.exceptions import InvalidRecordingError

    period = None
    with output.showing_warnings():
        cohort = data.read_cohort(source)
        output.say(repr(cohort))
        output.event("start", command="suggest", subjects=len(cohort))
        if atom_length == "auto":
            try:
                period = suggest_atom_length(cohort)
            except InvalidRecordingError as error:
                output.warn(str(error))
                raise typer.Exit(NOTHING_FOUND) from error
        length = atom_length if period is None else period.length
        model = PerCDL(atom_length=length, random_state=seed, progress=False)
        check_arguments(model)
        chosen = choose(model, cohort)
    n_atoms, n_samples = chosen.n_atoms, chosen.atom_length
    seconds = n_samples / cohort.sfreq
    about = {"n_atoms": n_atoms, "atom_length": n_samples, "atom_seconds": seconds}
    for name in ("period", "confidence"):
        about[name] = getattr(period, name, None)
    output.event("done", **about, penalty=chosen.penalty)
    if period is not None:
        output.say(
            f"period       {period.period / cohort.sfreq:.3g} s (median over recordings; "
            f"similarity of cycles {period.confidence:.2f} of 1)"
        )
    penalty = f"{float(f'{chosen.penalty:.3g}'):g}"
    output.say(
        f"atom length  {n_samples} samples, {seconds:.3g} s\n"
        f"atoms        {n_atoms}\n"
        f"penalty      {penalty} (lower: more events, higher: only clear ones)\n"
        f"To fit:      percdl fit ... --atom-length {n_samples} --n-atoms {n_atoms} --penalty "
        f"{penalty}"
    )
