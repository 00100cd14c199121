"""The same seed, the same result: hash seeds, threads, caches, chunks, order, runtimes.

The claim `runtimes` measures chunks, shards and workers at size, `devices` a GPU.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims._claim import Claim, at_least, at_most, is_quick
from benchmarks.stress import torture
from benchmarks.stress.determinism import (
    SURROUNDINGS,
    busy_machine,
    fingerprint,
    fingerprints_in,
    make,
)
from benchmarks.timing import say
from percdl import Cohort, OutOfCore, write_shards
from percdl.estimators.checkpoint import fit_with_checkpoints

N_SUBJECTS, CHUNKS, WORKERS = 40, (1, 3, 16, 40), (1, 2, 4)
N_BUSY = 10
# Largest difference of dictionaries and parameters where sums are taken in another order.
MOST_DOUBLE = 1e-9


def claims() -> Iterator[Claim]:
    """Compare processes, then fits in one process."""
    yield _surroundings()
    yield from _in_one_process()
    yield _on_a_busy_machine()
    yield from _groupings()


def _surroundings() -> Claim:
    names = list(SURROUNDINGS)[:2] if is_quick() else list(SURROUNDINGS)
    found = {}
    for name in names:
        say(name)
        found[name] = fingerprints_in(SURROUNDINGS[name])
    first = found[names[0]]
    same = [name for name in names if found[name] == first]
    other = ", ".join(name for name in names if name not in same) or ", ".join(names)
    title = f"{len(first)} model files, the same bytes but for the clock: processes"
    return at_least(title, len(same), len(names), other)


def _in_one_process() -> Iterator[Claim]:
    say("one process")
    x = torture.recordings()
    reference = fingerprint(make().fit(x))
    again = [fingerprint(make().fit(x)) for _ in range(3)]
    yield at_least("fits repeated in one process, the same file", again.count(reference), 3)
    with tempfile.TemporaryDirectory() as folder:
        kept = fit_with_checkpoints(make(), Cohort.from_arrays(x), Path(folder) / "checkpoint")
    yield at_least("with checkpoints, the same file", float(fingerprint(kept) == reference), 1)
    shown = make(progress=True).fit(x).set_params(progress=False)
    yield at_least("with a progress bar, the same file", float(fingerprint(shown) == reference), 1)


def _on_a_busy_machine() -> Claim:
    """Fit few and long recordings, whose transforms the threads of XLA would share."""
    say("a busy machine")
    x = torture.recordings(4, 3, 12_000)
    reference = fingerprint(make("warp").fit(x))
    with busy_machine():
        again = [fingerprint(make("warp").fit(x)) for _ in range(N_BUSY)]
    return at_least(
        "fits while the machine has other work, the same file", again.count(reference), N_BUSY
    )


def _groupings() -> Iterator[Claim]:
    """Compare fits whose subjects are put together otherwise, in double precision."""
    x = torture.recordings(N_SUBJECTS)
    cohort = Cohort.from_arrays(x)
    reference = make(dtype="float64").fit(cohort)
    for rows in CHUNKS:
        model = make(dtype="float64", algorithm__chunk_rows=rows).fit(cohort)
        yield _near(f"chunks of {rows}", model, reference)
    order = np.random.default_rng(0).permutation(N_SUBJECTS)
    turned = make(dtype="float64").fit(cohort[order])
    yield _near("subjects in another order", turned, reference, order)
    with tempfile.TemporaryDirectory() as folder:
        on_disk = write_shards(cohort, folder, recordings_per_shard=10)
        model = make(dtype="float64").fit(on_disk, runtime=OutOfCore())
        yield _near("shards of 10, out of core", model, reference)
        if not is_quick():
            yield from _workers(on_disk, model)


def _workers(on_disk: Any, reference: Any) -> Iterator[Claim]:
    from percdl.runtimes.dask import DaskRuntime, local_cluster

    for n_workers in WORKERS:
        say(f"{n_workers} worker(s)")
        with local_cluster(n_workers) as client:
            model = make(dtype="float64").fit(on_disk, runtime=DaskRuntime(client))
        yield _near(f"Dask, {n_workers} worker(s), against out of core", model, reference, most=0)


def _near(
    name: str, model: Any, reference: Any, order: Any = slice(None), most: float = MOST_DOUBLE
) -> Claim:
    atoms = np.abs(model.dictionary_ - reference.dictionary_).max()
    params = np.abs(model.params_ - reference.params_[order]).max()
    return at_most(f"{name}: difference of atoms and parameters", float(max(atoms, params)), most)
