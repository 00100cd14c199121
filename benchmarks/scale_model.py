"""Simulate large fits from measured seconds and bytes: ``python -m benchmarks.scale_model``.

`benchmarks.scale_measure` measures the parameters, and the claim `scale_model` compares simulated
fits with real ones. The command prints the tables of docs/scale.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.queues import Plan, Pool, Slots
from percdl.algorithm.exchange import BRANCHES

MEASURED = Path(__file__).with_suffix(".json")
# What is not measured: a cluster, and a federation over the internet. Bytes per second.
PEOPLE, MACHINES, CORES, SHARD_BYTES = 1_000_000, 50, 16, 64e6
CLUSTER_LINK, FILE_SERVER, OWN_DISK = 1.25e9, 1.25e9, 0.5e9
HOSPITALS, PEOPLE_EACH, LATENCY = 300, 1000, 0.02
SITE_RATE, SERVER_RATE = 12.5e6, 125e6
# A round reads the states of the subjects and writes them, a tenth of the shards (`out_of_core`).
WITH_STATES = 1.2
# The second personal round, by its number: the first one loads programs.
PERSONAL = 3


@dataclass(frozen=True)
class Round:
    """Seconds of a local round: of a task with no records, of a record, of the lead after it."""

    task: float
    record: float
    lead: float


@dataclass(frozen=True)
class DaskCosts:
    """A fit over Dask: seconds and bytes of its parts.

    ``opening`` and ``closing`` are seconds before the first and after the last round: fixed, and
    per record.
    """

    rounds: list[Round]
    add: float
    submit: float
    opening: tuple[float, float]
    closing: tuple[float, float]
    told_bytes: float
    answer_bytes: float
    record_bytes: float


@dataclass(frozen=True)
class Slot:
    """A slot of a federation: seconds of a site, of the server's update, and bytes of messages.

    ``site`` is the work of a site that only follows a server, ``site_adds`` that of one that
    computes the dictionary itself, both with ``records`` records and without its part in the
    exchange.
    """

    site: float
    site_adds: float
    update: float
    post_bytes: float
    answer_bytes: float


@dataclass(frozen=True)
class FederationCosts:
    """A federated fit: its slots, and seconds of the exchange.

    ``mask`` is per other site, ``check`` per post read, ``take`` and ``send`` those of the server
    per post and per answer, ``receive`` that of a site per answer; ``send_byte`` and
    ``receive_byte`` are per byte. ``look`` is how long the server lets a complete slot lie.
    """

    slots: list[Slot]
    records: int
    mask: float
    check: float
    take: float
    send: float
    send_byte: float
    receive: float
    receive_byte: float
    look: float


@dataclass(frozen=True)
class Measured:
    """All measurements; ``speed`` is that of a core while others are busy, 1 if it is alone."""

    speed: float
    dask: DaskCosts
    federation: FederationCosts

    @classmethod
    def read(cls, path: Path = MEASURED) -> Measured:
        """Read a file of `benchmarks.scale_measure`."""
        content = json.loads(path.read_text(encoding="utf-8"))
        dask, federation = content.pop("dask"), content.pop("federation")
        rounds = [Round(**one) for one in dask.pop("rounds")]
        slots = [Slot(**one) for one in federation.pop("slots")]
        return cls(
            dask=DaskCosts(rounds, **dask),
            federation=FederationCosts(slots, **federation),
            **content,
        )

    def seconds_of(self, records: int) -> list[float]:
        """Return the seconds of a site in each slot for records beyond those it was measured with.

        Nothing is computed while sites join; the last of the rounds collects results.
        """
        more = records - self.federation.records
        return [0.0, *(more * one.record for one in self.dask.rounds[:-1])]


@dataclass(frozen=True)
class Cluster:
    """Machines of a Dask cluster; rates in bytes per second.

    The lead, with the scheduler, has a separate core, unless it shares those of the workers.
    ``disk`` is what all workers read from together, and a worker alone as fast as ``stream``.
    """

    n_workers: int
    cores: float
    shares_cores: bool = False
    link: float = math.inf
    disk: float = math.inf
    stream: float = math.inf


class Outcome(NamedTuple):
    """Seconds of a fit, when each round ended, and the seconds that each part was busy.

    ``processor`` are the seconds of all cores together.
    """

    seconds: float
    processor: float
    rounds: list[float]
    busy: dict[str, float]

    @property
    def busiest(self) -> str:
        """The part that was busy longest, and its share of the fit."""
        name = max(self.busy, key=lambda part: self.busy[part])
        return f"{name}, {self.busy[name] / self.seconds:.0%}"

    def seconds_of_round(self, number: int) -> float:
        """Seconds of a round."""
        return self.rounds[number] - self.rounds[number - 1]


def fit_on_dask(costs: DaskCosts, on: Cluster, shards: Sequence[int]) -> Outcome:
    """Simulate a fit over Dask; ``shards`` are numbers of records."""
    plan, lead, workers = Plan(), Slots(), Slots(on.n_workers)
    cores, link = Pool(on.cores), Pool(1)
    lead_core = cores if on.shares_cores else Pool(1)
    disk = Pool(on.disk / on.stream if on.disk < math.inf else math.inf)
    n_records = sum(shards)
    last = plan.add((lead_core, costs.opening[0] + costs.opening[1] * n_records))
    ends = []
    for one in costs.rounds:
        parts = []
        for n in shards:
            send = (lead_core, costs.submit), (link, costs.told_bytes / on.link)
            sent = plan.add(*send, slots=lead, after=[last])
            read = (disk, n * costs.record_bytes * WITH_STATES / on.stream)
            work = (cores, one.task + one.record * n)
            parts.append(plan.add(read, work, slots=workers, after=[sent]))
        while len(parts) > 1:
            groups = [parts[i : i + BRANCHES] for i in range(0, len(parts), BRANCHES)]
            parts = [plan.add((cores, costs.add), slots=workers, after=some) for some in groups]
        answer = (link, costs.answer_bytes / on.link)
        last = plan.add(answer, (lead_core, one.lead), slots=lead, after=parts)
        ends.append(last)
    last = plan.add((lead_core, costs.closing[0] + costs.closing[1] * n_records), after=[last])
    times = plan.run()
    busy = {
        "computation": cores.work / on.cores,
        "disks": disk.work / disk.size,
        "lead": lead_core.work,
    }
    processor = sum(pool.work for pool in {cores, lead_core})
    return Outcome(times[last], processor, [times[end] for end in ends], busy)


@dataclass(frozen=True)
class Network:
    """Where the parties of a federation are; rates in bytes per second.

    With ``cores``, all share one machine; otherwise each has its own core. A site alone
    reaches ``site_rate``, and all together the ``server_rate``, up and down.
    """

    cores: float | None = None
    site_rate: float = math.inf
    server_rate: float = math.inf
    latency: float = 0.0


def federate(
    costs: FederationCosts, over: Network, n_sites: int, server_adds: bool, more: Sequence[float]
) -> Outcome:
    """Simulate a federated fit; ``more`` are seconds of a site in each slot beyond the measured.

    Sites wait for each other in every slot. They send their posts up, and read those of all
    down, or the answer of a server that has added them.
    """
    plan, relay, wire = Plan(), Slots(), Pool()
    sites = Pool(over.cores or math.inf)
    core = sites if over.cores else Pool(1)
    lanes = over.server_rate / over.site_rate if over.server_rate < math.inf else math.inf
    up, down = Pool(lanes), Pool(lanes)
    look = costs.look * n_sites / (n_sites + 1)  # the longest of as many waits
    ready: list[list[int]] = [[] for _ in range(n_sites)]
    ends = []
    for slot, extra in zip(costs.slots, more, strict=True):
        own = (slot.site if server_adds else slot.site_adds) + extra + costs.mask * (n_sites - 1)
        posts = []
        for before in ready:
            sent = (up, slot.post_bytes / over.site_rate), (wire, over.latency)
            posted = plan.add((sites, own), *sent, after=before)
            posts.append(plan.add((core, costs.take), slots=relay, after=[posted]))
        n_read = 1 if server_adds else n_sites
        size = slot.answer_bytes if server_adds else n_sites * slot.post_bytes
        if server_adds:
            posts = [
                plan.add((core, slot.update + costs.check * n_sites), slots=relay, after=posts)
            ]
        waited = plan.add((wire, look), after=posts)
        ready = []
        for _ in range(n_sites):
            packed = (core, costs.send + costs.send_byte * size)
            sent = plan.add(packed, slots=relay, after=[waited])
            arrives = (down, size / over.site_rate), (wire, over.latency)
            read = costs.receive + costs.receive_byte * size + costs.check * (n_read > 1) * n_read
            ready.append([plan.add(*arrives, (sites, read), after=[sent])])
        ends.append(plan.add(after=[number for some in ready for number in some]))
    times = plan.run()
    busy = {
        "computation": sites.work / (over.cores or n_sites),
        "server": core.work,
        "link of the server": max(up.work, down.work) / lanes,
    }
    processor = sum(pool.work for pool in {sites, core})
    return Outcome(times[ends[-1]], processor, [times[end] for end in ends], busy)


def million(measured: Measured, n_machines: int = MACHINES, own_disks: bool = False) -> Outcome:
    """Simulate a million people on a cluster, whose machines have disks or share a file server."""
    costs = measured.dask
    per_shard = round(SHARD_BYTES / costs.record_bytes)
    n_shards = math.ceil(PEOPLE / per_shard)
    n_cores = n_machines * CORES
    cluster = Cluster(
        n_workers=n_cores,
        cores=n_cores * measured.speed,
        link=CLUSTER_LINK,
        disk=n_machines * OWN_DISK if own_disks else FILE_SERVER,
        stream=OWN_DISK if own_disks else CLUSTER_LINK,
    )
    return fit_on_dask(costs, cluster, [per_shard] * n_shards)


def hospitals(measured: Measured, n_sites: int = HOSPITALS, server_adds: bool = False) -> Outcome:
    """Simulate a federation of hospitals over the internet."""
    network = Network(None, SITE_RATE, SERVER_RATE, LATENCY)
    more = measured.seconds_of(PEOPLE_EACH)
    return federate(measured.federation, network, n_sites, server_adds, more)


def render(measured: Measured) -> str:
    """Return the tables of docs/scale.md."""
    costs = measured.dask
    read = PEOPLE * costs.record_bytes * WITH_STATES / 1e9
    n_shards = PEOPLE * costs.record_bytes / SHARD_BYTES
    messages = n_shards * (costs.told_bytes + costs.answer_bytes) / 1e6
    lines = [
        f"| a million people, {MACHINES} machines of {CORES} cores | personal round | read and "
        "written in it | messages | fit | machine-hours | busiest |",
        "|---|---|---|---|---|---|---|",
    ]
    places = ("one file server, 10 Gbit/s", False), ("a disk of 0.5 GB/s in each machine", True)
    for name, own_disks in places:
        run = million(measured, own_disks=own_disks)
        lines.append(
            f"| {name} | {run.seconds_of_round(PERSONAL):.1f} s | {read:.0f} GB "
            f"| {messages:.0f} MB | {run.seconds:.0f} s | {run.seconds * MACHINES / 3600:.2f} "
            f"| {run.busiest} |"
        )
    lines += [
        "",
        f"| {HOSPITALS} hospitals of {PEOPLE_EACH:,} people | personal round | up, a site "
        "| down, a site | out of the server | fit | busiest |",
        "|---|---|---|---|---|---|---|",
    ]
    slot = measured.federation.slots[PERSONAL + 1]
    for name, server_adds in (("the sites add (relay)", False), ("the server adds", True)):
        run = hospitals(measured, server_adds=server_adds)
        down = slot.answer_bytes if server_adds else HOSPITALS * slot.post_bytes
        lines.append(
            f"| {name} | {run.seconds_of_round(PERSONAL + 1):.1f} s "
            f"| {slot.post_bytes / 1e3:.0f} kB | {down / 1e3:,.0f} kB "
            f"| {HOSPITALS * down / 1e6:,.0f} MB | {run.seconds:.0f} s | {run.busiest} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(render(Measured.read()))
