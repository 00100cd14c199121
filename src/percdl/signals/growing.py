"""Recordings that are still growing: new rows of a text table, new samples of an LSL stream."""

from __future__ import annotations

import codecs
import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.formats import STANDARD, TextLayout
from percdl.signals.tables import Table, missing_column

# Bytes that are read at a time, and the longest gap of a clock, in seconds.
MOST_BYTES, LONGEST_GAP = 2**22, 3600.0
# The rate is checked on so many steps, and may be off by this fraction. A sample follows the one
# before, unless the clock is off by more than this many periods: jitter moves no sample.
RATE_STEPS, RATE_ERROR, SLACK = 20, 0.05, 0.75


class GrowingTable:
    """The new rows of a text table that another program appends to.

    An incomplete last line is read later. With a column of times (in seconds), samples that the
    clock skips are NaN; times that do not increase, or have another rate, raise an error. If the
    file is replaced by another one, reading continues at the time of the clock; without a clock,
    it raises an error. The file need not exist yet.
    """

    def __init__(
        self,
        path: Path,
        channels: tuple[str, ...],
        sfreq: float,
        time: str | None = None,
        layout: TextLayout = STANDARD,
    ):
        self.path, self.channels, self.sfreq, self.time = path, tuple(channels), sfreq, time
        self.layout, self._mark = layout, layout.mark_in(path)
        self._first = self._last = np.nan
        self._at, self._steps = -1, np.empty(0)
        self._restart()

    def _restart(self) -> None:
        """Prepare to read a file from its first byte."""
        self._names: list[str] | None = None
        self._file_id, self._n_bytes, self._n_lines, self._text = None, 0, 0, ""
        self._decoder = codecs.getincrementaldecoder(self.layout.encoding)()

    def read(self) -> Float[np.ndarray, "n P"]:
        """Return the samples that were appended since the last call, as many as fit in 4 MB."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                is_other = self._file_id not in (None, (status.st_dev, status.st_ino))
                if is_other or status.st_size < self._n_bytes:
                    if self.time is None:
                        raise UnreadableFileError(
                            f"{self.path} was replaced or became shorter after line "
                            f"{self._n_lines}. How much is missing is unknown without a column of "
                            "times (--time). Watch the new file on its own."
                        )
                    self._restart()
                self._file_id = status.st_dev, status.st_ino
                file.seek(self._n_bytes)
                new = file.read(MOST_BYTES)
        except FileNotFoundError:
            return np.empty((0, len(self.channels)))
        self._n_bytes += len(new)
        try:
            text = self._text + self._decoder.decode(new)
        except UnicodeDecodeError as error:
            raise UnreadableFileError(
                f"{self.path}, after line {self._n_lines}: not {self.layout.encoding} text. Name "
                "the encoding of the file (--encoding)."
            ) from error
        *lines, self._text = text.replace("\r\n", "\n").split("\n")
        return self._parse(lines)

    def finish(self) -> Float[np.ndarray, "n P"]:
        """Return the sample of a last line without a line break, if it is complete."""
        line, self._text = self._text.strip(), ""
        is_whole = line.count(self._mark) + 1 == len(self._names or ())
        return self._parse([line] if line and is_whole else [])

    def _parse(self, lines: list[str]) -> np.ndarray:
        """Return the samples of complete lines."""
        numbered = list(enumerate(lines, start=self._n_lines + 1))
        self._n_lines += len(lines)
        rows = [(n, line) for n, line in numbered if n > self.layout.skip_lines]
        if self._names is None and rows:
            self._read_names((rows.pop(0) if self.layout.header else rows[0])[1])
        rows = [(n, line) for n, line in rows if line.strip()]
        if not rows:
            return np.empty((0, len(self.channels)))
        numbers, texts = zip(*rows, strict=True)
        cells = [*csv.reader(texts, delimiter=self._mark)]
        names = self._names or []
        for n, row in zip(numbers, cells, strict=True):
            if len(row) != len(names):
                raise UnreadableFileError(
                    f"{self.path}, line {n}: {len(row)} cell(s) instead of {len(names)}. "
                    "Correct the line, or the program that writes it."
                )
        frame = pd.DataFrame(cells, columns=pd.Index(names), dtype="str")
        table = Table(str(self.path), frame, "line", numbers, self.layout.decimal)
        values = np.column_stack([table.numbers(name) for name in self.channels])
        return values if self.time is None else self._place(table, values)

    def _read_names(self, line: str) -> None:
        row = next(csv.reader([line], delimiter=self._mark))
        names = [x.strip() if self.layout.header else str(i) for i, x in enumerate(row)]
        for name in (*self.channels, *([] if self.time is None else [self.time])):
            if name not in names:
                raise UnreadableFileError(missing_column(str(self.path), name, names))
        self._names = names

    def _place(self, table: Table, values: np.ndarray) -> np.ndarray:
        """Place samples by the clock, with NaN in the gaps."""
        seconds = table.numbers(str(self.time))
        is_start = bool(np.isnan(self._last))
        before = np.append(self._last, seconds[:-1])
        steps = (seconds - before) * self.sfreq
        if is_start:
            steps[0] = 1
        wrong = ~((steps > 0.5) & (steps <= LONGEST_GAP * self.sfreq)) | np.isnan(seconds)
        for row in np.flatnonzero(wrong)[:1]:
            raise table.fail(
                int(row),
                f"the clock goes from {before[row]:g} to {seconds[row]:g} s, but samples are "
                f"{1 / self.sfreq:g} s apart. Times must be in seconds and increase, by at most "
                f"{LONGEST_GAP:g} s; watch the rest as a new recording.",
            )
        self._check_rate(steps[is_start:])
        self._first, self._last = seconds[0] if is_start else self._first, float(seconds[-1])
        places = [self._at]
        for exact in ((seconds - self._first) * self.sfreq).tolist():
            follows = abs(exact - places[-1] - 1) <= SLACK
            places.append(places[-1] + 1 if follows else round(exact))
        new = np.diff(places) > 0  # a clock that is a little too fast has samples to leave out
        placed = np.full((places[-1] - self._at, values.shape[1]), np.nan)
        placed[np.array(places[1:])[new] - self._at - 1] = values[new]
        self._at = places[-1]
        return placed

    def _check_rate(self, steps: np.ndarray) -> None:
        """Raise if the first steps without gaps, in periods, are not one period on average."""
        if len(self._steps) >= RATE_STEPS:
            return
        self._steps = np.append(self._steps, steps)[:RATE_STEPS]
        if len(self._steps) < RATE_STEPS:
            return
        median = np.median(self._steps)
        usual = self._steps[np.abs(self._steps - median) <= 0.5 * median].mean()
        if abs(usual - 1) > RATE_ERROR:
            raise UnreadableFileError(
                f"{self.path} is sampled at {self.sfreq / usual:.4g} Hz, as column "
                f"{self.time!r} says in seconds, but {self.sfreq:g} Hz are needed. Write times in "
                "seconds, resample the file, or fit a model at its rate."
            )


class LSLInlet:
    """The new samples of a stream of the lab streaming layer. Needs ``mne-lsl``.

    The stream must have the rate ``sfreq``; it is looked for during ``wait`` seconds.
    """

    def __init__(self, name: str, channels: tuple[str, ...], sfreq: float, wait: float = 10.0):
        lsl: Any = require("mne_lsl.lsl", "Reading an LSL stream", "lsl")
        found = lsl.resolve_streams(timeout=wait, name=name)
        if not found:
            raise UnreadableFileError(
                f"There is no LSL stream {name!r} after {wait:g} s. Start it, or check its name."
            )
        self._inlet = lsl.StreamInlet(found[0])
        self._inlet.open_stream(timeout=wait)
        info = self._inlet.get_sinfo()
        if info.sfreq != sfreq:
            raise UnreadableFileError(
                f"The LSL stream {name!r} has {info.sfreq:g} samples per second, but {sfreq:g} "
                "are needed. Resample it, or fit a model at its rate."
            )
        names = list(info.get_channel_names() or map(str, range(info.n_channels)))
        if missing := [channel for channel in channels if channel not in names]:
            place = f"LSL stream {name!r}"
            raise UnreadableFileError(missing_column(place, missing[0], names, "channel"))
        self._columns = [names.index(channel) for channel in channels]

    def read(self) -> Float[np.ndarray, "n P"]:
        """Return the samples that arrived since the last call."""
        values, _ = self._inlet.pull_chunk(timeout=0.0)
        return np.asarray(values, float).reshape(-1, self._inlet.n_channels)[:, self._columns]

    def finish(self) -> Float[np.ndarray, "n P"]:
        """Close the stream."""
        rest = self.read()
        self._inlet.close_stream()
        return rest
