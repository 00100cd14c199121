"""A folder of recordings in one of the formats known, with a table of its subjects."""

from os import PathLike
from pathlib import Path

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.readers import csv, edf, npz, parquet, wfdb
from percdl.signals.readers.files import has_suffix

FORMATS = {
    "csv": csv.SUFFIXES,
    "parquet": parquet.SUFFIXES,
    "npz": npz.SUFFIXES,
    "edf": edf.SUFFIXES,
    "wfdb": wfdb.SUFFIXES,
}
# Where BIDS keeps the table of subjects.
PARTICIPANTS = "participants.tsv"


def find_recordings(
    folder: str | PathLike[str], format: str | None, metadata: object
) -> tuple[str, list[Path]]:
    """Return the format and the files of a folder, folders in it included, in order of name."""
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r} (seen from {Path.cwd()}).")
    if format is not None and format not in FORMATS:
        raise InvalidParameterError(f"format={format!r} must be one of {', '.join(FORMATS)}.")
    files = [file for file in sorted(root.rglob("*")) if not _is_same(file, metadata)]
    found = {
        name: [file for file in files if has_suffix(file, suffixes)]
        for name, suffixes in FORMATS.items()
        if format in (None, name)
    }
    present = {name: matches for name, matches in found.items() if matches}
    if not present:
        endings = ", ".join(ending for name in found for ending in FORMATS[name])
        raise FileNotFoundError(f"No recording ({endings}) is in the folder {root}.")
    if len(present) > 1:
        examples = ", ".join(f"{name} ({files[0].name})" for name, files in present.items())
        raise UnreadableFileError(
            f"The folder {root} holds files of several formats: {examples}. Say which are the "
            "recordings, e.g. format='edf', and pass the table of subjects as metadata=."
        )
    return next(iter(present.items()))


def participants_table(folder: str | PathLike[str]) -> Path | None:
    """Return the table of subjects that BIDS keeps in a folder, if it is there."""
    table = Path(folder).expanduser() / PARTICIPANTS
    return table if table.is_file() else None


def _is_same(file: Path, metadata: object) -> bool:
    if not isinstance(metadata, str | PathLike):
        return False
    table = Path(metadata).expanduser()
    return table.is_file() and file.samefile(table)
