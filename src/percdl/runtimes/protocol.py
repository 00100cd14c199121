"""The interface of a place where fits run."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from percdl.algorithm.loop import Runtime
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.signals import AnyCohort


class HostedFit(Runtime):
    """A fit at its place: the rounds of a `Runtime`, its results, and its state between rounds."""

    @abstractmethod
    def results(self) -> Results:
        """Return the results of each subject, in the order of the cohort."""

    @abstractmethod
    def snapshot(self, reader: Path) -> dict[str, np.ndarray]:
        """Return the arrays that `restore` needs; ``reader`` is the file they are written to."""

    @abstractmethod
    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to a snapshot, with the same recordings and settings."""

    def settle(self) -> None:
        """Note that the last snapshot is on disk: earlier ones are not needed."""

    def close(self, keep: bool = False) -> None:
        """End the fit; with ``keep``, the last snapshot on disk must remain usable."""


@runtime_checkable
class Place(Protocol):
    """The argument of ``model.fit(X, runtime=...)``."""

    def host(self, cohort: AnyCohort, settings: Settings) -> HostedFit:
        """Make a fit ready to run here."""
        ...
