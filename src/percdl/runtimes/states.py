"""The private state of subjects on disk: a file for each partition and round.

A round reads the files of the previous round and writes its own. A repeated round reads and writes
the same files, so a fit survives the loss of a worker.

The process of the fit locks the folder. An unlocked folder is kept while a checkpoint refers to it
or has been moved; the next fit deletes the others.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals import files

Arrays = dict[str, np.ndarray]
_NAME = "state-"
_WHOLE_NAME = re.compile(rf"{_NAME}[0-9a-f]{{8}}-[0-9a-f]{{32}}")
# File of the state of a partition, and the one that names the checkpoint of the states. `_NEXT`
# names one that is about to be written; once it is written, `_NEXT` becomes `_MARK`. After a kill
# in between, `_NEXT` still says whose states these are.
FILE, _MARK, _NEXT = "{:06d}.state", "checkpoint", "next-checkpoint"


class States:
    """The files of a fit, by round, in a new folder; rounds no longer needed are deleted."""

    def __init__(self, parent: Path, n_partitions: int):
        parent.mkdir(parents=True, exist_ok=True)
        # Delete the folders of fits that were killed before their first checkpoint.
        files.sweep(_siblings(parent), lambda f: (f / _MARK).exists() or _is_named(f, _NEXT))
        made = files.make_held(lambda: parent / f"{_NAME}{files.unique()}", files.make_private)
        self.folder, self._held, self.n_partitions = *made, n_partitions
        # The last round, that of the last snapshot, and of the last one that a checkpoint names.
        self._round = self._snapshot = self._settled = 0
        self._folder_of(1).mkdir(exist_ok=True)

    def before(self, partition: int) -> Path | None:
        """Return the file of a partition's state; None before the first round."""
        return self._path(self._round, partition) if self._round else None

    def after(self, partition: int) -> Path:
        """Return the file of its state after the present round."""
        return self._path(self._round + 1, partition)

    def advance(self) -> None:
        """Count a round that all partitions have finished."""
        self._drop(self._round)
        self._round += 1
        self._folder_of(self._round + 1).mkdir(exist_ok=True)

    def snapshot(self, reader: Path) -> Arrays:
        """Return where the states are, to be written to the checkpoint ``reader``.

        The states are flushed to disk. They are kept until the next snapshot. The states that the
        present checkpoint refers to are kept until `settle` is called.
        """
        earlier, self._snapshot = self._snapshot, self._round
        self._drop(earlier)
        for i in range(self.n_partitions):
            with self._path(self._round, i).open("r+b") as file:  # for writing, as Windows needs
                files.flush_file(file)
        files.flush_entries(self._folder_of(self._round))
        if _reader_of(self.folder, _MARK) != reader.absolute():
            files.replace_file(self.folder / _NEXT, os.fsencode(reader.absolute()))
        name = np.frombuffer(self.folder.name.encode(), np.uint8)
        return {"folder": name, "round": np.array([self._round])}

    def settle(self) -> None:
        """Delete earlier snapshots: the checkpoint of the last one is written."""
        earlier, self._settled = self._settled, self._snapshot
        self._drop(earlier)
        self._confirm()

    def restore(self, arrays: Arrays) -> None:
        """Go back to the snapshot of a checkpoint."""
        if set(arrays) != {"folder", "round"}:
            raise InvalidParameterError(
                "The fit was interrupted in memory, so its state is not on disk. Resume with "
                "the runtime it began with, or start the fit again."
            )
        name, index = arrays["folder"].tobytes().decode(errors="replace"), int(arrays["round"][0])
        folder = _own_folder(self.folder.parent, name)
        own = folder / self._folder_of(index).name
        paths = (own / FILE.format(i) for i in range(self.n_partitions))
        if lost := [path for path in paths if not path.is_file()]:
            raise InvalidParameterError(
                f"{len(lost)} of {self.n_partitions} states of the subjects are gone, the first "
                f"{lost[0]}. Restore them, or start the fit again."
            )
        try:
            held = files.hold(folder)
        except BlockingIOError as error:
            raise InvalidParameterError(
                f"Another process is at work on the states in {folder}: the fit still runs, or "
                "was resumed already. Wait for it, or end it."
            ) from error
        self.close()
        self.folder, self._held = folder, held
        if _is_named(folder, _NEXT):  # a kill came before the fit could note it
            self._confirm()
        else:
            (folder / _NEXT).unlink(missing_ok=True)
        self._round = self._snapshot = self._settled = index
        for other in folder.glob("round-*"):  # of rounds that were broken off
            self._drop(int(other.name.removeprefix("round-")))
        self._folder_of(index + 1).mkdir(exist_ok=True)

    def sweep_others(self) -> None:
        """Delete states beside these that no checkpoint refers to."""
        files.sweep(_siblings(self.folder.parent), _is_needed)

    def close(self, keep: bool = False) -> None:
        """Delete all files; with ``keep``, except those that a checkpoint refers to."""
        with suppress(OSError):  # a checkpoint that cannot be read may refer to them
            if not (keep and _is_needed(self.folder)):
                shutil.rmtree(self.folder, ignore_errors=True)
        files.release(self._held)
        self._held = None

    def _confirm(self) -> None:
        """Note that the checkpoint that was to be written is there."""
        with suppress(FileNotFoundError):
            (self.folder / _NEXT).replace(self.folder / _MARK)

    def _drop(self, index: int) -> None:
        """Delete the files of a round, unless a snapshot refers to it."""
        if index not in (0, self._snapshot, self._settled):
            shutil.rmtree(self._folder_of(index), ignore_errors=True)

    def _folder_of(self, index: int) -> Path:
        return self.folder / f"round-{index:04d}"

    def _path(self, index: int, partition: int) -> Path:
        return self._folder_of(index) / FILE.format(partition)


