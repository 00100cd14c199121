"""``percdl reproduce``: figures and tables of the paper."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from percdl.cli.errors import fail, prepare_folder, require_packages
from percdl.exceptions import PerCDLError
from percdl.experiments.catalog import CATALOG, find
from percdl.experiments.study import Scale

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from percdl.experiments.catalog import Entry


def reproduce(
    labels: Annotated[
        list[str],
        typer.Argument(
            metavar="LABEL...",
            help="`all`, or labels: " + ", ".join(entry.label for entry in CATALOG) + ".",
        ),
    ],
    scale: Annotated[
        Scale, typer.Option(help="Minutes on two cores (small), or the full size.")
    ] = Scale.SMALL,
    out: Annotated[Path, typer.Option(help="Folder for figures, numbers and a page.")] = Path(
        "percdl-results"
    ),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Repeat results that are already in the folder.")
    ] = False,
) -> None:
    """Reproduce figures and tables of the paper.

    Each label gets a folder with its figure (PNG, SVG), its numbers (CSV, JSON) and lines
    `paper | ours | settings`. A page shows all labels in the folder. Finished labels are kept,
    and an interrupted label continues where it stopped.
    """
    from rich.console import Console

    from percdl.experiments.archive import write_page

    entries = list(CATALOG) if "all" in labels else [find(label) for label in labels]
    prepare_folder(out, "--out")
    require_packages(("matplotlib", "jinja2"), "reproduce", "reproduce draws pictures")
    console = Console()
    try:
        failed = [entry.label for entry in entries if not _one(entry, scale, out, fresh, console)]
    except KeyboardInterrupt:
        console.print("Stopped. Results so far are kept. Without --fresh, the next run continues.")
        raise
    page = write_page(out)
    console.print(f"Page: {page}", highlight=False, soft_wrap=True)
    if failed:
        fail(f"not reproduced: {', '.join(failed)}. The reasons are above.")


def _one(entry: Entry, scale: Scale, out: Path, fresh: bool, console: Console) -> bool:
    """Reproduce one label and print its lines; return False if that is not possible."""
    from percdl.experiments.archive import forget, is_finished, partial_file, read, write
    from percdl.experiments.study import Ledger, Study

    console.print(f"[bold]{entry.label}[/bold]  {entry.title}", highlight=False)
    if fresh:
        forget(entry, scale, out)
    if is_finished(entry, scale, out):
        stored = read(entry, out)
        console.print("  kept from an earlier run; --fresh repeats it", highlight=False)
    else:
        ledger = partial_file(entry, scale, out)
        try:
            with console.status("starting") as status, _Following(status):
                result = entry.load()(Study(scale, Ledger(ledger)))
        except (PerCDLError, ImportError) as error:
            console.print(f"  cannot be reproduced here: {error}", highlight=False, markup=False)
            return False
        stored = write(entry, scale, result, out)
        ledger.unlink(missing_ok=True)
    for line in stored.lines:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    return True


class _Following(logging.Handler):
    """Shows the progress of an experiment in a status line while it lasts."""

    def __init__(self, status: Status) -> None:
        super().__init__(logging.INFO)
        self._status = status
        self._logger = logging.getLogger("percdl.experiments")

    def __enter__(self) -> None:
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._status.update(record.getMessage())
