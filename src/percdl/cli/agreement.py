"""``percdl score`` and ``percdl reliability``: how well events and numbers agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import percdl
from percdl.cli.data_options import DataOptions, prepare_files, read_cohort, read_metadata
from percdl.cli.model_options import read_model
from percdl.cli.options import Model, argument, option
from percdl.cli.output import Output, fail, require_packages, write_table, writing

if TYPE_CHECKING:
    import pandas as pd

PICTURES = (".png", ".svg", ".pdf")


def reliability(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("CSV file, one row per measurement.")],
    person: Annotated[str, option("Column of --metadata: the person recorded.")],
    visit: Annotated[
        str | None, option("Column of --metadata: the visit. (default: order of the files)")
    ] = None,
) -> None:
    """Measure how well the numbers of a model repeat when people are recorded again.

    percdl reliability gait.percdl walks/ --metadata walks.csv --person name --out reliability.csv

    The table holds ICC(2,1), standard error and smallest detectable change of warps, deviation
    index and period (docs/reliability.md).
    """
    from percdl.analysis import describe_recordings, measure_reliability
    from percdl.signals.recording import abbreviate

    fitted = percdl.load(model)
    prepare_files({"--out": out}, source.with_table_of(fitted), [model])
    cohort = read_cohort(source, fitted)
    table = read_metadata(source, cohort, fitted)
    wanted = [name for name in (person, visit) if name is not None]
    if table is None or not {*wanted} <= {*table.columns}:
        fail(f"--metadata needs a table with the column(s) {', '.join(wanted)}.")
    for name in wanted:
        column: Any = table[name]
        if unknown := column.index[column.isna()].tolist():
            fail(
                f"the column {name!r} of the metadata is empty for {abbreviate(unknown, 10)}. "
                "Fill it in, or leave these recordings out."
            )
    persons, *visits = (table[name].astype(str).tolist() for name in wanted)
    others = fitted if {*cohort.subjects}.isdisjoint(fitted.subjects_) else None
    found = fitted.personalize(cohort)
    numbers = describe_recordings(found, cohort, reference=others, persons=persons)
    agreement = measure_reliability(numbers.dropna(axis=1, how="all"), persons, *visits)
    write_table(agreement, out, "--out", index=True)
    text = agreement[["icc", "sem", "sdc"]].to_string(float_format="%.3g")
    output.done(f"{text}\nTable: {out}", out=out, measurements=len(agreement))


def score(
    events: Annotated[str, argument("EVENTS", "A model, or a file of events or annotations.")],
    annotations: Annotated[
        str,
        argument(
            "ANNOTATIONS",
            "WFDB (.atr, .ii), events.tsv or CSV: a file, a folder or a quoted pattern.",
        ),
    ],
    output: Output,
    tolerance: Annotated[str, option("Largest distance of a match: 150ms, 0.1s.")] = "150ms",
    lag: Annotated[
        str, option("Seconds from an annotation to the onset of its event; auto: the usual lag.")
    ] = "auto",
    label: Annotated[
        list[str] | None,
        option("Label or symbol of the annotations: N. (default: beats, or everything)"),
    ] = None,
    between: Annotated[bool, option("Only from first to last annotation.", "--between")] = False,
    sfreq: Annotated[float | None, option("Sampling rate, if files do not state it.")] = None,
    out: Annotated[Path | None, option("CSV file, one row per subject, optional.")] = None,
    plot: Annotated[Path | None, option("Picture of errors and misses (PNG, SVG or PDF).")] = None,
) -> None:
    """Compare events with annotations: sensitivity, positive predictive value, F1 and timing.

    percdl score events.csv "mitdb/*.atr" --tolerance 150ms

    Subjects have the same names in both. Annotations of one subject match its events one to one.
    """
    from percdl.analysis import score_events
    from percdl.signals.annotations import find_annotations

    late = _read_times(tolerance, lag)
    inputs = find_annotations([events, annotations])
    prepare_files({"--out": out, "--plot": plot}, others=inputs)
    if plot is not None:
        require_packages(("matplotlib",), "plot", "--plot draws a picture")
        if plot.suffix.lower() not in PICTURES:
            fail(f"--plot {plot} must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")
    if (model := read_model(events)) is not None:
        found = model.events_
    else:
        found = percdl.read_annotations(events, labels="all", sfreq=sfreq)
    marks = percdl.read_annotations(annotations, labels=label, sfreq=sfreq or _rate_of(found))
    result = score_events(found, marks, tolerance, lag=late, between=between)
    text = (
        f"sensitivity  {result.sensitivity:.4f} ({result.n_found} of {result.n_cycles} "
        "annotations)\n"
        f"PPV          {result.ppv:.4f} ({result.n_found} of {result.n_detections} events)\n"
        f"F1           {result.f1:.4f}\n"
        f"timing       {1e3 * result.timing_bias:+.1f} ms mean, {1e3 * result.timing_sd:.1f} ms "
        f"s.d., {1e3 * result.timing_error:.1f} ms mean distance, after a lag of "
        f"{1e3 * result.lag:.1f} ms"
    )
    if out is not None:
        write_table(result.table, out, "--out")
        text += f"\nTable: {out}"
    if plot is not None:
        from percdl.plotting import plot_score

        figure: Any = plot_score(result).figure
        with writing(plot, "--plot"):
            figure.savefig(plot, dpi=150)
        text += f"\nPicture: {plot}"
    names = ("sensitivity", "ppv", "f1", "lag", "timing_bias", "timing_sd", "timing_error")
    output.done(
        text,
        **{name: getattr(result, name) for name in names},
        found=result.n_found,
        annotated=result.n_cycles,
        detections=result.n_detections,
        table=result.table.to_dict("records"),
    )


def _read_times(tolerance: str, lag: str) -> Any:
    """Return the lag; exit unless it is a number or "auto", and the tolerance a duration."""
    from percdl.parameters import is_duration

    if not is_duration(tolerance):
        fail(f"--tolerance {tolerance} must be a duration, 150ms or 0.1s.")
    try:
        return lag if lag == "auto" else float(lag)
    except ValueError:
        fail(f"--lag {lag} must be a number of seconds, or auto.")


def _rate_of(events: pd.DataFrame) -> float | None:
    """Return the sampling rate of events, by the latest; None if all are at zero."""
    start = "" if "sample" in events else "onset_"
    sample, seconds = f"{start}sample", f"{start}seconds"
    latest = events.sort_values(seconds).tail(1)
    return next((float(x) for x in latest[sample] / latest[seconds] if 0 < x < float("inf")), None)
