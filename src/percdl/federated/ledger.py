"""What a site has answered: never more rounds than agreed, and no noisy sum twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.checksum import checksum
from percdl.federated.run_keys import Uses
from percdl.signals.files import PRIVATE, make_private_folder, replacing


def count_rounds(settings: Settings) -> Counter[str]:
    """Return how many rounds of each kind `run_percdl` asks for at most.

    >>> from percdl.transforms import TimeWarp
    >>> rounds = {"population_rounds": 2, "personal_rounds": 4}
    >>> settings = Settings(TimeWarp(), 50, 1, 1, 0.1, **rounds)
    >>> sorted(count_rounds(settings).items())
    [('personal', 5), ('population', 2), ('recenter', 1)]
    """
    n_init, n_perso = settings.schedule
    rounds = Counter(population=max(n_init, 1), personal=n_perso)
    rounds["personal" if n_perso else "population"] += 1  # the closing one
    rounds["recenter"] = int(settings.has_gauge and n_perso > 0 and settings.refits)
    return rounds


def spend_round(path: Path, n_agreed: int, kind: str, index: int, question: str) -> None:
    """Note a round in a file before it is answered; raise where it is one more than agreed.

    The same question may be repeated in the same round, after a fault or when a run is resumed.
    Another question, or the same one in another round, counts.
    """
    uses, use = Uses(path), f"{index}-{question}"

    def answered() -> list[str]:
        return [name for name, of_kind in uses.read().items() if of_kind == kind][:n_agreed]

    if len(answered()) < n_agreed:
        uses.claim(use, kind)
    if use not in answered():  # of several processes, those that came first in the file
        raise FederationError(
            f"The agreed number of rounds of kind {kind!r} in this run is {n_agreed}, and this "
            f"site has answered all of them: round {index} would be one more. Nothing is sent. "
            "Start a new run, with more rounds if they are needed."
        )


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
        found = np.array(open_memmap(path, mode="r"))
        if found.dtype.kind != "f" or found.ndim != 1:
            raise ValueError(f"{found.dtype} of shape {found.shape}")
        return found
    except Exception as error:  # NumPy raises many types for damaged headers
        raise FederationError(
            f"{path} is damaged ({error}), so what this site has released is not known. Nothing "
            "is sent. Bring the file back, or begin a new run."
        ) from error


def release_of(kind: str, broadcast: Broadcast) -> str:
    """Return the checksum that a release is known by: the round, and what it was asked with."""
    told = broadcast.to_arrays().items()
    return checksum(kind, {name: np.asarray(x, float) for name, x in told})
