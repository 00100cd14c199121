"""NPZ archives: one recording each, or a whole cohort as `Cohort.to_npz` writes it."""

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from percdl.exceptions import UnreadableFileError
from percdl.signals.contents import read_json
from percdl.signals.readers.arrays import DEFLATED, check_packing, read_entry
from percdl.signals.recording import Recording

SUFFIXES = (".npz",)
# The entry of a cohort's archive that says what the others are.
DESCRIPTION = "percdl"
SCHEMA = 1


@dataclass(frozen=True)
class Entries:
    """Where the archive of one recording holds what; given values win over entries.

    Attributes
    ----------
    values : str
        Name of the entry of the samples, (n_times, n_channels) or (n_times,).
    sfreq : float or None
        Samples per second; the entry ``sfreq`` where None.
    channels, units
        See `Recording`; the entries ``channels`` and ``units`` where None, if any.
    """

    values: str = "values"
    sfreq: float | None = None
    channels: Any = None
    units: Any = None


def read_npz(path: Path, entries: Entries, subject: str) -> Iterator[Recording]:
    """Yield the recordings of an archive; see `Cohort.from_npz`."""
    arrays = _load(path)
    if DESCRIPTION in arrays:
        yield from _cohort(path, arrays)
    else:
        yield _single(path, arrays, entries, subject)


def _load(path: Path) -> dict[str, np.ndarray]:
    """Read all entries; a damaged one is named."""
    entry, arrays = None, {}
    try:
        with open(path, "rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
                raise UnreadableFileError(
                    f"{path} holds one array without a name. Write it with "
                    "numpy.savez(path, values=...)."
                )
        with zipfile.ZipFile(path) as archive:
            check_packing(archive, DEFLATED)
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    entry = info.filename.removesuffix(".npy")
                    arrays[entry] = read_entry(archive, info)
    except UnreadableFileError:
        raise
    except (
        ValueError, OSError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error
    ) as error:  # fmt: skip
        where = "" if entry is None else f", entry {entry!r}"
        raise UnreadableFileError(
            f"{path}{where} is not a whole NPZ archive of plain arrays: {error}. "
            "Write it again, with numpy.savez and without objects."
        ) from error
    except MemoryError as error:
        raise UnreadableFileError(
            f"{path}, entry {entry!r} does not fit in memory: {error}."
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
    stored_names = {
        name: _texts(path, name, arrays[name])
        for name in ("channels", "units", "processing")
        if name in arrays
    }
    given = {"channels": entries.channels, "units": entries.units}
    return Recording(
        values,
        sfreq=sfreq,
        subject=subject,
        **{**stored_names, **{k: v for k, v in given.items() if v is not None}},
    )


def _texts(path: Path, name: str, entry: np.ndarray) -> list[str]:
    """Return the texts of an entry; numbers are taken as such."""
    try:
        return entry.astype(str).ravel().tolist()
    except (ValueError, TypeError) as error:
        raise UnreadableFileError(
            f"{path}, entry {name!r} holds {entry.dtype}, where texts are needed."
        ) from error


def _cohort(path: Path, arrays: dict[str, np.ndarray]) -> Iterator[Recording]:
    try:
        description = read_json(str(arrays[DESCRIPTION]))
        schema, about = int(description["schema"]), list(description["recordings"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UnreadableFileError(
            f"{path}, entry {DESCRIPTION!r} does not describe a cohort. Write the archive again "
            "with Cohort.to_npz."
        ) from error
    if schema > SCHEMA:
        raise UnreadableFileError(
            f"{path} was written by a newer version of PerCDL (layout {schema}, known up to "
            f"{SCHEMA}). Update percdl."
        )
    for position, labels in enumerate(about):
        values = _entry(path, arrays, entry_name(position))
        try:
            yield Recording(values, **labels)
        except TypeError as error:
            raise UnreadableFileError(
                f"{path}, entry {DESCRIPTION!r} describes recording {position} in a way that is "
                f"not known ({error}). Write the archive again with Cohort.to_npz."
            ) from error


def entry_name(position: int) -> str:
    """Return the name of the entry of a recording of a cohort."""
    return f"recording_{position}"


def _entry(path: Path, arrays: dict[str, np.ndarray], name: str, advice: str = "") -> np.ndarray:
    if name not in arrays:
        known = ", ".join(map(repr, arrays)) or "none"
        raise UnreadableFileError(
            f"{path} has no entry {name!r}; its entries are {known}. "
            + (advice or "Name the entry of the samples: values='...'.")
        )
    return arrays[name]
