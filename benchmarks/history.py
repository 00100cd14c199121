"""The figures of earlier runs of ``make bench``, one row per figure, commit and kind of machine.

Everything here is a function of rows and text; `bench` measures and writes the files.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

# A figure that exceeds the last one of the same kind of machine by more than this is worse.
TOLERANCE = 0.15
BEGIN, END = "<!-- figures: written by make bench -->\n", "<!-- figures end -->\n"


@dataclass(frozen=True)
class Figure:
    """A number measured, of which less is better, and the most it should be (None: no target)."""

    name: str
    value: float
    most: float | None
    detail: str
    unit: str = "ratio"

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None without target."""
        return None if self.most is None else self.value <= self.most


@dataclass(frozen=True)
class Row:
    """A figure, and when, with which version and on which kind of machine it was measured."""

    date: str
    commit: str
    machine: str
    figure: str
    value: float
    unit: str
    detail: str

    @property
    def key(self) -> tuple[str, str, str]:
        """A second measurement with the same key replaces the first."""
        return self.figure, self.commit, self.machine


HEADER = [field.name for field in fields(Row)]


def parse(text: str) -> list[Row]:
    """Return the rows of a CSV file."""
    table = csv.DictReader(io.StringIO(text))
    return [Row(**{**entry, "value": float(entry["value"])}) for entry in table]


def dump(rows: Iterable[Row]) -> str:
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue()


def append(rows: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Add rows at the end, in place of those with the same key."""
    added = {row.key: row for row in new}
    return [*(row for row in rows if row.key not in added), *added.values()]


def find_worse(rows: Iterable[Row], new: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the last row and the new one of each figure that is worse than at another commit."""
    rows = list(rows)
    pairs = []
    for row in new:
        earlier = [
            other
            for other in rows
            if (other.figure, other.machine) == (row.figure, row.machine)
            and other.commit != row.commit
        ]
        # A value that is not a number is worse than any other.
        if earlier and not row.value <= (1 + TOLERANCE) * earlier[-1].value:
            pairs.append((earlier[-1], row))
    return pairs


def render(rows: Iterable[Row]) -> str:
    """Return the last row of each figure and kind of machine as a Markdown table."""
    last = {(row.machine, row.figure): row for row in rows}
    if not last:
        return "No figure has been recorded yet.\n"
    lines = ["| machine | figure | value | measured | commit, date |", "|---|---|---|---|---|"]
    for row in sorted(last.values(), key=lambda row: (row.machine, row.figure)):
        value = f"{row.value:.3g}" + (f" {row.unit}" if row.unit != "ratio" else "")
        source = f"{row.commit}, {row.date}"
        lines.append(f"| {row.machine} | {row.figure} | {value} | {row.detail} | {source} |")
    return "\n".join(lines) + "\n"


def update_page(page: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """Return a page of the documentation with a table between two markers."""
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"The page needs the markers {begin.strip()} and {end.strip()}.")
    return f"{before}{begin}{table}{end}{after}"
