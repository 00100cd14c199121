"""Results in a folder: figures, numbers, a summary of each label, and a page of all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from percdl import __version__
from percdl.experiments.catalog import CATALOG, Entry
from percdl.experiments.study import Line, Result, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 120


class Summary(BaseModel):
    """Contents of the JSON file of a label: lines, file names, and the tables as records."""

    label: str
    title: str
    scale: Scale
    percdl: str
    reading: str
    lines: list[Line]
    figures: list[str]
    tables: dict[str, list[dict[str, Any]]]

    @property
    def shared_settings(self) -> str | None:
        """Settings of all lines, where they are the same."""
        settings = {line.settings for line in self.lines}
        return settings.pop() if len(settings) == 1 else None


def write(entry: Entry, scale: Scale, result: Result, out: Path) -> Summary:
    """Write figures (PNG and SVG), tables (CSV) and, last, the summary (JSON)."""
    folder = out / entry.name
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
    _path(entry, out).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return read(entry, out)


def read(entry: Entry, out: Path) -> Summary:
    """Read the summary of a label."""
    return Summary.model_validate_json(_path(entry, out).read_text(encoding="utf-8"))


def is_finished(entry: Entry, scale: Scale, out: Path) -> bool:
    """Whether the folder has a result of the label at this scale, made by this version."""
    if not _path(entry, out).is_file():
        return False
    summary = read(entry, out)
    return (summary.scale, summary.percdl) == (scale, __version__)


def partial_file(entry: Entry, scale: Scale, out: Path) -> Path:
    """Return the ledger's file for a label at this scale and version."""
    return out / entry.name / f"{scale.value}-{__version__}.partial.jsonl"


def forget(entry: Entry, scale: Scale, out: Path) -> None:
    """Delete the summary and the ledger of a label, so that it is measured again."""
    _path(entry, out).unlink(missing_ok=True)
    partial_file(entry, scale, out).unlink(missing_ok=True)


def write_page(out: Path) -> Path:
    """Write index.html and README.md of all results in a folder; return the former."""
    from percdl.report.pages import as_data_uri, render

    done = {e.name: read(e, out) for e in CATALOG if _path(e, out).is_file()}
    values = {
        "results": done,
        "missing": [entry.label for entry in CATALOG if entry.name not in done],
        "pictures": {
            name: [as_data_uri((out / name / file).read_bytes()) for file in summary.figures]
            for name, summary in done.items()
        },
    }
    page = out / "index.html"
    page.write_text(render("results.html.j2", **values), encoding="utf-8")
    (out / "README.md").write_text(render("results.md.j2", **values), encoding="utf-8")
    return page


def _path(entry: Entry, out: Path) -> Path:
    return out / entry.name / f"{entry.name}.json"


def _draw(figure: Figure, path: Path) -> None:
    """Write a picture as PNG and SVG, without dates or random identifiers."""
    import matplotlib as mpl

    figure.savefig(path.with_suffix(".png"), dpi=DPI)
    with mpl.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path.with_suffix(".svg"), dpi=DPI, metadata={"Date": None})
