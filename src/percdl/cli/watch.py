"""``percdl watch``: events of a recording while it is being made."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

import percdl
from percdl.cli.data_options import OF_TEXT, DataOptions, prepare_files
from percdl.cli.options import Model, as_flag, option
from percdl.cli.output import Output, fail, noticing_ctrl_c

if TYPE_CHECKING:
    import pandas as pd

# A source whose name begins so is a stream of the lab streaming layer.
LSL = "lsl:"
_UNUSED = ("metadata", "metadata_subject", "group", "subject")
# Most samples of a chunk that are printed.
MOST_SAMPLES = 10_000
COLUMNS = ("onset", "duration", "trial_type", "quality", "sample", "amplitude", "lag", "exact")


def watch(
    model: Model,
    source: DataOptions,
    output: Output,
    out: Annotated[Path, option("TSV file of events; rows are added as they come.")],
    person: Annotated[str, option("The person; parameters are known for those fitted.")] = "live",
    learn: Annotated[str | None, option("Learn parameters from a first stretch: 30s.")] = None,
    max_lag: Annotated[str | None, option("Force decisions after this time: 10s.")] = None,
    follow: Annotated[bool, option("Wait for more or stop at the end.", "--follow/--once")] = True,
    idle: Annotated[float | None, option("Stop after N seconds without samples.", min=0)] = None,
    samples: Annotated[
        bool, option("With --json, print samples and pending events, too.", "--samples")
    ] = False,
    poll: Annotated[float, option("Seconds between two looks.", min=0.001)] = 0.1,
) -> None:
    """Find the patterns of a model in a file that grows, about a cycle after they end.

    percdl watch gait.percdl walk.csv --out events.tsv

    DATA is one CSV file that another program appends to, or lsl:NAME, a stream of the lab
    streaming layer. Columns are read as in the fit, unless options say otherwise. Ctrl-C ends the
    recording; all its events are then in the file. Exit code 3: no event was found.
    """
    name = _only_source(source)
    if not (follow or name.startswith(LSL) or Path(name).expanduser().is_file()):
        fail(f"there is no file {name}. Name one that exists, or wait for it without --once.")
    prepare_files({"--out": out}, others=[model, Path(name).expanduser(), source.config])
    fitted: Any = percdl.load(model)
    growing = _open(name, source.as_fitted(fitted.settings_), fitted)
    stream = percdl.Stream(fitted, person, learn=_samples(learn), max_lag=_samples(max_lag))
    output.event("start", command="watch", model=model, source=name)
    with open(out, "w", encoding="utf-8", newline="") as file:
        file.write("\t".join(COLUMNS) + "\n")
        log = _Log(stream, file, output, samples)
        with noticing_ctrl_c(output, "with the last events") as pressed:
            _follow(growing, log, pressed, follow, idle, poll)
        log.push(growing.finish())
        log.add(stream.finish())
    n_events, seconds = log.n_events, stream.n_times / fitted.sfreq_
    text = f"{n_events} events in {seconds:.1f} s.\nEvents: {out}"
    output.done(text, n_events, out=out, events=n_events, seconds=seconds)


def _follow(
    growing: Any, log: _Log, pressed: Event, follow: bool, idle: float | None, poll: float
) -> None:
    """Push new samples as they arrive, until the recording ends."""
    last = time.monotonic()
    while not pressed.is_set():
        chunk = growing.read()
        if len(chunk):
            log.push(chunk)
            last = time.monotonic()
        elif not follow or (idle is not None and time.monotonic() - last > idle):
            return
        else:
            pressed.wait(poll)


class _Log:
    """The file of events, and a line about them on a terminal."""

    def __init__(self, stream: percdl.Stream, file: TextIO, output: Output, samples: bool):
        from percdl.estimators.people import check_names

        self.stream, self.file, self.output, self.n_events = stream, file, output, 0
        self.samples = samples
        self.names = check_names(stream.model.atom_names_, stream.model.n_atoms_)
        self.shows = sys.stderr.isatty() and not (output.quiet or output.json)

    def push(self, chunk: Any) -> None:
        """Take new samples."""
        self.add(self.stream.push(chunk))
        if self.samples and len(chunk):
            last = chunk[-MOST_SAMPLES:]
            values = [[None if x != x else float(f"{x:.5g}") for x in own] for own in last.T]
            rows: Any = self.stream.pending.itertuples()
            pending = [self._place(row) for row in rows]
            first = self.stream.n_times - len(last)
            self.output.event("heard", first=first, samples=values, pending=pending)
        if self.shows:
            at = self.stream.n_times / self.stream.model.sfreq_
            what = "learning the person" if self.stream.is_learning else f"{self.n_events} events"
            typer.echo(f"\r{at:8.1f} s  {what}   ", nl=False, err=True)

    def _place(self, row: Any) -> dict[str, Any]:
        """Return where an event is, and its kind."""
        usual = self.stream.model.atom_length_ / self.stream.model.sfreq_
        return {
            "onset": round(row.onset_seconds, 6),
            "duration": round(getattr(row, "duration_seconds", usual), 6),
            "trial_type": self.names[int(row.atom)],
        }

    def add(self, events: pd.DataFrame) -> None:
        """Write events and flush the file."""
        from percdl.estimators.cycles import FALSE_ALARMS

        rows: Any = events.itertuples()
        for row in rows:
            values: dict[str, Any] = self._place(row) | {
                "quality": None if row.quality != row.quality else float(f"{row.quality:.4g}"),
                "sample": int(row.onset_sample),
                "amplitude": float(f"{row.amplitude:.9g}"),
                "lag": round(row.lag_seconds, 6),
                "exact": bool(row.exact),
            }
            self.output.event("found", **values, flagged=bool(row.quality < FALSE_ALARMS))
            cells = ("n/a" if values[name] is None else str(values[name]) for name in COLUMNS)
            self.file.write("\t".join(cells) + "\n")
        self.n_events += len(events)
        self.file.flush()


def _only_source(source: DataOptions) -> str:
    """Return the file or stream to follow."""
    for name in _UNUSED:
        if getattr(source, name) is not None:
            fail(f"{as_flag(name)} does not apply to one recording. Leave it out.")
    from percdl.signals.formats import FORMATS

    names, tables = source.data or [], FORMATS["csv"]
    if len(names) != 1:
        fail(f"percdl watch follows one file or stream, but {len(names)} were given.")
    path = Path(names[0])
    if not names[0].startswith(LSL) and (path.is_dir() or path.suffix.lower() not in tables):
        fail(f"{path} is not a text table ({', '.join(tables)}), the only kind that can grow.")
    return names[0]


def _open(name: str, options: DataOptions, fitted: Any) -> Any:
    """Return the source of samples; refuse options that a growing recording cannot have."""
    from percdl.signals.formats import TextLayout
    from percdl.signals.growing import GrowingTable, LSLInlet

    if options.bandpass is not None:
        fail(
            "the model was fitted on recordings that were band-passed in both directions of time, "
            "which needs their end. Filter what is written to the file, and fit without "
            "--bandpass; or fit with --baseline line, which needs no filter."
        )
    for rate in (options.resample, options.sfreq):
        if rate not in (None, fitted.sfreq_):
            fail(
                f"the model has {fitted.sfreq_:g} samples per second, the file {rate:g}. Write "
                "the file at the rate of the model."
            )
    given = [part.strip() for text in options.channels or () for part in text.split(",")]
    channels = tuple(given or fitted.channels_)
    if len(channels) != fitted.n_channels_:
        fail(f"the model has {fitted.n_channels_} channel(s), but --channels {len(channels)}.")
    if name.startswith(LSL):
        return LSLInlet(name.removeprefix(LSL), channels, fitted.sfreq_)
    text = {key: getattr(options, key) for key in OF_TEXT if getattr(options, key) is not None}
    path = Path(name).expanduser()
    return GrowingTable(path, channels, fitted.sfreq_, options.time, TextLayout(**text))


def _samples(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text
