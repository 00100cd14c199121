"""Measure the parameters of `benchmarks.scale_model`: ``python -m benchmarks.scale_measure``.

Synthetic 12-lead records; programs are compiled before. Real Dask workers and real hospitals:
processes of this machine, over TLS, of one thread each.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from benchmarks import dask_fit
from benchmarks.cohorts import beat_options, beats
from benchmarks.federation import Federation, free_port
from benchmarks.scale_model import (
    MEASURED,
    DaskCosts,
    FederationCosts,
    Measured,
    Round,
    Slot,
)  # fmt: skip
from benchmarks.timing import say, seconds
from percdl import Algorithm, Cohort, PerCDL, write_shards
from percdl.federated.board import Board, Place
from percdl.federated.certificates import make_authority, make_server_certificate
from percdl.federated.identities import Identity, RunKeys
from percdl.federated.layout import mask
from percdl.federated.manifest import Invitation, propose
from percdl.federated.messages import Head, Post, pack, unpack, write_post
from percdl.federated.relay import _LOOK, Relayed, make_app, make_server

# Two and three rounds, and two that close the fit.
N_ROUNDS = 7
# Two sizes of shards, and the sites of the federation, from which parameters are measured.
N_SHARDS, SMALL, LARGE = 8, 64, 256
N_SITES, RECORDS = 3, 128
PATIENCE = 1200
KIND, MACHINE = "personal", -1


class Clock:
    """Processor seconds of some processes and of the machine, sampled while a block runs.

    Unlike the time of day, they hardly depend on what others do with the machine.
    """

    def __init__(self, pids: Sequence[int]):
        self.pids, self._stop = list(pids), threading.Event()
        self._processes = [psutil.Process(pid) for pid in pids]
        self._samples: dict[int, list[tuple[float, float]]] = {pid: [] for pid in (MACHINE, *pids)}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Clock:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def spent(self, pids: Sequence[int], first: float, last: float) -> float:
        """Return the seconds that processes have used between two times of day."""
        used = 0.0
        for pid in pids:
            times, seconds_ = np.array(self._samples[pid]).T
            used += float(np.diff(np.interp([first, last], times, seconds_))[0])
        return used

    def share_of_others(self, first: float, last: float) -> float:
        """Return the share of the machine that other processes have used."""
        others = self.spent([MACHINE], first, last) - self.spent(self.pids, first, last)
        return others / (last - first) / len(os.sched_getaffinity(0))

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            now, all_ = time.time(), psutil.cpu_times()
            self._samples[MACHINE].append((now, sum(all_) - all_.idle - all_.iowait))
            for process in self._processes:
                with suppress(psutil.Error):  # it has ended
                    used = process.cpu_times()
                    self._samples[process.pid].append((now, used.user + used.system))


class DaskRun(NamedTuple):
    """A fit over Dask: its clock, when it began and ended, and when each stage did."""

    clock: Clock
    span: tuple[float, float]
    stages: list[tuple[float, float]]

    @property
    def seconds(self) -> float:
        """Seconds of the fit."""
        return self.span[1] - self.span[0]

    @property
    def processor(self) -> float:
        """Processor seconds of the lead and all workers."""
        return self.clock.spent(self.clock.pids, *self.span)


def run_dask(n_workers: int, n_shards: int, per_shard: int) -> DaskRun:
    """Run a fit, after one that compiles."""
    from percdl.runtimes.dask import DaskRuntime, local_cluster

    say(f"Dask, {n_workers} workers, {n_shards} shards of {per_shard} records")
    with tempfile.TemporaryDirectory() as folder, local_cluster(n_workers) as client:
        records = beats(n_shards * per_shard).cohort
        on_disk = write_shards(records, folder, recordings_per_shard=per_shard)
        place, model = DaskRuntime(client), dask_fit.make()
        model.fit(on_disk, runtime=place)

        def fit() -> object:
            return model.fit(on_disk, runtime=place)

        return _run_once(client, fit, n_shards)


def _run_once(client: Any, fit: Callable[[], object], n_shards: int) -> DaskRun:
    from distributed import get_task_stream

    stream: Any
    workers = client.run(os.getpid).values()
    with Clock([os.getpid(), *workers]) as clock, get_task_stream(client) as stream:
        time.sleep(0.1)
        began = time.time()
        fit()
        ended = time.time()
        time.sleep(0.1)
    tasks = sorted(
        (min(x["start"] for x in task["startstops"]), max(x["stop"] for x in task["startstops"]))
        for task in stream.data
        if "-total-" not in task["key"]
    )
    stages = [tasks[i : i + n_shards] for i in range(0, len(tasks), n_shards)]
    ends = [(some[0][0], max(last for _, last in some)) for some in stages]
    return DaskRun(clock, (began, ended), ends)


def measure_dask() -> tuple[DaskCosts, float]:
    """Return the costs of fits on one worker, and the speed of a core beside a busy one."""
    sizes = (SMALL, LARGE)
    runs, pair = [run_dask(1, N_SHARDS, size) for size in sizes], run_dask(2, N_SHARDS, SMALL)
    speed = runs[0].processor / pair.processor
    tasks, leads = zip(*(_split(run) for run in runs), strict=True)
    lines = [_line(sizes, values) for values in zip(*tasks, strict=True)]
    between_ = np.min(leads, axis=0)
    submit = min(run.clock.spent([os.getpid()], *stage) for run in runs for stage in run.stages)
    rounds = [Round(*line, lead) for line, lead in zip(lines, between_[1:], strict=True)]
    n_records = [N_SHARDS * size for size in sizes]
    opening, closing = (_line(n_records, [lead[i] for lead in leads]) for i in (0, -1))
    rounds[-1] = replace(rounds[-1], lead=0.0)
    told, answer, record = _weigh()
    costs = DaskCosts(rounds, 0.0, submit / N_SHARDS, opening, closing, told, answer, record)
    return costs, speed


def _split(run: DaskRun) -> tuple[list[float], list[float]]:
    """Return the seconds of a task by stage, and those of the lead before, between and after."""
    lead, *workers = run.clock.pids
    times = [run.span[0], *(time_ for stage in run.stages for time_ in stage), run.span[1]]
    # Sums are added between the tasks of a stage and the next.
    ends = [*(first for first, _ in run.stages[1:]), run.span[1]]
    tasks = [
        run.clock.spent(workers, first, end) / N_SHARDS
        for (first, _), end in zip(run.stages, ends, strict=True)
    ]
    leads = [run.clock.spent([lead], *pair) for pair in zip(times[::2], times[1::2], strict=True)]
    return tasks, leads


def _line(sizes: Any, values: Any) -> tuple[float, float]:
    """Return the line through two points: its value at zero, and its slope; neither below zero."""
    slope = max(0.0, (values[1] - values[0]) / (sizes[1] - sizes[0]))
    return max(0.0, values[0] - slope * sizes[0]), slope


def _weigh() -> tuple[float, float, float]:
    """Return the bytes of a task, of its sums, and of a record with its state, both ways."""
    scale: Any = dask_fit.Weighed()
    with tempfile.TemporaryDirectory() as folder:
        on_disk = write_shards(beats(SMALL).cohort, folder)
        shards = sum(path.stat().st_size for path in Path(folder).rglob("*.npy"))
        dask_fit.make().fit(on_disk, runtime=scale)
    return float(np.mean(scale.told)), float(np.mean(scale.answered)), shards / SMALL


class FederationRun(NamedTuple):
    """A federated fit: when each site made each post, the logs of the sites, and a clock.

    The first process of the clock is the relay.
    """

    clock: Clock
    posted: np.ndarray
    logs: list[list[dict[str, Any]]]

    @property
    def span(self) -> tuple[float, float]:
        """When the last site joined, and when the last one finished."""
        first, *_, last = self.posted.max(axis=0)
        return float(first), float(last)

    @property
    def seconds(self) -> float:
        """Seconds from the joining of the last site to the end."""
        return self.span[1] - self.span[0]

    @property
    def processor(self) -> float:
        """Processor seconds of relay and sites in that time."""
        relay, *sites = self.clock.pids
        joined, ended = self.span
        own = zip(sites, self.posted, strict=True)
        return self.clock.spent([relay], joined, ended) + sum(
            self.clock.spent([site], joined, posts[-1]) for site, posts in own
        )


def run_federation(n_sites: int, server_adds: bool, records: int) -> FederationRun:
    """Run a federation of processes to its end."""
    say(f"{n_sites} sites, the {'server adds' if server_adds else 'sites add'}")
    cohort = beats(n_sites * records).cohort
    cohorts = {
        f"site{i:03d}": Cohort(cohort[i * records : (i + 1) * records]) for i in range(n_sites)
    }
    options = beat_options()
    transform = options["transformation"]
    model = {
        "n-atoms": 1, "atom-length": options["atom_length"], "penalty": options["penalty"],
        "depth": transform.depth, "width": transform.width,
        "population-rounds": 2, "personal-rounds": 3,
    }  # fmt: skip
    terms = {"init": "start.percdl", "aggregate": "server" if server_adds else "sites"}
    with tempfile.TemporaryDirectory() as name, one_thread():
        folder = Path(name)
        none = Algorithm(population_rounds=0, personal_rounds=0)
        start = PerCDL(progress=False, algorithm=none, **options)
        start.fit(cohort[:16]).save(folder / "start.percdl")
        with Federation(folder, cohorts, model, terms, {"trust-server": server_adds}) as all_:
            relay = all_.start_relay()
            running = {site: all_.start_site(site) for site in all_.sites}
            with Clock([relay.pid, *(process.pid for process in running.values())]) as clock:
                for site, process in running.items():
                    if process.wait(PATIENCE):
                        raise RuntimeError(all_.said(site))
            posts = [sorted(all_.place(site).glob("*.post")) for site in all_.sites]
            times = np.array([[path.stat().st_mtime for path in own] for own in posts])
            return FederationRun(clock, times, [all_.audit(site) for site in all_.sites])


@contextmanager
def one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile compute in one thread."""
    before = dict(os.environ)
    os.environ |= {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


class _Members:
    """Members of a made-up run, with secrets and posts of some size."""

    def __init__(self, n_sites: int):
        self.names = [f"site{i:03d}" for i in range(n_sites)]
        self.identities = {name: Identity.generate(name) for name in self.names}
        publics = {name: identity.public for name, identity in self.identities.items()}
        self.manifest = propose(dask_fit.make(), "trial", publics)

    def posts(self, slot: int, n_numbers: int) -> dict[str, bytes]:
        """Return the posts of all in a slot."""
        about = {"run": "trial", "slot": slot, "kind": KIND, "chain": self.manifest.digest}
        return {
            name: write_post(
                Post(Head(site=name, facts={}, **about), bytes(8 * n_numbers)), own.sign
            )
            for name, own in self.identities.items()
        }


def measure_posts(n_numbers: int, members: _Members) -> dict[str, float]:
    """Return the seconds of a site for each other site (masks), and for each post it reads."""
    names, manifest = members.names, members.manifest
    keys = RunKeys(X25519PrivateKey.generate())
    shared = {name: RunKeys(X25519PrivateKey.generate()).public for name in names}
    posts, zeros = members.posts(1, n_numbers), np.zeros(n_numbers, np.uint64)
    content, place = pack(posts), Place(manifest, "here")
    chain = place.chain

    def check() -> None:
        place.slot, place.chain = 1, chain
        checked = place.check(KIND, unpack(content))
        np.stack([post.vector(np.uint64, n_numbers) for post in checked.values()]).sum(0)
        place.advance(posts)

    def hide() -> None:
        mask(zeros, names[0], keys, shared, b"trial")

    times = {"check": min(seconds(check) for _ in range(20)) / len(names)}
    return times | {"mask": min(seconds(hide) for _ in range(20)) / (len(names) - 1)}


def measure_relay(n_numbers: int, members: _Members, n_slots: int = 12) -> dict[str, float]:
    """Return the seconds of relay and site for a post and for an answer, the latter by bytes.

    The relay is a thread here. Posts of every other slot are eight times as large.
    """
    manifest, takes, reads = members.manifest, [], [[], []]
    with tempfile.TemporaryDirectory() as folder, _served(manifest, Path(folder)) as where:
        invited = Invitation(*where, manifest)
        ways = [Relayed(invited, own) for own in members.identities.values()]
        for slot in range(n_slots):
            posts = members.posts(slot, n_numbers * (8 if slot % 2 else 1))
            content = pack(posts)
            here = time.thread_time()
            unpack(content)
            unpacking = time.thread_time() - here
            for way, post in zip(ways, posts.values(), strict=True):
                spent = seconds(lambda: way.post(post))  # noqa: B023
                takes += [] if slot % 2 else [spent]
            for way in ways:
                began, here = time.perf_counter(), time.thread_time()
                way.read(slot)
                here = time.thread_time() - here
                there = time.perf_counter() - began - here
                reads[slot % 2].append((len(content), there, max(0.0, here - unpacking)))
        for way in ways:
            way.__exit__()
    sizes, sends, receives = np.min(np.array(reads), axis=1).T
    send, receive = _line(sizes, sends), _line(sizes, receives)
    return {
        "take": min(takes),
        "send": send[0], "send_byte": send[1], "receive": receive[0], "receive_byte": receive[1],
    }  # fmt: skip


@contextmanager
def _served(manifest: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Run a relay in a thread; yield its address and its authority."""
    make_authority(folder)
    make_server_certificate(["127.0.0.1"], folder)
    port = free_port()
    at = "127.0.0.1", port, folder / "server.crt", folder / "server.key"
    server = make_server(make_app(Board(manifest, folder / "board")), *at)
    thread = threading.Thread(target=server.run)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{port}", (folder / "ca.crt").read_text()
    finally:
        server.should_exit = True
        thread.join()


def measure_federation() -> FederationCosts:
    """Return the costs of federated fits of three sites."""
    run_federation(N_SITES, False, RECORDS)  # compiles
    adding, following = (run_federation(N_SITES, way, RECORDS) for way in (False, True))
    n_slots = N_ROUNDS + 1
    sizes = [max(log[slot]["sent"] for log in adding.logs) for slot in range(n_slots)]
    answers = [following.logs[0][slot]["received"] for slot in range(n_slots)]
    members = _Members(8)
    parts = measure_posts(max(sizes) // 8, members) | measure_relay(max(sizes) // 8, members)
    here = FederationCosts([], RECORDS, look=_LOOK, **parts)
    slots = []
    for slot in range(n_slots):
        own, own_adds = (
            max(0.0, _site_seconds(run, slot) - _exchange_seconds(here, run, slot))
            for run in (following, adding)
        )
        more = _relay_seconds(following, slot) - _relay_seconds(adding, slot)
        update = max(0.0, more - here.check * N_SITES)
        slots.append(Slot(own, own_adds, update, sizes[slot], answers[slot]))
    return replace(here, slots=slots)


def _site_seconds(run: FederationRun, slot: int) -> float:
    """Return the processor seconds of a site for a post, from the one before it on."""
    if slot == 0:
        return 0.0
    sites = zip(run.clock.pids[1:], run.posted, strict=True)
    joined = run.span[0]
    return float(
        np.mean(
            [
                run.clock.spent([pid], joined if slot == 1 else own[slot - 1], own[slot])
                for pid, own in sites
            ]
        )
    )


def _relay_seconds(run: FederationRun, slot: int) -> float:
    """Return the processor seconds of the relay between two complete slots."""
    complete = run.posted.max(axis=0)
    return run.clock.spent(run.clock.pids[:1], complete[slot], complete[slot + 1])


def _exchange_seconds(costs: FederationCosts, run: FederationRun, slot: int) -> float:
    """Return the seconds that the exchange takes a site, as `federate` has them."""
    before = run.logs[0][max(0, slot - 1)]["received"]
    n_read = N_SITES if before > 2 * run.logs[0][max(0, slot - 1)]["sent"] else 0
    reading = costs.receive + costs.receive_byte * before + costs.check * n_read
    return costs.mask * (N_SITES - 1) + reading


def measure_all() -> Measured:
    """Measure all parameters."""
    dask, speed = measure_dask()
    return Measured(speed, dask, measure_federation())


if __name__ == "__main__":
    MEASURED.write_text(json.dumps(asdict(measure_all()), indent=1) + "\n", encoding="utf-8")
