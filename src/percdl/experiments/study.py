"""Studies: scale, finished measurements, lines beside the paper's; the labels, their results."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from percdl import __version__
from percdl.exceptions import InvalidParameterError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Setting = TypeVar("Setting")
logger = logging.getLogger("percdl.experiments")
# Labels of the paper that show the same numbers as another one.
ALIASES = {
    "tab:app:gait_segmentation": "tab:gait_segmentation",
    "theorem:convergence": "theorem:convergence1",
}


def as_printed() -> dict[str, Any]:
    """Return the settings of the paper's algorithm as printed, without our additions."""
    from percdl.algorithm.settings import Algorithm

    printed = Algorithm.as_printed()
    names = ("realign", "multistart", "centering")
    own = {f"algorithm__{name}": getattr(printed, name) for name in names}
    return {**own, "transformation__prior": None}


class Scale(StrEnum):
    """Size of an experiment: minutes on two cores, or the size of the paper."""

    SMALL = "small"
    PAPER = "paper"


class Ledger:
    """Finished measurements, so that an interrupted study resumes where it stopped.

    ``path`` is a file with one line of JSON per row; without it, rows are kept in memory. A last
    line that was cut short is measured again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.is_file():
            text = path.read_text("utf-8")
            whole = text[: text.rfind("\n") + 1]
            self._rows = dict(json.loads(line) for line in whole.splitlines())
            path.write_text(whole, "utf-8")

    def row(
        self, key: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the key and the numbers of a row; measure them unless they are known."""
        name = json.dumps(key, sort_keys=True, default=str)
        if name not in self._rows:
            # Through JSON and back, so that a row read from the file equals a fresh one.
            row = {**key, **measure()}
            row = json.loads(json.dumps(row, default=lambda array: array.tolist()))
            self._rows[name] = row
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, row]) + "\n")
        return self._rows[name]


@dataclass(frozen=True)
class Study:
    """Scale of an experiment, and the ledger of its finished measurements."""

    scale: Scale = Scale.SMALL
    ledger: Ledger = field(default_factory=Ledger)

    def pick(self, small: Setting, paper: Setting) -> Setting:
        """Return the setting of this scale."""
        return paper if self.scale is Scale.PAPER else small

    def sweep(
        self, measure: Callable[..., Mapping[str, Any]], **grid: Sequence[Any]
    ) -> pd.DataFrame:
        """Call a function with every combination of settings; return one row per call.

        The last setting varies fastest. Rows in the ledger are not measured again.

        >>> Study().sweep(lambda S, seed: {"sum": S + seed}, S=[1], seed=[2, 3])["sum"].tolist()
        [3, 4]
        """
        import pandas as pd

        keys = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
        rows = []
        for number, key in enumerate(keys, start=1):
            text = ", ".join(f"{name} = {value}" for name, value in key.items())
            logger.info("%s (%d of %d)", text, number, len(keys))
            rows.append(self.ledger.row(key, partial(measure, **key)))
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class Line:
    """A value of the paper beside ours, as text; a dash if the paper does not state it."""

    quantity: str
    paper: str
    ours: str
    settings: str

    def __str__(self) -> str:
        return f"{self.quantity}: {self.paper} | {self.ours} | {self.settings}"


def lines(settings: str, rows: Iterable[tuple[str, str, str]]) -> list[Line]:
    """Return lines (quantity, paper, ours) that have the same settings."""
    return [Line(*row, settings) for row in rows]


@dataclass(frozen=True)
class Result:
    """Answer of an experiment.

    ``lines`` compare with the paper, ``tables`` hold all numbers (one CSV file each, named by its
    ending: "" or "_seeds", for instance), ``figure`` is written as PNG and SVG.
    """

    lines: list[Line]
    tables: dict[str, pd.DataFrame]
    figure: Figure | None = None


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
        f"There is no label {label!r}. Choose `all` or one of: {', '.join(entries)}."
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
