"""From files to the recordings of a cohort: all of them, or an error that names the file."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from percdl.exceptions import InvalidRecordingError, UnreadableFileError
from percdl.signals.readers.metadata import Metadata
from percdl.signals.recording import Recording, abbreviate

SubjectOf = Callable[[Path], str]
Reader = Callable[[Path, str], Iterable[Recording]]


def read_all(
    files: Iterable[Path],
    read: Reader,
    subject_of: SubjectOf | None = None,
    metadata: Metadata | None = None,
) -> list[Recording]:
    """Read every file and give every subject the group of the metadata.

    Parameters
    ----------
    files : list of Path
    read : callable
        From a path and the subject id it stands for to recordings.
    subject_of : callable, optional
        From a path to the subject id; the name of the file without its ending by default.
    metadata : Metadata, optional
    """
    found: dict[str, tuple[Path, Recording]] = {}
    listed = list(files)
    for path in listed:
        subject = path.stem if subject_of is None else str(subject_of(path))
        try:
            for recording in _named(path, read, subject):
                _check_new(found, path, recording)
                found[str(recording.subject)] = path, recording
        except UnreadableFileError as error:
            raise UnreadableFileError(f"{error}{_stray(path, listed)}") from error
    recordings = [recording for _, recording in found.values()]
    groups = None if metadata is None else metadata.groups_of(tuple(found))
    if groups is None:
        return recordings
    return [replace(r, group=group) for r, group in zip(recordings, groups, strict=True)]


def _named(path: Path, read: Reader, subject: str) -> Iterable[Recording]:
    """Read one file; what is wrong with a recording is told with the name of its file."""
    try:
        return list(read(path, subject))
    except InvalidRecordingError as error:
        raise UnreadableFileError(f"{path}: {error}") from error


def _stray(path: Path, files: list[Path]) -> str:
    """Say that a file may be no recording, where the others end otherwise."""
    endings = Counter(file.suffix.lower() for file in files)
    own = path.suffix.lower()
    usual = max(endings, key=lambda ending: (endings[ending], ending != own))
    if usual == own:
        return ""
    return (
        f" A {own} file counts as a recording here. If {path.name} is none, pass a pattern that "
        f"leaves it out, such as {str(path.parent / f'*{usual}')!r}."
    )


def _check_new(found: dict[str, tuple[Path, Recording]], path: Path, recording: Recording) -> None:
    """Refuse a subject met before, and channels or units that are not those met before."""
    subject = str(recording.subject)
    if subject in found:
        raise UnreadableFileError(
            f"{path}: subject {subject!r} was read before, from {found[subject][0]}. A Cohort has "
            "one recording per id; tell trials apart with subject_of=, from a path to an id."
        )
    first_path, first = next(iter(found.values()), (path, recording))
    for what, mine, theirs in (
        ("channels", first.channels, recording.channels),
        ("units", first.units, recording.units),
    ):
        if mine != theirs:
            raise UnreadableFileError(
                f"{path}: the {what} are {abbreviate(map(repr, theirs), shown=20)}, but those of "
                f"{first_path} are {abbreviate(map(repr, mine), shown=20)}. All recordings need "
                "the same; name those to read with channels=."
            )
