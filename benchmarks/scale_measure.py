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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    Network,
    Round,
    Slot,
    federate,
)  # fmt: skip
from benchmarks.timing import say, seconds
from percdl import Algorithm, Cohort, PerCDL, write_shards
from percdl.federated.board import Board
from percdl.federated.certificates import make_authority, make_server_certificate
from percdl.federated.identities import Identity, RunKeys
from percdl.federated.manifest import propose
from percdl.federated.messages import Head, Post, write_post
from percdl.federated.relay import (
    _LOOK,
    Listening,
    Relayed,
    make_app,
    make_server,
    pack,
    unpack,
)  # fmt: skip
from percdl.federated.secure_sum import mask
from percdl.federated.transcript import Place, check_posts, link

# Two and three rounds, and two that close the fit.
N_ROUNDS = 7
# Two sizes of shards, and the sites of the federation, from which parameters are measured.
N_SHARDS, SMALL, LARGE = 8, 64, 256
N_SITES, RECORDS = 3, 128
REPEATS, PATIENCE = 3, 1200
KIND = "personal"


def wait_until_idle(busy: float = 15.0, most: int = 60) -> None:
    """Wait until others use little of this machine, but not for long."""
    for _ in range(most):
        if psutil.cpu_percent(2.0) < busy:
            return
    say("The machine is busy: what is measured now is too long.")


class DaskRun(NamedTuple):
    """A fit over Dask: seconds, and (function, first second, last second) of its tasks."""

    seconds: float
    tasks: list[tuple[str, float, float]]


def run_dask(n_workers: int, n_shards: int, per_shard: int, repeats: int = REPEATS) -> DaskRun:
    """Return the fastest of some fits, after one that compiles."""
    from percdl.runtimes.dask import DaskRuntime, local_cluster

    say(f"Dask, {n_workers} workers, {n_shards} shards of {per_shard} records")
    with tempfile.TemporaryDirectory() as folder, local_cluster(n_workers) as client:
        records = beats(n_shards * per_shard).cohort
        on_disk = write_shards(records, folder, recordings_per_shard=per_shard)
        place, model = DaskRuntime(client), dask_fit.make()
        model.fit(on_disk, runtime=place)
        return min(
            _run_once(client, lambda: model.fit(on_disk, runtime=place)) for _ in range(repeats)
        )


def _run_once(client: Any, fit: Callable[[], Any]) -> DaskRun:
    from distributed import get_task_stream

    wait_until_idle()
    stream: Any
    with get_task_stream(client) as stream:
        began = time.time()
        fit()
        ended = time.time()
    tasks = []
    for task in stream.data:
        name = task["key"].split("-")[1]
        times = [(x["start"], x["stop"]) for x in task["startstops"]]
        tasks.append((name, min(a for a, _ in times) - began, max(b for _, b in times) - began))
    return DaskRun(ended - began, sorted(tasks, key=lambda task: task[1]))


def _stages(run: DaskRun, n_shards: int) -> list[tuple[float, float, float]]:
    """Return first second, seconds a task and last second of each round and of the results."""
    own = [task for task in run.tasks if task[0] != "total"]
    stages = [own[i : i + n_shards] for i in range(0, len(own), n_shards)]
    return [(some[0][1], (some[-1][2] - some[0][1]) / n_shards, some[-1][2]) for some in stages]


def measure_dask(
    n_shards: int = N_SHARDS, small: int = SMALL, large: int = LARGE
) -> tuple[DaskCosts, float]:
    """Return the costs of fits on one worker, and how many cores two workers have together."""
    sizes = (small, large)
    runs = [run_dask(1, n_shards, size) for size in sizes]
    pair = run_dask(2, n_shards, small)
    work = [sum(b - a for _, a, b in run.tasks) for run in (runs[0], pair)]
    cores = 2 * work[0] / work[1]
    submit, stages = _seconds_a_task(), [_stages(run, n_shards) for run in runs]
    adds = [b - a for run in runs for name, a, b in run.tasks if name == "total"]
    rounds = []
    for number in range(len(stages[0])):
        task, record = _line(sizes, [some[number][1] for some in stages])
        gaps = [some[number + 1][0] - some[number][2] for some in stages if number + 1 < len(some)]
        lead = max(0.0, min(gaps) - submit) if gaps else 0.0
        rounds.append(Round(task, record, lead))
    n_records = [n_shards * size for size in sizes]
    opening = _line(n_records, [some[0][0] - submit for some in stages])
    closing = _line(
        n_records, [run.seconds - some[-1][2] for run, some in zip(runs, stages, strict=True)]
    )
    told, answer, record_bytes = _weigh()
    costs = DaskCosts(
        rounds, float(np.median(adds)), submit, opening, closing, told, answer, record_bytes
    )
    return costs, cores


def _line(sizes: Any, values: Any) -> tuple[float, float]:
    """Return the line through two points: its value at zero, and its slope; neither below zero."""
    slope = max(0.0, (values[1] - values[0]) / (sizes[1] - sizes[0]))
    return max(0.0, values[0] - slope * sizes[0]), slope


def _seconds_a_task(n_tasks: int = 400) -> float:
    """Return the seconds of the lead for a task, from tasks that do nothing."""
    from percdl.runtimes.dask import local_cluster

    with local_cluster(1) as client:
        spent = []
        for _ in range(REPEATS):
            keys = [f"nothing-{time.time()}-{i}" for i in range(n_tasks)]
            spent.append(seconds(lambda: client.gather([client.submit(int, key=k) for k in keys])))  # noqa: B023
    return min(spent) / n_tasks


