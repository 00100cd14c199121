"""``percdl federate``: one model from several sites, whose recordings stay where they are."""

from __future__ import annotations

import typer

from percdl.cli.federate_keys import keys
from percdl.cli.federate_server import server
from percdl.cli.federate_simulate import simulate
from percdl.cli.federate_site import site
from percdl.cli.frame import as_command

federate = typer.Typer(
    name="federate",
    no_args_is_help=True,
    help="Learn from several sites whose recordings stay where they are.",
)
for command in (server, site, simulate, keys):
    federate.command()(as_command(command))
