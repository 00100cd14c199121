"""The cohorts that are measured: gait, ECG, synthetic beats and the paper's synthetic data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks import Absent
from percdl import (
    Cohort,
    PerCDL,
    Recording,
    ShardedCohort,
    TimeWarp,
    load_gait,
    make_synthetic,
    write_shards,
)
from percdl.datasets import load_ptbxl_balanced
from percdl.exceptions import DatasetError

Data = TypeVar("Data")
# Density of the paper's synthetic recordings: three repetitions of each pattern in 500 samples.
SAMPLES_PER_REPETITION = 500 / 3
N_BEAT_RECORDS, BEAT_LENGTH = 21_799, 65
LEADS = [f"lead{p}" for p in range(12)]
# Five waves of a beat, P, Q, R, S and T: centre and width as shares of the beat.
WAVES = np.array([[0.18, 0.035], [0.36, 0.015], [0.40, 0.018], [0.44, 0.015], [0.72, 0.06]])


@dataclass(frozen=True)
class Problem:
    """A cohort, and the arguments of `PerCDL` it is fitted with."""

    name: str
    cohort: Cohort
    options: dict[str, Any]

    def model(self, **changes: Any) -> PerCDL:
        """Return an unfitted model; ``changes`` override the arguments."""
        return PerCDL(progress=False, **self.options).set_params(**changes)


def gait(n_trials: int | None = None) -> Problem:
    """Return the gait trials: right foot, angular velocity in the sagittal plane, z-scored.

    The first atom is the first annotated cycle of the first healthy subject.
    """
    return _walks(n_trials, ["RRY"])


def gyroscope(n_trials: int | None = None) -> Problem:
    """Return the gait trials: right foot, all three angular velocities, at unit power together."""
    return _walks(n_trials, ["RRX", "RRY", "RRZ"])


def _walks(n_trials: int | None, channels: list[str]) -> Problem:
    data = present(load_gait, channels=channels)
    walks = data.cohort[:n_trials]
    centred = [walk.values - walk.values.mean(0) for walk in walks]
    cohort = Cohort.from_arrays(
        [x / np.sqrt(np.mean(x**2)) for x in centred],
        sfreq=walks.sfreq,
        subjects=walks.subjects,
        channels=channels,
    )
    healthy = walks.subjects[walks.groups.index("Healthy")]
    onset = data.cycles[healthy][0]
    start = cohort[healthy].values[None, onset : onset + 100]
    options = {
        "n_atoms": 1,
        "atom_length": 100,
        "transformation": TimeWarp(4, 15),
        "penalty": 0.01,
    }
    return Problem("gait", cohort, {**options, "init": start})


def ecg(n_records: int | None = None) -> Problem:
    """Return the 12-lead records of PTB-XL, each scaled to unit power.

    The first atom is the loudest beat of the first normal record.
    """
    data = present(load_ptbxl_balanced)
    assert data.cohort.stacked is not None  # records are all of one length
    values = np.array(data.cohort.stacked[:n_records])
    values /= np.sqrt(np.mean(values**2, axis=(1, 2), keepdims=True))
    normal = data.cohort.groups.index("NORM")
    start = _around_peak(values[normal], BEAT_LENGTH)
    return Problem("ECG", _twelve_leads(values, data.cohort.channels), _beat_options(start))


def beats(n_records: int = N_BEAT_RECORDS, n_times: int = 1000) -> Problem:
    """Return synthetic 12-lead records: five waves per beat, at a personal pace, and noise.

    The first atom is the beat that all records warp.
    """
    values = np.empty((n_records, n_times, 12), np.float32)
    for start, block in _beat_blocks(n_records, n_times):
        values[start : start + len(block)] = block
    return Problem("beats", _twelve_leads(values, LEADS), beat_options())


def beats_on_disk(folder: Path, n_records: int, n_times: int = 1000) -> ShardedCohort:
    """Write the same records to a folder of shards; they are never all in memory."""
    records = (
        Recording(values, sfreq=100, channels=LEADS, subject=str(start + i))
        for start, block in _beat_blocks(n_records, n_times)
        for i, values in enumerate(block)
    )
    return write_shards(records, folder)


def beat_options() -> dict[str, Any]:
    """Return the arguments of `PerCDL` for synthetic 12-lead records."""
    template = _waves(np.linspace(0, 1, BEAT_LENGTH)) @ _beat_mix(np.random.default_rng(0))
    return _beat_options(template[None])


def synthetic(n_subjects: int, n_times: int = 500, seed: int = 0) -> Problem:
    """Return the paper's synthetic cohort; longer recordings repeat the patterns more often."""
    repetitions = round(n_times / SAMPLES_PER_REPETITION)
    data = make_synthetic(n_subjects, n_times, n_repetitions=repetitions, random_state=seed)
    return Problem("synthetic", data.cohort, synthetic_options(data.personal_dictionary[0]))


