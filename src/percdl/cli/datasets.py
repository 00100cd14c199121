"""``percdl datasets``: public recordings, and where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from percdl.cli.errors import fail
from percdl.cli.voice import Voice

if TYPE_CHECKING:
    from percdl.datasets.downloads import Source


@dataclass(frozen=True)
class _Dataset:
    """A public dataset: where it comes from, and how it is found on this machine."""

    source: Source
    find: Callable[..., Path]
    loader: str


def datasets(
    voice: Voice,
    download: Annotated[
        str | None, typer.Option(help="Fetch one, unless it is there: gait or ptbxl.")
    ] = None,
    data_home: Annotated[
        Path | None, typer.Option(help="Look there, and download to there.", show_default=False)
    ] = None,
) -> None:
    """List the public datasets, where they are found on this machine, and on what terms.

    percdl datasets --download gait

    They are looked for in the folder that PERCDL_DATA names, then in the user's cache.
    """
    known = _known()
    if download is not None and download not in known:
        fail(f"--download {download} must be one of {', '.join(known)}.")
    with voice.hearing_warnings():
        if download is not None:
            folder = known[download].find(data_home, download=True)
            voice.event("done", dataset=download, folder=folder)
            voice.say(f"{download}: {folder}")
            return
    for name, dataset in known.items():
        folder = _locate(dataset, data_home)
        about = dataset.source
        voice.event(
            "dataset", name=name, title=about.name, folder=folder, size=about.size,
            licence=about.licence, citation=about.citation,
        )  # fmt: skip
        where = folder or f"not on this machine; percdl datasets --download {name}"
        voice.say(
            f"{name}: {about.name}, {about.size}, {about.licence}\n  found:  {where}\n"
            f"  Python: {dataset.loader}\n  cite:   {about.citation}"
        )


def _known() -> dict[str, _Dataset]:
    from percdl.datasets import find_gait, find_ptbxl, gait, ptbxl

    return {
        "gait": _Dataset(gait.SOURCE, find_gait, "percdl.load_gait()"),
        "ptbxl": _Dataset(ptbxl.SOURCE, find_ptbxl, "percdl.load_ptbxl()"),
    }


def _locate(dataset: _Dataset, data_home: Path | None) -> Path | None:
    from percdl.datasets.folders import ENVIRONMENT_VARIABLE
    from percdl.exceptions import DatasetError

    try:
        return dataset.find(data_home, download=False)
    except DatasetError:
        named = data_home or os.environ.get(ENVIRONMENT_VARIABLE)
        if named and not Path(named).expanduser().is_dir():
            raise  # a misspelled folder is not an absent dataset
        return None
