"""A corpus of damaged and forged files, and the outcome of opening them.

The originals are the files of `benchmarks.stress.fixtures`. Half of the corpus has a valid
checksum, so that the checks after the checksum are attacked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.fixtures import write_fixtures
from benchmarks.stress.mutations import Mutant, damaged, forged, others
from benchmarks.stress.opened import (
    CheckpointReader,
    ModelReader,
    ShardReader,
)
from benchmarks.stress.shard_mutations import damage, forge_index, forge_shard
from benchmarks.stress.watch import at_most, watchman
from percdl import write_shards
from percdl.exceptions import PerCDLError

#: Seconds after which opening a file counts as hanging.
PATIENCE = 20


@dataclass(frozen=True)
class Outcome:
    """What became of one file.

    Attributes
    ----------
    name : str
        The original, and what was done to it.
    signed : bool
        Whether its checksum is valid.
    verdict : str
        "rejected", "equal", "consistent", or what went wrong.
    seconds, n_bytes : float
        Time it took to open it, and memory beyond what was there before.
    size : int
        Of the file.
    """

    name: str
    signed: bool
    verdict: str
    seconds: float
    n_bytes: int
    size: int


@cache
def write_originals() -> tempfile.TemporaryDirectory[str]:
    """Write files of every kind, as the present version does, to a folder that lasts as long."""
    folder = tempfile.TemporaryDirectory()
    write_fixtures(Path(folder.name) / "files")
    return folder


def run_corpus(
    folder: Path, share: float = 1.0, names: Container[str] | None = None, seed: int = 0
) -> Iterator[Outcome]:
    """Open every file of the corpus; yield what became of it.

    Parameters
    ----------
    folder : Path
        An empty folder to work in.
    share : float
        Which share of the corpus, which has some 2,400 files at 1.
    names : list of str, optional
        The originals; by default all of them.
    seed : int
        Decides what is done to the files.
    """
    originals = Path(write_originals().name) / "files"
    for path in sorted(originals.iterdir()):
        if names is not None and path.name not in names:
            continue
        rng = np.random.default_rng([seed, zlib.crc32(path.name.encode())])
        if path.name == "shards":
            yield from _attack_shards(path, folder, rng, share)
        elif path.suffix in (".percdl", ".checkpoint"):
            reader = READERS.get(path.name, ModelReader)(path)
            yield from _attack(path, reader, folder, rng, share, 1 + (path.name in READERS))


READERS: dict[str, Callable[[Path], Any]] = {
    "restarted.checkpoint": CheckpointReader,
    "out_of_core.checkpoint": CheckpointReader,
}


def _attack(
    path: Path, reader: Any, folder: Path, rng: np.random.Generator, share: float, weight: int = 1
) -> Iterator[Outcome]:
    """Yield the outcomes of all mutants of a file, and of what is no such file at all."""
    whole = path.read_bytes()
    target = folder / path.name
    count = round(100 * share * weight)
    mutants = [
        *damaged(whole, rng, round(32 * weight * share)),
        *forged(whole, rng, count),
        *(Mutant(f"a file of another kind: {k}", x, False) for k, x in others().items()),
    ]
    for mutant in _sample(mutants, rng, share):
        target.write_bytes(mutant.content)
        yield _open(f"{path.name}: {mutant.name}", mutant.signed, target, reader)
        target.unlink()
    for name, make in _NOT_FILES.items():
        make(target)
        yield _open(f"{path.name}: {name}", False, target, reader)
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)


_NOT_FILES: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path),
}


def _sample(mutants: list[Mutant], rng: np.random.Generator, share: float) -> list[Mutant]:
    if share >= 1:
        return mutants
    chosen = rng.choice(len(mutants), max(8, round(share * len(mutants))), replace=False)
    return [mutants[i] for i in sorted(chosen)]


def _attack_shards(
    source: Path, folder: Path, rng: np.random.Generator, share: float
) -> Iterator[Outcome]:
    reader, target, new = ShardReader(source), folder / "shards", folder / "new"
    write_shards(reader.original[0], new, recordings_per_shard=2)
    attacks = ((source, damage), (new, damage), (new, forge_index), (new, forge_shard))
    for i in range(round(200 * share)):
        whole, attack = attacks[i % len(attacks)]
        shutil.copytree(whole, target)
        yield _open(f"shards: {attack(target, rng)}, {i}", attack != damage, target, reader)
        shutil.rmtree(target)


def _open(name: str, signed: bool, path: Path, reader: Any) -> Outcome:
    """Open a file, watched, within bounds of time; judge what came of it."""
    guard, result, verdict = watchman(), None, ""
    size = sum(file.stat().st_size for file in (path, *path.glob("*")) if file.is_file())
    tracemalloc.start()
    guard.seen.clear()
    started = time.perf_counter()
    try:
        with at_most(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guard.awake = True
            result = reader.open(path)
    except (FileNotFoundError, PerCDLError) as error:
        guard.awake = False
        known = isinstance(error, (FileNotFoundError, reader.error))
        verdict = "rejected" if known and path.name in str(error) else f"{error!r}"
    except BaseException as error:
        guard.awake = False
        verdict = f"{type(error).__name__}: {error}"[:200]
    guard.awake = False
    seconds, n_bytes = time.perf_counter() - started, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if guard.seen:
        verdict = f"did {guard.seen[0]}"
    elif not verdict:
        verdict = _judge(result, reader)
    return Outcome(name, signed, verdict, seconds, n_bytes, size)


def _judge(result: Any, reader: Any) -> str:
    try:
        if reader.is_equal(result):
            return "equal"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "consistent" if reader.is_consistent(result) else "loads wrong"
    except Exception as error:
        return f"{type(error).__name__} in use: {error}"[:200]
