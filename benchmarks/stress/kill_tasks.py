"""What is killed: fits in memory and from disk, commands, and the writing of files.

A task starts or continues, depending on the files in its folder. ``check`` looks at the folder of
a task that was killed and raises `Torn` where a file is neither the old one nor the new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from percdl import (
    Algorithm,
    Cohort,
    PerCDL,
    PopCDL,
    ShardedCohort,
    TimeWarp,
    events_to_csv,
    load,
    write_shards,
)
from percdl.estimators import container
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.runtimes.partitioned import OutOfCore
from percdl.runtimes.states import read_state
from percdl.signals.shards import INDEX

MODEL, CHECKPOINT, DATA, STATES = "model.percdl", "model.percdl.checkpoint", "data", "states"
OPTIONS: dict[str, Any] = {
    "n_atoms": 1, "atom_length": 20, "penalty": 0.3, "random_state": 0,
    "init": np.sin(np.pi * np.linspace(0, 1, 20))[None, :, None],
}  # fmt: skip
N_SUBJECTS, PER_SHARD = 10, 4
# What may lie there, however often a task is killed: a part of a file or a folder of shards, the
# states of the checkpoint, those of a process killed before it went on from them; and a part in
# either folder, which goes with it.
MOST_LEFT, MOST_WITHIN = 3, 2


class Torn(Exception):
    """Raised where a file is not what it should be; the message says which."""


@dataclass(frozen=True)
class Task:
    """Something to be killed.

    Attributes
    ----------
    name : str
    prepare, run, check : functions of the folder
        Put there what it needs; do it, or go on with it; look at it after a kill.
    compare : function of the folder and that of an uninterrupted run
        Raise `Torn` where a result differs in one bit.
    share : float
        Which part of the kills of fits it gets; 0: it is no fit, and is killed at each step.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    check: Callable[[Path, Path], None]
    compare: Callable[[Path, Path], None]
    share: float = 0.0


@cache
def make_cohort() -> Cohort:
    """Return recordings of 200 samples with a bump now and then."""
    rng = np.random.default_rng(0)
    bump = np.sin(np.pi * np.linspace(0, 1, 20) ** 1.2)
    arrays = 0.05 * rng.standard_normal((N_SUBJECTS, 200, 1))
    for x in arrays:
        for onset in range(int(rng.integers(2, 12)), 175, 35):
            x[onset : onset + 20, 0] += rng.uniform(0.7, 1.3) * bump
    return Cohort.from_arrays(list(arrays), sfreq=100)


def make_tasks() -> list[Task]:
    """Return all tasks."""
    fit = partial(Task, prepare=_put_old_model, check=_check_fit, compare=_compare_models)
    sharded = partial(fit, prepare=_put_shards)
    return [
        fit("fit in memory", run=partial(_fit, _full, make_cohort, None), share=0.3),
        sharded("fit from shards", run=partial(_fit_shards, _full), share=0.45),
        fit("fit in memory, states on disk", run=_fit_states, share=0.1),
        sharded("percdl fit, from shards", run=_command, share=0.15),
        *_writers(),
    ]


def make_short_tasks() -> list[Task]:
    """Return one fit that compiles little, and one writer."""
    run = partial(_fit_shards, _short)
    name = "short fit from shards"
    return [
        Task(name, _put_shards, run, _check_fit, _compare_models, share=1.0),
        _writers()[-1],
    ]


def _writers() -> list[Task]:
    return [
        Task("write_shards", _make, _write_shards, _check_shards, _compare_shards),
        Task("model.save, events_to_csv", _put_files, _write_files, _check_files, _check_files),
    ]


def _full() -> PerCDL:
    return PerCDL(
        transformation=TimeWarp(1, 3),
        algorithm=Algorithm(
            population_rounds=2, personal_rounds=3, multistart=False, realign=False
        ),
        **OPTIONS,
    )


def _short() -> PopCDL:
    return PopCDL(algorithm=Algorithm(population_rounds=3, realign=False), **OPTIONS)


def _make(folder: Path) -> None:
    folder.mkdir()


def _put_old_model(folder: Path) -> None:
    """Write a model of the same kind, which the fit is to replace."""
    folder.mkdir()
    container.write(folder / MODEL, container.MODEL, {"model": "old"}, {"x": np.arange(3.0)})


def _put_shards(folder: Path) -> None:
    _put_old_model(folder)
    write_shards(make_cohort(), folder / DATA, recordings_per_shard=PER_SHARD)


