"""One partition of a cohort on disk: a shard, and the state of its subjects in another file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.states import Arrays, read_state, write_state
from percdl.signals import Cohort, Recording
from percdl.signals.shards import Shard

Round = Literal["population_round", "personal_round", "recenter"]


@dataclass(frozen=True)
class Partition:
    """Where the recordings are and how they are worked on; small enough to be sent around.

    Attributes
    ----------
    shard : Shard
        The recordings.
    settings, chunk_rows, n_masks
        See `InProcess`.
    """

    shard: Shard
    settings: Settings
    chunk_rows: int | None
    n_masks: int


class Loaded(NamedTuple):
    """What a round needs from disk: recordings, and their state unless it is the first round."""

    recordings: list[Recording]
    state: Arrays | None


def load_partition(partition: Partition, before: Path | None) -> Loaded:
    """Read recordings and state. Nothing here touches the device: another thread may do it."""
    state = None if before is None else read_state(before)
    return Loaded(partition.shard.read(), state)


def run_round(
    partition: Partition, loaded: Loaded, round_: Round, broadcast: Broadcast, after: Path
) -> Sums:
    """Run the local half of a round, write the new state, return the sums."""
    site = _site(partition, loaded)
    sums = getattr(site, round_)(broadcast)
    write_state(after, site.snapshot())
    return sums


def collect(partition: Partition, loaded: Loaded) -> Results:
    """Return what was learned of the subjects."""
    return _site(partition, loaded).results()


def join_results(parts: list[Results]) -> Results:
    """Put the results of partitions together, in their order."""
    firsts = np.cumsum([0, *(len(part.params) for part in parts)])
    shifted = [part.subject + first for part, first in zip(parts, firsts, strict=False)]
    names = ("params", "counts", "onset", "atom", "amplitude", "error")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Results(subject=np.concatenate(shifted), **joined)


def _site(partition: Partition, loaded: Loaded) -> InProcess:
    cohort = Cohort(loaded.recordings)
    site = InProcess(cohort, partition.settings, partition.chunk_rows, partition.n_masks)
    if loaded.state is not None:
        site.restore(loaded.state)
    return site