def _weigh() -> tuple[float, float, float]:
    """Return the bytes of a task, of its sums, and of a record with its state, both ways."""
    scale: Any = dask_fit.Weighed()
    with tempfile.TemporaryDirectory() as folder:
        on_disk = write_shards(beats(SMALL).cohort, folder)
        shards = sum(path.stat().st_size for path in Path(folder).rglob("*.npy"))
        dask_fit.make().fit(on_disk, runtime=scale)
    return float(np.mean(scale.told)), float(np.mean(scale.answered)), shards / SMALL


class FederationRun(NamedTuple):
    """A federated fit: when each slot was complete, after the joining, and logs of the sites."""

    ends: np.ndarray
    logs: list[list[dict[str, Any]]]

    @property
    def seconds(self) -> float:
        """Seconds from the joining of the last site to the end."""
        return float(self.ends[-1])


def run_federation(
    n_sites: int, server_adds: bool, records: int = RECORDS, repeats: int = REPEATS
) -> FederationRun:
    """Return the fastest of some federations of processes; the first one compiles."""
    runs = (_run_federation(n_sites, server_adds, records) for _ in range(repeats))
    return min(runs, key=lambda run: run.seconds)


def _run_federation(n_sites: int, server_adds: bool, records: int) -> FederationRun:
    say(f"{n_sites} sites, the {'server adds' if server_adds else 'sites add'}")
    wait_until_idle()
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
            all_.start_relay()
            running = {site: all_.start_site(site) for site in all_.sites}
            for site, process in running.items():
                if process.wait(PATIENCE):
                    raise RuntimeError(all_.said(site))
            posts = [sorted(all_.place(site).glob("*.post")) for site in all_.sites]
            times = np.array([[path.stat().st_mtime for path in own] for own in posts])
            logs = [all_.audit(site) for site in all_.sites]
    ends = times.max(axis=0)
    return FederationRun(ends - ends[0], logs)


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
    content, place = pack(posts), Place(1, manifest.digest, KIND, "here")

    def check() -> None:
        checked = check_posts(manifest, place, unpack(content, manifest))
        np.stack([post.vector(np.uint64, n_numbers) for post in checked.values()]).sum(0)
        link(manifest.digest, 1, posts)

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
        ways = [Relayed(*where, own, manifest) for own in members.identities.values()]
        for slot in range(n_slots):
            posts = members.posts(slot, n_numbers * (8 if slot % 2 else 1))
            content = pack(posts)
            unpacking = seconds(lambda: unpack(content, manifest))  # noqa: B023
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
    sizes, sends, receives = np.median(np.array(reads), axis=1).T
    send, receive = _line(sizes, sends), _line(sizes, receives)
    return {
        "take": float(np.median(takes)),
        "send": send[0], "send_byte": send[1], "receive": receive[0], "receive_byte": receive[1],
    }  # fmt: skip


@contextmanager
def _served(manifest: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Run a relay in a thread; yield its address and its authority."""
    make_authority(folder)
    make_server_certificate(["127.0.0.1"], folder)
    port = free_port()
    at = Listening("127.0.0.1", port, folder / "server.crt", folder / "server.key")
    server = make_server(make_app(Board(manifest, folder / "board")), at)
    thread = threading.Thread(target=server.run)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{port}", (folder / "ca.crt").read_text()
    finally:
        server.should_exit = True
        thread.join()


def measure_federation(cores: float) -> FederationCosts:
    """Return the costs of federated fits of three sites that share some cores."""
    adding, following = (run_federation(N_SITES, server_adds) for server_adds in (False, True))
    sizes = [(max(log[slot]["sent"] for log in adding.logs)) for slot in range(N_ROUNDS + 1)]
    answers = [following.logs[0][slot]["received"] for slot in range(N_ROUNDS + 1)]
    members = _Members(8)
    parts = measure_posts(max(sizes) // 8, members) | measure_relay(max(sizes) // 8, members)
    bare = [Slot(0.0, 0.0, 0.0, *pair) for pair in zip(sizes, answers, strict=True)]
    costs = FederationCosts(bare, RECORDS, look=_LOOK, **parts)
    least = [min(log[slot]["seconds"] for log in following.logs) for slot in range(len(bare))]
    exchange = _exchanges(costs, cores, True)
    updates = [max(0.0, a - b) for a, b in zip(least, exchange, strict=True)]
    costs = replace(
        costs, slots=[replace(a, update=b) for a, b in zip(bare, updates, strict=True)]
    )
    ways = []
    for run, server_adds in ((following, True), (adding, False)):
        beyond = np.diff(run.ends) - _exchanges(costs, cores, server_adds)
        ways.append([0.0, *np.maximum(0.0, beyond[:-1] * cores / N_SITES)])
    slots = [
        replace(slot, site=a, site_adds=b) for slot, a, b in zip(costs.slots, *ways, strict=True)
    ]
    return replace(costs, slots=slots)


def _exchanges(costs: FederationCosts, cores: float, server_adds: bool) -> np.ndarray:
    """Return the simulated seconds of each slot."""
    none = [0.0] * len(costs.slots)
    return np.diff([0.0, *federate(costs, Network(cores), N_SITES, server_adds, none).rounds])


def measure_all() -> Measured:
    """Measure all parameters."""
    dask, cores = measure_dask()
    return Measured(cores, dask, measure_federation(cores))


if __name__ == "__main__":
    MEASURED.write_text(json.dumps(asdict(measure_all()), indent=1) + "\n", encoding="utf-8")