def synthetic_options(start: np.ndarray) -> dict[str, Any]:
    """Return the paper's settings for synthetic cohorts, from a first dictionary (K, L, P)."""
    transform = TimeWarp(3, 10)
    return {
        "n_atoms": 2,
        "atom_length": 50,
        "transformation": transform,
        "penalty": 1e-2,
        "init": start,
    }


def readme() -> tuple[Problem, Cohort]:
    """Return the example of README.md, and two people who are not in it."""
    options = {
        "n_atoms": 2, "atom_length": 50, "transformation": TimeWarp(3, 10), "penalty": 0.01,
        "random_state": 0,
    }  # fmt: skip
    cohort = make_synthetic(n_subjects=16, random_state=0).cohort
    return Problem("README example", cohort, options), make_synthetic(2, random_state=1).cohort


def many_beats() -> tuple[Problem, Cohort]:
    """Return the largest cohort of synthetic records, and two of other people."""
    return beats(), beats(N_BEAT_RECORDS + 2).cohort[-2:]


EXAMPLES = {"readme": readme, "beats": many_beats}


def present(load: Callable[..., Data], **options: Any) -> Data:
    """Load a public dataset that is at hand; nothing is downloaded to be measured."""
    try:
        return load(download=False, **options)
    except DatasetError as error:
        raise Absent(str(error)) from error


def _twelve_leads(values: np.ndarray, leads: Any) -> Cohort:
    return Cohort.from_arrays(values, sfreq=100, channels=[str(lead) for lead in leads])


def _beat_options(start: np.ndarray) -> dict[str, Any]:
    transform = TimeWarp(4, 7)
    return {
        "n_atoms": 1, "atom_length": BEAT_LENGTH, "transformation": transform, "penalty": 1.0,
        "init": start,
    }  # fmt: skip


def _around_peak(values: np.ndarray, length: int) -> np.ndarray:
    """Return the window (1, L, P) with the loudest sample in its middle."""
    power = (values**2).sum(1)[length // 2 : len(values) - length // 2]
    onset = int(power.argmax())
    return values[None, onset : onset + length]


def _beat_mix(rng: np.random.Generator) -> np.ndarray:
    """Return how much each lead sees of each wave, array (5, 12)."""
    return rng.normal(size=(len(WAVES), 12)) * [[0.2], [0.3], [1.5], [0.4], [0.4]]


def _beat_blocks(n_records: int, n_times: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield records (512, N, 12), each block with the number of its first record."""
    rng = np.random.default_rng(0)
    mix = _beat_mix(rng)
    for start in range(0, n_records, 512):
        yield start, _draw_beats(mix, (min(512, n_records - start), n_times, 12), rng)


def _draw_beats(mix: np.ndarray, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return records (S, N, 12) at unit power, each with its own rate, warp and gains."""
    n_records, n_times, n_leads = shape
    period = rng.uniform(70, 110, (n_records, 1))
    time = ((np.arange(n_times) - rng.uniform(0, 110, (n_records, 1))) % period) / BEAT_LENGTH
    bend = rng.uniform(-0.5, 0.5, (n_records, 1))
    warped = time + bend * np.sin(np.pi * time) / np.pi
    waves = _waves(np.where(time <= 1, warped, np.inf).astype(np.float32))
    gains = mix * rng.normal(1, 0.2, (n_records, *mix.shape))
    values = waves @ gains.astype(np.float32)
    values += 0.1 * rng.standard_normal((n_records, n_times, n_leads), np.float32)
    return values / np.sqrt(np.mean(values**2, axis=(1, 2), keepdims=True))


def _waves(time: np.ndarray) -> np.ndarray:
    """Return the height of the five waves at times (...,), array (..., 5)."""
    centre, width = WAVES.T.astype(time.dtype)
    return np.exp(-0.5 * ((time[..., None] - centre) / width) ** 2)
