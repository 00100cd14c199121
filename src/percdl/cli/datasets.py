"""``percdl datasets``: public recordings and where to find them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from percdl.cli.errors import fail
from percdl.cli.output import Output

if TYPE_CHECKING:
    from percdl.datasets.downloads import Source


class _Dataset(NamedTuple):
    """A public dataset: its source and the functions that find and load it."""

    source: Source
    find: Callable[..., Path]
    loader: str


def datasets(
    output: Output,
    download: Annotated[
        str | None, typer.Option(help="Download gait or ptbxl, if it is not there yet.")
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder to search and download to.", show_default=False)
    ] = None,
) -> None:
    """List the public datasets, their location on this computer and their licences.

    percdl datasets --download gait

    The folder in PERCDL_DATA is searched first, then the user's cache folder.
    """
    known = _known()
    if download is not None and download not in known:
        fail(f"--download {download} must be one of {', '.join(known)}.")
    if download is not None:
        with output.showing_warnings():
            folder = known[download].find(data_home, download=True)
        output.event("done", dataset=download, folder=folder)
        output.say(f"{download}: {folder}")
        return
    for name, (source, _, loader) in known.items():
        folder = _locate(known[name], data_home)
        output.event(
            "dataset", name=name, title=source.name, folder=folder, size=source.size,
            licence=source.licence, citation=source.citation,
        )  # fmt: skip
        where = folder or f"not on this computer; percdl datasets --download {name}"
        output.say(
            f"{name}: {source.name}, {source.size}, {source.licence}\n  folder: {where}\n"
            f"  Python: {loader}\n  cite:   {source.citation}"
        )


def _known() -> dict[str, _Dataset]:
    from percdl.datasets import find_gait, find_ptbxl, gait, ptbxl

    return {
        "gait": _Dataset(gait.SOURCE, find_gait, "percdl.load_gait()"),
        "ptbxl": _Dataset(ptbxl.SOURCE, find_ptbxl, "percdl.load_ptbxl()"),
    }


def _locate(dataset: _Dataset, data_home: Path | None) -> Path | None:
    from percdl.datasets.downloads import ENVIRONMENT_VARIABLE
    from percdl.exceptions import DatasetError

    try:
        return dataset.find(data_home, download=False)
    except DatasetError:
        named = data_home or os.environ.get(ENVIRONMENT_VARIABLE)
        if named and not Path(named).expanduser().is_dir():
            raise  # a misspelled folder is not a missing dataset
        return None
