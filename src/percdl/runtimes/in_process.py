"""All subjects in this process, chunk by chunk, on the default device of JAX."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from percdl.algorithm.chunks import CPU_SHAPE, accelerator_shape
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.local import Site
from percdl.algorithm.results import Results, restore_site, site_arrays
from percdl.algorithm.settings import Settings
from percdl.runtimes.protocol import HostedFit
from percdl.signals import Cohort

# Share of an accelerator's memory that the recordings may occupy between rounds.
RESIDENT_SHARE = 0.25


class InProcess(HostedFit):
    """One site that holds the whole cohort.

    A chunk holds at most ``chunk_rows`` recordings, by default as many as suit the device; memory
    depends on it, results do not. ``n_masks`` is that of the whole cohort, if these recordings
    are a part of it (`Measured.n_masks`), and ``unit`` is that of `Site`. With ``is_exact``, all
    chunks have ``chunk_rows`` rows, so that results of a subject do not depend on other subjects.
    """

    def __init__(
        self,
        cohort: Cohort,
        settings: Settings,
        chunk_rows: int | None = None,
        n_masks: int | None = None,
        unit: float | None = None,
        is_exact: bool = False,
    ):
        on_cpu = jax.default_backend() == "cpu"
        shape = CPU_SHAPE if on_cpu else accelerator_shape(jax.device_count())
        if chunk_rows is not None:
            shape = replace(shape, rows=chunk_rows, block_rows=chunk_rows, is_exact=is_exact)
        self._settings = settings
        with self._precision():
            resident = not on_cpu and _fits(cohort, settings)
            self.site = Site(cohort, settings, shape, resident, n_masks, unit)

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run the local half of a round; return the sums."""
        rounds = {
            "population": self.site.population_round,
            "personal": self.site.personal_round,
            "express": self.site.express,
        }
        with self._precision():
            return rounds[kind](broadcast)

    def results(self) -> Results:
        """Return the results of each subject, in the order of the cohort."""
        return self.site.results()

    def add_some(self, sums: Sums, kind: str, broadcast: Broadcast, counted: np.ndarray) -> Sums:
        """Add the last round up again, each atom over some subjects (S, K); see `Site`."""
        with self._precision():
            return self.site.add_some(sums, kind, broadcast, counted)

    def snapshot(self, reader: Path | None = None) -> dict[str, np.ndarray]:
        """Return the state of all subjects, as arrays by name."""
        return site_arrays(self.site)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Give all subjects the state of a snapshot."""
        restore_site(self.site, arrays)

    def _precision(self) -> AbstractContextManager:
        # `jax_enable_x64` of the process would mix both precisions in a float32 fit.
        return jax.enable_x64(self._settings.dtype == "float64")


def _fits(cohort: Cohort, settings: Settings) -> bool:
    """Whether the recordings take a small enough share of the devices' memory."""
    stats = jax.devices()[0].memory_stats() or {}
    limit = stats.get("bytes_limit", 0) * jax.device_count() * RESIDENT_SHARE
    item = 16 if settings.dtype == "float64" else 8  # of a sample and of its Fourier transform
    return int(cohort.lengths.sum()) * cohort.n_channels * item <= limit
