"""Public datasets, fetched from their official sources, checked and unpacked."""

from __future__ import annotations

import tempfile
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from percdl.datasets.resuming import ResumingDownloader
from percdl.exceptions import DatasetError, DatasetLicenceWarning
from percdl.signals.extras import require


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from, and on what terms.

    Attributes
    ----------
    name, size, licence, citation : str
        What a user must know before a download.
    archive : str
        Name of the ZIP file.
    urls : tuple of str
        The official addresses of that file, tried in turn.
    manifest_url : str, optional
        Address of a list of the SHA-256 sum and the name of each file in the archive.
    """

    name: str
    size: str
    licence: str
    citation: str
    archive: str
    urls: tuple[str, ...]
    manifest_url: str | None = None


def fetch(source: Source, folder: Path) -> None:
    """Download a dataset and unpack it into a folder, all of it or nothing.

    A transfer that breaks off is taken up where it stopped, now or by the next call. The
    archive's SHA-256 sum is noted down in the folder the first time, and compared from then on;
    each unpacked file is compared with the publisher's manifest, where there is one.
    """
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
        unpacked = _unpack(archive, Path(temporary) / "files")
        if source.manifest_url:
            published = Path(temporary) / "manifest"
            manifest = _retrieve(pooch, source.manifest_url, None, published)
            if difference := _find_difference(pooch, manifest, _root(unpacked)):
                raise _discard(archive, difference)
        for item in unpacked.iterdir():
            item.replace(folder / item.name)
    archive.unlink()


def _retrieve_archive(pooch: Any, source: Source, folder: Path) -> Path:
    note = _note(folder / source.archive)
    known = note.read_text(encoding="ascii").strip() if note.is_file() else None
    failures = []
    for url in source.urls:
        try:
            archive = _retrieve(pooch, url, known, folder / source.archive)
        except OSError as error:  # what requests raises is one of these
            failures.append(f"{url}: {error}")
            continue
        if zipfile.is_zipfile(archive):
            note.write_text(pooch.file_hash(str(archive)), encoding="ascii")
            return archive
        archive.unlink()  # a page that says why there is no file, for instance
        failures.append(f"{url}: what is there is not a ZIP file")
    raise DatasetError(
        f"{source.name} cannot be downloaded now. What has arrived is kept in {folder}: call "
        f"again to go on. Or download {source.archive} by hand and unpack it there. "
        f"What went wrong: {'; '.join(failures)}"
    )


def _note(archive: Path) -> Path:
    """Return the file that remembers the checksum of an archive."""
    return archive.with_name(f"{archive.name}.sha256")


def _retrieve(pooch: Any, url: str, known_hash: str | None, path: Path) -> Path:
    downloader = ResumingDownloader(path.with_name(f"{path.name}.part"))
    try:
        pooch.retrieve(url, known_hash, path.name, path.parent, downloader=downloader)
    except ValueError as error:
        if known_hash is None:
            raise
        raise DatasetError(
            f"this is not the file that was downloaded before: its SHA-256 sum is not "
            f"{known_hash}. If a new version was published, delete {_note(path)} and try again"
        ) from error
    return path


def _unpack(archive: Path, target: Path) -> Path:
    try:
        with zipfile.ZipFile(archive) as stored:
            stored.extractall(target)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise _discard(archive, f"it is damaged ({error})") from error
    return target


def _discard(archive: Path, reason: str) -> DatasetError:
    """Delete an archive that is not what it should be; return the error to raise."""
    archive.unlink()
    _note(archive).unlink()
    return DatasetError(
        f"{archive.name} was downloaded, but {reason}. Nothing of it was kept; try again."
    )


def _root(unpacked: Path) -> Path:
    """Return the folder that the manifest's names start from: the only one, or this one."""
    items = list(unpacked.iterdir())
    return items[0] if len(items) == 1 and items[0].is_dir() else unpacked


def _find_difference(pooch: Any, manifest: Path, root: Path) -> str | None:
    """Return what is wrong with the first file that differs from a manifest, if any does."""
    for line in manifest.read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition(" ")
        path = root / name.strip().lstrip("*")
        if not path.is_file():
            return f"{path.relative_to(root)} is not in it"
        if pooch.file_hash(str(path)) != expected:
            return f"{path.relative_to(root)} does not have the published SHA-256 sum"
    return None
