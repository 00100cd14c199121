"""NPZ archives: one recording each, or a cohort written by `Cohort.to_npz`."""

import io
import json
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import UnreadableFileError
from percdl.signals.files import replace_file
from percdl.signals.recording import Recording

SUFFIXES = (".npz",)
# Name of the entry that describes a cohort.
HEADER = "percdl"
LAYOUT = 1
_LABELS = ("sfreq", "channels", "units", "subject", "group", "person", "visit", "processing")


def read_npz(path: Path, entry: str, given: dict[str, Any], subject: str) -> Iterator[Recording]:
    """Yield the recordings of an archive; see `Cohort.from_npz`.

    ``entry`` names the samples in an archive of one recording, ``given`` are labels that replace
    those of the archive.
    """
    arrays = load_arrays(path)
    if HEADER in arrays:
        from percdl.signals.headers import CohortHeader, read_header

        header = read_header(CohortHeader, str(arrays[HEADER]), path)
        for position, labels in enumerate(header.recordings):
            yield Recording(_entry(path, arrays, f"recording_{position}"), **dict(labels))
        return
    values = _entry(path, arrays, entry, "Name the entry of the samples: values='...'.")
    stored: dict[str, Any] = {
        name: arrays[name].astype(str).ravel().tolist()
        for name in ("channels", "units", "processing")
        if name in arrays
    }
    if "sfreq" not in given:
        rate = _entry(path, arrays, "sfreq", "Or pass sfreq=, in samples per second.")
        if rate.size != 1 or rate.dtype.kind not in "iuf":
            raise UnreadableFileError(
                f"{path}, entry 'sfreq' holds {rate!r}. One number is needed, or pass sfreq=."
            )
        stored["sfreq"] = rate.item()
    yield Recording(values, subject=subject, **(stored | given))


def write_npz(recordings: Sequence[Recording], path: str | PathLike[str]) -> None:
    """Write recordings so that `Cohort.from_npz` returns them unchanged; nothing is pickled."""
    described = [{name: getattr(recording, name) for name in _LABELS} for recording in recordings]
    header = json.dumps({"schema": LAYOUT, "recordings": described})
    arrays: dict[str, Any] = {HEADER: np.array(header)}
    arrays |= {f"recording_{i}": recording.values for i, recording in enumerate(recordings)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(Path(path).expanduser(), buffer.getvalue())


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays of an archive; nothing is unpickled."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def _entry(path: Path, arrays: dict[str, np.ndarray], name: str, advice: str = "") -> np.ndarray:
    if name not in arrays:
        known = ", ".join(map(repr, arrays)) or "none"
        raise UnreadableFileError(
            f"{path} has no entry {name!r}; its entries are {known}. {advice}".rstrip()
        )
    return arrays[name]
