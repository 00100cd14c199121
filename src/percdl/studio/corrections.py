"""Corrections of events made in the studio, in a file beside the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from percdl.signals import find_corrections, read_corrections, write_corrections
from percdl.signals.corrections import CORRECTION_COLUMNS, corrections_of

COLUMNS = ("atom", "onset", "amplitude", "length", "quality", "flagged")


class Corrections:
    """The corrections of a model file, at a sampling rate; ``length`` is that of an atom.

    ``names`` are those of the atoms, if they have some.
    """

    def __init__(self, path: Path, sfreq: float, length: int, names: Sequence[str] = ()):
        self.path, self._sfreq, self._length, self._names = path, sfreq, length, names
        none = pd.DataFrame(columns=list(CORRECTION_COLUMNS))
        self.table: Any = read_corrections(path) if path.is_file() else none

    def __len__(self) -> int:
        return len(self.table)

    def apply(self, subject: str, events: Mapping[str, Any]) -> dict[str, Any]:
        """Return the events of a person, one list per column, with the corrections made."""
        lengths = events["length"] or [self._length] * len(events["onset"])
        columns = [events[name] if name != "length" else lengths for name in COLUMNS]
        rows: list[dict[str, Any]] = [
            dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)
        ]
        own = self.table[self.table["subject"] == subject]
        found = corrections_of({subject: np.inf}, own, self._names)
        for correction in found.get(subject, ()):
            onset = round(correction.onset * self._sfreq)
            length = self._samples(correction.duration)
            kept = [one for one in rows if not _is_same(one, onset, length)]
            if correction.action != "remove":
                kept = [one for one in rows if not _overlaps(one, onset, length)]
                added = {"atom": correction.atom or 0, "onset": onset, "length": length}
                kept.append(added | {"amplitude": None, "quality": None, "flagged": False})
            rows = sorted(kept, key=lambda one: one["onset"])
        return {name: [one[name] for one in rows] for name in COLUMNS}

    def save(
        self, subject: str, before: pd.DataFrame, after: Sequence[Mapping[str, Any]]
    ) -> pd.DataFrame:
        """Write the corrections that turn the events of a person into others; return all."""
        columns: dict[str, Any] = {
            "subject": subject,
            "atom": [int(one["atom"]) for one in after],
            "onset_seconds": [int(one["onset"]) / self._sfreq for one in after],
        }
        if "duration_seconds" in before:
            columns["duration_seconds"] = [int(one["length"]) / self._sfreq for one in after]
        new = find_corrections(before, pd.DataFrame(columns), duration=self._length / self._sfreq)
        known = {(row["onset"], row["action"]) for row in new.to_dict("records")}
        kept = [
            row["subject"] != subject
            or (self._holds(row, after) and (row["onset"], row["action"]) not in known)
            for row in self.table.to_dict("records")
        ]
        parts = self.table[np.array(kept, bool)], new
        self.table = pd.concat([part for part in parts if len(part)] or [new], ignore_index=True)
        write_corrections(self.table, self.path)
        return self.table

    def _holds(self, row: Mapping[str, Any], after: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the events still agree with an earlier correction."""
        onset, length = round(row["onset"] * self._sfreq), self._samples(row["duration"])
        if row["action"] == "remove":
            return not any(_is_same(one, onset, length) for one in after)
        return any(one["onset"] == onset for one in after)

    def _samples(self, duration: float | None) -> int:
        if duration is None or np.isnan(duration):
            return self._length
        return max(1, round(duration * self._sfreq))


def _is_same(event: Mapping[str, Any], onset: int, length: int) -> bool:
    return abs(event["onset"] - onset) < length / 2


def _overlaps(event: Mapping[str, Any], onset: int, length: int) -> bool:
    return event["onset"] < onset + length and onset < event["onset"] + event["length"]
