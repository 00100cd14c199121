"""What a site has released under differential privacy: never twice, never more than agreed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.exceptions import FederationError
from percdl.federated.checksum import checksum
from percdl.signals.readers.arrays import read_header
from percdl.signals.writers.files import PRIVATE, make_private_folder, replacing


class Ledger:
    """The noisy sums that were released, by what was asked.

    The same question gets the same answer, so that it can be repeated at no cost; another
    question, be it for the same round, is another release.

    Parameters
    ----------
    n_releases : int
        How many there may be.
    folder : path, optional
        Where they are kept, private to the site, so that a restart does not forget them. By
        default they live with the object.
    """

    def __init__(self, n_releases: int, folder: str | Path | None = None):
        self.n_releases = n_releases
        self._folder = None if folder is None else Path(folder)
        self._released: dict[str, np.ndarray] = {}
        if self._folder is not None:
            make_private_folder(self._folder)
            self._released = {f.stem: _read(f) for f in sorted(self._folder.glob("*.npy"))}

    def __len__(self) -> int:
        return len(self._released)

    def release(self, question: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what was answered before, or make an answer, while there is something left."""
        if question in self._released:
            return self._released[question]
        if len(self) >= self.n_releases:
            raise FederationError(
                f"All {self.n_releases} releases that were agreed on are spent: one more would "
                "break the promise of differential privacy. Nothing is sent. Agree on more rounds "
                "or a larger epsilon, and begin a new run."
            )
        answer = make()
        self._keep(question, answer)
        self._released[question] = answer
        return answer

    def _keep(self, question: str, answer: np.ndarray) -> None:
        """Write an answer down before it is given."""
        if self._folder is None:
            return
        with replacing(self._folder / f"{question}.npy", mode=PRIVATE) as file:
            np.save(file, answer, allow_pickle=False)


def _read(path: Path) -> np.ndarray:
    """Return an answer that was kept: a plain vector, neither an archive nor a pickle."""
    try:
        with open(path, "rb") as file:
            shape, dtype = read_header(file, os.fstat(file.fileno()).st_size)
            if dtype.kind != "f" or len(shape) != 1:
                raise ValueError(f"{dtype} of shape {shape}")
            return np.fromfile(file, dtype)
    except (OSError, ValueError) as error:
        raise FederationError(
            f"{path} is damaged ({error}), so what this site has released is not known. Nothing "
            "is sent. Bring the file back, or begin a new run."
        ) from error


def release_of(kind: str, broadcast: Broadcast) -> str:
    """Return the checksum that a release is known by: the round, and what it was asked with."""
    told = broadcast.to_arrays().items()
    return checksum(kind, {name: np.asarray(x, float) for name, x in told})
