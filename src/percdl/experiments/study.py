"""An experiment's question and answer: scale, finished measurements, lines beside the paper's."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
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
    return {f"algorithm__{name}": getattr(printed, name) for name in names}


class Scale(StrEnum):
    """Size of an experiment: minutes on two cores, or the size of the paper."""

    SMALL = "small"
    PAPER = "paper"


class Ledger:
    """Finished measurements, kept so that an interrupted study resumes where it stopped.

    Parameters
    ----------
    path : Path, optional
        File with one line of JSON per row; in memory by default. A last line that was cut short
        is measured again.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.row({"seed": 0}, lambda: {"distance": 0.5})
    {'seed': 0, 'distance': 0.5}
    >>> ledger.row({"seed": 0}, lambda: 1 / 0)["distance"]
    0.5
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.is_file():
            kept = [line for line in path.read_text("utf-8").splitlines() if _is_whole(line)]
            self._rows = dict(json.loads(line) for line in kept)
            path.write_text("".join(f"{line}\n" for line in kept), "utf-8")

    def row(
        self, key: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the key and the numbers of a row; measure them unless they are known."""
        name = json.dumps(dict(key), sort_keys=True, default=str)
        if name not in self._rows:
            # Through JSON and back, so that a row read from the file equals a fresh one.
            row = json.loads(json.dumps({**key, **measure()}, default=_plain))
            self._rows[name] = row
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, row]) + "\n")
        return self._rows[name]


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Return a NumPy scalar or array as plain Python values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a ledger keeps numbers, text and arrays, not {type(value).__name__}")


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

        The last setting varies fastest.

        >>> Study().sweep(lambda S, seed: {"sum": S + seed}, S=[1], seed=[2, 3])["sum"].tolist()
        [3, 4]
        """
        combinations = product(*grid.values())
        return self.rows(measure, [dict(zip(grid, c, strict=True)) for c in combinations])

    def rows(
        self, measure: Callable[..., Mapping[str, Any]], keys: Sequence[Mapping[str, Any]]
    ) -> pd.DataFrame:
        """Call a function with each key; rows in the ledger are not measured again."""
        import pandas as pd

        rows = []
        for number, key in enumerate(keys, start=1):
            text = ", ".join(f"{name} = {value}" for name, value in key.items())
            logger.info("%s (%d of %d)", text, number, len(keys))
            rows.append(self.ledger.row(key, partial(measure, **key)))
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class Line:
    """A value of the paper beside ours, as text, and the settings of ours.

    A dash stands for a value that the paper does not state.
    """

    quantity: str
    paper: str
    ours: str
    settings: str

    def __str__(self) -> str:
        return f"{self.quantity}: {self.paper} | {self.ours} | {self.settings}"


@dataclass(frozen=True)
class Result:
    """Answer of an experiment.

    ``lines`` compare with the paper, ``tables`` hold all numbers (one CSV file each), ``figures``
    are written as PNG and SVG, and ``reading`` says in a few sentences where we agree.
    """

    lines: list[Line]
    tables: dict[str, pd.DataFrame]
    figures: dict[str, Figure]
    reading: str
