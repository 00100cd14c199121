"""Simulated fits take as long as real ones: Dask workers, and hospitals over TLS.

All parameters are measured on one worker (and two, for the cores of this machine) and on three
sites, with other numbers of records than the fits they are compared with. Processor seconds hardly
depend on what others do with the machine; seconds do, and are compared only if others do little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks import Absent
from benchmarks.claims._claim import Claim, between, is_quick, skipped

if TYPE_CHECKING:
    from benchmarks.scale_model import Outcome

# Simulated over measured; the largest share of the machine that others may use.
LEAST, MOST, IDLE = 0.8, 1.25, 0.1
WORKERS, SITES = (1, 2, 4), (3, 10, 30)
N_SHARDS, PER_SHARD, PER_SITE = 16, 128, 64


def claims() -> Iterator[Claim]:
    """Measure the parameters, then simulate and run fits of other sizes."""
    try:
        from benchmarks import scale_measure as measure
    except ImportError as error:
        raise Absent(f"Dask or the packages of a federation are missing ({error})") from error
    from benchmarks.scale_model import Cluster, Network, federate, fit_on_dask

    measured = measure.measure_all()
    cores = (os.cpu_count() or 1) * measured.speed
    for n_workers in WORKERS[:1] if is_quick() else WORKERS:
        real = measure.run_dask(n_workers, N_SHARDS, PER_SHARD)
        here = Cluster(n_workers, cores, shares_cores=True)
        simulated = fit_on_dask(measured.dask, here, [PER_SHARD] * N_SHARDS)
        yield from _compare(f"Dask, {n_workers} workers", simulated, real)
    more, here = measured.seconds_of(PER_SITE), Network(cores)
    for n_sites in SITES[:1] if is_quick() else SITES:
        for server_adds in (False, True):
            real = measure.run_federation(n_sites, server_adds, PER_SITE)
            simulated = federate(measured.federation, here, n_sites, server_adds, more)
            who = "the server adds" if server_adds else "the sites add"
            yield from _compare(f"{n_sites} sites, {who}", simulated, real)


def _compare(name: str, simulated: Outcome, real: Any) -> Iterator[Claim]:
    detail = f"{simulated.processor:.1f} s simulated, {real.processor:.1f} s measured"
    ratio = simulated.processor / real.processor
    yield between(f"{name}: processor seconds", ratio, LEAST, MOST, detail)
    detail = f"{simulated.seconds:.1f} s simulated, {real.seconds:.1f} s measured"
    others = real.clock.share_of_others(*real.span)
    if others > IDLE:
        yield skipped(f"{name}: seconds", f"others used {others:.0%} of the machine; {detail}")
    else:
        ratio = simulated.seconds / real.seconds
        yield between(f"{name}: seconds", ratio, LEAST, MOST, detail)
