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
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.files import (
    flush_entries,
    flush_file,
    hold,
    machine,
    make_held,
    make_private,
    release,
    replacing,
    sweep,
    unique,
)

Arrays = dict[str, np.ndarray]
_NAME = "state-"
_WHOLE_NAME = re.compile(rf"{_NAME}[0-9a-f]{{8}}-[0-9a-f]{{32}}")
# Files that name the checkpoint of the states: the present one, and the one being written.
_SPOKEN_OF, _TO_BE = "checkpoint", "checkpoint-to-be"


class States:
    """The files of a fit, by round; files of rounds that are no longer needed are deleted.

    Parameters
    ----------
    folder : Path
        Where they lie.
    held : int or None
        What `hold` has returned for it.
    n_partitions : int
        How many files a round has.
    """

    def __init__(self, folder: Path, held: int | None, n_partitions: int):
        self.folder = folder
        self.n_partitions = n_partitions
        self._held = held
        self._round = 0
        self._snapshot = 0  # the round of the last snapshot
        self._settled = 0  # and of the last one that a checkpoint refers to
        self._folder_of(1).mkdir(exist_ok=True)

    @classmethod
    def create(cls, parent: Path, n_partitions: int) -> States:
        """Make a folder for them, and its parents; fits killed before a first checkpoint go."""
        parent.mkdir(parents=True, exist_ok=True)
        sweep(parent.glob(f"{_NAME}{machine()}-*"), _has_mark)
        folder, held = make_held(lambda: parent / f"{_NAME}{unique()}", make_private)
        return cls(folder, held, n_partitions)

    def before(self, partition: int) -> Path | None:
        """Return where the state of a partition is; None before the first round."""
        return self._path(self._round, partition) if self._round else None

    def after(self, partition: int) -> Path:
        """Return where its state after the present round goes."""
        return self._path(self._round + 1, partition)

    def advance(self) -> None:
        """Count a round that all partitions have finished."""
        self._drop(self._round)
        self._round += 1
        self._folder_of(self._round + 1).mkdir(exist_ok=True)

    def snapshot(self, reader: Path) -> Arrays:
        """Return where the states are, to be written to a checkpoint.

        The states are flushed to disk. They are kept until the next snapshot. The states that the
        present checkpoint refers to are kept until `settle` is called.
        """
        earlier, self._snapshot = self._snapshot, self._round
        self._drop(earlier)
        for i in range(self.n_partitions):
            _flush(self._path(self._round, i))
        flush_entries(self._folder_of(self._round))
        if _told(self.folder / _SPOKEN_OF) != reader.absolute():
            with replacing(self.folder / _TO_BE) as file:
                file.write(os.fsencode(reader.absolute()))
        name = np.frombuffer(self.folder.name.encode(), np.uint8)
        return {"folder": name, "round": np.array([self._round])}

    def settle(self) -> None:
        """Delete earlier snapshots: the checkpoint of the last one is written."""
        earlier, self._settled = self._settled, self._snapshot
        self._drop(earlier)
        if (self.folder / _TO_BE).exists():
            os.replace(self.folder / _TO_BE, self.folder / _SPOKEN_OF)

    def restore(self, arrays: Arrays) -> None:
        """Go back to the snapshot of a checkpoint."""
        if set(arrays) != {"folder", "round"}:
            raise InvalidParameterError(
                "The fit was interrupted in memory, so its state is not on disk. Resume with "
                "the runtime it began with, or start the fit again."
            )
        name, index = arrays["folder"].tobytes().decode(errors="replace"), int(arrays["round"][0])
        folder = _own_folder(self.folder.parent, name)
        files = [_path_in(folder, index, i) for i in range(self.n_partitions)]
        lost = [file for file in files if not file.is_file()]
        if lost:
            raise InvalidParameterError(
                f"{len(lost)} of {len(files)} states of the subjects are gone, the first "
                f"{lost[0]}. Restore them, or start the fit again."
            )
        try:
            held = hold(folder)
        except BlockingIOError as error:
            raise InvalidParameterError(
                f"Another process is at work on the states in {folder}: the fit still runs, or "
                "was resumed already. Wait for it, or end it."
            ) from error
        self.close()
        there = States(folder, held, self.n_partitions)
        there._round = there._snapshot = there._settled = index
        # Rounds that were broken off are run again; what they have left would pile up.
        for other in folder.glob("round-*"):
            there._drop(int(other.name.removeprefix("round-")))
        there._folder_of(index + 1).mkdir(exist_ok=True)
        vars(self).update(vars(there))

    def sweep_others(self) -> None:
        """Delete states beside these that are of no use to anybody."""
        sweep(self.folder.parent.glob(f"{_NAME}{machine()}-*"), _is_spoken_of)

    def close(self, keep: bool = False) -> None:
        """Delete all files; with ``keep``, except those that a checkpoint refers to."""
        if not (keep and self._settled):
            shutil.rmtree(self.folder, ignore_errors=True)
        release(self._held)
        self._held = None

    def _drop(self, index: int) -> None:
        """Delete the files of a round, unless somebody may go back to it."""
        if index not in (0, self._snapshot, self._settled):
            shutil.rmtree(self._folder_of(index), ignore_errors=True)

    def _folder_of(self, index: int) -> Path:
        return self._path(index, 0).parent

    def _path(self, index: int, partition: int) -> Path:
        return _path_in(self.folder, index, partition)


