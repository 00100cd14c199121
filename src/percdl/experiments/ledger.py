"""Finished measurements, kept so that an interrupted study goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Ledger:
    """Rows of numbers under keys, in memory or in a file with one line of JSON per row.

    Parameters
    ----------
    path : Path, optional
        Rows found there count as finished; new ones are added at its end. A last line cut
        short by an interruption is measured again.

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
            kept = [
                line for line in path.read_text(encoding="utf-8").splitlines() if _is_whole(line)
            ]
            for line in kept:
                key, row = json.loads(line)
                self._rows[key] = row
            path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")

    def row(
        self, key: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the key and the numbers measured for it, measuring only what is not there yet."""
        name = json.dumps(dict(key), sort_keys=True, default=str)
        if name not in self._rows:
            # Through JSON and back, so that a row read from the file is the same as a fresh one.
            row = json.loads(json.dumps({**key, **measure()}, default=_plain))
            self._rows[name] = row
            self._append(name, row)
        return self._rows[name]

    def _append(self, name: str, row: dict[str, Any]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, row]) + "\n")


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays into what JSON knows."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a ledger keeps numbers, text and arrays, not {type(value).__name__}")
