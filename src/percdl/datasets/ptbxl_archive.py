"""PTB-XL records in one ``.npz`` file, and the balanced set of the paper's experiments."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from percdl.datasets.ptbxl import PTBXL, as_leads, draw_balanced, find_ptbxl, load_ptbxl
from percdl.datasets.ptbxl_tables import SUPERCLASSES, read_catalogue, sole_superclass
from percdl.exceptions import DatasetError

KEYS = ("X", "Y", "classes", "ecg_id", "split", "leads", "fs", "units_per_mV")
BALANCED = "ptbxl100_balanced_2650.npz"
# Records of each superclass in the paper's ECG experiments: 2,650 in all.
N_PER_CLASS = 530
_FOLD_OF = {"val": 9, "test": 10}


def load_ptbxl_archive(path: str | os.PathLike[str]) -> PTBXL:
    """Read PTB-XL records from one ``.npz`` file.

    Its keys: ``X`` integers (S, N, P), ``units_per_mV`` of them to a millivolt; ``Y`` multi-hot
    in the order of ``classes``; ``ecg_id``; ``split`` (train, val, test); ``leads``; ``fs``.
    Folds 1 to 8 are one part, train: they are missing in `PTBXL.folds`. Cost: one read of the
    file, O(S N P).

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    PTBXL
        The cohort, its metadata, labels and folds.

    Examples
    --------
    >>> import tempfile
    >>> stored = {"X": np.zeros((2, 10, 1), np.int16), "Y": np.eye(2, 5), "classes": SUPERCLASSES}
    >>> stored |= {"ecg_id": [7, 9], "split": ["train", "test"]}
    >>> stored |= {"leads": ["II"], "fs": 100, "units_per_mV": 1000}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/two.npz", **stored)
    ...     load_ptbxl_archive(f"{folder}/two.npz")
    PTBXL(Cohort(2 recordings, 1 channel (II), 100 Hz, 10 samples, groups NORM: 1, MI: 1))
    """
    stored = _read(Path(path).expanduser())
    index = pd.Index(stored["ecg_id"], name="ecg_id")
    multi_hot = pd.DataFrame(stored["Y"].astype(bool), index, list(stored["classes"].astype(str)))
    labels = multi_hot.reindex(columns=list(SUPERCLASSES))
    split = pd.Series(stored["split"], index, name="split", dtype=str)
    values = stored["X"].astype(np.float32) / np.float32(stored["units_per_mV"])
    cohort = as_leads(values, list(stored["leads"].astype(str)), float(stored["fs"]), labels)
    folds = split.map(_FOLD_OF).astype("Int64").rename("fold")
    return PTBXL(cohort, pd.DataFrame({"split": split}), labels, folds)


def load_ptbxl_balanced(
    data_home: str | os.PathLike[str] | None = None,
    *,
    n_per_class: int = N_PER_CLASS,
    random_state: int = 0,
    download: bool = True,
) -> PTBXL:
    """Load as many records of each superclass, all with that superclass alone, at 100 Hz.

    They are those of ``ptbxl100_balanced_2650.npz`` where the folder holds that archive, and
    drawn from the whole of PTB-XL elsewhere. ``random_state`` decides the draw, also that of
    fewer records than the archive has. See `load_ptbxl` for the other arguments. Cost: one read of
    the whole archive, or of the tables and the records drawn.

    Parameters
    ----------
    data_home : path, optional
        See `load_ptbxl`.
    n_per_class : int
        Records of each superclass; the paper has 530.
    random_state : int
        Decides the draw.
    download : bool
        See `load_ptbxl`.

    Returns
    -------
    PTBXL
        The cohort, its metadata, labels and folds.

    Examples
    --------
    Forty records of each class, ``load_ptbxl_balanced(n_per_class=40)``; here of an archive of
    ten records, two of each:

    >>> import tempfile
    >>> stored = {"X": np.zeros((10, 10, 1), np.int16), "Y": np.eye(5)[[0, 1, 2, 3, 4] * 2]}
    >>> stored |= {"classes": SUPERCLASSES, "ecg_id": np.arange(10), "split": ["train"] * 10}
    >>> stored |= {"leads": ["II"], "fs": 100, "units_per_mV": 1000}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/{BALANCED}", **stored)
    ...     load_ptbxl_balanced(folder, n_per_class=1).superclass.value_counts().tolist()
    [1, 1, 1, 1, 1]
    """
    folder = find_ptbxl(data_home, download=download, archive=BALANCED)
    archive = folder / BALANCED
    if archive.is_file():
        data = load_ptbxl_archive(archive)
        whole = data.superclass.value_counts().eq(n_per_class).all()
        return data if whole else data.balanced(n_per_class, random_state)
    alone = sole_superclass(read_catalogue(folder).labels)
    drawn = draw_balanced(alone, n_per_class, random_state)
    return load_ptbxl(folder, records=alone.index[drawn])


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise DatasetError(f"There is no file {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            missing = set(KEYS) - {Path(name).stem for name in archive.namelist()}
            if missing:
                raise DatasetError(f"{path} has no key {', '.join(sorted(missing))}.")
            return {key: _read_array(archive.read(f"{key}.npy")) for key in KEYS}
    except (zipfile.BadZipFile, ValueError, pickle.UnpicklingError) as error:
        raise DatasetError(f"{path} cannot be read: {error}") from error


def _read_array(stored: bytes) -> np.ndarray:
    """Return a stored array; one of Python strings is a pickle, and read as no more than that."""
    stream = io.BytesIO(stored)
    np.lib.format.read_magic(stream)
    _, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject:
        return _OnlyArrays(stream).load()
    return np.load(io.BytesIO(stored), allow_pickle=False)


class _OnlyArrays(pickle.Unpickler):
    """Reads pickled NumPy arrays of plain values and refuses everything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"_reconstruct", "ndarray", "dtype"}
        if module.partition(".")[0] != "numpy" or name not in allowed:
            raise pickle.UnpicklingError(f"it holds an object {module}.{name}")
        return super().find_class(module, name)
