"""Which files are meant."""

import glob
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from percdl.exceptions import InvalidParameterError

Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


def find_files(paths: Paths, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of a path, a pattern, a folder or a list of these, in order of name.

    Parameters
    ----------
    paths : path, pattern such as ``"walks/*.csv"``, folder, or list of these
        ``**`` in a pattern stands for folders in folders.
    suffixes : tuple of str
        What the names of files end in where a folder is given.
    """
    wanted = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not wanted:
        raise InvalidParameterError("The list of files is empty. Pass at least one path.")
    return [file for path in wanted for file in _expand(Path(path).expanduser(), suffixes)]


def _expand(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if has_suffix(file, suffixes))
        nothing = f"There is no {' or '.join(suffixes)} file in the folder {path}."
    elif glob.has_magic(str(path)):
        matches = map(Path, glob.glob(str(path), recursive=True))
        found = sorted(match for match in matches if match.is_file())
        nothing = f"No file matches {str(path)!r} (seen from {Path.cwd()})."
    else:
        found, nothing = [], f"There is no file {str(path)!r} (seen from {Path.cwd()})."
    if not found:
        raise FileNotFoundError(f"{nothing} Check the path.")
    return found


def has_suffix(file: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether a visible file has one of these endings, in small or capital letters."""
    return file.is_file() and file.suffix.lower() in suffixes and not file.name.startswith(".")
