"""The two tables of PTB-XL: what is known of each record, and which diagnoses form a class."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from percdl.exceptions import DatasetError, InvalidParameterError
from percdl.signals.recording import abbreviate

SUPERCLASSES = ("NORM", "MI", "STTC", "CD", "HYP")
FOLDS = range(1, 11)


class Catalogue(NamedTuple):
    """Metadata, superclasses and folds of records, all indexed by ecg_id."""

    metadata: pd.DataFrame
    labels: pd.DataFrame
    folds: pd.Series

    def select(
        self,
        records: Iterable[int] | None,
        superclasses: Iterable[str] | None,
        folds: Iterable[int] | None,
    ) -> Catalogue:
        """Return the records asked for, in the order asked for; None asks for all."""
        ids = self.labels.index if records is None else self._known(records)
        labels, numbers = self.labels.loc[ids], self.folds.loc[ids]
        kept = np.ones(len(ids), bool)
        if superclasses is not None:
            wanted = _allowed("superclasses", superclasses, SUPERCLASSES)
            kept &= labels[wanted].any(axis=1).to_numpy()
        if folds is not None:
            kept &= numbers.isin(_allowed("folds", folds, FOLDS)).to_numpy()
        if not kept.any():
            raise InvalidParameterError(
                "No record is left: none of those there has the superclasses and folds asked for."
            )
        return Catalogue(self.metadata.loc[ids][kept], labels[kept], numbers[kept])

    def _known(self, records: Iterable[int]) -> list[int]:
        ids = [int(record) for record in records]
        absent = [record for record in ids if record not in self.labels.index]
        if absent:
            raise InvalidParameterError(
                f"No record with ecg_id {abbreviate(absent)} among the {len(self.labels)} there: "
                f"{abbreviate(self.labels.index)}."
            )
        return ids


def read_catalogue(folder: Path) -> Catalogue:
    """Read the tables of a folder in the official layout."""
    metadata = _read_table(folder / "ptbxl_database.csv", {"ecg_id", "scp_codes", "strat_fold"})
    statements = _read_table(folder / "scp_statements.csv", {"diagnostic", "diagnostic_class"})
    metadata = metadata.set_index("ecg_id")
    diagnostic = statements[statements["diagnostic"] == 1]
    class_of = dict(zip(diagnostic.iloc[:, 0], diagnostic["diagnostic_class"], strict=True))
    codes = [_parse_codes(text, ecg_id) for ecg_id, text in metadata["scp_codes"].items()]
    found = [{class_of[code] for code in record if code in class_of} for record in codes]
    labels = pd.DataFrame(
        [[name in classes for name in SUPERCLASSES] for classes in found],
        index=metadata.index,
        columns=list(SUPERCLASSES),
    )
    folds = pd.Series(metadata["strat_fold"], name="fold", dtype="Int64")
    return Catalogue(metadata, labels, folds)


def sole_superclass(labels: pd.DataFrame) -> pd.Series:
    """Return the superclass of records that have exactly one, missing for the others."""
    alone = labels.sum(axis=1) == 1
    return labels.idxmax(axis=1).where(alone).rename("superclass")


def _read_table(path: Path, needed: set[str]) -> pd.DataFrame:
    if not path.is_file():
        raise DatasetError(f"{path} is missing. Copy or download the dataset again.")
    try:
        frame = pd.read_csv(path)
    except (ValueError, pd.errors.ParserError) as error:
        raise DatasetError(f"{path} is not a comma-separated table: {error}") from error
    missing = needed - set(frame.columns)
    if missing:
        raise DatasetError(f"{path} has no column {', '.join(sorted(missing))}.")
    return frame


def _parse_codes(text: object, ecg_id: object) -> dict[str, float]:
    try:
        codes = literal_eval(str(text))
    except (ValueError, SyntaxError) as error:
        raise DatasetError(f"Record {ecg_id}: scp_codes {text!r} cannot be read.") from error
    if not isinstance(codes, dict):
        raise DatasetError(f"Record {ecg_id}: scp_codes {text!r} is not a mapping of codes.")
    return codes


def _allowed(name: str, values: Iterable, choices: Iterable) -> list:
    wanted, known = list(values), list(choices)
    for value in wanted:
        if value not in known:
            raise InvalidParameterError(
                f"`load_ptbxl({name}=...)` asks for {value!r}. "
                f"Choose among {', '.join(map(str, known))}."
            )
    return wanted
