"""The page of all results: once for browsers, self-contained, once for code hosts."""

from __future__ import annotations

from pathlib import Path

from percdl.experiments.archive import Stored, read_all
from percdl.experiments.catalog import CATALOG
from percdl.report.pages import as_data_uri, render


def write_page(out: Path) -> Path:
    """Write index.html and README.md of all results in a folder; return the former."""
    results = read_all(out)
    pictures = {
        result.entry.module: [as_data_uri(path.read_bytes()) for path in result.figures]
        for result in results
    }
    page = out / "index.html"
    page.write_text(
        render(
            "results.html.j2",
            results=results,
            pictures=pictures,
            settings={result.entry.module: shared_settings(result) for result in results},
            missing=_missing(results),
        ),
        encoding="utf-8",
    )
    (out / "README.md").write_text(_markdown(results), encoding="utf-8")
    return page


def _missing(results: list[Stored]) -> list[str]:
    """Return the labels that the folder does not hold."""
    present = {result.entry.label for result in results}
    return [entry.label for entry in CATALOG if entry.label not in present]


def _markdown(results: list[Stored]) -> str:
    missing = ", ".join(f"`{label}`" for label in _missing(results))
    heading = (
        "# The paper, reproduced\n\n"
        f"{len(results)} of {len(CATALOG)} figures and tables, made by `percdl reproduce`. The "
        "numbers behind each picture are beside it as CSV and JSON.\n"
        + (f"\nNot made yet: {missing}.\n" if missing else "")
    )
    return "\n".join([heading, *map(_section, results)])


def _section(result: Stored) -> str:
    shared, columns = shared_settings(result), ["", "paper", "ours"]
    if shared is None:
        columns.append("settings")
    rows = [
        [line.quantity, line.paper, line.ours, line.settings][: len(columns)]
        for line in result.lines
    ]
    return "\n".join(
        [
            f"## {result.entry.title}",
            "",
            f"`{result.entry.label}`, scale {result.scale.value}, percdl {result.version}. "
            + result.reading,
            "",
            *map(_row, [columns, ["---"] * len(columns), *rows]),
            "",
            *([] if shared is None else [f"Settings: {shared}.\n"]),
            *_pictures(result),
        ]
    )


def shared_settings(result: Stored) -> str | None:
    """Return the settings of a result, if all its lines have the same."""
    settings = {line.settings for line in result.lines}
    return settings.pop() if len(settings) == 1 else None


def _pictures(result: Stored) -> list[str]:
    folder = result.entry.module
    return [f"![{result.entry.title}]({folder}/{path.name})\n" for path in result.figures]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