def _fit(
    make_model: Callable[[], Any],
    open_cohort: Callable[[], Any],
    place: OutOfCore | None,
    folder: Path,
) -> None:
    kept = folder / CHECKPOINT
    before = read_checkpoint(kept) if kept.exists() else None
    model = fit_with_checkpoints(make_model(), open_cohort(), kept, resume=before, runtime=place)
    model.save(folder / MODEL)


def _fit_shards(make_model: Callable[[], Any], folder: Path) -> None:
    _fit(make_model, partial(ShardedCohort.open, folder / DATA), None, folder)


def _fit_states(folder: Path) -> None:
    _fit(_full, make_cohort, OutOfCore(folder / STATES), folder)


def _command(folder: Path) -> None:
    from percdl.cli import app

    kept = folder / CHECKPOINT
    new = (
        f"{folder / DATA} --n-atoms 1 --atom-length 20 --penalty 0.3 --population-rounds 2 "
        f"--personal-rounds 3 --depth 1 --width 3 --no-realign --no-multistart --seed 0 "
        f"--out {folder / MODEL}"
    ).split()
    app(["fit", *(["--resume", str(kept)] if kept.exists() else new)], standalone_mode=False)


def _check_fit(folder: Path, truth: Path) -> None:
    """Raise where one cannot go on, or the model is neither the old one nor the new one."""
    if (folder / CHECKPOINT).exists():
        checkpoint = read_checkpoint(folder / CHECKPOINT)
        if "site/folder" in checkpoint.arrays:
            states = checkpoint.arrays["site/folder"].tobytes().decode()
            index = int(checkpoint.arrays["site/round"][0])
            files = list(folder.glob(f"*/{states}/round-{index:04d}/*.state"))
            if not files:
                raise Torn(f"{CHECKPOINT} speaks of {states}, round {index}, which is not there")
            for file in files:
                read_state(file)
    content, _ = container.read(folder / MODEL, container.MODEL)
    if content["model"] != "old":
        _compare_models(folder, truth)
    _check_litter(folder)


def _compare_models(folder: Path, truth: Path) -> None:
    """All that was learned is the same, bit for bit; seconds aside, and where it lies."""
    (content, arrays), (content_true, arrays_true) = (
        container.read(place / MODEL, container.MODEL) for place in (folder, truth)
    )
    for known in (content, content_true):
        del known["settings"]
    if content != content_true or set(arrays) != set(arrays_true):
        raise Torn(f"{MODEL} says {content}, not {content_true}")
    for name in sorted(set(arrays) - {"history_/seconds"}):
        a, b = arrays[name], arrays_true[name]
        if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
            raise Torn(f"{MODEL} differs in {name} by {np.abs(a - b).max()}")


def _write_shards(folder: Path) -> None:
    if not (folder / DATA / INDEX).exists():
        write_shards(make_cohort(), folder / DATA, recordings_per_shard=PER_SHARD)


def _check_shards(folder: Path, truth: Path) -> None:
    if (folder / DATA / INDEX).exists():
        _compare_shards(folder, truth)
    _check_litter(folder)


def _compare_shards(folder: Path, truth: Path) -> None:
    files = sorted(path.name for path in (truth / DATA).iterdir())
    for name in files:
        if (folder / DATA / name).read_bytes() != (truth / DATA / name).read_bytes():
            raise Torn(f"{name} differs")
    ShardedCohort.open(folder / DATA)


def _put_files(folder: Path) -> None:
    _put_old_model(folder)
    (folder / "events.csv").write_text("old")


def _write_files(folder: Path) -> None:
    model = load(folder.parent / MODEL)
    model.save(folder / MODEL)
    events_to_csv(model.events_, folder / "events.csv")


def _check_files(folder: Path, truth: Path) -> None:
    content, _ = container.read(folder / MODEL, container.MODEL)
    if content["model"] != "old":
        _compare_models(folder, truth)
    text, text_true = ((place / "events.csv").read_text() for place in (folder, truth))
    if text not in ("old", text_true):
        raise Torn(f"events.csv is neither the old nor the new one: {text[:80]!r}")
    _check_litter(folder)


def _check_litter(folder: Path) -> None:
    """Raise where leftovers pile up."""
    left = leftovers(folder)
    within = [name for name in left if any(name.startswith(f"{other}/") for other in left)]
    if len(within) > MOST_WITHIN or len(left) - len(within) > MOST_LEFT:
        raise Torn(f"{len(left)} leftovers: {left}")


def leftovers(folder: Path) -> list[str]:
    """Return what should not be there once a task is done."""
    found = [*folder.rglob("*.percdl-part"), *folder.rglob("state-*")]
    return sorted(str(path.relative_to(folder)) for path in found)


def clear(folder: Path) -> None:
    """Delete the folder of a task."""
    shutil.rmtree(folder, ignore_errors=True)
