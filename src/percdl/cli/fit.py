"""Commands that make a model, or its settings, from recordings: ``fit``, ``find``, ``suggest``."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import percdl
from percdl.cli import data_options as data
from percdl.cli.data_options import DataOptions, Person, Reference
from percdl.cli.model_options import (
    ModelOptions,
    check_atom_length,
    check_pattern,
    files_of,
    holds_atoms,
    read_dictionary,
    read_model,
)
from percdl.cli.options import Seed, argument, check_table, option, set_defaults, types_of
from percdl.cli.output import (
    NOTHING_FOUND,
    Output,
    fail,
    interruptible,
    require_packages,
    to_json,
    writing,
)
from percdl.exceptions import InvalidRecordingError, PerCDLError

if TYPE_CHECKING:
    import numpy as np

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
        except (PerCDLError, OSError) as error:
            raise typer.BadParameter(str(error)) from error
    return path


def _trusted(settings: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings that a checkpoint may decide, since it can come from anyone.

    These are the data and the model. The model is written beside the checkpoint, and no address
    is contacted. A report is written if its place is beside the checkpoint or the working folder.
    """
    types = types_of(DataOptions) | types_of(ModelOptions)
    types |= {"reference": Reference, "person": Person}
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


def fit(
    source: DataOptions,
    options: ModelOptions,
    output: Output,
    out: Annotated[Path, option("Model file to write or replace.")] = Path("model.percdl"),
    report: Annotated[Path | None, option("HTML report to write, optional.")] = None,
    reference: Reference = None,
    person: Person = None,
    resume: Annotated[
        Path | None,
        option(
            "Continue from the checkpoint of an interrupted fit, with its settings.",
            is_eager=True,
            callback=_resume,
        ),
    ] = None,
    checkpoint: Annotated[
        bool, option("Write OUT.checkpoint after each round. Ctrl-C keeps it.")
    ] = True,
    dask: Annotated[
        str | None,
        option(
            "Run on Dask workers: address of the scheduler, or its scheduler file.",
            metavar="ADDRESS",
        ),
    ] = None,
) -> None:
    """Learn the patterns that subjects share, and how each subject differs.

    percdl fit walks/ --channels RRY --sfreq 100 --atom-length 1.0s --out gait.percdl

    The number of atoms, their length and the penalty are estimated from the data unless given.
    After Ctrl-C, `percdl fit --resume OUT.checkpoint` continues and gives the same result. DATA
    can be a folder of `percdl.write_shards`, which need not fit in memory. A fit that starts from
    a model (--init) keeps its landmarks. Exit codes are those of `percdl --help`; 3: no pattern
    was found.
    """
    from percdl.signals import as_cohort

    began = time.perf_counter()
    if report is not None:
        require_packages(("jinja2", "plotly", "matplotlib"), "plot", "a report draws pictures")
    inputs = [resume, *files_of(options.values["init"])]
    data.prepare_files({"--out": out, "--report": report}, source, inputs)
    with _connected(dask, output) as runtime:
        cohort = data.read_any_cohort(source)
        if report is not None:
            as_cohort(cohort)  # raises for shards: a report needs all recordings in memory
        output.say(repr(cohort))
        about = {"reference": reference, "person": person}
        settings = {**asdict(source), **options.values, **about, "out": out, "report": report}
        del settings["config"]  # its options are among the others
        settings = json.loads(to_json(settings, infinity="strings"))
        kept = out.with_name(out.name + ENDING) if checkpoint else None
        model = _fit(cohort, options.build(cohort), settings, output, (resume, kept), runtime)
        _keep_landmarks(model, options.values["init"], cohort, output)
        with writing(out, "--out"):
            model.save(out)
        for finished in filter(None, (resume, kept)):
            finished.unlink(missing_ok=True)
        if report is not None:
            with writing(report, "--report"):
                metadata = data.read_metadata(source, as_cohort(cohort))
                model.report(report, cohort, metadata=metadata, **about)
    _conclude(model, cohort, output, out, report, time.perf_counter() - began)


