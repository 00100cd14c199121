"""``percdl find``: a known pattern, looked for in recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from percdl.cli.data_options import DataOptions, protect_recordings, read_cohort
from percdl.cli.options import optional
from percdl.cli.output import NOTHING_FOUND, Output, fail, prepare_file, writing

if TYPE_CHECKING:
    import numpy as np

    from percdl.signals import Cohort


def find(
    pattern: Annotated[
        Path,
        typer.Argument(
            metavar="PATTERN",
            help="The pattern: a file as the recordings, an .npy file of atoms, or a model.",
        ),
    ],
    source: DataOptions,
    output: Output,
    out: Annotated[Path, typer.Option(help="CSV file of events.")],
    personalize: Annotated[
        bool, typer.Option("--personalize", help="Adapt the pattern to each person by a warp.")
    ] = False,
    penalty: Annotated[
        str, typer.Option(help="Price of an event: a number, a share (10%) or auto.")
    ] = "auto",
    signed: Annotated[bool, typer.Option("--signed", help="Find it upside down, too.")] = False,
    stretch: Annotated[
        float, typer.Option(help="How many times longer or shorter it may be.", min=1)
    ] = 1.0,
    model: Annotated[
        Path | None, optional("Model file to write, for the other commands, optional.")
    ] = None,
) -> None:
    """Find a known pattern in recordings, without learning.

    percdl find pattern.csv recordings/ --sfreq 100 --out events.csv

    The pattern has the channels and the sampling rate of the recordings, after their processing;
    its scale does not matter. Exit code 3: it was not found.
    """
    from percdl.estimators import PerCDL
    from percdl.signals import events_to_csv
    from percdl.steps.coders import L0Coder
    from percdl.transforms import Identity, TimeWarp

    prepare_file(out, "--out")
    if model is not None:
        prepare_file(model, "--model")
    protect_recordings(source, {"--out": out, "--model": model})
    with output.showing_warnings():
        cohort = read_cohort(source)
        output.say(repr(cohort))
        output.event("start", command="find", pattern=pattern, subjects=len(cohort))
        found = PerCDL(
            transformation=TimeWarp() if personalize else Identity(),
            penalty=_as_penalty(penalty),
            coder=L0Coder(signed=signed, stretch=stretch),
            init=read_pattern(pattern, source, cohort),
            random_state=0,
            progress=False,
        ).find(cohort)
        with writing(out, "--out"):
            events_to_csv(found.events_, out)
        if model is not None:
            with writing(model, "--model"):
                found.save(model)
    n_events, explained = len(found.events_), found.score(cohort)
    n_people = int(found.n_activations_.any(1).sum())
    output.event("done", out=out, events=n_events, penalty=found.penalty_, explained=explained)
    output.say(
        f"{n_events} events in {n_people} of {len(cohort)} recording(s), penalty "
        f"{found.penalty_:.3g}, {explained:.1%} of the energy explained.\nEvents: {out}"
    )
    if not n_events:
        raise typer.Exit(NOTHING_FOUND)


def _as_penalty(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # the model checks it


def read_pattern(path: Path, source: DataOptions, cohort: Cohort) -> np.ndarray:
    """Return the atoms of a file: .npy, a model, or one recording that is the pattern."""
    from percdl.cli.model_options import read_dictionary
    from percdl.estimators.container import is_container

    if path.suffix in (".npy", ".percdl") or (path.is_file() and is_container(path)):
        return read_dictionary(str(path))
    plain = {"resample": None, "bandpass": None, "zscore": None, "zscore_jointly": None}
    about = dict.fromkeys(("metadata", "metadata_subject", "group", "subject", "corrections"))
    own = read_cohort(replace(source, data=[str(path)], **plain, **about))
    pattern = own[0]
    if len(own) != 1 or pattern.channels != cohort.channels or own.sfreq != cohort.sfreq:
        fail(
            f"{path} holds {len(own)} pattern(s) with channels {', '.join(own.channels)} at "
            f"{own.sfreq:g} Hz, but the recordings have {', '.join(cohort.channels)} at "
            f"{cohort.sfreq:g} Hz. Save one pattern with these channels, at this rate."
        )
    return pattern.values[None].astype(float)
