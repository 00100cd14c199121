"""Which recordings a command works on, and what is done to them first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.config import Context, use_config
from percdl.cli.errors import fail

if TYPE_CHECKING:
    import pandas as pd

    from percdl.signals import Cohort

_FILES, _TEXT, _FIRST = "Recordings", "Text files", "Processing, in this order"
# Which options the reader of a format takes.
_OF_TABLES = ("channels", "sfreq", "time", "subject", "units")
_OF_TEXT = ("delimiter", "decimal", "encoding", "skip_lines", "header")
_READERS = {
    "csv": (*_OF_TABLES, *_OF_TEXT),
    "parquet": _OF_TABLES,
    "npz": ("channels", "sfreq", "units"),
    "edf": ("channels",),
    "wfdb": ("channels",),
}
_PROCESSING = ("resample", "bandpass", "zscore", "zscore_jointly")


def _option(*names: str, help: str, panel: str = _FILES, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


def _named_elsewhere(context: Context, data: list[str] | None) -> list[str] | None:
    """Return what DATA names, or what a file of options does: not every typer looks there."""
    return data or (context.default_map or {}).get("data")


@dataclass(frozen=True)
class DataOptions:
    """The recordings: a group of options, see `as_command`. None stands for: not said."""

    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            callback=_named_elsewhere,
            help="A folder, files, or patterns in quotes: CSV, Parquet, NPZ, EDF or WFDB.",
            show_default=False,
        ),
    ] = None
    channels: Annotated[
        list[str] | None,
        _option(
            "--channels", "-c", help="Columns or signals to read: RRY, or RRX,RRY. (default: all)"
        ),
    ] = None
    sfreq: Annotated[
        float | None, _option("--sfreq", help="Samples per second, if the files do not say.")
    ] = None
    time: Annotated[
        str | None, _option("--time", help="Column of times; gives the rate, and finds gaps.")
    ] = None
    subject: Annotated[
        str | None, _option("--subject", help="Column of subject ids, where a file holds several.")
    ] = None
    units: Annotated[
        str | None, _option("--units", help="Of all channels, or one each: g,deg/s.")
    ] = None
    metadata: Annotated[
        Path | None, _option("--metadata", help="Table with one row per subject.")
    ] = None
    metadata_subject: Annotated[
        str | None, _option("--metadata-subject", help="Its column of ids. (default: subject)")
    ] = None
    group: Annotated[
        str | None,
        _option("--group", help="Column of groups, of the metadata if there are any."),
    ] = None
    input_format: Annotated[
        str | None,
        _option("--input-format", help=f"{', '.join(_READERS)}. (default: told by the endings)"),
    ] = None
    delimiter: Annotated[
        str | None, _option("--delimiter", help="Between cells. (default: a comma)", panel=_TEXT)
    ] = None
    decimal: Annotated[
        str | None, _option("--decimal", help="Decimal sign. (default: a point)", panel=_TEXT)
    ] = None
    encoding: Annotated[
        str | None, _option("--encoding", help="Of the text. (default: UTF-8)", panel=_TEXT)
    ] = None
    skip_lines: Annotated[
        int | None, _option("--skip-lines", help="Lines before the header.", panel=_TEXT, min=0)
    ] = None
    header: Annotated[
        bool | None,
        _option(
            "--header/--no-header",
            help="Whether the first line names the columns; 0, 1, ... otherwise.",
            panel=_TEXT,
        ),
    ] = None
    resample: Annotated[
        float | None, _option("--resample", help="1. To so many samples per second.", panel=_FIRST)
    ] = None
    bandpass: Annotated[
        tuple[float, float] | None,
        _option(
            "--bandpass",
            help="2. Keep frequencies from LOW to HIGH Hz; 0 and inf leave a side open.",
            panel=_FIRST,
            metavar="LOW HIGH",
        ),
    ] = None
    zscore: Annotated[
        bool | None,
        _option("--zscore", help="3. Each channel to mean 0, deviation 1.", panel=_FIRST),
    ] = None
    zscore_jointly: Annotated[
        bool | None,
        _option("--zscore-jointly", help="3. Or all channels by one scale.", panel=_FIRST),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of options; the command line wins.",
            is_eager=True,
            callback=use_config,
            show_default=False,
        ),
    ] = None

    def as_fitted(self, settings: Mapping[str, Any] | None) -> DataOptions:
        """Return the options, those not given as in the command that made a model.

        Which files, who the subjects are and which groups they form is not taken over.
        """
        names = {*_OF_TABLES, *_OF_TEXT, *_PROCESSING}
        if self.sfreq is not None or self.time is not None:
            names -= {"sfreq", "time"}
        if self.zscore is not None or self.zscore_jointly is not None:
            names -= {"zscore", "zscore_jointly"}
        fitted = {name: value for name, value in (settings or {}).items() if name in names}
        return replace(
            self, **{k: v for k, v in fitted.items() if getattr(self, k) is None and v is not None}
        )


def read_cohort(options: DataOptions, settings: Mapping[str, Any] | None = None) -> Cohort:
    """Read the recordings and process them, in the order of the help: all or an error.

    ``settings`` are those of a model (``model.settings_``): options not given are as they were
    then, as far as they concern files of this format.
    """
    from percdl.signals import Cohort

    format, files, metadata = _find(options)
    _refuse_strangers(options, format)
    said = options.as_fitted(settings)
    given = {name: getattr(said, name) for name in _READERS[format]}
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("channels", "units"):
        if name in given:
            given[name] = _listed(given[name])
    if metadata is not None:
        given |= {"metadata": metadata, "metadata_subject": options.metadata_subject}
    if options.group is not None:
        given["group"] = options.group
    return _process(getattr(Cohort, f"from_{format}")(files, **given), said)


def keep_recordings(options: DataOptions, results: Mapping[str, Path | None]) -> None:
    """Refuse a result, by its option, that would take the place of what is to be read."""
    _, files, table = _find(options)
    read = [file for file in (*files, table) if file is not None and file.exists()]
    for option, path in results.items():
        if path is not None and path.exists() and any(path.samefile(file) for file in read):
            fail(
                f"{option} {path} is among what is read: it would be replaced. Name another file."
            )


def read_metadata(options: DataOptions, cohort: Cohort) -> pd.DataFrame | None:
    """Return the rows of the table of subjects, where there is one, in the order of a cohort."""
    from percdl.signals.readers.metadata import Metadata

    table = _find(options)[2]
    if table is None:
        return None
    return Metadata(table, options.metadata_subject, options.group).rows_of(cohort.subjects)


def _find(options: DataOptions) -> tuple[str, list[Path], Path | None]:
    """Return format, files and table of subjects."""
    from percdl.signals.readers.files import find_files
    from percdl.signals.readers.folder import FORMATS, find_recordings, participants_table

    if not options.data:
        fail("no recordings are named. Pass a folder, files or patterns as DATA.")
    if options.input_format not in (None, *FORMATS):
        fail(f"--input-format {options.input_format} must be one of {', '.join(FORMATS)}.")
    if len(options.data) == 1 and Path(options.data[0]).expanduser().is_dir():
        table = options.metadata or participants_table(options.data[0])
        return *find_recordings(options.data[0], options.input_format, table), table
    everything = tuple(ending for endings in FORMATS.values() for ending in endings)
    files = find_files(options.data, everything)
    if options.metadata is not None and options.metadata.is_file():
        files = [file for file in files if not file.samefile(options.metadata)]
    if options.input_format is not None:
        return options.input_format, files, options.metadata
    found = {_format_of(file, FORMATS): file for file in reversed(files)}
    if None in found:
        fail(f"{found[None]} ends like no format known. Say which with --input-format.")
    if len(found) > 1:
        listed = ", ".join(f"{name} ({file.name})" for name, file in found.items())
        fail(f"the files are of several formats: {listed}. Name those of one.")
    return str(next(iter(found))), files, options.metadata


def _format_of(file: Path, formats: Mapping[str, tuple[str, ...]]) -> str | None:
    return next((name for name, ends in formats.items() if file.suffix.lower() in ends), None)


def _refuse_strangers(options: DataOptions, format: str) -> None:
    """Leave where an option was given that files of this format have no use for."""
    for name in (*_OF_TABLES, *_OF_TEXT):
        if name not in _READERS[format] and getattr(options, name) is not None:
            fail(
                f"--{name.replace('_', '-')} says nothing about {format.upper()} files. "
                "Leave it out."
            )
    if options.metadata_subject is not None and options.metadata is None:
        fail("--metadata-subject is a column of --metadata, which is not given.")


def _listed(names: str | list[str]) -> str | list[str]:
    parts = [names] if isinstance(names, str) else names
    listed = [name.strip() for part in parts for name in part.split(",")]
    return listed[0] if len(listed) == 1 else listed


def _process(cohort: Cohort, options: DataOptions) -> Cohort:
    if options.zscore and options.zscore_jointly:
        fail("--zscore and --zscore-jointly exclude each other. Give one of them.")
    if options.resample is not None:
        cohort = cohort.resample(options.resample)
    if options.bandpass is not None:
        low, high = options.bandpass
        cohort = cohort.bandpass(low if low > 0 else None, high if high < float("inf") else None)
    if options.zscore or options.zscore_jointly:
        cohort = cohort.zscore("channel" if options.zscore else "recording")
    return cohort
