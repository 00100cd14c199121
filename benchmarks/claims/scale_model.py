"""Simulated fits take as long as real ones: Dask workers, and hospitals over TLS.

All parameters are measured on one worker (and two, for the cores of this machine) and on three
sites, with other numbers of records than the fits they are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import Absent
from benchmarks.claims._claim import Claim, between, is_quick

# Simulated seconds over measured ones.
LEAST, MOST = 0.8, 1.25
WORKERS = (1, 2, 4)
# Sites, and how often the federation runs; the fastest counts.
SITES = {3: 3, 10: 2, 30: 1}
N_SHARDS, PER_SHARD, PER_SITE = 16, 128, 256


def claims() -> Iterator[Claim]:
    """Measure the parameters, then simulate and run fits of other sizes."""
    try:
        from benchmarks import scale_measure as measure
    except ImportError as error:
        raise Absent(f"Dask or the packages of a federation are missing ({error})") from error
    from benchmarks.scale_model import Cluster, Network, federate, fit_on_dask

    measured = measure.measure_all()
    for n_workers in WORKERS[:2] if is_quick() else WORKERS:
        real = measure.run_dask(n_workers, N_SHARDS, PER_SHARD).seconds
        here = Cluster(n_workers, measured.cores, shares_cores=True)
        simulated = fit_on_dask(measured.dask, here, [PER_SHARD] * N_SHARDS).seconds
        yield _compare(f"Dask, {n_workers} workers", simulated, real)
    more = measured.seconds_of(PER_SITE)
    for n_sites, repeats in list(SITES.items())[: 1 if is_quick() else None]:
        for server_adds in (False, True):
            real = measure.run_federation(n_sites, server_adds, PER_SITE, repeats).seconds
            here = Network(measured.cores)
            simulated = federate(measured.federation, here, n_sites, server_adds, more).seconds
            who = "the server adds" if server_adds else "the sites add"
            yield _compare(f"{n_sites} sites, {who}", simulated, real)


def _compare(name: str, simulated: float, real: float) -> Claim:
    detail = f"{simulated:.1f} s simulated, {real:.1f} s measured"
    return between(f"{name}: simulated over measured", simulated / real, LEAST, MOST, detail)
