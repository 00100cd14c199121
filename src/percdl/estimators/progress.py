"""A progress bar for long fits, silent unless there is a terminal to show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool | str, n_rounds: int) -> Iterator[Callable[[str, int, float], None]]:
    """Yield ``report(phase, round, objective)``; with ``"auto"``, show only on a terminal.

    Elsewhere, when asked for, a line is written after each round.
    """
    if not show or (show == "auto" and not sys.stderr.isatty()):
        yield lambda phase, index, objective: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *done: console.print(_describe(*done), highlight=False, soft_wrap=True)
        return
    from percdl.steps.compilation import on_wait

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=n_rounds)

        def report(phase: str, index: int, objective: float) -> None:
            progress.update(task, advance=1, description=_describe(phase, index, objective))

        with on_wait(lambda program: progress.update(task, description=f"compiling {program}")):
            yield report


def _describe(phase: str, index: int, objective: float) -> str:
    return f"{phase} round {index + 1}, objective {objective:.6g}"
