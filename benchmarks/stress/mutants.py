"""Mutation testing of the mathematical heart: small changes of it that its tests must notice.

Cosmic Ray makes the changes, one at a time, in a copy of the project; the fast tests of the
heart run against the copy and stop at the first failure. A change that no test notices survives.

Places are drawn at random, then one of the changes possible there: Cosmic Ray knows eleven other
operators for each ``+``, most of which fail at once, and would else flatter the tests.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from benchmarks import Absent

ROOT = Path(__file__).resolve().parents[2]
# Imports point one way: the tests of a folder can notice changes in it and in those before it.
HEART = ("transforms", "steps", "algorithm")
COPIED = ("src", "tests", "pyproject.toml")
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"
# A program that is not compiled, or not remembered, gives the same results; the others are notes
# to the type checker.
SAME_BY_DESIGN = ("program", "jax.jit", "cache", "@final", "@runtime_checkable")
# Programs that a change leaves alone come from JAX's cache, which knows them by what they compute;
# ours knows them by all sources. One core for each mutant.
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "PERCDL_NO_CACHE": "1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Mutant:
    """A change of one file.

    Attributes
    ----------
    file : str
        Relative to the root of the project.
    operator : str
        What Cosmic Ray calls the kind of change.
    occurrence : int
        The how-manieth place of the file where it is possible.
    line : int
        Where it begins.
    """

    file: str
    operator: str
    occurrence: int
    line: int


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: ``how`` it ended, the first test that noticed, and the change."""

    mutant: Mutant
    how: str
    noticed_by: str
    change: str


def draw_mutants(n_mutants: int, seed: int, files: Sequence[str] | None = None) -> list[Mutant]:
    """Draw places in the heart, or in some of its files, and a change for each."""
    generator = random.Random(seed)
    home = ROOT / "src" / "percdl"
    paths = [path for folder in HEART for path in sorted((home / folder).glob("*.py"))]
    places = defaultdict(list)
    for path in paths if files is None else [home / file for file in files]:
        for place, mutant in _mutants(path):
            places[place].append(mutant)
    drawn = generator.sample(sorted(places), min(n_mutants, len(places)))
    return [generator.choice(places[place]) for place in drawn]


def _mutants(path: Path) -> Iterator[tuple[tuple, Mutant]]:
    """Yield every change of a file that can alter what it does, with its place."""
    try:
        from cosmic_ray.ast import ast_nodes, get_ast_from_path
        from cosmic_ray.plugins import get_operator, operator_names
    except ImportError as error:
        raise Absent(f"Cosmic Ray is not installed ({error})") from error
    tree = get_ast_from_path(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    annotations = _annotations(path)
    for name in operator_names():
        if get_operator(name).arguments():
            continue  # needs the names of variables
        family = name.split("_")[0]
        operator = get_operator(name)()
        found = (
            position for node in ast_nodes(tree) for position in operator.mutation_positions(node)
        )
        for occurrence, (start, end) in enumerate(found):
            same = family == "core/RemoveDecorator" and any(
                word in lines[start[0] - 1] for word in SAME_BY_DESIGN
            )
            if not same and not any(first <= start < last for first, last in annotations):
                file = path.relative_to(ROOT).as_posix()
                yield (file, start, end, family), Mutant(file, name, occurrence, start[0])


def _annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where types are written: they are not evaluated, so a change there does nothing."""
    spans = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                end = found.end_lineno or 0, found.end_col_offset or 0
                spans.append(((found.lineno, found.col_offset), end))
    return spans


def hunt(
    mutants: Sequence[Mutant], n_workers: int, log: Path, own_tests_only: bool = False
) -> Iterator[Fate]:
    """Run the tests against each mutant; yield fates as they come, and write them to a log.

    A mutant meets all tests of the heart that it can reach, or only those named after its file.
    """
    tests = {mutant.file: _tests(mutant.file, own_tests_only) for mutant in mutants}
    with tempfile.TemporaryDirectory() as folder:
        homes: SimpleQueue[Path] = SimpleQueue()
        for number in range(n_workers):
            homes.put(_copy(Path(folder) / str(number)))
        cache = Path(folder) / "programs"
        began = time.perf_counter()
        whole_files = {test for some in tests.values() for test in some if "test_" in test}
        _check_unchanged(sorted(whole_files), homes, n_workers, cache)
        limit = 60 + 5 * n_workers * (time.perf_counter() - began)

        def meet(mutant: Mutant) -> Fate:
            home = homes.get()
            try:
                return _meet(mutant, tests[mutant.file], home, cache, limit)
            finally:
                homes.put(home)

        log.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(n_workers) as pool, log.open("w", encoding="utf-8") as file:
            for done in as_completed([pool.submit(meet, mutant) for mutant in mutants]):
                fate = done.result()
                file.write(json.dumps(asdict(fate)) + "\n")
                file.flush()
                yield fate


def _check_unchanged(
    tests: Sequence[str], homes: SimpleQueue[Path], n_workers: int, cache: Path
) -> None:
    """Raise where tests fail by themselves; what they compile is kept for the mutants."""

    def run(test: str) -> None:
        home = homes.get()
        how, output = _run(home, [test], cache, None)
        homes.put(home)
        if how != SURVIVED:
            raise RuntimeError(f"{test} fails without a mutant:\n{output[-3000:]}")

    with ThreadPoolExecutor(n_workers) as pool:
        list(pool.map(run, tests))


def _copy(home: Path) -> Path:
    home.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, home / name)
    return home


def _meet(mutant: Mutant, tests: list[str], home: Path, cache: Path, limit: float) -> Fate:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    path = home / mutant.file
    original = path.read_text(encoding="utf-8")
    changed = mutate_code(original, get_operator(mutant.operator)(), mutant.occurrence)
    path.write_text(changed, encoding="utf-8")
    try:
        how, output = _run(home, tests, cache, limit)
    finally:
        path.write_text(original, encoding="utf-8")
    noticed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Fate(mutant, how, noticed[0][:200] if noticed else "", _difference(original, changed))


def _run(home: Path, tests: list[str], cache: Path, limit: float | None) -> tuple[str, str]:
    """Run tests of a copy, up to the first that fails; return what became of the copy."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=unshrunk", "-m", "not slow", *tests]
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "PYTHONPATH": os.pathsep.join([str(home / "src"), os.environ.get("PYTHONPATH", "")]),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
    }
    try:
        done = subprocess.run(
            command, cwd=home, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, ""
    # Code 5: no test in these files is fast.
    return SURVIVED if done.returncode in (0, 5) else KILLED, done.stdout + done.stderr


def _tests(file: str, own_only: bool) -> list[str]:
    """Return the test files of the heart that a change of a file can reach, its own first."""
    own, folder = Path(file).stem, Path(file).parent.name
    reached = HEART[HEART.index(folder) :]
    paths = [path for name in reached for path in (ROOT / "tests" / name).glob("test_*.py")]
    if own_only:
        paths = [path for path in paths if path.stem == f"test_{own}"]
    paths.sort(key=lambda path: (own not in path.stem, path.parent.name != folder, path))
    # The examples in the docstring of the changed file are tests of it as well.
    return [file, *(path.relative_to(ROOT).as_posix() for path in paths)]


def _difference(original: str, changed: str) -> str:
    pairs = zip(original.splitlines(), changed.splitlines(), strict=False)
    for before, after in pairs:
        if before != after:
            return f"- {before.strip()}\n+ {after.strip()}"
    return "a line was removed"
