"""The private state of subjects on disk: a file for each partition and round.

A round reads the files of the round before and writes its own. Run again, for whatever reason,
it reads and writes the same: that is all it takes to survive the loss of a worker.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from percdl.exceptions import InvalidParameterError, UnreadableFileError
from percdl.signals.writers.files import replacing

Arrays = dict[str, np.ndarray]


class States:
    """The files of a fit, by round; those of rounds that nobody goes back to are deleted.

    Parameters
    ----------
    folder : Path
        Where they lie; made if it does not exist.
    n_partitions : int
        How many files a round has.
    """

    def __init__(self, folder: Path, n_partitions: int):
        self.folder = folder
        self.n_partitions = n_partitions
        self._round = 0
        self._kept = 0  # the round of the last snapshot
        self._folder_of(1).mkdir(parents=True, exist_ok=True)

    def before(self, partition: int) -> Path | None:
        """Return where the state of a partition is; None before the first round."""
        return self._path(self._round, partition) if self._round else None

    def after(self, partition: int) -> Path:
        """Return where its state after the present round goes."""
        return self._path(self._round + 1, partition)

    def advance(self) -> None:
        """Count a round that all partitions have finished."""
        if self._round != self._kept:
            shutil.rmtree(self._folder_of(self._round), ignore_errors=True)
        self._round += 1
        self._folder_of(self._round + 1).mkdir(exist_ok=True)

    def snapshot(self) -> Arrays:
        """Return where the states are; they stay until the next snapshot."""
        if self._kept not in (0, self._round):
            shutil.rmtree(self._folder_of(self._kept), ignore_errors=True)
        self._kept = self._round
        name = np.frombuffer(str(self.folder).encode(), np.uint8)
        return {"folder": name, "round": np.array([self._round])}

    def restore(self, arrays: Arrays) -> None:
        """Go back to a snapshot."""
        if set(arrays) != {"folder", "round"}:
            raise InvalidParameterError(
                "The fit was interrupted in memory, and its state is not on disk. Go on with "
                "the runtime it began with, or start anew."
            )
        there = States(Path(arrays["folder"].tobytes().decode()), self.n_partitions)
        there._round = there._kept = int(arrays["round"][0])
        there._folder_of(there._round + 1).mkdir(exist_ok=True)
        files = [there._path(there._round, i) for i in range(self.n_partitions)]
        lost = [file for file in files if not file.is_file()]
        if lost:
            raise InvalidParameterError(
                f"{len(lost)} of {len(files)} states of the subjects are gone, the first "
                f"{lost[0]}. Bring them back, or start anew."
            )
        shutil.rmtree(self.folder, ignore_errors=True)
        vars(self).update(vars(there))

    def delete(self) -> None:
        """Delete all files."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _folder_of(self, index: int) -> Path:
        return self.folder / f"round-{index:04d}"

    def _path(self, index: int, partition: int) -> Path:
        return self._folder_of(index) / f"{partition:06d}.safetensors"


def write_state(path: Path, arrays: Arrays) -> None:
    """Write the state of a partition, whole or not at all."""
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with replacing(path, flush=False) as file:
        file.write(content)


def read_state(path: Path) -> Arrays:
    """Read it back; a damaged file is an error."""
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise UnreadableFileError(
            f"The state {path} of some subjects is missing or damaged ({error}). Start the fit "
            "anew."
        ) from error