def _fit(
    cohort: AnyCohort,
    model: percdl.PerCDL,
    settings: dict[str, Any],
    output: Output,
    checkpoints: tuple[Path | None, Path | None],
    runtime: Place | None,
) -> percdl.PerCDL:
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


def _keep_landmarks(model: Any, init: str, cohort: AnyCohort, output: Output) -> None:
    """Place the landmarks of the model in --init where it finds them in the recordings."""
    before = read_model(init)
    if before is None or not before.marks_:
        return
    try:
        found = before.landmarks(cohort).rename(columns={"landmark": "label"})
        for mark in before.marks_:
            own = found[found["label"] == mark.name]
            *others, new = model.mark(mark.name, mark.atom, own, channel=mark.channel).marks_
            # How sure the landmark is does not change.
            model.marks_ = (*others, replace(new, spread=mark.spread))
    except PerCDLError as error:
        output.warn(f"not all landmarks of {init} are kept. {error}")


def _conclude(
    model: percdl.PerCDL,
    cohort: AnyCohort,
    output: Output,
    out: Path,
    report: Path | None,
    seconds: float,
) -> None:
    from percdl.estimators.personalization import explained_share

    n_events, explained = len(model.events_), explained_share(cohort, model.personalization_)
    names = ("n_atoms", "atom_length", "penalty", "objective", "stop_reason")
    about = {name: getattr(model, f"{name}_") for name in names}
    about |= {"explained": explained, "events": n_events, "seconds": round(seconds, 3)}
    text = (
        f"{model.n_atoms_} atom(s) of {model.atom_length_} samples "
        f"({model.atom_length_ / model.sfreq_:.3g} s), penalty {model.penalty_:.3g}: {n_events} "
        f"events in {len(cohort)} recording(s), {explained:.1%} of the energy explained.\n"
        f"Model: {out}"
    )
    text += "" if report is None else f"\nReport: {report}"
    output.done(text, n_events, out=out, report=report, **about)


@contextmanager
def _connected(address: str | None, output: Output) -> Iterator[Place | None]:
    """Yield the workers of a Dask scheduler as a runtime; None without an address."""
    if address is None:
        yield None
        return
    require_packages(("distributed",), "distributed", "--dask runs on Dask workers")
    from distributed import Client

    where: Any = {"scheduler_file" if Path(address).is_file() else "address": address}
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
        yield percdl.DaskRuntime(client)


def find(
    pattern: Annotated[
        Path,
        argument(
            "PATTERN", "The pattern: a file as the recordings, an .npy file of atoms, or a model."
        ),
    ],
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("CSV file of events.")],
    personalize: Annotated[
        bool, option("Adapt the pattern to each person by a warp.", "--personalize")
    ] = False,
    penalty: Annotated[str, option("Price of an event: number, share (10%) or auto.")] = "auto",
    signed: Annotated[bool, option("Find it upside down, too.", "--signed")] = False,
    stretch: Annotated[float, option("How many times longer or shorter it may be.", min=1)] = 1.0,
    model: Annotated[Path | None, option("Model file to write, for the other commands.")] = None,
) -> None:
    """Find a known pattern in recordings, without learning.

    percdl find pattern.csv recordings/ --sfreq 100 --out events.csv

    The pattern has the channels and the sampling rate of the recordings, after their processing;
    its scale does not matter. Exit code 3: it was not found.
    """
    data.prepare_files({"--out": out, "--model": model}, source, [pattern])
    cohort = data.read_cohort(source)
    output.say(repr(cohort))
    output.event("start", command="find", pattern=pattern, subjects=len(cohort))
    found = percdl.PerCDL(
        transformation=percdl.TimeWarp() if personalize else percdl.Identity(),
        penalty=_as_penalty(penalty),
        coder=percdl.L0Coder(signed=signed, stretch=stretch),
        init=_read_pattern(pattern, source, cohort),
        random_state=0,
        progress=False,
    ).find(cohort)
    with writing(out, "--out"):
        percdl.events_to_csv(found.events_, out)
    if model is not None:
        with writing(model, "--model"):
            found.save(model)
    n_events, explained = len(found.events_), found.score(cohort)
    n_people = int(found.n_activations_.any(1).sum())
    output.done(
        f"{n_events} events in {n_people} of {len(cohort)} recording(s), penalty "
        f"{found.penalty_:.3g}, {explained:.1%} of the energy explained.\nEvents: {out}",
        n_events,
        out=out,
        events=n_events,
        penalty=found.penalty_,
        explained=explained,
    )


