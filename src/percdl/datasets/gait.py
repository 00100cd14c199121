"""Walks of 230 persons with a sensor on each foot, every step annotated (Truong et al., 2019)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Int

from percdl.datasets.downloads import find_dataset, read_source
from percdl.exceptions import DatasetError, InvalidParameterError
from percdl.signals import Cohort, Recording
from percdl.signals.recording import abbreviate
from percdl.signals.tables import channel_map, reading

Foot = Literal["left", "right"]
Swings = Mapping[Foot, Int[np.ndarray, "n 2"]]

SFREQ = 100.0
GROUPS = ("Healthy", "Orthopedic", "Neurological")
# Foot, quantity, axis: V is vertical, X, Y and Z are those of the sensor.
CHANNELS = tuple(f"{foot}{kind}{axis}" for foot in "LR" for kind in "AR" for axis in "VXYZ")
# The description gives no unit of acceleration; feet in motion reach 3 to 6 here, so it is g.
UNITS = {"A": "g", "R": "deg/s"}
ACTIVITY: Mapping[Foot, str] = {"left": "LeftFootActivity", "right": "RightFootActivity"}
NUMBERS = ("Subject", "Trial", "Age", "Height", "Weight", "BMI", "WalkedDistance", "WalkingSpeed")
SOURCE = read_source("gait")


@dataclass(frozen=True, eq=False)
class GaitData:
    """Walks, their annotations and their metadata.

    Attributes
    ----------
    cohort : Cohort
        One recording per trial, 100 Hz: its code such as ``"10-5"`` is the subject (participant
        10 the person, trial 5 the visit), the pathology group the group.
    metadata : DataFrame
        The published columns, indexed by code; unknown values are missing.
    swings : dict of code to foot to array (n, 2)
        Expert annotation: first and last sample of each period with the foot off the ground.
    """

    cohort: Cohort
    metadata: pd.DataFrame
    swings: Mapping[str, Swings]

    @property
    def cycles(self) -> dict[str, Int[np.ndarray, " n"]]:
        """First sample of each gait cycle of the right foot: where its swing starts."""
        return {code: swings["right"][:, 0] for code, swings in self.swings.items()}

    def __repr__(self) -> str:
        n_cycles = sum(map(len, self.cycles.values()))
        return f"GaitData({self.cohort!r}, {n_cycles} annotated cycles of the right foot)"


def load_gait(
    data_home: str | os.PathLike[str] | None = None,
    *,
    channels: str | Iterable[str] | Mapping[str, str] = ("RRY",),
    trials: Iterable[str] | None = None,
    subjects: Iterable[int] | None = None,
    download: bool = True,
) -> GaitData:
    """Load walks with inertial sensors on both feet, and their annotated steps.

    Each walk is: stand still, 10 m ahead, turn, back, stop. The whole set has 1,020 trials of
    230 participants. Licence CC BY-NC-SA; cite Truong et al. (2019),
    https://doi.org/10.5201/ipol.2019.265. Cost: one read of the two files of each trial wanted.

    Parameters
    ----------
    data_home : path, optional
        Folder of the files, all or some, or one that holds ``gait/``. By default ``PERCDL_DATA``,
        then ``shared/data`` beside a checkout of the repository, then the user's cache.
    channels : list of str or dict, default=("RRY",)
        Columns to read, or columns and the names to show: foot (L or R), acceleration (A, in g)
        or angular velocity (R, in deg/s), axis (V, X, Y or Z). The paper's is RRY: right foot,
        sagittal plane.
    trials, subjects : list, optional
        Codes of the trials wanted, in that order, and numbers of the participants.
    download : bool, default=True
        Download the dataset (200 MB), into ``data_home`` or the cache, if no folder holds it.

    Returns
    -------
    GaitData

    Examples
    --------
    A folder with one short trial:

    >>> import tempfile
    >>> about = {"PathologyGroup": "Healthy", "LeftFootActivity": []}
    >>> about |= {"RightFootActivity": [[1, 3]]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "10-5.json").write_text(json.dumps(about))
    ...     pd.DataFrame({"RRY": [0.0, 9.0, 4.0, 1.0]}).to_csv(f"{folder}/10-5.csv", index=False)
    ...     load_gait(folder, subjects=[10]).cycles
    {'10-5': array([1])}
    """
    names = channel_map(channels) or {}
    if unknown := set(names) - set(CHANNELS):
        raise InvalidParameterError(
            f"`load_gait(channels=...)` asks for {min(unknown)!r}. Channels: "
            f"{', '.join(CHANNELS)}."
        )
    folder = find_gait(data_home, download=download)
    found = {file.stem for end in ("csv", "json") for file in folder.glob(f"*-*.{end}")}
    codes = sorted(found) if trials is None else list(trials)
    if subjects is not None:
        asked = {str(subject) for subject in subjects}
        codes = [code for code in codes if code.partition("-")[0] in asked]
    if not codes or not set(codes) <= found:
        raise InvalidParameterError(
            f"`load_gait(trials={trials}, subjects={subjects})` asks for trials "
            f"{abbreviate(set(codes) - found) or 'none'}. Codes are participant-trial; "
            f"{folder} holds {len(found)}: {abbreviate(sorted(found))}."
        )
    about: dict[str, dict[str, Any]] = {}
    recordings, swings = [], {}
    shared: Any = {"channels": [*names.values()], "units": [UNITS[name[1]] for name in names]}
    for code in codes:
        person, _, trial = code.partition("-")
        with reading(folder / f"{code}.json", DatasetError):
            record = json.loads((folder / f"{code}.json").read_text(encoding="utf-8"))
            swings[code] = {
                foot: np.array(record.pop(key), int).reshape(-1, 2)
                for foot, key in ACTIVITY.items()
            }
            labels = {"group": record["PathologyGroup"], "person": person, "visit": trial}
            about[code] = record
        with reading(folder / f"{code}.csv", DatasetError):
            values = pd.read_csv(folder / f"{code}.csv", usecols=list(names))[list(names)]
            array = values.to_numpy(float)
            recordings.append(Recording(array, sfreq=SFREQ, subject=code, **labels, **shared))
    table = pd.DataFrame.from_dict(about, orient="index").rename_axis("code").replace("NC", None)
    table = table.drop(columns="Code", errors="ignore")
    for name in table.columns.intersection(list(NUMBERS)):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    return GaitData(Cohort(recordings), table, swings)


def find_gait(data_home: str | os.PathLike[str] | None = None, *, download: bool = False) -> Path:
    """Return the folder of the walks; see `load_gait`."""

    def find(folder: Path) -> Path | None:
        places = (place for place in (folder / "GaitData", folder) if any(place.glob("*-*.json")))
        return next(places, None)

    return find_dataset("gait", find, data_home, SOURCE if download else None)
