"""An experiment's question and answer: scale, finished measurements, lines beside the paper's."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Setting = TypeVar("Setting")
logger = logging.getLogger("percdl.experiments")


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
