"""``percdl reproduce``: figures and tables of the paper."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.errors import fail, prepare_folder, require_packages
from percdl.exceptions import PerCDLError
from percdl.experiments.catalog import CATALOG, find, finished, write, write_page
from percdl.experiments.study import Scale, logger

if TYPE_CHECKING:
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

    entries = list(CATALOG) if "all" in labels else [find(label) for label in labels]
    prepare_folder(out, "--out")
    require_packages(("matplotlib", "jinja2"), "reproduce", "reproduce draws pictures")
    console = Console(highlight=False)
    try:
        failed = [entry.label for entry in entries if not _one(entry, scale, out, fresh, console)]
    except KeyboardInterrupt:
        console.print("Stopped. Results so far are kept. Without --fresh, the next run continues.")
        raise
    console.print(f"Page: {write_page(out)}", soft_wrap=True)
    if failed:
        fail(f"not reproduced: {', '.join(failed)}. The reasons are above.")


def _one(entry: Entry, scale: Scale, out: Path, fresh: bool, console: Any) -> bool:
    """Reproduce one label and print its lines; return False if that is not possible."""
    from percdl.experiments.study import Ledger, Study

    console.print(f"[bold]{entry.label}[/bold]  {entry.title}")
    rows = entry.ledger_in(out, scale)
    if fresh:
        entry.summary_in(out).unlink(missing_ok=True)
        rows.unlink(missing_ok=True)
    stored = finished(entry, scale, out)
    if stored is not None:
        console.print("  kept from an earlier run; --fresh repeats it")
    else:
        status, handler = console.status("starting"), logging.Handler(logging.INFO)
        handler.emit = lambda record: status.update(record.getMessage())
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
        try:
            with status:
                result = entry.load()(Study(scale, Ledger(rows)))
        except (PerCDLError, ImportError) as error:
            console.print(f"  cannot be reproduced here: {error}", markup=False)
            return False
        finally:
            logger.removeHandler(handler)
        stored = write(entry, scale, result, out)
        rows.unlink(missing_ok=True)
    for line in stored.lines:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    return True
