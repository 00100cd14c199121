"""Fits beyond one memory or one machine: recordings on disk, workers elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from percdl.cli.data_options import DataOptions, read_cohort
from percdl.cli.errors import fail, require_packages
from percdl.cli.voice import Voice

if TYPE_CHECKING:
    from percdl.runtimes.protocol import Place
    from percdl.signals import AnyCohort

# Seconds to wait for a scheduler.
PATIENCE = 10


def read_any_cohort(options: DataOptions) -> AnyCohort:
    """Open a folder of shards, which stays on disk, or read recordings as `read_cohort` does."""
    from percdl.signals import ShardedCohort
    from percdl.signals.shards import INDEX

    named = options.data or []
    if len(named) != 1 or not (Path(named[0]).expanduser() / INDEX).is_file():
        return read_cohort(options)
    for field in fields(options):
        if field.name not in ("data", "config") and getattr(options, field.name) is not None:
            fail(
                f"--{field.name.replace('_', '-')} says nothing about {named[0]}, which "
                "holds shards. Choose channels, groups and processing before `write_shards`."
            )
    return ShardedCohort.open(named[0])


@contextmanager
def connected(address: str | None, voice: Voice) -> Iterator[Place | None]:
    """Yield the workers of a scheduler as a place for a fit; None without an address."""
    if address is None:
        yield None
        return
    require_packages(("distributed",), "distributed", "--dask runs on Dask workers")
    from distributed import Client

    from percdl.runtimes.dask import DaskRuntime

    where = _scheduler(address)
    try:
        client = Client(**where, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        fail(f"--dask {address}: no scheduler answers there ({error}). Start one, or look it up.")
    with client:
        if not client.nthreads():
            voice.warn(f"the scheduler at {address} has no workers yet. The fit waits for one.")
        yield DaskRuntime(client)


def _scheduler(address: str) -> dict[str, Any]:
    """Tell an address from a scheduler file: a `Client` that fails over either hangs for long."""
    from distributed.comm.addressing import get_address_host_port

    if Path(address).is_file():
        return {"scheduler_file": address}
    try:
        get_address_host_port(address)
    except ValueError:
        fail(
            f"--dask {address}: that is no file, and no address such as tcp://scheduler:8786. "
            "A scheduler file is there while its scheduler runs."
        )
    return {"address": address}
