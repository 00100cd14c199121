"""``percdl studio``: the recordings and models of a folder, in the browser."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from percdl.cli.data_options import DataOptions, read_cohort, read_metadata
from percdl.cli.model_options import declared
from percdl.cli.options import OpenPage, argument, check_table, option, types_of
from percdl.cli.output import fail

if TYPE_CHECKING:
    from percdl.studio.server import Studio


def studio(
    place: Annotated[
        Path, argument("PLACE", "A folder of recordings, or a model in it.")
    ] = Path(),
    port: Annotated[int, option("Port to listen on; 0 chooses one.", min=0, max=65535)] = 0,
    host: Annotated[
        str, option("Network address to listen on; in a container 0.0.0.0.")
    ] = "127.0.0.1",
    open_page: OpenPage = True,
) -> None:
    """Fit, look, correct, compare and export in the browser.

    percdl studio walks/

    Only this machine can reach the page, unless you choose another host. Only files in the folder
    are read and written. Every command that succeeds in the studio is added to percdl-studio.sh in
    the folder. Ctrl-C ends it.
    """
    if not place.exists():
        fail(f"there is no {place}. Name a folder of recordings, or a model.")
    folder = (place if place.is_dir() else place.parent).resolve()
    made = make_studio(folder)
    from percdl.studio.server import listen

    server, address = listen(made, port, host)
    page = address if place.is_dir() else f"{address}&{urlencode({'model': place.name})}"
    os.chdir(folder)  # names of files are relative to it, as in the commands
    typer.echo(f"PerCDL studio of {folder}:\n{page}\nCtrl-C ends it.")
    if open_page:
        typer.launch(page)
    server.run()


def make_studio(folder: Path) -> Studio:
    """Return the studio of a folder, which reads recordings as the command line does."""
    from percdl.signals.extras import require

    for package in ("starlette", "uvicorn", "jinja2", "plotly", "matplotlib"):
        require(package, "The studio", "studio")
    from percdl.studio.project import Project, Shell
    from percdl.studio.server import Studio

    def options(given: Mapping[str, Any]) -> DataOptions:
        return DataOptions(**check_table(given, types_of(DataOptions), "Options"))

    shell = Shell(
        read=lambda given: read_cohort(options(given)),
        read_table=lambda given, cohort: read_metadata(options(given), cohort),
        reading=frozenset(types_of(DataOptions)) - {"config"},
        model={name: one.parameter.default for name, one in declared().items()},
    )
    return Studio(Project(folder, shell))
