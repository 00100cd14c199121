"""``percdl personalize``: people never seen, through a model that is fixed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from percdl.cli.data_options import DataOptions, keep_recordings, read_cohort
from percdl.cli.errors import NOTHING_FOUND, prepare_file, writing
from percdl.cli.voice import Voice

if TYPE_CHECKING:
    import pandas as pd

    from percdl.estimators.personalization import Personalization

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Written by `percdl fit`.")]


def personalize(
    model: Model,
    source: DataOptions,
    voice: Voice,
    out: Annotated[Path, typer.Option(help="CSV file of parameters: a row per subject and atom.")],
    events: Annotated[
        Path | None, typer.Option(help="CSV file of events as well.", show_default=False)
    ] = None,
) -> None:
    """Express new recordings by the atoms of a model: everyone's parameters, as a table.

    percdl personalize gait.percdl new/ --out params.csv --events events.csv

    How files are read and processed is as in the fit, unless options say otherwise. Exit code 3:
    nothing was found in any recording.
    """
    from percdl.estimators.persistence import load
    from percdl.signals import events_to_csv

    prepare_file(out, "--out")
    if events is not None:
        prepare_file(events, "--events")
    keep_recordings(source, {"--out": out, "--events": events})
    with voice.hearing_warnings():
        fitted = load(model)
        cohort = read_cohort(source, fitted.settings_)
        voice.say(repr(cohort))
        voice.event("start", command="personalize", model=model, subjects=len(cohort))
        found = fitted.personalize(cohort)
    with writing(out, "--out"):
        _write_table(parameter_table(found), out)
    if events is not None:
        with writing(events, "--events"):
            events_to_csv(found.events, events)
    voice.event("done", out=out, events_file=events, events=len(found.events))
    voice.say(f"{len(found.events)} events in {len(cohort)} recording(s).\nParameters: {out}")
    if events is not None:
        voice.say(f"Events: {events}")
    if not len(found.events):
        raise typer.Exit(NOTHING_FOUND)


def parameter_table(found: Personalization) -> pd.DataFrame:
    """Return a row per subject and atom: activations and parameters, empty where unknown."""
    import numpy as np
    import pandas as pd

    n_subjects, n_atoms, n_params = found.params.shape
    table = pd.DataFrame(
        {
            "subject": np.repeat(np.asarray(found.subjects, object), n_atoms),
            "atom": np.tile(np.arange(n_atoms), n_subjects),
            "activations": found.n_activations.ravel(),
        }
    )
    names = [f"param{m}" for m in range(n_params)]
    params = pd.DataFrame(found.params.reshape(-1, n_params), columns=pd.Index(names))
    return pd.concat([table, params], axis=1)


def _write_table(table: pd.DataFrame, path: Path) -> None:
    from percdl.signals.writers.files import replace_file

    replace_file(path, table.to_csv(index=False, lineterminator="\n").encode("utf-8"))
