"""The ``percdl`` command; heavy packages are imported when a command runs, not for ``--help``."""

from __future__ import annotations

from typing import Annotated

import typer

from percdl import __version__
from percdl.cli.agreement import reliability, score
from percdl.cli.federate_server import invite, relay, simulate
from percdl.cli.federate_site import join, keys, renew
from percdl.cli.fit import find, fit, suggest
from percdl.cli.model_commands import events, info, landmarks, mark, person, personalize, report
from percdl.cli.options import add_command, option
from percdl.cli.studies import datasets, demo, reproduce
from percdl.cli.studio_command import studio
from percdl.cli.watch import watch

app = typer.Typer(name="percdl", no_args_is_help=True, pretty_exceptions_enable=False)
for command in (
    fit, studio, find, report, person, personalize, events, watch, mark, landmarks, score,
    reliability, suggest, info, datasets, demo, reproduce,
):  # fmt: skip
    add_command(app, command)

federate = typer.Typer(
    name="federate",
    no_args_is_help=True,
    help="Learn one model from several sites without moving their recordings.",
)
for command in (keys, renew, invite, relay, join, simulate):
    add_command(federate, command)
app.add_typer(federate)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"percdl {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        option("Show the version and exit.", "--version", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Personalized convolutional dictionary learning of physiological time series.

    Exit codes: 0 success, 1 internal error, 2 wrong options or files, 3 success but no pattern
    found, 130 interrupted.
    """


def main() -> None:
    """Run the command line."""
    app()
