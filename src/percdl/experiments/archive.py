"""Results in a folder: figures, numbers, and what the paper says beside them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from percdl import __version__
from percdl.experiments.catalog import CATALOG, Entry
from percdl.experiments.result import Line, Result, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120


@dataclass(frozen=True)
class Stored:
    """A result read back from its folder.

    Attributes
    ----------
    entry : Entry
        The label.
    scale : Scale
        How large the experiment was.
    version : str
        The version of percdl that made it.
    lines : list of Line
        The paper's values beside ours.
    reading : str
        What is to be seen.
    figures : list of Path
        The PNG files.
    tables : list of Path
        The CSV files.
    """

    entry: Entry
    scale: Scale
    version: str
    lines: list[Line]
    reading: str
    figures: list[Path]
    tables: list[Path]


def folder_of(entry: Entry, out: Path) -> Path:
    """Return the folder of a label."""
    return out / entry.module


def write(entry: Entry, scale: Scale, result: Result, out: Path) -> Stored:
    """Write figures (PNG and SVG), numbers (CSV) and, when all are there, the summary (JSON)."""
    folder = folder_of(entry, out)
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in result.figures.items():
        _draw(figure, folder / name)
    for name, table in result.tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    summary = {
        "label": entry.label,
        "title": entry.title,
        "scale": scale.value,
        "percdl": __version__,
        "reading": result.reading,
        "lines": [asdict(line) for line in result.lines],
        "figures": [f"{name}.png" for name in result.figures],
        "tables": {
            f"{name}.csv": json.loads(str(table.to_json(orient="records")))
            for name, table in result.tables.items()
        },
    }
    _summary(entry, out).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return read(entry, out)


def partial_file(entry: Entry, scale: Scale, out: Path) -> Path:
    """Return the file of what is measured so far, at this scale and by this version."""
    return folder_of(entry, out) / f"{scale.value}-{__version__}.partial.jsonl"


def forget(entry: Entry, scale: Scale, out: Path) -> None:
    """Let a label count as not yet begun."""
    _summary(entry, out).unlink(missing_ok=True)
    partial_file(entry, scale, out).unlink(missing_ok=True)


def is_finished(entry: Entry, scale: Scale, out: Path) -> bool:
    """Whether the label was reproduced there, at this scale and by this version."""
    path = _summary(entry, out)
    if not path.is_file():
        return False
    summary = json.loads(path.read_text(encoding="utf-8"))
    return (summary["scale"], summary["percdl"]) == (scale.value, __version__)


def read(entry: Entry, out: Path) -> Stored:
    """Read a result back."""
    folder = folder_of(entry, out)
    summary: dict[str, Any] = json.loads(_summary(entry, out).read_text(encoding="utf-8"))
    return Stored(
        entry=entry,
        scale=Scale(summary["scale"]),
        version=summary["percdl"],
        lines=[Line(**line) for line in summary["lines"]],
        reading=summary["reading"],
        figures=[folder / name for name in summary["figures"]],
        tables=[folder / name for name in summary["tables"]],
    )


def read_all(out: Path) -> list[Stored]:
    """Read all results of a folder, in the order of the paper."""
    return [read(entry, out) for entry in CATALOG if _summary(entry, out).is_file()]


def _summary(entry: Entry, out: Path) -> Path:
    return folder_of(entry, out) / f"{entry.module}.json"


def _draw(figure: Figure, path: Path) -> None:
    """Write a picture twice; the same numbers give the same files, without dates and chance."""
    import matplotlib as mpl

    figure.savefig(path.with_suffix(".png"), dpi=DPI)
    with mpl.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path.with_suffix(".svg"), dpi=DPI, metadata={"Date": None})
