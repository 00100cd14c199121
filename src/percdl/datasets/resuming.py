"""Downloads that go on where they were cut off."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from percdl.signals.extras import require

CHUNK = 1 << 16  # what a broken transfer loses at most
TIMEOUT = 60  # seconds without a byte


@dataclass(frozen=True)
class ResumingDownloader:
    """A downloader for pooch that keeps what has arrived when a transfer breaks off.

    Bytes are gathered in ``partial``. Beside it lies the mark by which the server tells
    versions of the file apart (its ETag, or its date): the rest is asked for on the condition
    that the file has not changed since, else the server sends it whole. A transfer that breaks
    off is taken up again for as long as each try brings something.
    """

    partial: Path

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        """Download a file over HTTP."""
        requests = require("requests", "Downloading")
        while True:
            before = self._size()
            try:
                self._transfer(requests, url)
                break
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                if self._size() <= before:
                    raise
        shutil.move(self.partial, output_file)
        self._forget()

    @property
    def _mark(self) -> Path:
        return self.partial.with_name(f"{self.partial.name}.version")

    def _forget(self) -> None:
        for path in (self.partial, self._mark):
            path.unlink(missing_ok=True)

    def _size(self) -> int:
        return self.partial.stat().st_size if self.partial.is_file() else 0

    def _transfer(self, requests: Any, url: str) -> None:
        """Ask for what is missing, once."""
        with requests.get(url, headers=self._condition(url), stream=True, timeout=TIMEOUT) as sent:
            if sent.status_code == requests.codes.requested_range_not_satisfiable:
                self._forget()  # nothing was missing, or the file has shrunk: start anew
                return self._transfer(requests, url)
            sent.raise_for_status()
            is_rest = sent.status_code == requests.codes.partial_content
            self._remember(url, sent.headers)
            total = int(sent.headers.get("Content-Length", 0)) + (self._size() if is_rest else 0)
            with (
                self.partial.open("ab" if is_rest else "wb") as file,
                _show_progress(total) as report,
            ):
                for chunk in sent.iter_content(CHUNK):
                    report(file.write(chunk))
        if self._size() < total:
            raise requests.ConnectionError(f"{self._size()} of {total} bytes of {url} arrived")
        return None

    def _condition(self, url: str) -> dict[str, str]:
        """Return the headers that ask for what is still missing."""
        # Compressed on the way, bytes could not be counted.
        plain = {"Accept-Encoding": "identity"}
        if not (self._size() and self._mark.is_file()):
            return plain
        source, _, version = self._mark.read_text(encoding="utf-8").partition("\n")
        if source != url or not version:
            return plain
        return {**plain, "Range": f"bytes={self._size()}-", "If-Range": version}

    def _remember(self, url: str, headers: Any) -> None:
        # A weak ETag promises the same meaning, not the same bytes.
        tag = headers.get("ETag", "")
        version = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")
        self._mark.write_text(f"{url}\n{version}", encoding="utf-8")


@contextmanager
def _show_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Draw a bar on the terminal, if there is one; give a function to call with bytes arrived."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total or None)
        yield lambda n_bytes: bar.advance(task, n_bytes)
