"""The ``percdl`` command; each subcommand has a file of its own.

Nothing heavy is imported before a subcommand runs, so ``percdl --help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from percdl import __version__
from percdl.cli.datasets import datasets
from percdl.cli.demo import demo
from percdl.cli.errors import told
from percdl.cli.events import events
from percdl.cli.federate import federate
from percdl.cli.fit import fit
from percdl.cli.frame import as_command
from percdl.cli.info import info
from percdl.cli.personalize import personalize
from percdl.cli.report import report
from percdl.cli.reproduce import reproduce
from percdl.cli.suggest import suggest

app = typer.Typer(
    name="percdl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (fit, report, personalize, events, suggest, info, datasets, demo, reproduce):
    app.command()(as_command(command))
app.add_typer(federate)


def _show_version(asked: bool) -> bool:
    if asked:
        typer.echo(f"percdl {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Personalized convolutional dictionary learning of physiological time series.

    Exit codes: 0 done, 1 an error of PerCDL itself, 2 wrong options or files, 3 done but nothing
    was found, 130 interrupted.
    """


def main() -> None:
    """Run the command line; a refusal by this library ends it with a message, not a traceback."""
    with told():
        app()
