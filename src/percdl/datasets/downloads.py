"""Public datasets: found on this machine, or downloaded, checked and unpacked."""

from __future__ import annotations

import os
import tempfile
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from percdl.exceptions import DatasetError, DatasetLicenceWarning
from percdl.signals.extras import require

ENVIRONMENT_VARIABLE = "PERCDL_DATA"
# Number of retries of a failed transfer, and seconds to wait for a byte.
N_RETRIES, TIMEOUT = 5, 60
# Returns the folder of the files themselves, given one that may hold them, or None.
Finder = Callable[[Path], Path | None]


@dataclass(frozen=True)
class Source:
    """The source and the licence of a dataset, shown to the user before a download."""

    name: str
    size: str
    licence: str
    citation: str
    archive: str  # name of the ZIP file
    urls: Sequence[str]  # official addresses of that file, tried in turn
    manifest_url: str | None = None  # list of the SHA-256 sum and the name of each file in it


def read_source(name: str) -> Source:
    """Return a dataset of ``sources.toml``."""
    text = Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
    return Source(**tomllib.loads(text)[name])


def cache_folder() -> Path:
    """Return the default folder of downloads."""
    return user_cache_path("percdl", appauthor=False) / "datasets"


def shared_folder() -> Path | None:
    """Return ``shared/data`` beside a checkout of the repository, if we run from one."""
    repository = Path(__file__).resolve().parents[3]
    folder = repository.parent / "shared" / "data"
    return folder if (repository / "pyproject.toml").is_file() and folder.is_dir() else None


def find_dataset(
    name: str, find: Finder, data_home: str | os.PathLike[str] | None, source: Source | None
) -> Path:
    """Return the folder of a dataset: named, in PERCDL_DATA, shared, cached, or fetched now."""
    named = data_home or os.environ.get(ENVIRONMENT_VARIABLE)
    homes = [Path(named).expanduser()] if named else []
    if homes and not homes[0].is_dir():
        # A misspelled folder must not start a download of gigabytes.
        raise DatasetError(
            f"{'data_home' if data_home else ENVIRONMENT_VARIABLE}={str(named)!r} is not a "
            "folder. Correct it; to download into a new folder, make it first."
        )
    if not data_home:
        homes += [home for home in (shared_folder(), cache_folder()) if home is not None]
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


def fetch(source: Source, folder: Path) -> None:
    """Download a dataset, check it and unpack it into a folder, completely or not at all."""
    pooch = require("pooch", f"Downloading {source.name}")
    warnings.warn(
        f"Downloading {source.name} ({source.size}) to {folder}. Licence: {source.licence}. "
        f"Please cite: {source.citation}",
        DatasetLicenceWarning,
        stacklevel=4,
    )
    folder.mkdir(parents=True, exist_ok=True)
    archive = _retrieve_archive(pooch, source, folder)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        unpacked = Path(temporary) / "files"
        try:
            with zipfile.ZipFile(archive) as stored:
                stored.extractall(unpacked)
            if source.manifest_url:
                manifest = _retrieve(pooch, source.manifest_url, None, Path(temporary) / "list")
                _compare(pooch, unpacked, manifest.read_text(encoding="utf-8"))
        except (zipfile.BadZipFile, EOFError, zlib.error, ValueError) as error:
            archive.unlink()
            archive.with_name(f"{archive.name}.sha256").unlink()
            raise DatasetError(
                f"{archive.name} was damaged ({error}). It was deleted; try again."
            ) from error
        for item in unpacked.iterdir():
            item.replace(folder / item.name)
    archive.unlink()


def _compare(pooch: Any, unpacked: Path, manifest: str) -> None:
    """Raise if a file is missing or does not have its published SHA-256 sum."""
    # Names in the manifest start from the only folder, if there is one.
    items = list(unpacked.iterdir())
    root = items[0] if len(items) == 1 and items[0].is_dir() else unpacked
    for line in manifest.splitlines():
        expected, _, name = line.partition(" ")
        path = root / name.strip().lstrip("*")
        if not path.is_file():
            raise ValueError(f"{path.relative_to(root)} is not in it")
        if pooch.file_hash(str(path)) != expected:
            raise ValueError(f"{path.relative_to(root)} has another SHA-256 sum than published")


def _retrieve_archive(pooch: Any, source: Source, folder: Path) -> Path:
    note = folder / f"{source.archive}.sha256"
    known = note.read_text(encoding="ascii").strip() if note.is_file() else None
    failures = []
    for url in source.urls:
        try:
            archive = _retrieve(pooch, url, known, folder / source.archive)
        except OSError as error:  # the base of the exceptions of requests
            failures.append(f"{url}: {error}")
            continue
        except ValueError as error:
            raise DatasetError(
                f"{source.archive} is not the file that was downloaded before: its SHA-256 sum "
                f"is not {known}. If a new version was published, delete {note} and try again."
            ) from error
        if zipfile.is_zipfile(archive):
            note.write_text(pooch.file_hash(str(archive)), encoding="ascii")
            return archive
        archive.unlink()  # a page with an error message, for instance
        failures.append(f"{url}: not a ZIP file")
    raise DatasetError(
        f"{source.name} could not be downloaded. Try again later, or download {source.archive} "
        f"by hand and unpack it in {folder}. Errors: {'; '.join(failures)}"
    )


def _retrieve(pooch: Any, url: str, known_hash: str | None, path: Path) -> Path:
    files = pooch.create(
        path.parent, base_url="", registry={path.name: known_hash}, urls={path.name: url},
        retry_if_failed=N_RETRIES,
    )  # fmt: skip
    downloader = pooch.HTTPDownloader(timeout=TIMEOUT)
    return Path(files.fetch(path.name, downloader=downloader))
