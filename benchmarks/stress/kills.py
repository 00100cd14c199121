"""Kill tasks at random moments and at each step on disk, go on, and compare: ``make kills``.

``python -m benchmarks.stress.kills N`` kills short fits N times and writes what was found as JSON.
Children are forked before JAX has begun to work, and compile nothing twice: a kill of a fit costs
two seconds of a core, that of a writer a tenth of one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.kill_points import KillPoint
from benchmarks.stress.kill_tasks import MODEL, Task, clear, leftovers, make_short_tasks
from benchmarks.timing import say

# Kills of one run at most, until it is let go to its end.
CHAIN = 6


@dataclass
class Tally:
    """What came of killing one task.

    Attributes
    ----------
    name : str
    is_fit : bool
    by_step, by_clock : int
        Processes that died of SIGKILL: at a step on disk, at a random moment.
    n_steps, n_cut : int
        Steps of a run from its beginning, and at how many of them one was killed.
    ends : int
        Runs that were killed, resumed and came to their end.
    longest : int
        Most kills of one run.
    seconds : float
        Of an uninterrupted run.
    faults : list of str
        What was torn, differed or was left behind.
    """

    name: str
    is_fit: bool
    by_step: int = 0
    by_clock: int = 0
    n_steps: int = 0
    n_cut: int = 0
    ends: int = 0
    longest: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return self.by_step + self.by_clock


def kill_all(tasks: list[Task], n_kills: int, seed: int = 0) -> list[Tally]:
    """Kill fits so often in total, and writers at each step; return what came of it."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as home:
        place = Path(home).resolve()
        os.environ["PERCDL_CACHE_DIR"] = str(place / "compiled")
        tallies = []
        for task in tasks:
            say(f"killing: {task.name}")
            trial = _Trial(task, place, rng)
            trial.kill(round(task.share * n_kills))
            tallies.append(trial.tally)
            if (place / "truth" / MODEL).exists():
                os.replace(place / "truth" / MODEL, place / MODEL)  # for tasks without a fit
            clear(place / "truth")
    return tallies


class _Trial:
    """One task, killed again and again."""

    def __init__(self, task: Task, place: Path, rng: np.random.Generator):
        self.task, self.rng = task, rng
        self.tally = Tally(task.name, task.share > 0)
        self.truth, self.folder = place / "truth", place / "killed"

    def kill(self, n_kills: int) -> None:
        """Run it to its end; then kill it, in chains, until it was killed often enough.

        The first kill of a chain is at a step where none was so far.
        """
        self._learn_truth()
        first = iter((1 + self.rng.permutation(self.tally.n_steps)).tolist())
        n_kills = n_kills if self.tally.is_fit else self.tally.n_steps
        while self.tally.kills < n_kills and len(self.tally.faults) < 5:
            clear(self.folder)
            self.task.prepare(self.folder)
            self._chain(next(first, None), n_kills)
            clear(self.folder)

    def _learn_truth(self) -> None:
        """Run it twice: what is compiled is compiled after the first."""
        for _ in range(2):
            clear(self.truth)
            self.task.prepare(self.truth)
            told = _Child(self.task, self.truth).wait() or {}
            self.tally.n_steps, self.tally.seconds = told["steps"], told["seconds"]

    def _chain(self, step: int | None, n_kills: int) -> None:
        """Kill a run, go on, kill it again ...; then see where it ends."""
        tally, before = self.tally, self.tally.kills
        most = CHAIN if tally.is_fit else 1
        while tally.kills < n_kills and tally.kills - before < most:
            if step is None and self.rng.random() < 0.5:
                step = int(self.rng.integers(1, 1 + tally.n_steps // 3))  # less is left to do
            is_cut_there, is_first = step is not None, tally.kills == before
            child = _Child(self.task, self.folder, step)
            if step is None:
                child.kill_after(self.rng.uniform(0, tally.seconds))
            step = None
            try:
                if child.wait() is not None:
                    break  # it was done before
            except RuntimeError as error:
                tally.faults.append(f"going on: {error}")
                return
            tally.by_step += is_cut_there
            tally.by_clock += not is_cut_there
            tally.n_cut += is_cut_there and is_first
            self._note(lambda: self.task.check(self.folder, self.truth), "after a kill")
        tally.longest = max(tally.longest, tally.kills - before)
        self._note(self._finish, "at the end")

    def _finish(self) -> None:
        _Child(self.task, self.folder).wait()
        self.task.compare(self.folder, self.truth)
        if left := leftovers(self.folder):
            raise RuntimeError(f"left behind: {left}")
        self.tally.ends += 1

    def _note(self, look: Callable[[], Any], when: str) -> None:
        try:
            look()
        except Exception as error:  # whatever it is, a kill has brought it about
            self.tally.faults.append(f"{when}: {type(error).__name__}: {error}")


class _Child:
    """A process that runs a task; with a step, it kills itself there."""

    def __init__(self, task: Task, folder: Path, step: int | None = None):
        self._out, told = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads: JAX has none of its own yet
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._out)
            os._exit(_run(task, folder, step, told))
        os.close(told)
        self._told = os.fdopen(self._out)

    def kill_after(self, seconds: float) -> None:
        """Kill it so long after it has begun."""
        self._told.readline()
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> dict[str, Any] | None:
        """Return its last message; None if it was killed."""
        with self._told:
            lines = self._told.read().splitlines()
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return None
        if status:
            raise RuntimeError("".join(lines[-1:]) or f"status {status}")
        return json.loads(lines[-1])


def _run(task: Task, folder: Path, step: int | None, told: int) -> int:
    """Run a task in this process; say when it begins, how many steps it took, how long."""
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        point = KillPoint(folder, step)
        point.arm()
        os.write(told, b"begun\n")
        began = time.perf_counter()
        task.run(folder)
        seconds = time.perf_counter() - began
        os.write(told, json.dumps({"steps": point.count, "seconds": seconds}).encode())
    except BaseException:
        os.write(told, traceback.format_exc().replace("\n", " / ").encode())
        return 1
    return 0


if __name__ == "__main__":
    found = kill_all(make_short_tasks(), int(sys.argv[1]))
    print(json.dumps([asdict(tally) for tally in found]))
