"""What a command prints: text for people, JSON lines for scripts, or nothing."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from percdl.cli.errors import stopping_between_rounds

Report = Callable[[str, int, float], None]


@dataclass(frozen=True)
class Output:
    """Options that decide what a command prints.

    Messages and results go to standard output, progress and warnings to standard error. With
    ``--json``, standard output holds JSON lines only: one object per event.
    """

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, one object per event.")
    ] = False

    def say(self, text: str) -> None:
        """Print a message for people."""
        if not (self.quiet or self.json):
            typer.echo(text)

    def event(self, name: str, /, **values: Any) -> None:
        """Print an event for scripts."""
        if self.json:
            typer.echo(to_json({"event": name, **values}))

    def warn(self, text: str) -> None:
        """Print a warning for both."""
        self.event("warning", message=text)
        if not self.json:
            typer.secho(f"Warning: {text}", err=True, fg="yellow")

    @contextmanager
    def showing_warnings(self) -> Iterator[None]:
        """Print Python warnings as they occur, without source lines; identical ones once."""
        shown: set[str] = set()

        def show(message: Warning | str, *_: Any) -> None:
            if str(message) not in shown:
                shown.add(str(message))
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    @contextmanager
    def rounds(self, n_rounds: int) -> Iterator[Report]:
        """Yield ``report(phase, round, objective)``, which shows the progress of a fit."""
        from percdl.estimators.progress import progress_bar

        if not self.json:
            with progress_bar(not self.quiet, n_rounds) as report:
                yield report
            return
        began, n_done = time.perf_counter(), 0

        def write(phase: str, index: int, objective: float) -> None:
            nonlocal n_done
            n_done += 1
            seconds = time.perf_counter() - began
            self.event(
                "round",
                phase=phase,
                round=index + 1,
                objective=objective,
                seconds=round(seconds, 3),
                seconds_left=round(seconds / n_done * max(0, n_rounds - n_done), 1),
            )

        yield write


@contextmanager
def interruptible(output: Output, n_rounds: int, advise: Callable[[], str]) -> Iterator[Report]:
    """Yield a function that shows a round; Ctrl-C ends the round, and the advice is printed."""
    with output.rounds(n_rounds) as show, stopping_between_rounds(output.warn) as check:

        def report(phase: str, index: int, objective: float) -> None:
            show(phase, index, objective)
            check()

        try:
            yield report
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(advise()) from stop


def to_json(value: Any, infinity: Literal["null", "strings"] = "null") -> str:
    """Return JSON text: paths become strings, NaN and infinity null or strings."""
    from pydantic_core import to_json

    return to_json(value, inf_nan_mode=infinity, fallback=lambda number: number.item()).decode()
