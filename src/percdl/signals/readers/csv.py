"""CSV tables of samples."""

from collections.abc import Iterator
from pathlib import Path

from percdl.signals.readers.columns import Columns, recordings_in
from percdl.signals.readers.text import TextFormat, read_text_table
from percdl.signals.recording import Recording

SUFFIXES = (".csv", ".tsv", ".tab", ".txt")


def read_csv(
    path: Path, columns: Columns, text_format: TextFormat, subject: str
) -> Iterator[Recording]:
    """Yield the recordings of a text table; see `Cohort.from_csv`."""
    table = read_text_table(path, text_format, columns.needed, texts=columns.labels)
    return recordings_in(table, columns, subject)
