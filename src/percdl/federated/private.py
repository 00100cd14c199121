"""Local rounds that tell noisy sums only, and the server's side of them."""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.federated.contributions import contributions, nothing_like, to_sums
from percdl.federated.denoise import denoise
from percdl.federated.ledger import Ledger, release_of
from percdl.federated.noise import RandomBytes, add_on_grid, clip_rows, draw_noise, step_of
from percdl.federated.privacy import Privacy, check_private, count_releases
from percdl.runtimes.in_process import InProcess

# One shape for all chunks and blocks: nobody's numbers change with who else is there.
ROWS = 4


class PrivateRounds:
    """The rounds of a site that adds noise to all it tells; see `percdl.federated.privacy`.

    Parameters
    ----------
    inside : InProcess
        The rounds without noise, with chunks of `ROWS` rows. Its state and its results stay at
        the site. Masks must be agreed on: who misses samples is nobody's business.
    privacy : Privacy
        Clip and noise.
    ledger : Ledger, optional
        What has been released before.
    random_bytes : function
        Where noise comes from: by default from the operating system, as keys do.
    """

    def __init__(
        self,
        inside: InProcess,
        privacy: Privacy,
        ledger: Ledger | None = None,
        random_bytes: RandomBytes = os.urandom,
    ):
        self.inside = inside
        self._settings = inside.site.settings
        check_private(self._settings)
        n_releases = count_releases(self._settings)
        self._privacy = privacy.calibrated(n_releases)
        self._ledger = Ledger(n_releases) if ledger is None else ledger
        self._random_bytes = random_bytes
        shapes = {chunk.rows for chunk in inside.site.chunks}
        if shapes != {ROWS}:
            raise InvalidParameterError(
                f"Chunks of {sorted(shapes)} rows: numbers of a subject could depend on who else "
                f"is there. Use `InProcess(..., chunk_rows={ROWS})`."
            )

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms; return noisy sums."""
        return self._tell("population", broadcast, self.inside.population_round(broadcast))

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC; return noisy sums."""
        return self._tell("personal", broadcast, self.inside.personal_round(broadcast))

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Express all by the centred dictionary; return zeros, as nothing is made of them."""
        return nothing_like(self.inside.recenter(broadcast))

    def _tell(self, kind: str, broadcast: Broadcast, exact: Sums) -> Sums:
        """Replace exact sums by clipped and noisy ones of the same shape."""
        site = self.inside.site
        with jax.enable_x64(self._settings.dtype == "float64"):
            parts = list(contributions(site, broadcast.dictionary, kind))
        shapes = {name: rows.shape[1:] for name, rows in parts[0].items()}
        total = self._ledger.release(
            release_of(kind, broadcast), lambda: self._add(np.concatenate(_flat(parts)))
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
    settings, privacy, n_masks : what was agreed on
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
