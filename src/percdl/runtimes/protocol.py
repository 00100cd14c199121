"""The interface of a place where fits run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.signals import AnyCohort


class Rounds(ABC):
    """A `Runtime` with one method for its three kinds of rounds."""

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms everywhere; return the sums."""
        return self.run_round("population", broadcast)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC everywhere; return the sums."""
        return self.run_round("personal", broadcast)

    def express(self, broadcast: Broadcast) -> Sums:
        """Find codes and parameters from the start, with a fixed dictionary; return the sums."""
        return self.run_round("express", broadcast)

    @abstractmethod
    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round, "population", "personal" or "express", everywhere; return the sums."""


@runtime_checkable
class HostedFit(Runtime, Protocol):
    """A fit at its place: the rounds of a `Runtime`, its results, and its state between rounds."""

    def results(self) -> Results:
        """Return the results of each subject, in the order of the cohort."""
        ...

    def snapshot(self, reader: Path) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` needs; ``reader`` is the file they are written to."""
        ...

    def settle(self) -> None:
        """Note that the last snapshot is on disk: earlier ones are not needed."""

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to a snapshot, with the same recordings and settings."""

    def close(self, keep: bool = False) -> None:
        """End the fit; with ``keep``, the last snapshot on disk must remain usable."""


@runtime_checkable
class Place(Protocol):
    """The argument of ``model.fit(X, runtime=...)``."""

    def host(self, cohort: AnyCohort, settings: Settings) -> HostedFit:
        """Make a fit ready to run here."""
        ...
