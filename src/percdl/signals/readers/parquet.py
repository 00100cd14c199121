"""Parquet tables, read by pyarrow."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from percdl.exceptions import UnreadableFileError
from percdl.signals.extras import require
from percdl.signals.readers.columns import Columns, recordings_in
from percdl.signals.readers.table import Table, missing_column
from percdl.signals.recording import Recording

SUFFIXES = (".parquet", ".pq")


def read_parquet(path: Path, columns: Columns, subject: str) -> Iterator[Recording]:
    """Yield the recordings of a Parquet file; see `Cohort.from_parquet`."""
    return recordings_in(read_parquet_table(path, columns.needed), columns, subject)


def read_parquet_table(path: Path, needed: list[str] | None = None) -> Table:
    """Read the columns needed of a Parquet file, all where none is named."""
    parquet = require("pyarrow.parquet", "Reading Parquet files")
    try:
        known = parquet.read_schema(path).names
        for name in needed or ():
            if name not in known:
                raise missing_column(str(path), name, known)
        frame = pd.read_parquet(path, engine="pyarrow", columns=needed or None)
    except UnreadableFileError:
        raise
    except Exception as error:  # what pandas notes in the file may be damaged in any way
        raise UnreadableFileError(
            f"{path} is not a whole Parquet file: {error}. Write it again."
        ) from error
    if frame.empty:
        raise UnreadableFileError(f"{path} has no row. One row per sample is needed.")
    # An index written by pandas is a column like the others.
    if needed and not set(needed) <= set(frame.columns):
        frame = frame.reset_index()
    return Table(str(path), frame, "row")
