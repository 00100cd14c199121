"""Local rounds that tell noisy sums only, and the server's side of them."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.federated.contributions import contributions, nothing_like, to_sums
from percdl.federated.denoise import denoise
from percdl.federated.ledger import Ledger, question_of
from percdl.federated.noise import RandomBytes, add_on_grid, clip_rows, draw_noise, step_of
from percdl.federated.privacy import Privacy, check_private, count_releases
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort

# One shape for all chunks and blocks: nobody's numbers change with who else is there.
ROWS = 4


class PrivateInProcess:
    """A site that adds noise to all it tells; see `percdl.federated.privacy`.

    Parameters
    ----------
    cohort : Cohort
        The recordings.
    settings : Settings
        What to solve and how.
    privacy : Privacy
        Clip and noise.
    n_masks : int
        Masks per recording; agreed on, since who misses samples is nobody's business.
    ledger : Ledger, optional
        What has been released before.
    random_bytes : function
        Where noise comes from: by default from the operating system, as keys do.

    Attributes
    ----------
    inside : InProcess
        The same without noise, for what is not told.
    """

    def __init__(
        self,
        cohort: Cohort,
        settings: Settings,
        privacy: Privacy,
        n_masks: int = 0,
        ledger: Ledger | None = None,
        random_bytes: RandomBytes = os.urandom,
    ):
        check_private(settings)
        n_releases = count_releases(settings)
        self._settings = settings
        self._privacy = privacy.calibrated(n_releases)
        self._ledger = Ledger(n_releases) if ledger is None else ledger
        self._random_bytes = random_bytes
        self.inside = InProcess(cohort, settings, chunk_rows=ROWS, n_masks=n_masks)

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms; return noisy sums."""
        return self._tell("population", broadcast, self.inside.population_round(broadcast))

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC; return noisy sums."""
        return self._tell("personal", broadcast, self.inside.personal_round(broadcast))

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Express all by the centred dictionary; return zeros, as nothing is made of them."""
        return nothing_like(self.inside.recenter(broadcast))

    def results(self) -> Results:
        """Return what was learned of each subject; without noise, for the site alone."""
        return self.inside.results()

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state of all subjects; what was released is not forgotten with it."""
        return self.inside.snapshot()

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Give all subjects the state of a snapshot."""
        self.inside.restore(arrays)

    def close(self, keep: bool = False) -> None:
        """Do nothing, as without noise."""
        self.inside.close(keep)

    def _tell(self, kind: str, broadcast: Broadcast, exact: Sums) -> Sums:
        """Replace exact sums by clipped and noisy ones of the same shape."""
        site = self.inside.site
        with jax.enable_x64(self._settings.dtype == "float64"):
            parts = list(contributions(site, broadcast.dictionary, kind))
        shapes = {name: rows.shape[1:] for name, rows in parts[0].items()}
        total = self._ledger.release(
            question_of(kind, broadcast), lambda: self._add(np.concatenate(_flat(parts)))
        )
        return to_sums(_split(total, shapes), exact, self._settings, site.n_masks)

    def _add(self, rows: np.ndarray) -> np.ndarray:
        """Clip, add, and make noisy."""
        n_atoms = self._settings.n_atoms
        bound, deviation = self._privacy.bound(n_atoms), self._privacy.deviation(n_atoms)
        if deviation == 0:
            return clip_rows(rows, bound).sum(0)
        step = step_of(deviation)
        total = add_on_grid(rows, bound, step)
        return step * (total + draw_noise(total.size, deviation, step, self._random_bytes))


class Denoised:
    """Rounds of which the server makes the best: noisy sums become sums it can work with.

    Parameters
    ----------
    runtime : Runtime
        Where the noisy sums of all sites are added.
    settings, privacy, n_masks : as for `PrivateInProcess`
    n_sites : int
        How many sites add noise.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        privacy: Privacy,
        n_masks: int = 0,
        n_sites: int = 1,
    ):
        noise = privacy.calibrated(count_releases(settings)).deviation(settings.n_atoms)
        self._runtime = runtime
        self._options: dict[str, Any] = {
            "settings": settings,
            "n_masks": n_masks,
            "deviation": noise * n_sites**0.5,
        }

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms everywhere; return the sums."""
        sums = self._runtime.population_round(broadcast)
        return denoise(sums, broadcast, **self._options)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC everywhere; return the sums."""
        return denoise(self._runtime.personal_round(broadcast), broadcast, **self._options)

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Express all by the centred dictionary, and hear nothing of it."""
        return self._runtime.recenter(broadcast)


def _flat(parts: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """Return the contributions of each block as vectors, arrays (S, n)."""
    return [np.hstack([x.reshape(len(x), -1) for x in part.values()]) for part in parts]


def _split(vector: np.ndarray, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Undo `_flat` for one vector."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    pieces = np.split(vector, ends[:-1])
    return {name: x.reshape(shapes[name]) for name, x in zip(shapes, pieces, strict=True)}
