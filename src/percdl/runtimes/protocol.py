"""What a place must offer for a fit to run there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from percdl.algorithm.loop import Runtime
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.signals import AnyCohort


@runtime_checkable
class HostedFit(Runtime, Protocol):
    """A fit that has found its place: rounds (see `Runtime`), and what lies between and after."""

    def results(self) -> Results:
        """Return what was learned of each subject, in the order of the cohort."""
        ...

    def snapshot(self, reader: Path) -> dict[str, np.ndarray]:
        """Return what `restore` needs to go on from here, also in another process.

        ``reader`` is the file that it will be written to; what is there stays good.
        """
        ...

    def settle(self) -> None:
        """Count on the last snapshot: it is on disk, and earlier ones are not needed."""
        ...

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to where a snapshot was taken, with the same recordings and settings."""
        ...

    def close(self, keep: bool = False) -> None:
        """Leave the place; with ``keep``, the last snapshot on disk must remain good."""
        ...


@runtime_checkable
class Place(Protocol):
    """Where fits may run: what users pass as ``model.fit(X, runtime=...)``."""

    def host(self, cohort: AnyCohort, settings: Settings, chunk_rows: int | None) -> HostedFit:
        """Make a fit ready to run here."""
        ...
