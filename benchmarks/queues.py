"""A discrete-event simulation of jobs that share cores and links, and wait in line.

A job has steps, each an amount of work for a pool. It may hold a slot (a worker, a server) during
all of them, and may come after other jobs.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple


class Pool:
    """Something shared evenly: each of k jobs runs at rate ``min(1, size / k)``.

    ``size`` is the number of cores, or of transfers at full speed that a link has room for. It
    need not be an integer: two cores that slow each other down are fewer than two.
    """

    def __init__(self, size: float = math.inf):
        self.size, self.work = size, 0.0
        self.jobs: list[tuple[float, int, int]] = []  # (progress at the end, order, job)
        self._progress = self._time = 0.0

    @property
    def rate(self) -> float:
        """Progress of each job in a second."""
        return min(1.0, self.size / len(self.jobs)) if self.jobs else 1.0

    def move_to(self, time: float) -> None:
        """Let all jobs run until a time."""
        self._progress += (time - self._time) * self.rate
        self._time = time

    def enter(self, work: float, order: int, job: int) -> None:
        """Begin a step of a job now."""
        self.work += work
        heapq.heappush(self.jobs, (self._progress + work, order, job))

    @property
    def next_end(self) -> float:
        """When the next step ends, if no other begins before."""
        return self._time + max(0.0, self.jobs[0][0] - self._progress) / self.rate


class Slots:
    """Places that hold one job each; the others wait in line."""

    def __init__(self, size: float = 1):
        self.free, self.line = size, deque[int]()


class Job(NamedTuple):
    """Steps, each a pool and its work in seconds; the slots held; the jobs before it."""

    steps: Sequence[tuple[Pool, float]]
    slots: Slots | None
    after: Sequence[int]


@dataclass
class Plan:
    """Jobs, in the order in which they stand in line."""

    jobs: list[Job] = field(default_factory=list)

    def add(
        self, *steps: tuple[Pool, float], slots: Slots | None = None, after: Iterable[int] = ()
    ) -> int:
        """Add a job; return its number."""
        self.jobs.append(Job(steps, slots, tuple(after)))
        return len(self.jobs) - 1

    def run(self) -> list[float]:
        """Return when each job ends. Cost: O(n log n) for n steps."""
        return _Run(self.jobs).ends


class _Run:
    def __init__(self, jobs: list[Job]):
        self.jobs, self.ends, self.now = jobs, [math.nan] * len(jobs), 0.0
        self._step, self._order = [0] * len(jobs), count()
        self._left = [len(job.after) for job in jobs]
        self._next: list[list[int]] = [[] for _ in jobs]
        self._events: list[tuple[float, int, Pool]] = []
        for number, job in enumerate(jobs):
            for before in job.after:
                self._next[before].append(number)
        for number, job in enumerate(jobs):
            if not job.after:
                self._begin(number)
        while self._events:
            time, _, pool = heapq.heappop(self._events)
            if pool.jobs and time >= pool.next_end:  # else the pool has changed since
                self.now = time
                pool.move_to(time)
                self._end_step(heapq.heappop(pool.jobs)[2], pool)

    def _begin(self, job: int) -> None:
        slots = self.jobs[job].slots
        if slots is not None:
            if not slots.free:
                slots.line.append(job)
                return
            slots.free -= 1
        self._go_on(job)

    def _go_on(self, job: int) -> None:
        steps = self.jobs[job].steps
        if self._step[job] == len(steps):
            self._end(job)
            return
        pool, work = steps[self._step[job]]
        pool.move_to(self.now)
        pool.enter(work, next(self._order), job)
        self._expect(pool)

    def _end_step(self, job: int, pool: Pool) -> None:
        self._expect(pool)
        self._step[job] += 1
        self._go_on(job)

    def _expect(self, pool: Pool) -> None:
        if pool.jobs:
            heapq.heappush(self._events, (pool.next_end, next(self._order), pool))

    def _end(self, job: int) -> None:
        self.ends[job], slots = self.now, self.jobs[job].slots
        if slots is not None:
            slots.free += 1
            if slots.line:
                self._begin(slots.line.popleft())
        for other in self._next[job]:
            self._left[other] -= 1
            if not self._left[other]:
                self._begin(other)
