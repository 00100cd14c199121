"""``percdl suggest``: what to tell ``percdl fit``."""

from __future__ import annotations

from typing import Annotated

import typer

from percdl.cli.data_options import DataOptions, read_cohort
from percdl.cli.durations import AUTO, check_duration_or_auto, in_samples
from percdl.cli.errors import NOTHING_FOUND
from percdl.cli.model_options import LARGEST_SEED
from percdl.cli.voice import Voice


def suggest(
    source: DataOptions,
    voice: Voice,
    atom_length: Annotated[
        str,
        typer.Option(
            help="Given, the rest is chosen for it: 1.0s, 250ms, 100 (samples).",
            callback=check_duration_or_auto,
            metavar="DURATION",
        ),
    ] = AUTO,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Decides all that is drawn.")
    ] = 0,
) -> None:
    """Suggest atom length, number of atoms and penalty for recordings.

    percdl suggest walks/ --channels RRY --sfreq 100

    The atom length comes from the period at which recordings repeat themselves, the penalty from
    their noise. Exit code 3: they do not repeat themselves.
    """
    from percdl.analysis import suggest_atom_length
    from percdl.estimators import PerCDL
    from percdl.estimators.automatic import choose
    from percdl.estimators.validation import check_parameters
    from percdl.exceptions import InvalidRecordingError

    with voice.hearing_warnings():
        cohort = read_cohort(source)
        voice.say(repr(cohort))
        voice.event("start", command="suggest", subjects=len(cohort))
        length, period = in_samples(atom_length, cohort.sfreq), None
        if length == AUTO:
            try:
                period = suggest_atom_length(cohort)
            except InvalidRecordingError as error:
                voice.warn(str(error))
                raise typer.Exit(NOTHING_FOUND) from error
            length = period.length
        model = PerCDL(AUTO, length, penalty=AUTO, random_state=seed, progress=False)
        check_parameters("PerCDL", model.get_params(deep=False))
        chosen = choose(model, cohort)
    confidence = None if period is None else period.confidence
    voice.event(
        "done",
        n_atoms=chosen.n_atoms,
        atom_length=chosen.atom_length,
        atom_seconds=chosen.atom_length / cohort.sfreq,
        penalty=chosen.penalty,
        period=None if period is None else period.period,
        confidence=confidence,
    )
    penalty = f"{float(f'{chosen.penalty:.3g}'):g}"
    if period is not None:
        voice.say(
            f"period       {period.period / cohort.sfreq:.3g} s (median; similarity of cycles "
            f"{confidence:.2f} of 1)"
        )
    voice.say(
        f"atom length  {chosen.atom_length} samples, {chosen.atom_length / cohort.sfreq:.3g} s\n"
        f"atoms        {chosen.n_atoms}\n"
        f"penalty      {penalty} (lower finds more, higher only what is clear)\n"
        f"To fit:      percdl fit ... --atom-length {chosen.atom_length} --n-atoms "
        f"{chosen.n_atoms} --penalty {penalty}"
    )
