"""Chunks, shards and workers do not change a fit, nor does the loss of some of them.

Synthetic 12-lead records, default settings. Workers have one core each.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import beats
from benchmarks.timing import say, seconds
from percdl import ShardedCohort, write_shards
from percdl.experiments.study import as_printed

# Largest difference of two dictionaries of unit norm, in double precision.
MOST_DOUBLE, LEAST_SPEED_UP = 1e-9, 1.7
CHUNKS, WORKERS, N_TASKS = (7, 64, 512), (1, 2, 4), 200


def claims() -> Iterator[Claim]:
    """Fit the same records in all ways, in double and in single precision."""
    try:
        from benchmarks import dask_fit
    except ImportError as error:
        raise Absent(f"Dask is not installed ({error})") from error
    n_records, per_shard = (80, 16) if is_quick() else (600, 60)
    records = beats(n_records).cohort
    with tempfile.TemporaryDirectory() as folder:
        on_disk = write_shards(records, folder, recordings_per_shard=per_shard)
        say("reference")
        truth = dask_fit.make(dtype="float64").fit(records).dictionary_
        for rows in CHUNKS:
            model = dask_fit.make(dtype="float64", algorithm__chunk_rows=rows).fit(records)
            yield _same(f"in memory, chunks of {rows}", model, truth)
        yield _same("shards, in process", dask_fit.make(dtype="float64").fit(on_disk), truth)
        yield from _single(dask_fit, records, on_disk)
        for n_workers in WORKERS:
            yield from _on_dask(dask_fit, n_workers, on_disk, truth)
        yield _weigh(dask_fit, on_disk)
    yield from _speed_up(dask_fit)


def _same(name: str, model: Any, truth: np.ndarray, most: float = MOST_DOUBLE) -> Claim:
    distance = float(np.abs(model.dictionary_ - truth).max())
    return at_most(f"{name}: difference of the dictionaries", distance, most)


def _single(dask_fit: Any, records: Any, on_disk: ShardedCohort) -> Iterator[Claim]:
    """Compare in single precision: two fits that rounding bends differ by twice as much."""
    for name, way in (("plain", as_printed()), ("default", {})):
        here, exact = (
            dask_fit.make(**way, dtype=dtype).fit(records).dictionary_
            for dtype in ("float32", "float64")
        )
        rounding = float(np.abs(here - exact).max())
        yield beside(f"float32, {name}: what rounding does to a fit", f"{rounding:.2g}")
        for rows in CHUNKS:
            model = dask_fit.make(**way, algorithm__chunk_rows=rows).fit(records)
            yield _same(f"float32, {name}, chunks of {rows}", model, here, 2 * rounding)
        model = dask_fit.make(**way).fit(on_disk)
        yield _same(f"float32, {name}, shards", model, here, 2 * rounding)


def _on_dask(
    dask_fit: Any, n_workers: int, on_disk: ShardedCohort, truth: np.ndarray
) -> Iterator[Claim]:
    from percdl.runtimes.dask import DaskRuntime, local_cluster

    say(f"{n_workers} worker(s)")
    with local_cluster(n_workers) as client:
        model, place = dask_fit.make(dtype="float64"), DaskRuntime(client)
        yield _same(f"Dask, {n_workers} worker(s)", model.fit(on_disk, runtime=place), truth)
        if n_workers == 2:
            yield _overhead(client)
            yield from _lose_worker(dask_fit, client, on_disk, truth)
            yield _lose_lead(dask_fit, client, on_disk, truth)


def _speed_up(dask_fit: Any) -> Iterator[Claim]:
    """Time fits of the same shards, compiled before, on one worker and on two."""
    from percdl.runtimes.dask import DaskRuntime, local_cluster

    n_records, per_shard = (128, 16) if is_quick() else (4096, 256)
    model, times = dask_fit.make(), {}
    with tempfile.TemporaryDirectory() as folder:
        on_disk = write_shards(beats(n_records).cohort, folder, recordings_per_shard=per_shard)
        for n_workers in (1, 2):
            say(f"timing {n_workers} worker(s)")
            with local_cluster(n_workers) as client:
                place = DaskRuntime(client)
                model.fit(on_disk, runtime=place)
                times[n_workers] = min(
                    seconds(lambda place=place: model.fit(on_disk, runtime=place))
                    for _ in range(3)
                )
    cores = len(os.sched_getaffinity(0))
    detail = ", ".join(f"{n}: {t:.2f} s" for n, t in times.items()) + f"; {cores} cores"
    speed_up = times[1] / times[2]
    yield at_least("two workers, times as fast as one", speed_up, LEAST_SPEED_UP, detail)


def _overhead(client: Any) -> Claim:
    """Time tasks that do nothing, one round of them."""
    tasks = [f"nothing-{time.time()}-{i}" for i in range(N_TASKS)]
    spent = seconds(lambda: client.gather([client.submit(int, key=key) for key in tasks]))
    return beside("Dask, overhead of a task", f"{1e3 * spent / N_TASKS:.2f} ms")


def _lose_worker(
    dask_fit: Any, client: Any, on_disk: ShardedCohort, truth: np.ndarray
) -> Iterator[Claim]:
    """Kill a worker as soon as the first partition of the fourth round is done."""
    from percdl.runtimes.dask import DaskRuntime

    say("a worker is killed")
    victim = min(client.run(os.getpid).values())
    half_done = "state-*/round-0004/*.state"
    dask_fit.kill_when(lambda: any(on_disk.folder.glob(half_done)), victim)
    model = dask_fit.make(dtype="float64").fit(on_disk, runtime=DaskRuntime(client))
    yield _same("Dask, a worker killed in a round", model, truth)
    client.wait_for_workers(2, timeout=180)
    alive = victim in client.run(os.getpid).values()
    yield at_most("workers killed that are still alive", float(alive), 0)


def _lose_lead(dask_fit: Any, client: Any, on_disk: ShardedCohort, truth: np.ndarray) -> Claim:
    """Kill the process that leads a fit after its second checkpoint; go on from the last."""
    from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
    from percdl.runtimes.dask import DaskRuntime

    say("the lead is killed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        address = client.scheduler.address
        command = [sys.executable, "-m", "benchmarks.dask_fit", address, on_disk.folder, path]
        with subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE) as lead:
            assert lead.stdin is not None
            pickle.dump(client.security, lead.stdin)
            lead.stdin.close()
            while lead.poll() is None and _rounds(path) < 2:
                time.sleep(0.01)
            lead.kill()
        resumed = fit_with_checkpoints(
            dask_fit.make(dtype="float64"),
            on_disk,
            None,
            resume=read_checkpoint(path),
            runtime=DaskRuntime(client),
        )
        return _same(f"Dask, the lead killed (exit status {lead.returncode})", resumed, truth)


def _rounds(path: Path) -> int:
    from percdl.estimators.checkpoint import read_checkpoint

    return read_checkpoint(path).n_rounds if path.exists() else 0


def _weigh(dask_fit: Any, on_disk: ShardedCohort) -> Claim:
    """Weigh what travels in a round: it does not depend on the number of records."""
    scale = dask_fit.Weighed()
    dask_fit.make(dtype="float64").fit(on_disk, runtime=scale)
    told, answered = (max(sizes) / 1e3 for sizes in (scale.told, scale.answered))
    figure = f"{told:.1f} kB to each task, {answered:.1f} kB back, at most"
    return beside("volume of a round", figure)