def _as_penalty(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # the model checks it


def _read_pattern(path: Path, source: DataOptions, cohort: percdl.Cohort) -> np.ndarray:
    """Return the atoms of a file: .npy, a model, or one recording that is the pattern."""
    if holds_atoms(path):
        return read_dictionary(str(path), cohort)
    plain = ("resample", "bandpass", "zscore", "zscore_jointly")
    about = ("metadata", "metadata_subject", "group", "subject", "corrections")
    none: dict[str, Any] = dict.fromkeys((*plain, *about))
    own = data.read_cohort(replace(source, data=[str(path)], **none))
    if len(own) != 1:
        fail(f"{path} holds {len(own)} recordings. Pass one recording, which is the pattern.")
    check_pattern(path, 1, own.channels, own.sfreq, cohort)
    return own[0].values[None].astype(float)


def suggest(
    source: DataOptions,
    output: Output,
    atom_length: Annotated[
        str,
        option(
            "If given, choose the rest for it: 1.0s, 250ms, 100 (samples).",
            callback=check_atom_length,
            metavar="DURATION",
        ),
    ] = "auto",
    seed: Seed = 0,
) -> None:
    """Suggest the atom length, the number of atoms and the penalty for recordings.

    percdl suggest walks/ --channels RRY --sfreq 100

    The atom length comes from the period of the recordings, the penalty from their noise. Exit
    code 3: the recordings are not periodic.
    """
    from percdl.estimators.start import choose
    from percdl.estimators.validation import check_arguments

    period = None
    cohort = data.read_cohort(source)
    output.say(repr(cohort))
    output.event("start", command="suggest", subjects=len(cohort))
    if atom_length == "auto":
        try:
            period = percdl.suggest_atom_length(cohort)
        except InvalidRecordingError as error:
            output.warn(str(error))
            raise typer.Exit(NOTHING_FOUND) from error
    length = atom_length if period is None else period.length
    model = percdl.PerCDL(atom_length=length, random_state=seed, progress=False)
    check_arguments(model)
    chosen = choose(model, cohort)
    n_atoms, n_samples = chosen.n_atoms, chosen.atom_length
    seconds, penalty = n_samples / cohort.sfreq, f"{float(f'{chosen.penalty:.3g}'):g}"
    lines = [
        f"atom length  {n_samples} samples, {seconds:.3g} s",
        f"atoms        {n_atoms}",
        f"penalty      {penalty} (lower: more events, higher: only clear ones)",
        f"To fit:      percdl fit ... --atom-length {n_samples} --n-atoms {n_atoms} --penalty "
        f"{penalty}",
    ]
    if period is not None:
        line = (
            f"period       {period.period / cohort.sfreq:.3g} s (median over recordings; "
            f"similarity of cycles {period.confidence:.2f} of 1)"
        )
        lines.insert(0, line)
    about = {"n_atoms": n_atoms, "atom_length": n_samples, "atom_seconds": seconds}
    about |= {name: getattr(period, name, None) for name in ("period", "confidence")}
    output.done("\n".join(lines), **about, penalty=chosen.penalty)
