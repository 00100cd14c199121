"""One process that works for hours' worth: what it holds must not grow with what it has done.

A laboratory's service fits and personalizes all day, on cohorts and recordings of any size. Each
operation below is drawn at random, fails or is interrupted now and then, and leaves nothing
behind: neither memory, compiled programs, arrays, open files, threads, children nor files.
"""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

from percdl import (
    Algorithm,
    Cohort,
    Compose,
    Gain,
    IndCDL,
    OutOfCore,
    PerCDL,
    PopCDL,
    Shift,
    TimeWarp,
    load,
    write_shards,
)
from percdl.exceptions import PerCDLError
from percdl.runtimes.in_process import InProcess

LENGTH, SFREQ = 20, 50.0
# Any number of people and of samples: 3,000 pairs, far more than there are programs.
MOST_PEOPLE, SAMPLES = 20, (100, 250)
# One operation in this many warms the process up.
WARM = 4
TRANSFORMS = (TimeWarp(1, 3), Compose(Shift(2), Gain()))


@dataclass(frozen=True)
class Holdings:
    """What a process holds: bytes of resident memory, and numbers of everything else."""

    memory: int
    programs: int
    arrays: int
    files: int
    threads: int
    children: int
    leftovers: int


@dataclass(frozen=True)
class Bench:
    """What the operations share: a generator, fitted models, and a folder to work in."""

    rng: np.random.Generator
    folder: Path
    models: list[Any]

    def cohort(self) -> Cohort:
        """Return recordings of a random number of people, each of a random length."""
        lengths = self.rng.integers(*SAMPLES, size=self.rng.integers(1, MOST_PEOPLE + 1))
        return Cohort.from_arrays([_recording(self.rng, n) for n in lengths], sfreq=SFREQ)

    def model(self) -> Any:
        """Return one of the fitted models."""
        return self.models[self.rng.integers(len(self.models))]

    def renew(self, model: Any) -> None:
        """Keep a model in the place of another."""
        self.models[self.rng.integers(len(self.models))] = model