def write_state(path: Path, arrays: Arrays) -> None:
    """Write the state of a partition, whole or not at all."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = save(whole, metadata={"checksum": _checksum(whole)})
    with replacing(path, flush=False, tidy=False) as file:
        file.write(content)


def read_state(path: Path) -> Arrays:
    """Read it back; a damaged file is an error."""
    try:
        if not path.is_file():
            raise FileNotFoundError("no such file")
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}
            if (file.metadata() or {}).get("checksum") != _checksum(arrays):
                raise ValueError("its checksum does not match its content")
            return arrays
    except (OSError, SafetensorError, AttributeError, TypeError, ValueError) as error:
        raise UnreadableFileError(
            f"The state {path} of some subjects is missing or damaged ({error}). Start the fit "
            "again."
        ) from error


def _own_folder(home: Path, name: str) -> Path:
    """Return the folder that a snapshot names, if it is one that a fit has made in its home.

    A checkpoint may come from anywhere, and what is in that folder is deleted in the end: it must
    not lead out of its home, by its name or by a link.
    """
    folder = home / name
    is_ours = _WHOLE_NAME.fullmatch(name) and folder.resolve() == home.resolve() / name
    if not is_ours or any(path.is_symlink() for path in folder.glob("*")):
        raise InvalidParameterError(
            f"The checkpoint names {name!r} as the folder of its states, which is not the "
            f"folder of a fit in {home}. Resume with the runtime it began with, or start again."
        )
    return folder


def _path_in(folder: Path, index: int, partition: int) -> Path:
    return folder / f"round-{index:04d}" / f"{partition:06d}.safetensors"


def _flush(path: Path) -> None:
    with open(path, "r+b") as file:  # Windows flushes only what is open for writing
        flush_file(file)


def _told(mark: Path) -> Path | None:
    """Return the path of the checkpoint that a file names, if there is such a file."""
    return Path(os.fsdecode(mark.read_bytes())) if mark.is_file() else None


def _has_mark(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in (_SPOKEN_OF, _TO_BE))


def _is_spoken_of(folder: Path) -> bool:
    """Whether a checkpoint holds the name of the folder, or is not where it was written."""
    for mark in (_SPOKEN_OF, _TO_BE):
        reader = _told(folder / mark)
        if reader is None:
            continue
        if reader.is_file():
            if os.fsencode(folder.name) in reader.read_bytes():
                return True
        elif mark == _SPOKEN_OF:
            return True
    return False


def _checksum(arrays: Arrays) -> str:
    """Return a sum that a damaged file does not have; fast, as it is made in every round."""
    total = 0
    for name in sorted(arrays):
        array = arrays[name]
        total = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), total)
        total = zlib.crc32(array.tobytes(), total)
    return str(total)
