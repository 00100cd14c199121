"""``percdl score`` and ``percdl reliability``: how well events and numbers agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.data_options import DataOptions, protect_recordings, read_cohort, read_metadata
from percdl.cli.model_commands import Model
from percdl.cli.options import optional
from percdl.cli.output import Output, fail, prepare_file, require_packages, writing

if TYPE_CHECKING:
    import pandas as pd

    from percdl.analysis import Segmentation

PICTURES = (".png", ".svg", ".pdf")


def reliability(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, typer.Option(help="CSV file, one row per measurement.")],
    person: Annotated[str, typer.Option(help="Column of --metadata: the person recorded.")],
    visit: Annotated[
        str | None, optional("Column of --metadata: the visit. (default: order of the files)")
    ] = None,
) -> None:
    """Measure how well the numbers of a model repeat when people are recorded again.

    percdl reliability gait.percdl walks/ --metadata walks.csv --person name --out reliability.csv

    The table holds ICC(2,1), standard error and smallest detectable change of warps, deviation
    index and period (docs/reliability.md).
    """
    from percdl.analysis import describe_recordings, measure_reliability
    from percdl.estimators.modelfile import load
    from percdl.signals.files import replace_file

    prepare_file(out, "--out")
    protect_recordings(source, {"--out": out})
    with output.showing_warnings():
        fitted = load(model)
        cohort = read_cohort(source, fitted)
        table = read_metadata(source, cohort, fitted)
        wanted = [name for name in (person, visit) if name is not None]
        if table is None or not {*wanted} <= {*table.columns}:
            fail(f"--metadata needs a table with the column(s) {', '.join(wanted)}.")
        persons, *visits = (table[name].astype(str).tolist() for name in wanted)
        of_fit = not {*cohort.subjects}.isdisjoint(fitted.subjects_)
        others = None if of_fit else fitted
        numbers = describe_recordings(
            fitted.personalize(cohort), cohort, reference=others, persons=persons
        )
        found = measure_reliability(numbers.dropna(axis=1, how="all"), persons, *visits)
    with writing(out, "--out"):
        replace_file(out, found.to_csv(lineterminator="\n").encode("utf-8"))
    output.event("done", out=out, measurements=len(found))
    output.say(f"{found[['icc', 'sem', 'sdc']].to_string(float_format='%.3g')}\nTable: {out}")


def score(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="A model, or a file of events or annotations.")
    ],
    annotations: Annotated[
        str,
        typer.Argument(
            metavar="ANNOTATIONS",
            help="WFDB (.atr, .ii), events.tsv or CSV: a file, a folder or a quoted pattern.",
        ),
    ],
    output: Output,
    tolerance: Annotated[str, typer.Option(help="Largest distance of a match: 150ms, 0.1s.")] = (
        "150ms"
    ),
    lag: Annotated[
        str,
        typer.Option(
            help="Seconds from an annotation to the onset of its event; auto: the usual lag."
        ),
    ] = "auto",
    label: Annotated[
        list[str] | None,
        optional("Label or symbol of the annotations: N. (default: beats, or everything)"),
    ] = None,
    between: Annotated[
        bool, typer.Option("--between", help="Only between a subject's first and last annotation.")
    ] = False,
    sfreq: Annotated[float | None, optional("Sampling rate, if files do not state it.")] = None,
    out: Annotated[Path | None, optional("CSV file, one row per subject, optional.")] = None,
    plot: Annotated[
        Path | None, optional("Picture of the errors and misses (PNG, SVG or PDF), optional.")
    ] = None,
) -> None:
    """Compare events with annotations: sensitivity, positive predictive value, F1 and timing.

    percdl score events.csv "mitdb/*.atr" --tolerance 150ms

    Subjects have the same names in both. Annotations of one subject match its events one to one.
    """
    from percdl.analysis import score_events
    from percdl.signals import read_annotations
    from percdl.signals.files import replace_file

    _check_times(tolerance, lag)
    for option, path in (("--out", out), ("--plot", plot)):
        if path is not None:
            prepare_file(path, option)
    if plot is not None:
        _check_picture(plot)
    late: Any = lag if lag == "auto" else float(lag)
    with output.showing_warnings():
        found = _read_events(events, sfreq)
        marks = read_annotations(annotations, labels=label, sfreq=sfreq)
        result = score_events(found, marks, tolerance, lag=late, between=between)
    _say_score(result, output)
    if out is not None:
        with writing(out, "--out"):
            replace_file(out, result.table.to_csv(index=False, lineterminator="\n").encode())
        output.say(f"Table: {out}")
    if plot is not None:
        from percdl.plotting import plot_score

        figure: Any = plot_score(result).figure
        with writing(plot, "--plot"):
            figure.savefig(plot, dpi=150)
        output.say(f"Picture: {plot}")


def _check_picture(path: Path) -> None:
    """Exit unless a picture can be drawn and saved under this name."""
    require_packages(("matplotlib",), "plot", "--plot draws a picture")
    if path.suffix.lower() not in PICTURES:
        fail(f"--plot {path} must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")


def _check_times(tolerance: str, lag: str) -> None:
    """Exit unless the tolerance is a duration and the lag is a number or "auto"."""
    from percdl.parameters import is_duration

    if not is_duration(tolerance):
        fail(f"--tolerance {tolerance} must be a duration, 150ms or 0.1s.")
    try:
        float(0 if lag == "auto" else lag)
    except ValueError:
        fail(f"--lag {lag} must be a number of seconds, or auto.")


def _read_events(name: str, sfreq: float | None) -> pd.DataFrame:
    """Return the events of the fit of a model, or those of files."""
    from percdl.estimators.container import is_container
    from percdl.estimators.modelfile import load
    from percdl.signals import read_annotations

    path = Path(name)
    if path.is_file() and is_container(path):
        return load(path).events_
    return read_annotations(name, labels="all", sfreq=sfreq)


def _say_score(result: Segmentation, output: Output) -> None:
    """Print the score, times in ms."""
    names = ("sensitivity", "ppv", "f1", "lag", "timing_bias", "timing_sd", "timing_error")
    output.event(
        "done",
        **{name: getattr(result, name) for name in names},
        found=result.n_found,
        annotated=result.n_cycles,
        detections=result.n_detections,
        table=result.table.to_dict("records"),
    )
    found = result.n_found
    output.say(
        f"sensitivity  {result.sensitivity:.4f} ({found} of {result.n_cycles} annotations)\n"
        f"PPV          {result.ppv:.4f} ({found} of {result.n_detections} events)\n"
        f"F1           {result.f1:.4f}\n"
        f"timing       {1e3 * result.timing_bias:+.1f} ms mean, {1e3 * result.timing_sd:.1f} ms "
        f"s.d., {1e3 * result.timing_error:.1f} ms mean distance, after a lag of "
        f"{1e3 * result.lag:.1f} ms"
    )
