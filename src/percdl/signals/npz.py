"""NPZ archives: one recording each, or a cohort written by `Cohort.to_npz`."""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from percdl.exceptions import UnreadableFileError
from percdl.signals.files import replace_file
from percdl.signals.recording import Recording

SUFFIXES = (".npz",)
# Name of the entry that describes a cohort.
HEADER = "percdl"
LAYOUT = 1


@dataclass(frozen=True)
class Entries:
    """Where an archive of one recording holds what; given values replace entries."""

    values: str = "values"  # name of the entry of the samples
    sfreq: float | None = None
    channels: Any = None
    units: Any = None


def read_npz(path: Path, entries: Entries, subject: str) -> Iterator[Recording]:
    """Yield the recordings of an archive; see `Cohort.from_npz`."""
    arrays = load_arrays(path)
    if HEADER in arrays:
        yield from _cohort(path, arrays)
    else:
        yield _single(path, arrays, entries, subject)


def write_npz(recordings: Sequence[Recording], path: str | PathLike[str]) -> None:
    """Write recordings so that `Cohort.from_npz` returns them unchanged; nothing is pickled."""
    names = ("sfreq", "channels", "units", "subject", "group", "processing")
    described = [{name: getattr(recording, name) for name in names} for recording in recordings]
    header = json.dumps({"schema": LAYOUT, "recordings": described})
    arrays: dict[str, Any] = {HEADER: np.array(header)}
    arrays |= {_entry_name(i): recording.values for i, recording in enumerate(recordings)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(Path(path).expanduser(), buffer.getvalue())


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of an archive; the error names the damaged entry."""
    entry, arrays = None, {}
    with open(path, "rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise UnreadableFileError(
                f"{path} holds one array without a name. Write it with "
                "numpy.savez(path, values=...)."
            )
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    entry = info.filename.removesuffix(".npy")
                    with archive.open(info) as file:
                        arrays[entry] = npy.read_array(file, allow_pickle=False)
    except Exception as error:  # NumPy and zipfile raise many types for damaged files
        where = "" if entry is None else f", entry {entry!r}"
        raise UnreadableFileError(
            f"{path}{where} is not a whole NPZ archive of plain arrays: {error}. "
            "Write it again, with numpy.savez and without objects."
        ) from error
    return arrays


def _single(
    path: Path, arrays: dict[str, np.ndarray], entries: Entries, subject: str
) -> Recording:
    values = _entry(path, arrays, entries.values)
    sfreq = entries.sfreq
    if sfreq is None:
        stored = _entry(path, arrays, "sfreq", "Or pass sfreq=, in samples per second.")
        if stored.size != 1 or stored.dtype.kind not in "iuf":
            raise UnreadableFileError(
                f"{path}, entry 'sfreq' holds {stored!r}. One number is needed, or pass sfreq=."
            )
        sfreq = float(stored.reshape(()))
    labels: dict[str, Any] = {
        name: _texts(path, name, arrays[name])
        for name in ("channels", "units", "processing")
        if name in arrays
    }
    given = {"channels": entries.channels, "units": entries.units}
    labels |= {name: value for name, value in given.items() if value is not None}
    return Recording(values, sfreq=sfreq, subject=subject, **labels)


def _texts(path: Path, name: str, entry: np.ndarray) -> list[str]:
    """Return an entry as texts; numbers are converted."""
    try:
        return entry.astype(str).ravel().tolist()
    except (ValueError, TypeError) as error:
        raise UnreadableFileError(
            f"{path}, entry {name!r} holds {entry.dtype}, where texts are needed."
        ) from error


def _cohort(path: Path, arrays: dict[str, np.ndarray]) -> Iterator[Recording]:
    from percdl.signals.headers import CohortHeader, parse_json, validate

    try:
        header = validate(CohortHeader, parse_json(str(arrays[HEADER])), LAYOUT, path)
    except UnreadableFileError:
        raise
    except ValueError as error:
        raise UnreadableFileError(
            f"{path}, entry {HEADER!r} does not describe a cohort ({error}). Write the archive "
            "again with Cohort.to_npz."
        ) from error
    for position, labels in enumerate(header.recordings):
        yield Recording(_entry(path, arrays, _entry_name(position)), **dict(labels))


def _entry_name(position: int) -> str:
    return f"recording_{position}"


def _entry(path: Path, arrays: dict[str, np.ndarray], name: str, advice: str = "") -> np.ndarray:
    if name not in arrays:
        known = ", ".join(map(repr, arrays)) or "none"
        raise UnreadableFileError(
            f"{path} has no entry {name!r}; its entries are {known}. "
            + (advice or "Name the entry of the samples: values='...'.")
        )
    return arrays[name]
