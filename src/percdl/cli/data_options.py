"""Options about recordings: which files to read, how, and which processing comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import percdl
from percdl.cli.options import argument, as_flag, option, types_of, use_config
from percdl.cli.output import fail, prepare_file

if TYPE_CHECKING:
    import pandas as pd

    from percdl.signals import AnyCohort

# The options that the reader of each format takes.
_OF_TABLES = ("channels", "sfreq", "time", "subject", "units")
OF_TEXT = ("delimiter", "decimal", "encoding", "skip_lines", "header")
_READERS = {
    "csv": (*_OF_TABLES, *OF_TEXT),
    "parquet": _OF_TABLES,
    "npz": ("channels", "sfreq", "units"),
    "edf": ("channels",),
    "wfdb": ("channels",),
}
# A cohort on disk, which is not a format of single recordings.
_SHARDS = "shards"
_PROCESSING = ("resample", "bandpass", "zscore", "zscore_jointly")

Text = str | None
Number = float | None
Flag = bool | None
_opt = partial(option, rich_help_panel="Recordings")
_text = partial(option, rich_help_panel="Text files")
_process = partial(option, rich_help_panel="Processing, in this order")


def _from_config(context: Any, path: Path | None) -> Path | None:
    if path is not None and not context.resilient_parsing:
        use_config(context, path, {"data": types_of(DataOptions)})
    return path


def _data(context: Any, data: list[str] | None) -> list[str] | None:
    """Return DATA from the command line or the config file; typer reads arguments only there."""
    return data or (context.default_map or {}).get("data")


# Options about people, for commands that compare them.
Reference = Annotated[
    Text, option("Group to compare others with. (default: healthy, control, normal, ...)")
]
Person = Annotated[
    Text, option("Column of --metadata that identifies people with several recordings.")
]


@dataclass(frozen=True)
class DataOptions:
    """Options about recordings, as a group of options. None means that one was not given."""

    data: Annotated[
        list[str] | None,
        argument(
            "DATA",
            "A folder, files, or quoted patterns: CSV, Parquet, NPZ, EDF or WFDB.",
            callback=_data,
        ),
    ] = None
    channels: Annotated[
        list[str] | None,
        _opt("Columns or signals to read: RRY, or RRX,RRY. (default: all)", "--channels", "-c"),
    ] = None
    sfreq: Annotated[Number, _opt("Samples per second, if the files do not state it.")] = None
    time: Annotated[Text, _opt("Column of times: sampling rate, and where gaps are.")] = None
    subject: Annotated[Text, _opt("Column of subject ids, if a file holds several.")] = None
    units: Annotated[Text, _opt("Unit of all channels, or one per channel: g,deg/s.")] = None
    metadata: Annotated[Path | None, _opt("Table with one row per subject.")] = None
    metadata_subject: Annotated[
        Text, _opt("Column of subject ids in --metadata. (default: subject)")
    ] = None
    group: Annotated[Text, _opt("Column of groups, in --metadata or in the files.")] = None
    corrections: Annotated[
        Path | None,
        _opt("Table of events that must, or must not, be found (docs/corrections.md)."),
    ] = None
    input_format: Annotated[Text, _opt(f"{', '.join(_READERS)}. (default: by file name)")] = None
    delimiter: Annotated[Text, _text("Cell separator. (default: comma)")] = None
    decimal: Annotated[Text, _text("Decimal sign. (default: point)")] = None
    encoding: Annotated[Text, _text("Text encoding. (default: UTF-8)")] = None
    skip_lines: Annotated[int | None, _text("Lines before the header.", min=0)] = None
    header: Annotated[Flag, _text("Whether the first line names the columns, or 0, 1, ...")] = None
    resample: Annotated[Number, _process("1. Resample to this rate, in Hz.")] = None
    bandpass: Annotated[
        tuple[float, float] | None,
        _process(
            "2. Keep frequencies from LOW to HIGH Hz. 0 or inf leaves that side open.",
            metavar="LOW HIGH",
        ),
    ] = None
    zscore: Annotated[Flag, _process("3. Scale each channel to mean 0, sd 1.", "--zscore")] = None
    zscore_jointly: Annotated[
        Flag, _process("3. Or scale all channels together.", "--zscore-jointly")
    ] = None
    config: Annotated[
        Path | None,
        option(
            "TOML file of options. Options on the command line take precedence.",
            is_eager=True,
            callback=_from_config,
        ),
    ] = None

    def as_fitted(self, settings: Mapping[str, Any] | None) -> DataOptions:
        """Take options about reading and processing that were not given from those of a fit."""
        names = {*_OF_TABLES, *OF_TEXT, *_PROCESSING}
        for one, other in (
            ("sfreq", "time"),
            ("zscore", "zscore_jointly"),
        ):  # either replaces both
            if getattr(self, one) is not None or getattr(self, other) is not None:
                names -= {one, other}
        return self._completed(names, settings or {})

    def with_table_of(self, fitted: percdl.PerCDL | None) -> DataOptions:
        """Take the table of metadata from a fit to the same DATA, unless one is given."""
        settings: Mapping[str, Any] = (fitted.settings_ if fitted else None) or {}
        table, data = settings.get("metadata"), settings.get("data") or []
        is_same = list(map(Path, self.data or [])) == list(map(Path, data))
        if not is_same or self.metadata is not None or table is None or not Path(table).is_file():
            return self
        own = self._completed({"metadata_subject", "group"}, settings)
        return replace(own, metadata=Path(table))

    def _completed(self, names: Iterable[str], settings: Mapping[str, Any]) -> DataOptions:
        missing = [name for name in names if getattr(self, name) is None]
        return replace(self, **{name: settings.get(name) for name in missing})


def read_cohort(options: DataOptions, fitted: percdl.PerCDL | None = None) -> percdl.Cohort:
    """Read and process recordings.

    The settings of a fitted model replace options that are not given, and corrections may use the
    names of its atoms.
    """
    from percdl.estimators.validation import is_permuted

    options = options.with_table_of(fitted)
    format, files, metadata = _find(options)
    if format == _SHARDS:
        fail(f"{files[0].parent} holds shards, which only `percdl fit` reads.")
    _refuse_useless(options, format)
    options = options.as_fitted(fitted.settings_ if fitted else None)
    given = {name: getattr(options, name) for name in (*_READERS[format], "group")}
    if metadata is not None:
        given |= {"metadata": metadata, "metadata_subject": options.metadata_subject}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() & {"channels", "units"}:
        texts = [given[name]] if isinstance(given[name], str) else given[name]
        listed = [part.strip() for text in texts for part in text.split(",")]
        given[name] = listed[0] if len(listed) == 1 else listed
    cohort = getattr(percdl.Cohort, f"from_{format}")(files, **given)
    if fitted is not None and is_permuted(fitted.channels_, cohort.channels):
        given["channels"] = list(fitted.channels_)
        cohort = getattr(percdl.Cohort, f"from_{format}")(files, **given)
    if options.resample is not None:
        cohort = cohort.resample(options.resample)
    if options.bandpass is not None:
        low, high = options.bandpass
        is_open = high in (None, float("inf"), "Infinity")  # the latter in settings of a model
        cohort = cohort.bandpass(low or None, None if is_open else high)
    if options.zscore or options.zscore_jointly:
        cohort = cohort.zscore("channel" if options.zscore else "recording")
    if options.corrections is not None:
        names = () if fitted is None else fitted.atom_names_
        cohort = cohort.correct(percdl.read_corrections(options.corrections), names)
    return cohort


def read_any_cohort(options: DataOptions) -> AnyCohort:
    """Open a folder of shards, which stays on disk, or read recordings as `read_cohort` does."""
    folder = _shards(options)
    if folder is None:
        return read_cohort(options)
    for name, value in vars(options).items():
        if name not in ("data", "config", "corrections") and value is not None:
            fail(
                f"{as_flag(name)} does not apply to {folder}, a folder of shards. Choose "
                "channels, groups and processing before `write_shards`."
            )
    cohort = percdl.ShardedCohort.open(folder)
    if options.corrections is None:
        return cohort
    return cohort.correct(percdl.read_corrections(options.corrections))


def _shards(options: DataOptions) -> Path | None:
    """Return DATA if it is a folder of shards."""
    from percdl.signals.shards import INDEX

    folders = [Path(name).expanduser() for name in options.data or []]
    return folders[0] if len(folders) == 1 and (folders[0] / INDEX).is_file() else None


def read_metadata(
    options: DataOptions, cohort: percdl.Cohort, fitted: percdl.PerCDL | None = None
) -> pd.DataFrame | None:
    """Return the rows of the metadata, if any, in the order of the cohort."""
    from percdl.signals.from_files import Metadata

    options = options.with_table_of(fitted)
    table = _find(options)[2]
    if table is None:
        return None
    text = {} if options.encoding is None else {"encoding": options.encoding}
    people = Metadata(table, options.metadata_subject, options.group, **text)
    return people.rows_of(cohort.subjects)


def prepare_files(
    results: Mapping[str, Path | None],
    read: DataOptions | None = None,
    others: Iterable[Path | None] = (),
) -> None:
    """Check that results, given by their options, can be written before any work is done.

    Every result has a file of its own, and replaces none that is read: see `keep_inputs`.
    """
    paths = {flag: path for flag, path in results.items() if path is not None}
    flags: dict[Path, str] = {}
    for flag, path in paths.items():
        prepare_file(path, flag)
        if (first := flags.setdefault(path.resolve(), flag)) != flag:
            fail(f"{first} and {flag} both name {path}. Name a file for each.")
    keep_inputs(paths.items(), read, others)


def keep_inputs(
    results: Iterable[tuple[str, Path]], read: DataOptions | None, others: Iterable[Path | None]
) -> None:
    """Refuse to replace a file that is read: recordings, what belongs to them, or others."""
    used = [*others]
    if read is not None:
        _, files, table = _find(read)
        signals = [file.with_suffix(".dat") for file in files if file.suffix == ".hea"]
        used += [*files, *signals, table, read.corrections, read.config]
    known = {_identity(path) for path in used if path is not None and path.exists()}
    for flag, path in results:
        if path.exists() and _identity(path) in known:
            fail(f"{flag} {path} is one of the files that are read. Name another file.")


def _identity(path: Path) -> tuple[int, int]:
    """Return what paths of the same file have in common."""
    status = path.stat()
    return status.st_dev, status.st_ino


def _find(options: DataOptions) -> tuple[str, list[Path], Path | None]:
    """Return the format, the files and the table of metadata."""
    from percdl.signals.from_files import find_recordings, participants_table

    if not options.data:
        fail("no recordings were given. Pass a folder, files or patterns as DATA.")
    if (folder := _shards(options)) is not None:
        return _SHARDS, sorted(folder.iterdir()), None
    table = options.metadata
    if table is None and len(options.data) == 1:
        table = participants_table(options.data[0])
    return *find_recordings(options.data, options.input_format, table), table


def _refuse_useless(options: DataOptions, format: str) -> None:
    """Refuse an option that does not apply to this format."""
    for name in (*_OF_TABLES, *OF_TEXT):
        if name not in _READERS[format] and getattr(options, name) is not None:
            fail(f"{as_flag(name)} does not apply to {format.upper()} files. Leave it out.")
    if options.metadata_subject is not None and options.metadata is None:
        fail("--metadata-subject names a column of --metadata, which is missing.")
    if options.zscore and options.zscore_jointly:
        fail("--zscore and --zscore-jointly exclude each other. Give one of them.")
