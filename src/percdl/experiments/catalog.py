"""All labels of the paper that can be reproduced, and their results in a folder."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from percdl import __version__
from percdl.exceptions import InvalidParameterError
from percdl.experiments.study import Line, Result, Scale, Study

# Labels of the paper that show the same numbers as another one.
ALIASES = {
    "tab:app:gait_segmentation": "tab:gait_segmentation",
    "theorem:convergence": "theorem:convergence1",
}


class Entry(NamedTuple):
    """A label of the paper, the function that reproduces it (and names its folder), and texts."""

    label: str
    function: str  # module.name
    title: str
    reading: str  # how to read the result
    paper: Any = None  # numbers of the paper

    @property
    def name(self) -> str:
        """Name of the function, and of the folder of results."""
        return self.function.partition(".")[2]

    def load(self) -> Callable[[Study], Result]:
        """Import the module and return the function."""
        module = self.function.partition(".")[0]
        return getattr(import_module(f"percdl.experiments.{module}"), self.name)

    def summary_in(self, out: Path) -> Path:
        """Return the path of the summary in a folder of results."""
        return out / self.name / f"{self.name}.json"

    def ledger_in(self, out: Path, scale: Scale) -> Path:
        """Return the path of the ledger of an unfinished run of this scale and version."""
        return out / self.name / f"{scale.value}-{__version__}.partial.jsonl"


_LABELS = Path(__file__).with_name("labels.toml").read_text("utf-8")
CATALOG = tuple(Entry(label, **about) for label, about in tomllib.loads(_LABELS).items())


def find(label: str) -> Entry:
    """Return the entry of a label; the error for an unknown one lists all labels."""
    entries = {entry.label: entry for entry in CATALOG}
    wanted = ALIASES.get(label, label)
    if wanted in entries:
        return entries[wanted]
    raise InvalidParameterError(
        f"The paper has no label {label!r} that can be reproduced. Choose `all` or one of: "
        f"{', '.join(entries)}."
    )


@dataclass(frozen=True)
class Summary:
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
    figures, records = [], {}
    if result.figure is not None:
        figures = [f"{entry.name}.png"]
        result.figure.savefig(folder / figures[0], dpi=120)
        with mpl.rc_context({"svg.hashsalt": entry.name}):  # no random identifiers, and no dates
            path = folder / f"{entry.name}.svg"
            result.figure.savefig(path, dpi=120, metadata={"Date": None})
    for ending, table in result.tables.items():
        name = f"{entry.name}{ending}.csv"
        table.to_csv(folder / name, index=False, float_format="%.6g")
        records[name] = json.loads(str(table.to_json(orient="records")))
    about = (entry.label, entry.title, scale, __version__, entry.reading)
    summary = Summary(*about, result.lines, figures, records)
    text = json.dumps(asdict(summary), indent=1, ensure_ascii=False)
    entry.summary_in(out).write_text(text + "\n", encoding="utf-8")
    return summary


def read(entry: Entry, out: Path) -> Summary | None:
    """Read the summary of a label, if it is there."""
    from pydantic import TypeAdapter

    path = entry.summary_in(out)
    return TypeAdapter(Summary).validate_json(path.read_bytes()) if path.is_file() else None


def finished(entry: Entry, scale: Scale, out: Path) -> Summary | None:
    """Return the result of a label at this scale, made by this version, if there is one."""
    summary = read(entry, out)
    is_this = summary is not None and (summary.scale, summary.percdl) == (scale, __version__)
    return summary if is_this else None


def write_page(out: Path) -> Path:
    """Write index.html and README.md of all results in a folder; return the former."""
    from percdl.report import as_data_uri, render

    found = {entry.name: read(entry, out) for entry in CATALOG}
    done = {name: summary for name, summary in found.items() if summary is not None}
    values = {
        "results": done,
        "missing": [entry.label for entry in CATALOG if entry.name not in done],
        "older": sorted({summary.percdl for summary in done.values()} - {__version__}),
        "pictures": {
            name: [as_data_uri((out / name / file).read_bytes()) for file in summary.figures]
            for name, summary in done.items()
        },
    }
    for file in ("README.md", "index.html"):
        template = f"results.{file.rpartition('.')[2]}.j2"
        (out / file).write_text(render(template, **values), encoding="utf-8")
    return out / "index.html"
