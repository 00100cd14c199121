"""The ``percdl`` command; each subcommand has a file of its own.

Nothing heavy is imported before a subcommand runs, so ``percdl --help`` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from percdl import __version__
from percdl.cli.demo import demo
from percdl.cli.errors import fail
from percdl.cli.reproduce import reproduce
from percdl.exceptions import PerCDLError

app = typer.Typer(
    name="percdl",
    help="Personalized convolutional dictionary learning of physiological time series.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(demo)
app.command()(reproduce)


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
    """Personalized convolutional dictionary learning of physiological time series."""


def main() -> None:
    """Run the command line; a refusal by this library ends it with a message, not a traceback."""
    try:
        app()
    except PerCDLError as error:
        fail(str(error))