def write_state(path: Path, arrays: Arrays) -> None:
    """Write the state of a partition and its checksum, atomically."""
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with files.replacing(path, flush=False, tidy=False) as file:
        file.write(zlib.crc32(content).to_bytes(4, "big"))
        file.write(content)


def read_state(path: Path) -> Arrays:
    """Read a state; raises if it is damaged."""
    try:
        with path.open("rb") as file:
            checksum, content = int.from_bytes(file.read(4), "big"), file.read()
        if zlib.crc32(content) != checksum:
            raise ValueError("its checksum does not match its content")
        return load(content)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(
            f"The state {path} of some subjects is missing or damaged ({error}). Start the fit "
            "again."
        ) from error


def _own_folder(home: Path, name: str) -> Path:
    """Return the folder that a snapshot names, if it is one that a fit has made in its home.

    A checkpoint is not trusted, and the folder is deleted at the end, so neither its name nor a
    link may lead out of its home.
    """
    folder = home / name
    is_ours = _WHOLE_NAME.fullmatch(name) and folder.resolve() == home.resolve() / name
    if not is_ours or any(path.is_symlink() for path in folder.glob("*")):
        raise InvalidParameterError(
            f"The checkpoint names {name!r} as the folder of its states, which is not the "
            f"folder of a fit in {home}. Resume with the runtime it began with, or start again."
        )
    return folder


def _siblings(parent: Path) -> Iterator[Path]:
    """Return the folders of all fits of this machine."""
    return parent.glob(f"{_NAME}{files.machine()}-*")


def _reader_of(folder: Path, mark: str) -> Path | None:
    """Return the checkpoint that a file in the folder names, if there is one."""
    path = folder / mark
    return Path(os.fsdecode(path.read_bytes())) if path.is_file() else None


def _is_named(folder: Path, mark: str, if_gone: bool = False) -> bool:
    """Return whether that checkpoint holds the name of the folder; ``if_gone`` if it is gone."""
    if (reader := _reader_of(folder, mark)) is None:
        return False
    return os.fsencode(folder.name) in reader.read_bytes() if reader.is_file() else if_gone


def _is_needed(folder: Path) -> bool:
    """Return whether a checkpoint holds the name of the folder, or is not where it was written."""
    return _is_named(folder, _MARK, if_gone=True) or _is_named(folder, _NEXT)
