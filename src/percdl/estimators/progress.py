"""A progress bar for long fits, silent unless there is a terminal to show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool | str, n_rounds: int) -> Iterator[Callable[[str, int, float], None]]:
    """Yield ``report(phase, round, objective)``; with ``"auto"``, show only on a terminal."""
    if show is False or (show == "auto" and not sys.stderr.isatty()):
        yield lambda phase, index, objective: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=n_rounds)

        def report(phase: str, index: int, objective: float) -> None:
            text = f"{phase} round {index + 1}, objective {objective:.6g}"
            progress.update(task, advance=1, description=text)

        yield report
