"""The private state of a site as arrays by name: taken, checked and restored.

The arrays of a chunk are the leaves of its `Coded`, in order: the columns of the events (with
their lengths if there are several), statistics, energies and objective, and statistics of
overlapping atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from percdl.algorithm.coding import Coded
from percdl.algorithm.local import Site
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.steps.types import Events, Statistics

# Kinds of the leaves of a chunk, by their number.
LEAVES = {9: "iifffifff", 10: "iififfifff", 11: "iifffifffff", 12: "iififfifffff"}


def site_arrays(site: Site) -> dict[str, np.ndarray]:
    """Return the private state of a site, as arrays by name."""
    arrays = {}
    for i in range(len(site.chunks)):
        for j, leaf in enumerate(jax.tree.leaves(site.coded[i])):
            arrays[f"chunk{i}/{j}"] = np.asarray(leaf)
    # Blocks depend on the number of cores, chunks do not.
    for block in site.blocks:
        parts = block.split((block.params, block.fruitless))
        for i, (params, fruitless) in zip(block.chunks, parts, strict=True):
            arrays[f"people{i}/params"] = np.asarray(params)
            arrays[f"people{i}/fruitless"] = np.asarray(fruitless)
    return arrays


def restore_site(site: Site, arrays: Mapping[str, np.ndarray]) -> None:
    """Restore the state that `site_arrays` returned; the recordings must be the same."""
    n_rows = [arrays[name].shape[:1] for name in arrays if name.endswith("/0")]
    if sorted(n_rows) != sorted((chunk.rows,) for chunk in site.chunks):
        raise InvalidParameterError(
            "The fit was interrupted with another `chunk_rows`, runtime or kind of device, so its "
            "recordings are in other chunks. Resume it there, or start the fit again."
        )
    for name, shape in _state_shapes(site).items():
        if name not in arrays or arrays[name].shape != shape:
            raise ModelFileError(
                f"The state of the subjects is damaged, or of another fit: `{name}` should be an "
                f"array of shape {shape}. Start the fit again."
            )
    for i in range(len(site.chunks)):
        site.coded[i] = _as_coded(_leaves(arrays, f"chunk{i}"))
    for block in site.blocks:
        block.params, block.fruitless = (
            np.array(block.gather([arrays[f"people{i}/{name}"] for i in block.chunks]))
            for name in ("params", "fruitless")
        )


def _state_shapes(site: Site) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays that the settings determine."""
    settings = site.settings
    window = settings.atom_length + 2 * settings.margin
    statistics = 3 + settings.has_lengths
    by_chunk = {
        f"chunk{i}/{statistics}": (c.rows, settings.n_atoms, window)
        for i, c in enumerate(site.chunks)
    }
    shapes = {name: (*shape, settings.n_channels) for name, shape in by_chunk.items()}
    for i, chunk in enumerate(site.chunks):
        by_atom = chunk.rows, settings.n_atoms
        shapes |= {
            f"people{i}/params": (*by_atom, settings.n_params),
            f"people{i}/fruitless": by_atom,
        }
    return shapes


def check_codes(arrays: Mapping[str, np.ndarray], n_atoms: int) -> None:
    """Raise `ValueError` or `KeyError` if the codes of some recordings do not belong together."""
    for chunk in {name.partition("/")[0] for name in arrays if name.startswith("chunk")}:
        leaves = _leaves(arrays, chunk)
        if "".join(x.dtype.kind for x in leaves) != LEAVES.get(len(leaves)):
            raise ValueError(f"the arrays of `{chunk}` have unexpected types")
        (onset, atom, *columns), (moment, weight, count), *_ = _as_coded(leaves)
        if (
            any(x is not None and x.shape != onset.shape for x in (atom, *columns))
            or weight.shape[:3] != moment.shape[:3]
            or count.shape != moment.shape[:2]
            or len({len(x) for x in leaves}) > 1
            or not all(np.isfinite(x).all() for x in leaves)
            or (onset < 0).any()
            or not ((atom >= 0) & (atom < n_atoms)).all()
        ):
            raise ValueError(f"the arrays of `{chunk}` do not belong together")


def _leaves(arrays: Mapping[str, np.ndarray], chunk: str) -> list[np.ndarray]:
    count = sum(name.startswith(f"{chunk}/") for name in arrays)
    return [arrays[f"{chunk}/{j}"] for j in range(count)]


def _as_coded(leaves: list[Any]) -> Coded:
    """Rebuild the tuple that `jax.tree.leaves` flattened.

    The statistics of overlaps are two, so the number of leaves is even with a column of lengths.
    """
    n_columns = 4 if len(leaves) % 2 == 0 else 3
    events, statistics = Events(*leaves[:n_columns]), Statistics(*leaves[n_columns:][:3])
    energy, unexplained, objective, *overlap = leaves[n_columns + 3 :]
    return Coded(events, statistics, energy, unexplained, objective, tuple(overlap) or None)  # pyright: ignore[reportArgumentType]
