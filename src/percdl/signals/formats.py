"""Readers of CSV, TSV and Parquet tables, EDF files, WFDB records and NPZ archives."""

import csv
import io
import json
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.extras import hushed, require
from percdl.signals.files import replace_file
from percdl.signals.recording import Recording, abbreviate
from percdl.signals.tables import MISSING, Table, missing_column, pick_signals

# The endings of files, by format, and the reverse.
FORMATS = {
    "csv": (".csv", ".tsv", ".tab", ".txt"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "edf": (".edf",),
    "wfdb": (".hea",),
}
FORMAT_OF = {suffix: name for name, suffixes in FORMATS.items() for suffix in suffixes}
# The shortest header of an EDF file, and its fields: size, kind, number of data records.
_HEADER, _HEADER_SIZE, _KIND, _N_RECORDS = 256, slice(184, 192), slice(192, 236), slice(236, 244)
# Name of the entry of an NPZ archive that describes a cohort.
HEADER = "percdl"
_LABELS = ("sfreq", "channels", "units", "subject", "group", "person", "visit", "processing")


@dataclass(frozen=True)
class TextLayout:
    """How a text table is written; see `Cohort.from_csv`."""

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"
    skip_lines: int = 0
    header: bool = True

    def mark_in(self, path: Path) -> str:
        """Return the delimiter: by default a tab in .tsv and .tab files, else a comma."""
        mark = self.delimiter or ("\t" if path.suffix.lower() in (".tsv", ".tab") else ",")
        for sign in (mark, self.decimal):
            if len(sign) != 1 or not sign.isascii() or sign in '\r\n"' or mark == self.decimal:
                raise InvalidParameterError(
                    f"delimiter={mark!r} and decimal={self.decimal!r} must be two different ASCII "
                    "characters, e.g. ';' and ','."
                )
        return mark


STANDARD = TextLayout()


def read_text_table(
    path: Path,
    needed: Collection[str] = (),
    texts: Collection[str] | None = None,
    layout: TextLayout = STANDARD,
    least_rows: int = 1,
) -> Table:
    """Read columns of a text table; all columns if none is named.

    Columns not in ``texts`` are read as numbers if all their cells are numbers; all columns are
    text if ``texts`` is None.
    """
    mark, first = layout.mark_in(path), layout.skip_lines + layout.header
    lines = _read_lines(path, layout, least_rows)
    names = _cells(path, lines, layout.skip_lines, mark)
    place = f"{path}, line {layout.skip_lines + 1}"
    if not layout.header:
        names = [str(index) for index in range(len(names))]
    elif twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise UnreadableFileError(
            f"{place}: several columns are named {abbreviate(map(repr, twice))}. Rename them."
        )
    if missing := [name for name in needed if name not in names]:
        other = find_layout(path, missing, layout).delimiter or "..."
        advice = f"; if another sign separates cells, pass delimiter={other!r}"
        raise UnreadableFileError(
            f"{missing_column(place, missing[0], names)} If lines come before the header, pass "
            f"skip_lines={advice if other != mark else ''}."
        )
    _check_rows(path, lines, first, len(names), mark)
    kept = [i for i, name in enumerate(names) if not needed or name in needed]
    as_text = {i for i in kept if texts is None or names[i] in texts}
    frame = pd.read_csv(
        io.StringIO("\n".join(lines[layout.skip_lines :])),
        sep=mark,
        decimal=layout.decimal,
        header=0 if layout.header else None,
        names=range(len(names)),
        usecols=kept,
        dtype=dict.fromkeys(as_text, "str"),
        na_values={i: [""] if i in as_text else MISSING for i in kept},
        keep_default_na=False,
        skipinitialspace=True,
        low_memory=False,
    )
    frame = frame.astype(dict.fromkeys(frame.select_dtypes("bool"), "str"))  # True is no number
    frame = frame.loc[:, [bool(names[i]) or frame[i].notna().any() for i in frame]]  # "a;b;"
    frame.columns = pd.Index([names[i] for i in frame])
    return Table(str(path), frame, "line", range(first + 1, len(lines) + 1), layout.decimal)


def file_subject(path: Path) -> str:
    """Return the subject from the name of a file: ``sub-01`` of BIDS, or the whole name."""
    named = re.match(r"sub-[^_]+", path.name)
    return named.group() if named else path.stem


def find_layout(path: Path, names: Collection[str], usual: TextLayout = STANDARD) -> TextLayout:
    """Return the layout with which the header of a file has one of these columns."""
    with path.open(encoding=usual.encoding, errors="replace") as file:
        header = next(islice(file, usual.skip_lines, None), "")
    for mark in (",", ";", "\t", "|"):
        if set(names) & {cell.strip(' "\n') for cell in header.split(mark)}:
            return replace(usual, delimiter=mark)
    return usual


def read_parquet_table(path: Path, needed: Collection[str] = ()) -> Table:
    """Read columns of a Parquet file; all columns if none is named."""
    parquet = require("pyarrow.parquet", "Reading Parquet files")
    known = set(needed) <= set(parquet.read_schema(path).names)
    columns = list(needed) if needed and known else None
    frame = pd.read_parquet(path, engine="pyarrow", columns=columns)
    if frame.empty:
        raise UnreadableFileError(f"{path} has no row. One row per sample is needed.")
    if not set(needed) <= set(frame.columns):  # pandas stores the index as a column
        frame = frame.reset_index()
    return Table(str(path), frame)


def _read_lines(path: Path, layout: TextLayout, least_rows: int) -> list[str]:
    """Return the lines of a file without blank lines at the end."""
    encoding = layout.encoding
    try:
        text = path.read_text(encoding=encoding)
        before = text.partition("\0")[0] if "\0" in text else None
    except UnicodeDecodeError as error:
        text, before = "", error.object[: error.start].decode("latin-1")
    except LookupError as error:
        raise InvalidParameterError(f"encoding={encoding!r} is unknown. Try 'utf-8'.") from error
    if before is not None:
        raise UnreadableFileError(
            f"{path}, line {before.count(chr(10)) + 1} is not {encoding} text. Pass the encoding "
            "of the file, e.g. encoding='latin-1' or 'utf-16'; save spreadsheets as CSV."
        )
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < layout.skip_lines + max(1, layout.header + least_rows):
        found = "has no row" if len(lines) > layout.skip_lines else "is empty"
        raise UnreadableFileError(
            f"{path} {found}. A header line and one line per sample are needed"
            f"{f', after the {layout.skip_lines} skipped ones' if layout.skip_lines else ''}."
        )
    return lines


def _cells(path: Path, lines: list[str], at: int, delimiter: str) -> list[str]:
    """Return the cells of a line."""
    reader = csv.reader([lines[at]], delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        return [cell.strip() for cell in next(reader, [])]
    except csv.Error as error:
        raise UnreadableFileError(
            f"{path}, line {at + 1}: {error}. Close every quotation mark in its line, right "
            "before the next delimiter."
        ) from error


def _check_rows(path: Path, lines: list[str], first: int, expected: int, delimiter: str) -> None:
    """Raise if a row has too many or too few cells; pandas fills short rows silently."""
    for at in range(first, len(lines)):
        line = lines[at]
        found = line.count(delimiter) + 1 if line.strip(" ") else 0
        if '"' in line:
            found = len(_cells(path, lines, at, delimiter))
        if found != expected:
            what = f"has {found} cell(s), but the first has {expected}" if found else "is blank"
            raise UnreadableFileError(
                f"{path}, line {at + 1} {what}. Complete, shorten or delete the row; write NaN "
                "for a missing sample. If commas are decimal signs, pass decimal=',' and the "
                "delimiter; if lines come before the header, pass skip_lines=; in the shell, "
                "--decimal, --delimiter and --skip-lines."
            )


def read_edf(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of a whole and uninterrupted EDF file; see `Cohort.from_edf`."""
    edfio = require("edfio", "Reading EDF files")
    content = path.read_bytes()
    if len(content) < _HEADER or len(content) < int(content[_HEADER_SIZE]):
        raise UnreadableFileError(f"{path} ends within its header. Copy or export it again.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # files cut short are refused below
        edf = edfio.read_edf(content)
    present, announced = edf.num_data_records, int(content[_N_RECORDS])
    if present != announced:
        found = f"{present} are there"
        if present < announced:
            found = f"data record {present + 1} is cut short or missing"
        raise UnreadableFileError(
            f"{path}: its header announces {announced} data records (-1 means that it is still "
            f"being recorded), but {found}. Copy or export it again."
        )
    if content[_KIND].startswith(b"EDF+D"):
        raise UnreadableFileError(
            f"{path} is interrupted (EDF+D). Export the parts as separate files."
        )
    labels = [signal.label for signal in edf.signals]
    rates = [signal.sampling_frequency for signal in edf.signals]
    wanted, names = pick_signals(path, labels, rates, channels)
    signals = [edf.signals[i] for i in wanted]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # signals without calibration
        values = np.column_stack([signal.data for signal in signals])
    units = [signal.physical_dimension for signal in signals]
    yield Recording(values, sfreq=rates[wanted[0]], channels=names, units=units, subject=subject)


def read_wfdb(path: Path, channels: dict[str, str] | None, subject: str) -> Iterator[Recording]:
    """Yield the recording of a WFDB header; see `Cohort.from_wfdb`."""
    wfdb = require("wfdb", "Reading WFDB records")
    if path.suffix.lower() != ".hea":
        raise UnreadableFileError(f"{path} is not a WFDB header. Pass the .hea of the record.")
    stem, folder = str(path.absolute().with_suffix("")), path.parent.resolve()
    with hushed():
        header = wfdb.rdheader(stem)
    if not isinstance(header, wfdb.Record):
        raise UnreadableFileError(f"{path} has segments. Pass the segments as separate files.")
    for name in (path.name, *(header.file_name or ())):
        # Names can be addresses on the network, and files can be links.
        if Path(name).name != name or ":" in name or (folder / name).resolve().parent != folder:
            raise UnreadableFileError(
                f"{path}: {name!r} is outside the folder of the record. Copy the file into that "
                "folder; other files are not read."
            )
    try:
        with hushed():
            record = wfdb.rdrecord(stem, smooth_frames=False)
    except (ValueError, FileNotFoundError) as error:
        sizes = {_describe_size(folder / name): None for name in header.file_name or ()}
        raise UnreadableFileError(
            f"{path} announces {header.sig_len} samples, which cannot be read: "
            f"{', '.join(sizes)}. Copy the record again."
        ) from error
    rates = [record.fs * n for n in record.samps_per_frame]
    # Names of signals are optional in a header.
    names = [name or f"signal{index}" for index, name in enumerate(record.sig_name)]
    wanted, chosen = pick_signals(path, names, rates, channels)
    values = np.column_stack([record.e_p_signal[index] for index in wanted])
    units = [record.units[index] or "" for index in wanted]
    yield Recording(values, sfreq=rates[wanted[0]], channels=chosen, units=units, subject=subject)


def _describe_size(path: Path) -> str:
    found = path.is_file()
    return f"{path.name} has {path.stat().st_size} bytes" if found else f"no file {path.name!r}"


def read_npz(path: Path, entry: str, given: dict[str, Any], subject: str) -> Iterator[Recording]:
    """Yield the recordings of an archive; ``given`` labels replace those of the archive."""
    arrays = load_arrays(path)
    if HEADER in arrays:
        from percdl.signals.headers import CohortHeader, read_header

        header = read_header(CohortHeader, str(arrays[HEADER]), path)
        for position, labels in enumerate(header.recordings):
            yield Recording(_entry(path, arrays, f"recording_{position}"), **dict(labels))
        return
    values = _entry(path, arrays, entry, "Name the entry of the samples: values='...'.")
    texts = {"channels", "units", "processing"} & set(arrays)
    stored: dict[str, Any] = {name: arrays[name].astype(str).ravel().tolist() for name in texts}
    if "sfreq" not in given:
        rate = _entry(path, arrays, "sfreq", "Or pass sfreq=, in samples per second.")
        if rate.size != 1 or rate.dtype.kind not in "iuf":
            raise UnreadableFileError(
                f"{path}, entry 'sfreq' holds {rate!r}. One number is needed, or pass sfreq=."
            )
        stored["sfreq"] = rate.item()
    yield Recording(values, subject=subject, **(stored | given))


def write_npz(recordings: Sequence[Recording], path: str | PathLike[str]) -> None:
    """Write recordings so that `Cohort.from_npz` returns them unchanged."""
    described = [{name: getattr(recording, name) for name in _LABELS} for recording in recordings]
    for entry, recording in zip(described, recordings, strict=True):
        if recording.corrections:
            entry["corrections"] = recording.corrections
    header = json.dumps({"schema": 1, "recordings": described})
    arrays: dict[str, Any] = {HEADER: np.array(header)}
    arrays |= {f"recording_{i}": recording.values for i, recording in enumerate(recordings)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(Path(path).expanduser(), buffer.getvalue())


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of an archive; pickled ones raise an error."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def _entry(path: Path, arrays: dict[str, np.ndarray], name: str, advice: str = "") -> np.ndarray:
    if name not in arrays:
        known = ", ".join(map(repr, arrays)) or "none"
        problem = f"{path} has no entry {name!r}; its entries are {known}. {advice}"
        raise UnreadableFileError(problem.rstrip())
    return arrays[name]