def soak(n_operations: int, every: int, seed: int = 0) -> Iterator[tuple[int, Holdings]]:
    """Work, and yield the holdings after each ``every`` operations, with how many were done."""
    with _own_temporary_folder() as folder:
        rng = np.random.default_rng(seed)
        first = [_estimator(rng) for _ in range(4)]
        bench = Bench(rng, folder, [])
        bench.models.extend(model.fit(bench.cohort()) for model in first)
        shares = np.array([share for _, share in OPERATIONS])
        for done in range(1, n_operations + 1):
            # Warming up, what is rare is as frequent as the rest, so that its programs are met.
            given = np.ones(len(shares)) if done <= n_operations // WARM else shares
            operate, _ = OPERATIONS[rng.choice(len(shares), p=given / given.sum())]
            operate(bench)
            if done % every == 0:
                yield done, replace(holdings(), leftovers=len(list(folder.rglob("*"))))


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """Put all temporary files in a folder apart from the usual one, where others leave theirs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(tempfile, "tempdir", folder),
        mock.patch.dict(os.environ, TMPDIR=folder),
    ):
        yield Path(folder)


def slope(done: list[int], values: list[int]) -> float:
    """Return the least-squares growth of a holding per operation."""
    return float(np.polyfit(done, values, 1)[0])


def personalize(bench: Bench) -> None:
    """See new people through a model."""
    found = bench.model().personalize(bench.cohort())
    assert np.isfinite(found.personal_dictionary[found.n_activations > 0]).all()
    assert found.warps.shape[0] == len(found.subjects)


def _summarize(bench: Bench) -> None:
    model, cohort = bench.model(), bench.cohort()
    model.transform(cohort)
    model.score(cohort)
    model.reconstruct(cohort)


def _fit(bench: Bench) -> None:
    model = _estimator(bench.rng).fit(bench.cohort())
    assert model.personal_dictionary_.shape[2] == LENGTH
    bench.renew(model)


def _fit_from_shards(bench: Bench) -> None:
    shards = write_shards(bench.cohort(), bench.folder / "shards")
    _estimator(bench.rng).fit(shards, runtime=OutOfCore(bench.folder / "states"))
    shutil.rmtree(bench.folder / "shards")
    shutil.rmtree(bench.folder / "states", ignore_errors=True)


def save_and_load(bench: Bench) -> None:
    """Replace a model by what its file says."""
    path = bench.folder / "model.percdl"
    bench.model().save(path)
    bench.renew(load(path))
    path.unlink()


def _report(bench: Bench) -> None:
    cohort = bench.cohort()
    path = bench.folder / "report.html"
    _estimator(bench.rng).fit(cohort).report(path, cohort)
    path.unlink()


def fail(bench: Bench) -> None:
    """Ask for what cannot be had: a wrong setting, an infinite sample, a damaged file."""
    path = bench.folder / "damaged.percdl"
    path.write_bytes(bench.rng.bytes(200))
    spoiled = [_recording(bench.rng, 90) * np.inf]
    for attempt in (
        lambda: PopCDL(1, LENGTH, penalty=-1.0).fit(bench.cohort()),
        lambda: bench.model().personalize(spoiled),
        lambda: load(path),
    ):
        try:
            attempt()
        except (PerCDLError, ValueError):
            continue
        raise AssertionError("what cannot be had was given")
    path.unlink()


def _interrupt(bench: Bench) -> None:
    """Stop a fit at its end, as Ctrl-C does."""
    try:
        _estimator(bench.rng).fit(bench.cohort(), runtime=_Interrupting())
    except KeyboardInterrupt:
        return
    raise AssertionError("a fit went on after an interruption")


class _Interrupting:
    """A place where a fit is interrupted when it holds most: its rounds done."""

    def host(self, cohort: Any, settings: Any) -> InProcess:
        fit = InProcess(cohort, settings, settings.chunk_rows)
        fit.results = _stop  # pyright: ignore[reportAttributeAccessIssue]
        return fit


def _stop(*_: Any) -> Any:
    raise KeyboardInterrupt


def _estimator(rng: np.random.Generator) -> Any:
    """Return a model of a random kind, with random settings, not fitted."""
    options = {
        "n_atoms": 1,
        "atom_length": LENGTH,
        "penalty": float(rng.uniform(0.2, 0.6)),
        "algorithm": Algorithm(
            population_rounds=int(rng.integers(1, 4)), personal_rounds=int(rng.integers(1, 4))
        ),
        "random_state": int(rng.integers(2**31)),
        "progress": False,
    }
    kind = rng.integers(len(TRANSFORMS) + 2)
    if kind < len(TRANSFORMS):
        return PerCDL(transformation=TRANSFORMS[kind], **options)
    return (PopCDL, IndCDL)[kind - len(TRANSFORMS)](**options)


def _recording(rng: np.random.Generator, n_times: int) -> np.ndarray:
    """Return an array (n, 1): a bent arch again and again, and noise."""
    bend = rng.uniform(-0.8, 0.8)
    time = np.linspace(0, 1, LENGTH)
    arch = np.sin(np.pi * (time + bend * np.sin(np.pi * time) / np.pi)) ** 3
    x = 0.05 * rng.standard_normal((n_times, 1))
    for onset in range(int(rng.integers(8)), n_times - LENGTH, LENGTH + 5):
        x[onset : onset + LENGTH, 0] += rng.uniform(0.7, 1.3) * arch
    return x


def holdings() -> Holdings:
    """Return what this process holds, after it has given back what it does not need."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    process = Path("/proc/self")
    pages = int((process / "statm").read_text().split()[1])
    tasks = list((process / "task").iterdir())
    return Holdings(
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        programs=len(jax.devices()[0].client.live_executables()),
        arrays=len(jax.live_arrays()),
        files=len(os.listdir(process / "fd")),
        threads=len(tasks),
        children=sum(len((task / "children").read_text().split()) for task in tasks),
        leftovers=0,
    )


# Shares of what is asked for; most of it is new people seen through a model that exists.
OPERATIONS: tuple[tuple[Callable[[Bench], None], float], ...] = (
    (personalize, 45),
    (_summarize, 10),
    (_fit, 25),
    (_fit_from_shards, 4),
    (save_and_load, 8),
    (_report, 1),
    (fail, 4),
    (_interrupt, 3),
)
