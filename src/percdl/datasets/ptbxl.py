"""PTB-XL: 21,799 clinical 12-lead ECGs with diagnoses and official folds (Wagner et al., 2020)."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from ast import literal_eval
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from percdl.datasets.downloads import find_dataset, read_source
from percdl.exceptions import DatasetError, InvalidParameterError, UnreadableFileError
from percdl.seeds import Seed, as_generator
from percdl.signals import Cohort
from percdl.signals.formats import read_wfdb
from percdl.signals.recording import abbreviate
from percdl.signals.tables import reading

SUPERCLASSES = ("NORM", "MI", "STTC", "CD", "HYP")
# Columns of the official layout with the names of the records, by sampling rate.
RATES = {100: "filename_lr", 500: "filename_hr"}
UNIT = "mV"
SOURCE = read_source("ptbxl")
KEYS = ("X", "Y", "classes", "ecg_id", "split", "leads", "fs", "units_per_mV")
BALANCED = "ptbxl100_balanced_2650.npz"
# Records of each superclass in the paper's ECG experiments: 2,650 in all.
N_PER_CLASS = 530


@dataclass(frozen=True, eq=False)
class PTBXL:
    """ECGs and their diagnoses, rows in the order of the cohort.

    Attributes
    ----------
    cohort : Cohort
        Twelve leads in mV; subject = ``str(ecg_id)``, group = the diagnostic superclass of
        records that have exactly one.
    metadata : DataFrame
        Indexed by ecg_id: the columns of ``ptbxl_database.csv``, as far as they are known.
    labels : DataFrame
        Indexed by ecg_id, one Boolean column per superclass: NORM, MI, STTC, CD, HYP.
    folds : Series
        Official stratified fold, 1 to 10, by ecg_id; 9 and 10 are for validation and test.
    """

    cohort: Cohort
    metadata: pd.DataFrame
    labels: pd.DataFrame
    folds: pd.Series

    def __repr__(self) -> str:
        return f"PTBXL({self.cohort!r})"

    @property
    def superclass(self) -> pd.Series:
        """Superclass of the records that have exactly one, missing for the others."""
        return sole_superclass(self.labels)

    @property
    def split(self) -> pd.Series:
        """Official use of each record: train (folds 1 to 8), val (9) or test (10)."""
        return self.folds.map({9: "val", 10: "test"}).fillna("train").rename("split")

    def take(self, rows: Int[np.ndarray, " n"] | Bool[np.ndarray, " S"]) -> PTBXL:
        """Return the records at these positions, or where a mask is True."""
        labels, cohort = self.labels.iloc[rows], self.cohort
        values: Any = cohort.stacked  # see `as_leads`
        cohort = as_leads(values[rows], cohort.channels, cohort.sfreq, labels)
        return PTBXL(cohort, self.metadata.iloc[rows], labels, self.folds.iloc[rows])

    def single(self) -> PTBXL:
        """Return the records with exactly one superclass."""
        return self.take(self.superclass.notna().to_numpy())

    def balanced(self, n_per_class: int, random_state: Seed = 0) -> PTBXL:
        """Draw the same number of records of each superclass, in the present order."""
        return self.take(draw_balanced(self.superclass, n_per_class, random_state))


def load_ptbxl(
    data_home: str | os.PathLike[str] | None = None,
    *,
    sfreq: int = 100,
    records: Iterable[int] | None = None,
    superclasses: Iterable[str] | None = None,
    folds: Iterable[int] | None = None,
    download: bool = True,
) -> PTBXL:
    """Load 12-lead ECGs of ten seconds and their diagnostic superclasses.

    Version 1.0.3, licence CC BY 4.0; cite Wagner et al. (2020), https://doi.org/10.13026/kfzx-aw45.
    A record has a superclass when one of its SCP codes is a diagnostic statement of that class, at
    any likelihood, as in the authors' own example. It can have several superclasses, or none.
    Cost: one read of the tables and of each record wanted.

    Parameters
    ----------
    data_home, download : optional
        Folder with ``ptbxl_database.csv``, or one that holds ``ptbxl/``; by default as in
        `load_gait`. Download the dataset (1.8 GB) from PhysioNet, if no folder holds it.
    sfreq : {100, 500}, default=100
        Which version of the recordings to read.
    records, superclasses, folds : list, optional
        ecg_id of the records wanted, in that order; keep those with at least one of these
        superclasses, in these official folds.

    Returns
    -------
    PTBXL

    Examples
    --------
    >>> ecgs = load_ptbxl(folds=[9, 10])  # doctest: +SKIP
    """
    if sfreq not in RATES:
        raise InvalidParameterError(
            f"`load_ptbxl(sfreq={sfreq})` must be 100 or 500. Pass one of them and resample."
        )
    folder = find_ptbxl(data_home, download=download)
    metadata, labels = _read_catalogue(folder)

    def among(name: str, wanted: Iterable[Any] | None, known: Any) -> list[Any]:
        chosen = list(known if wanted is None else wanted)
        if absent := [value for value in chosen if value not in known]:
            raise InvalidParameterError(
                f"`load_ptbxl({name}=...)` asks for {abbreviate(map(repr, absent))}. Choose among "
                f"{abbreviate(known, shown=10)}."
            )
        return chosen

    allowed: Any = metadata["strat_fold"].isin(among("folds", folds, range(1, 11)))
    if superclasses is not None:
        allowed &= labels[among("superclasses", superclasses, SUPERCLASSES)].any(axis=1)
    ids = [record for record in among("records", records, labels.index) if allowed[record]]
    if not ids:
        raise InvalidParameterError("No record has the requested superclasses and folds.")
    metadata, labels = metadata.loc[ids], labels.loc[ids]
    values, leads = _read_records(folder, pd.Series(metadata[RATES[sfreq]]), sfreq)
    numbers = pd.Series(metadata["strat_fold"], name="fold", dtype="Int64")
    return PTBXL(as_leads(values, leads, sfreq, labels), metadata, labels, numbers)


def find_ptbxl(
    data_home: str | os.PathLike[str] | None = None,
    *,
    download: bool = False,
    archive: str | None = None,
) -> Path:
    """Return the folder of PTB-XL, or of a file that is sufficient alone; see `load_ptbxl`."""

    def find(folder: Path) -> Path | None:
        if archive and (folder / archive).is_file():
            return folder
        # PhysioNet's archive unpacks into a folder of a long name.
        candidates = (folder, *sorted(folder.glob("ptb-xl-*")))
        found = (place for place in candidates if (place / "ptbxl_database.csv").is_file())
        return next(found, None)

    return find_dataset("ptbxl", find, data_home, SOURCE if download else None)


def draw_balanced(
    superclass: pd.Series, n_per_class: int, random_state: Seed
) -> Int[np.ndarray, " n"]:
    """Draw positions, ``n_per_class`` of each superclass, in increasing order."""
    counts = superclass.value_counts().reindex(SUPERCLASSES, fill_value=0)
    if not 1 <= n_per_class <= counts.min():
        raise InvalidParameterError(
            f"Cannot draw {n_per_class} record(s) of each superclass: there are "
            f"{', '.join(f'{n} of {name}' for name, n in counts.items())} with one superclass."
        )
    rng = as_generator(random_state)
    names = superclass.to_numpy()
    drawn = [
        rng.choice(np.flatnonzero(names == name), n_per_class, replace=False)
        for name in SUPERCLASSES
    ]
    return np.sort(np.concatenate(drawn))


def as_leads(
    values: Float[np.ndarray, "S N P"], leads: Iterable[str], sfreq: float, labels: pd.DataFrame
) -> Cohort:
    """Return records in mV as a cohort, named by ecg_id, grouped by sole superclass."""
    return Cohort.from_arrays(
        values,
        sfreq=sfreq,
        subjects=labels.index.astype(str),
        groups=[None if pd.isna(name) else name for name in sole_superclass(labels)],
        channels=leads,
        units=UNIT,
    )


def sole_superclass(labels: pd.DataFrame) -> pd.Series:
    """Return the superclass of records that have exactly one, missing for the others."""
    alone = labels.sum(axis=1) == 1
    return labels.idxmax(axis=1).where(alone).rename("superclass")


def _read_records(
    folder: Path, names: pd.Series, sfreq: int
) -> tuple[Float[np.ndarray, "S N P"], tuple[str, ...]]:
    """Return the values of records (S, N, P) in mV, and the names of their leads."""
    values: Any = None
    shape, leads = (), ()
    for row, (ecg_id, name) in enumerate(names.items()):
        try:
            with reading(path := folder / f"{name}.hea"):
                (record,) = read_wfdb(path, None, str(ecg_id))
        except (UnreadableFileError, FileNotFoundError) as error:
            raise DatasetError(
                f"Record {ecg_id}: {error} Copy or download it again, or leave that record out "
                "with `records`."
            ) from error
        if values is None:
            shape, leads = record.values.shape, record.channels
            values = np.empty((len(names), *shape), np.float32)
        found = (record.values.shape, record.channels, record.sfreq, {*record.units})
        if found != (shape, leads, sfreq, {UNIT}):
            raise DatasetError(
                f"Record {ecg_id} ({name}) has {record.n_times} samples at {record.sfreq:g} Hz, "
                f"leads {', '.join(record.channels)} in {', '.join(sorted({*record.units}))}; "
                f"expected are {sfreq} Hz, {UNIT}, and length and leads of the first record."
            )
        values[row] = record.values
    return values, leads


def _read_catalogue(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the metadata and superclasses of all records, indexed by ecg_id."""
    for name in ("ptbxl_database.csv", "scp_statements.csv"):
        if not (folder / name).is_file():
            raise DatasetError(f"{folder / name} is missing. Copy or download the dataset again.")
    metadata = pd.read_csv(folder / "ptbxl_database.csv").set_index("ecg_id")
    statements = pd.read_csv(folder / "scp_statements.csv")
    diagnostic = statements[statements["diagnostic"] == 1]
    class_of = dict(zip(diagnostic.iloc[:, 0], diagnostic["diagnostic_class"], strict=True))
    codes = map(literal_eval, metadata["scp_codes"])
    found = [{class_of[code] for code in record if code in class_of} for record in codes]
    columns = {name: [name in classes for classes in found] for name in SUPERCLASSES}
    return metadata, pd.DataFrame(columns, index=metadata.index)


