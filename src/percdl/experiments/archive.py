"""Results in a folder: figures, numbers, a summary of each label, and a page of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from percdl import __version__
from percdl.experiments.catalog import CATALOG, Entry
from percdl.experiments.study import Line, Result, Scale

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
    import matplotlib as mpl

    folder = out / entry.name
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in result.figures.items():
        figure.savefig(folder / f"{name}.png", dpi=DPI)
        with mpl.rc_context({"svg.hashsalt": name}):  # no random identifiers, and no dates
            figure.savefig(folder / f"{name}.svg", dpi=DPI, metadata={"Date": None})
    records = {}
    for name, table in result.tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
        records[f"{name}.csv"] = json.loads(str(table.to_json(orient="records")))
    summary = Summary(
        label=entry.label,
        title=entry.title,
        scale=scale,
        percdl=__version__,
        reading=result.reading,
        lines=result.lines,
        figures=[f"{name}.png" for name in result.figures],
        tables=records,
    )
    _path(entry, out).write_text(summary.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return summary


def read(entry: Entry, out: Path) -> Summary:
    """Read the summary of a label."""
    return Summary.model_validate_json(_path(entry, out).read_text(encoding="utf-8"))


def finished(entry: Entry, scale: Scale, out: Path) -> Summary | None:
    """Return the result of a label at this scale, made by this version, if there is one."""
    summary = read(entry, out) if _path(entry, out).is_file() else None
    is_this = summary is not None and (summary.scale, summary.percdl) == (scale, __version__)
    return summary if is_this else None


def ledger_file(entry: Entry, scale: Scale, out: Path) -> Path:
    """Return the ledger's file for a label at this scale and version."""
    return out / entry.name / f"{scale.value}-{__version__}.partial.jsonl"


def forget(entry: Entry, scale: Scale, out: Path) -> None:
    """Delete the summary and the ledger of a label, so that it is measured again."""
    _path(entry, out).unlink(missing_ok=True)
    ledger_file(entry, scale, out).unlink(missing_ok=True)


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
