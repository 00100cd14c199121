"""The place of a fit: named by the user, or this process."""

from __future__ import annotations

from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.partitioned import OutOfCore
from percdl.runtimes.protocol import HostedFit, Place
from percdl.signals import AnyCohort, ShardedCohort


def host_fit(
    place: Place | None, cohort: AnyCohort, settings: Settings, chunk_rows: int | None
) -> HostedFit:
    """Make a fit ready to run: at a place, else in this process, in memory or shard by shard."""
    if place is not None:
        return place.host(cohort, settings, chunk_rows)
    if isinstance(cohort, ShardedCohort):
        return OutOfCore().host(cohort, settings, chunk_rows)
    return InProcess(cohort, settings, chunk_rows)


def check_place(place: object) -> None:
    """Raise where the argument ``runtime`` is not a place for a fit."""
    if place is not None and not isinstance(place, Place):
        raise InvalidParameterError(
            f"`runtime={place!r}` is no place for a fit. Pass `DaskRuntime(client)`, "
            "`OutOfCore(folder)`, or nothing to run in this process."
        )
