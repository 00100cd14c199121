"""``percdl datasets``: public recordings and where to find them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from percdl.cli.errors import fail
from percdl.cli.options import optional
from percdl.cli.output import Output


def datasets(
    output: Output,
    download: Annotated[
        str | None, typer.Option(help="Download gait or ptbxl, if it is not there yet.")
    ] = None,
    data_home: Annotated[Path | None, optional("Folder to search and download to.")] = None,
) -> None:
    """List the public datasets, their location on this computer and their licences.

    percdl datasets --download gait

    The folder in PERCDL_DATA is searched first, then the user's cache folder.
    """
    from percdl.datasets import gait, ptbxl

    known = {"gait": (gait.SOURCE, gait.find_gait), "ptbxl": (ptbxl.SOURCE, ptbxl.find_ptbxl)}
    if download is not None and download not in known:
        fail(f"--download {download} must be one of {', '.join(known)}.")
    if download is not None:
        with output.showing_warnings():
            folder = known[download][1](data_home, download=True)
        output.event("done", dataset=download, folder=folder)
        output.say(f"{download}: {folder}")
        return
    for name, (source, find) in known.items():
        folder = _locate(find, data_home)
        about = {"size": source.size, "licence": source.licence, "citation": source.citation}
        output.event("dataset", name=name, title=source.name, folder=folder, **about)
        where = folder or f"not on this computer; percdl datasets --download {name}"
        output.say(
            f"{name}: {source.name}, {source.size}, {source.licence}\n  folder: {where}\n"
            f"  Python: percdl.load_{name}()\n  cite:   {source.citation}"
        )


def _locate(find: Any, data_home: Path | None) -> Path | None:
    from percdl.datasets.downloads import ENVIRONMENT_VARIABLE
    from percdl.exceptions import DatasetError

    try:
        return find(data_home, download=False)
    except DatasetError:
        named = data_home or os.environ.get(ENVIRONMENT_VARIABLE)
        if named and not Path(named).expanduser().is_dir():
            raise  # a misspelled folder is not a missing dataset
        return None
