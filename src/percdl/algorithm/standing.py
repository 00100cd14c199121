"""The state of a fit between two rounds: what is needed to resume it.

The server's part is small. A site's part is its private state: parameters, codes and statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from percdl.algorithm.coding import Coded
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.history import StopReason
from percdl.algorithm.local import Site
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.signals.contents import Array, check_arrays
from percdl.steps.cdu import normalize
from percdl.steps.types import Events, Statistics

_INTEGER = "int64 int32"


@dataclass(frozen=True)
class Standing:
    """The server's state between two rounds.

    Attributes
    ----------
    broadcast : Broadcast
        The input of the next round.
    population, personal : int
        Rounds of each phase that are done or skipped.
    reason : StopReason
        Why the fit would end here.
    """

    broadcast: Broadcast
    population: int = 0
    personal: int = 0
    reason: StopReason = StopReason.ROUNDS_DONE

    @property
    def is_first(self) -> bool:
        """Whether no round was run yet."""
        return self.population == 0 and self.personal == 0


def begin(dictionary: np.ndarray) -> Standing:
    """Return the standing before the first round, given a first dictionary (K, L, P)."""
    return Standing(Broadcast(normalize(dictionary), move=np.zeros(len(dictionary), int)))


def site_arrays(site: Site) -> dict[str, np.ndarray]:
    """Return the private state of a site, as arrays by name."""
    arrays = {}
    for i in range(len(site.chunks)):
        for j, leaf in enumerate(jax.tree.leaves(site.coded[i])):
            arrays[f"chunk{i}/{j}"] = np.asarray(leaf)
    for i, block in enumerate(site.blocks):
        arrays[f"block{i}/params"] = np.asarray(block.params)
        arrays[f"block{i}/fruitless"] = np.asarray(block.fruitless)
    return arrays


def restore_site(site: Site, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore the state that `site_arrays` returned; the recordings must be the same."""
    n_rows = [arrays[name].shape[:1] for name in arrays if name.endswith("/0")]
    if sorted(n_rows) != sorted((chunk.rows,) for chunk in site.chunks):
        raise InvalidParameterError(
            "The fit was interrupted with another `chunk_rows`, runtime or kind of device, so its "
            "recordings are in other chunks. Resume it there, or start the fit again."
        )
    try:
        check_arrays(arrays, *_describe(site))
    except ValueError as error:
        raise ModelFileError(
            f"The state of the subjects is damaged, or of another fit ({error}). Start the fit "
            "again."
        ) from error
    for i in range(len(site.chunks)):
        n_leaves = sum(name.startswith(f"chunk{i}/") for name in arrays)
        site.coded[i] = _as_coded([arrays[f"chunk{i}/{j}"] for j in range(n_leaves)])
    for i, block in enumerate(site.blocks):
        block.params = np.array(arrays[f"block{i}/params"])
        block.fruitless = np.array(arrays[f"block{i}/fruitless"])


def _describe(site: Site) -> tuple[dict[str, Array], dict[str, Array], dict[str, int]]:
    """Return the arrays that `site_arrays` returns and their sizes, for `check_arrays`."""
    real, settings = site.settings.dtype, site.settings
    last = settings.n_atoms - 1
    described: dict[str, Array] = {}
    sizes = {
        "K": settings.n_atoms,
        "L": settings.atom_length,
        "W": settings.atom_length + 2 * settings.margin,
        "P": settings.n_channels,
        "Q": max(1, site.n_masks),
        "M": settings.n_params,
        "Z": 2 * settings.atom_length - 1,
    }
    for i, chunk in enumerate(site.chunks):
        slots = f"E{chunk.n_times}"
        if settings.overlaps:
            sizes[slots] = settings.n_atoms * (chunk.n_times - settings.atom_length + 1)
        leaves = [
            Array(_INTEGER, f"{chunk.rows} {slots}", least=0, most=chunk.n_times),
            Array(_INTEGER, f"{chunk.rows} {slots}", least=0, most=last),
            Array(real, f"{chunk.rows} {slots}"),
            Array(real, f"{chunk.rows} K W P"),
            Array(real, f"{chunk.rows} K W Q"),
            Array(_INTEGER, f"{chunk.rows} K", least=0),
            *[Array(real, f"{chunk.rows}")] * 3,
        ]
        if settings.overlaps and not site.n_masks:
            leaves += [Array(real, f"{chunk.rows} K L P"), Array(real, f"{chunk.rows} K K Z")]
        described |= {f"chunk{i}/{j}": leaf for j, leaf in enumerate(leaves)}
    for i, block in enumerate(site.blocks):
        described[f"block{i}/params"] = Array(real, f"{block.rows} K M")
        described[f"block{i}/fruitless"] = Array(_INTEGER, f"{block.rows} K", least=0)
    return described, {}, sizes


def _as_coded(leaves: list[Any]) -> Coded:
    events, statistics = Events(*leaves[:3]), Statistics(*leaves[3:6])
    energy, unexplained, objective, *overlap = leaves[6:]
    return Coded(events, statistics, energy, unexplained, objective, tuple(overlap) or None)  # pyright: ignore[reportArgumentType]
