"""Run many cases of a target, look at what comes of each, and keep those that reach new code.

Cases are bytes (`Choices`). Some are drawn afresh; the others are those that have reached a branch
of the package first, changed a little. Branches are watched in a share of the cases only, since
watching takes longer than most cases do.

Why not atheris: it has no wheels for ARM machines, and its source did not build within minutes
with clang 14 there. Why not Hypothesis alone: drawing and book-keeping take it longer than most
cases take. The short version in the tests runs the same targets under Hypothesis, which makes the
bytes of a failure few.
"""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import percdl
from benchmarks.stress.fuzz.choices import Choices, mutate
from percdl import exceptions

PACKAGE = str(Path(percdl.__file__).parent)
# One case in this many is watched; new ones are drawn in this share of all cases.
WATCHED, AFRESH = 16, 0.3
# Most changes between a case that was kept and one made of it.
MOST_CHANGES = 4
# What a case may take, far above what any of them needs.
SECONDS, MEGABYTES = 60.0, 512
# What files that are not there may lead to, besides the errors of the package.
OF_FILES = (FileNotFoundError, IsADirectoryError, PermissionError)


class Target(Protocol):
    """Something that takes input from outside."""

    name: str
    documented: tuple[type[BaseException], ...]

    def case(self, draws: random.Random) -> None:
        """Make one case and try it; raise `WrongResultError` for a result that cannot be."""
        ...


class WrongResultError(Exception):
    """Raised where bad input was taken, and what came of it is no valid result."""


class TooSlowError(BaseException):
    """Raised where a case takes longer than any should; nothing that runs may catch it."""


@dataclass
class Findings:
    """What came of the cases of a target.

    Attributes
    ----------
    name : str
    cases, accepted : int
        How many cases there were, and how many gave a result.
    refusals : Counter
        How often each line of the package refused, with the kind of the error.
    wrong : dict
        Undocumented outcomes, by what was raised and where: the bytes of the first such case.
    branches, kept : int
        Branches of the package that were seen, and cases kept because they found some.
    seconds : float
        Of this processor, as others may use it as well.
    """

    name: str
    cases: int = 0
    accepted: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, bytes] = field(default_factory=dict)
    branches: int = 0
    kept: int = 0
    seconds: float = 0.0


def fuzz(target: Target, n_cases: int, seed: int = 0) -> Findings:
    """Run this many cases of a target."""
    draws, branches, corpus = random.Random(seed), Branches(), [b""]
    found, began = Findings(target.name), time.process_time()
    with strict(), alarmed():
        for index in range(n_cases):
            choices = Choices(_next_case(corpus, draws))
            with branches if index % WATCHED == 0 else contextlib.nullcontext():
                try_case(target, choices, found)
            if branches.fresh:
                corpus.append(bytes(choices.taken))
                branches.fresh = False
    found.seconds = time.process_time() - began
    found.branches, found.kept = len(branches.seen), len(corpus) - 1
    return found


def try_case(target: Target, choices: Choices, found: Findings) -> None:
    """Run one case and write down what came of it."""
    found.cases += 1
    before = _peak()
    try:
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        target.case(choices)
        found.accepted += 1
    except target.documented as error:
        found.refusals[_place(error)] += 1
    except (Exception, TooSlowError) as error:
        found.wrong.setdefault(_place(error), bytes(choices.taken))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if _peak() - before > MEGABYTES:
        found.wrong.setdefault(f"takes more than {MEGABYTES} MB", bytes(choices.taken))


def _next_case(corpus: list[bytes], draws: random.Random) -> bytes:
    if draws.random() < AFRESH:
        return draws.randbytes(8)
    content = draws.choice(corpus)
    for _ in range(draws.randint(1, MOST_CHANGES)):
        content = mutate(content, draws)
    return content


def _place(error: BaseException) -> str:
    """Return what was raised, and the line of the package that led to it."""
    while isinstance(
        error.__cause__, exceptions.PerCDLError
    ):  # raised again, with the file's name
        error = error.__cause__
    step, place = error.__traceback__, "no line of the package"
    while step is not None:  # not by the module traceback, which reads the lines of the files
        file = step.tb_frame.f_code.co_filename
        if file.startswith(PACKAGE) and not file.endswith("cli/output.py"):
            place = f"{file.removeprefix(PACKAGE).lstrip('/')}:{step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__} at {place}"


def _peak() -> float:
    """Return the most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Branches:
    """Which steps from one line to another have been seen in the package, while entered."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, int, int]] = set()
        self.fresh = False

    def __enter__(self) -> None:
        if sys.gettrace() is None:  # a debugger or a measurement of coverage goes first
            sys.settrace(self._enter_frame)

    def __exit__(self, *_: object) -> None:
        if sys.gettrace() == self._enter_frame:
            sys.settrace(None)

    def _enter_frame(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        code, before = frame.f_code, 0

        def step(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
            nonlocal before
            arc = code, before, frame.f_lineno
            before = frame.f_lineno
            if arc not in self.seen:
                self.seen.add(arc)
                self.fresh = True
            return step

        return step


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Make warnings errors, but for those the package documents."""
    own = [kind for kind in vars(exceptions).values() if _is_warning(kind)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in own:
            warnings.simplefilter("ignore", kind)
        yield


def _is_warning(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Warning)


@contextlib.contextmanager
def alarmed() -> Iterator[None]:
    """Raise `TooSlowError` when the alarm goes off."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlowError(f"longer than {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