def read_archive(path: Path) -> PTBXL:
    """Read PTB-XL records from one ``.npz`` file.

    Its keys: ``X`` integers (S, N, P), ``units_per_mV`` of them to a millivolt; ``Y`` multi-hot
    in the order of ``classes``; ``ecg_id``; ``split`` (train, val, test); ``leads``; ``fs``.
    Folds 1 to 8 are one part, train: they are missing in `PTBXL.folds`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if missing := set(KEYS) - {Path(name).stem for name in archive.namelist()}:
                raise DatasetError(f"{path} has no key {', '.join(sorted(missing))}.")
            stored = {key: _read_array(archive.read(f"{key}.npy")) for key in KEYS}
    except (zipfile.BadZipFile, ValueError, pickle.UnpicklingError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error
    index = pd.Index(stored["ecg_id"], name="ecg_id")
    multi_hot = pd.DataFrame(stored["Y"].astype(bool), index, list(stored["classes"].astype(str)))
    labels = multi_hot.reindex(columns=list(SUPERCLASSES))
    split = pd.Series(stored["split"], index, name="split", dtype=str)
    values = stored["X"].astype(np.float32) / np.float32(stored["units_per_mV"])
    cohort = as_leads(values, list(stored["leads"].astype(str)), float(stored["fs"]), labels)
    folds = split.map({"val": 9, "test": 10}).astype("Int64").rename("fold")
    return PTBXL(cohort, pd.DataFrame({"split": split}), labels, folds)


def load_ptbxl_balanced(
    data_home: str | os.PathLike[str] | None = None,
    *,
    n_per_class: int = N_PER_CLASS,
    random_state: Seed = 0,
    download: bool = True,
) -> PTBXL:
    """Load the same number of records of each superclass, each with that superclass alone.

    The records, at 100 Hz, are those of ``ptbxl100_balanced_2650.npz`` if the folder contains
    that archive; otherwise they are drawn from PTB-XL. Cost: one read of the archive, or of the
    tables and the records drawn.

    Parameters
    ----------
    data_home, download
        See `load_ptbxl`.
    n_per_class, random_state : int
        Records of each superclass (530 in the paper), and seed of the draw.

    Returns
    -------
    PTBXL

    Examples
    --------
    >>> ecgs = load_ptbxl_balanced()  # doctest: +SKIP
    """
    folder = find_ptbxl(data_home, download=download, archive=BALANCED)
    if (folder / BALANCED).is_file():
        data = read_archive(folder / BALANCED)
        whole = data.superclass.value_counts().eq(n_per_class).all()
        return data if whole else data.balanced(n_per_class, random_state)
    alone = sole_superclass(_read_catalogue(folder)[1])
    drawn = draw_balanced(alone, n_per_class, random_state)
    return load_ptbxl(folder, records=alone.index[drawn])


def _read_array(stored: bytes) -> np.ndarray:
    """Return a stored array; an array of Python strings is a pickle, read with restrictions."""
    stream = io.BytesIO(stored)
    np.lib.format.read_magic(stream)
    _, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject:
        return _OnlyArrays(stream).load()
    return np.load(io.BytesIO(stored), allow_pickle=False)


class _OnlyArrays(pickle.Unpickler):
    """Reads pickled NumPy arrays of plain values; refuses everything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"_reconstruct", "ndarray", "dtype"}
        if module.partition(".")[0] != "numpy" or name not in allowed:
            raise pickle.UnpicklingError(f"it holds an object {module}.{name}")
        return super().find_class(module, name)
