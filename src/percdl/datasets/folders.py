"""Where the recordings of a public dataset are looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_path

from percdl.datasets.downloads import Source, fetch
from percdl.exceptions import DatasetError

ENVIRONMENT_VARIABLE = "PERCDL_DATA"
# Returns the folder of the files themselves, given one that may hold them, or None.
Finder = Callable[[Path], Path | None]


def cache_folder() -> Path:
    """Return the folder that downloads go to when none is named."""
    return user_cache_path("percdl", appauthor=False) / "datasets"


def shared_folder() -> Path | None:
    """Return ``shared/data`` beside a checkout of the repository, if we run from one."""
    repository = Path(__file__).resolve().parents[3]
    folder = repository.parent / "shared" / "data"
    return folder if (repository / "pyproject.toml").is_file() and folder.is_dir() else None


def find_dataset(
    name: str,
    find: Finder,
    data_home: str | os.PathLike[str] | None,
    source: Source | None,
) -> Path:
    """Return the folder of a dataset: named, in ``PERCDL_DATA``, shared, cached, or fetched now.

    Parameters
    ----------
    name : str
        The subfolder of the dataset.
    find : function of a folder
        Tells whether a folder holds the dataset, and where exactly.
    data_home : path, optional
        Looked at alone, when given: the dataset's own folder, or the one above it.
    source : Source, optional
        Where to download it from; without it a missing dataset is an error.
    """
    homes = [_existing(data_home, "data_home")] if data_home else _usual_homes()
    for home in homes:
        for folder in (home, home / name):
            if (found := find(folder)) is not None:
                return found
    looked = " or ".join(str(home) for home in homes)
    if source is None:
        raise DatasetError(
            f"No {name} recordings in {looked}. Pass `data_home` or set {ENVIRONMENT_VARIABLE} "
            f"to the folder that holds {name}/, or pass download=True."
        )
    target = homes[-1] / name
    fetch(source, target)
    found = find(target)
    if found is None:
        raise DatasetError(
            f"The {name} recordings were downloaded to {target}, but their files are not laid "
            "out as expected. Empty that folder and try again."
        )
    return found


def _usual_homes() -> list[Path]:
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    homes = [_existing(named, ENVIRONMENT_VARIABLE)] if named else []
    beside = shared_folder()
    return [*homes, *([beside] if beside else []), cache_folder()]


def _existing(folder: str | os.PathLike[str], source: str) -> Path:
    path = Path(folder).expanduser()
    if not path.is_dir():
        # A misspelled folder must not start a download of gigabytes.
        raise DatasetError(
            f"{source}={str(path)!r} is not a folder. Correct it; to download into a new "
            "folder, make it first."
        )
    return path
