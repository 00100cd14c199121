"""What a command says while it works: to people, to scripts (JSON lines), or nothing."""

from __future__ import annotations

import json as json_format
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

Report = Callable[[str, int, float], None]


@dataclass(frozen=True)
class Voice:
    """How a command speaks; a group of options.

    Messages and results go to standard output, progress and warnings to standard error. With
    ``--json``, standard output holds JSON lines only: one object per event.
    """

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Write JSON lines: one object per event.")
    ] = False

    def say(self, text: str) -> None:
        """Tell people."""
        if not (self.quiet or self.json):
            typer.echo(text)

    def event(self, name: str, /, **values: Any) -> None:
        """Tell scripts."""
        if self.json:
            typer.echo(json_format.dumps({"event": name, **plain(values)}))

    def warn(self, text: str) -> None:
        """Tell everybody."""
        self.event("warning", message=text)
        if not self.json:
            typer.secho(f"Warning: {text}", err=True, fg="yellow")

    @contextmanager
    def hearing_warnings(self) -> Iterator[None]:
        """Tell warnings as they come, without the line of code that gave them."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_: self.warn(str(message))
            yield

    @contextmanager
    def rounds(self, n_rounds: int) -> Iterator[Report]:
        """Yield ``report(phase, round, objective)``, which tells how far a fit has come."""
        from percdl.estimators.progress import progress_bar

        if self.json:
            yield _Counter(self, n_rounds)
            return
        with progress_bar(not self.quiet, n_rounds) as report:
            yield report


class _Counter:
    """Writes an event per round, with the time that is left at the pace so far."""

    def __init__(self, voice: Voice, n_rounds: int) -> None:
        self._voice, self._n_rounds = voice, n_rounds
        self._done, self._started = 0, time.perf_counter()

    def __call__(self, phase: str, index: int, objective: float) -> None:
        self._done += 1
        seconds = time.perf_counter() - self._started
        left = seconds / self._done * max(0, self._n_rounds - self._done)
        self._voice.event(
            "round",
            phase=phase,
            round=index + 1,
            objective=objective,
            seconds=round(seconds, 3),
            seconds_left=round(left, 1),
        )


def plain(value: Any) -> Any:
    """Return a value as JSON has it: paths are text, what is not a number is null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
