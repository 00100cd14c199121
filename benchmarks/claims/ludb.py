"""Waves of the Lobachevsky University ECG Database (LUDB), by landmarks carried by warps.

100 records of 12 leads, 10 s each; every other record is used to fit the model and to place the
landmarks, by its annotations of lead II, and to choose the settings. The limits hold for the
other 50, of which nothing but the recordings is used. Beats between the first and the last
annotation of a record count, within 150 ms, one to one. NeuroKit2 (``ecg_delineate``, ``dwt``)
runs on lead II of the same records, if ``PERCDL_DETECTORS`` names a Python with neurokit2.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, read_annotations
from percdl.analysis import Segmentation, score_events
from percdl.datasets.downloads import find_dataset
from percdl.exceptions import DatasetError

LEAD, TOLERANCE, SFREQ = "ii", "150ms", 250.0
LEAST_F1 = {"QRS peak": 0.99, "P peak": 0.95, "T peak": 0.97}
LARGEST_SD = {"QRS onset": 0.012, "P onset": 0.020, "T end": 0.035}
# Symbols of the annotations, with the ends of a wave as `read_annotations` names them.
WAVES = {"P": "p", "QRS": "N", "T": "t"}
ENDS = ("onset", "peak", "end")
LENGTH, BEFORE, PENALTY, BAND = "0.68s", 0.25, "3%", (0.5, 40)
# The finder of beats: a short atom, so that fast hearts are not cut.
BEAT, BEAT_BAND, BEAT_PENALTY = "0.2s", (8, 25), "5%"
# Level of the test that a wave is there.
LEVEL = 0.05

DELINEATE = """
import json, sys, numpy as np, neurokit2 as nk
x = np.load(sys.argv[1]); out = []
kinds = {"P onset": "ECG_P_Onsets", "P peak": "ECG_P_Peaks", "QRS onset": "ECG_R_Onsets",
         "T peak": "ECG_T_Peaks", "T end": "ECG_T_Offsets"}
for row in x:
    found = {}
    try:
        clean = nk.ecg_clean(row, sampling_rate=500)
        _, peaks = nk.ecg_peaks(clean, sampling_rate=500)
        _, waves = nk.ecg_delineate(clean, peaks["ECG_R_Peaks"], 500, method="dwt")
        found = {k: [float(t) for t in waves[v] if t == t] for k, v in kinds.items()}
        found["QRS peak"] = [float(t) for t in peaks["ECG_R_Peaks"]]
    except Exception as error:
        print(error, file=sys.stderr)
    out.append(found)
json.dump(out, open(sys.argv[2], "w"))
"""


def claims() -> Iterator[Claim]:
    """Claim F1 of the peaks and standard deviations of the ends of waves, of unseen people."""
    try:
        folder = find_dataset("ludb", with_waves, None, None)
    except DatasetError as error:
        raise Absent(str(error)) from error
    headers = sorted(folder.glob("*.hea"), key=lambda path: int(path.stem))
    headers = headers[: 16 if is_quick() else None]
    chosen, held_out = headers[::2], headers[1::2]
    model, beats = fit(read_records(chosen), read_waves(chosen))
    for half, paths in (("chosen on", chosen), ("not chosen on", held_out)):
        raw, waves = read_records(paths), read_waves(paths)
        found = find_waves(model, beats, raw)
        yield from _judge(half, {name: score(found, waves, name) for name in names()})
    try:
        found = delineate(raw)
    except Absent as reason:
        yield skipped("ludb, neurokit2 dwt", reason)
        return
    for name in (*LEAST_F1, *LARGEST_SD):
        yield beside(f"ludb, neurokit2 dwt: {name}", _describe(score(found, waves, name)))


def _judge(half: str, scores: dict[str, Segmentation]) -> Iterator[Claim]:
    for name, result in scores.items():
        what = f"ludb, {half}: {name}"
        if half == "chosen on" or name not in LEAST_F1 | LARGEST_SD:
            yield beside(what, _describe(result))
        elif name in LEAST_F1:
            yield at_least(f"{what}, F1", result.f1, LEAST_F1[name], _describe(result))
        else:
            yield at_most(
                f"{what}, s.d. in s", result.timing_sd, LARGEST_SD[name], _describe(result)
            )


def with_waves(folder: Path) -> Path | None:
    """Return the folder of the records, if the annotations of the lead are there."""
    return folder / "data" if any((folder / "data").glob(f"*.{LEAD}")) else None


def names() -> list[str]:
    """Return the names of all landmarks."""
    return [f"{wave} {end}" for wave in WAVES for end in ENDS]


def read_records(headers: list[Path]) -> Cohort:
    """Return all leads at 500 Hz."""
    return Cohort.from_wfdb(headers)


def read_waves(headers: list[Path]) -> pd.DataFrame:
    """Return the annotations of one lead, labelled as landmarks."""
    table = read_annotations([path.with_suffix(f".{LEAD}") for path in headers])
    labels = {
        f"{symbol}{'' if end == 'peak' else ' ' + end}": f"{wave} {end}"
        for wave, symbol in WAVES.items()
        for end in ENDS
    }
    short = np.where(table["label"].str.contains(" onset| end"), table["label"], table["symbol"])
    return table.assign(label=pd.Series(short).map(labels)).dropna(subset="label")


def fit(raw: Cohort, waves: pd.DataFrame) -> tuple[PerCDL, PerCDL]:
    """Return a model of whole beats with its landmarks, and the finder of beats."""
    cohort = raw.bandpass(*BAND).resample(SFREQ)
    options: Any = {"random_state": 0, "progress": False}
    beats = PerCDL(1, BEAT, TimeWarp(2, 7), BEAT_PENALTY, **options)
    beats.fit(raw.bandpass(*BEAT_BAND).resample(SFREQ))
    model = PerCDL(
        1, LENGTH, TimeWarp(4, 14, per_channel=True), PENALTY, init=_first_beat(cohort),
        algorithm=Algorithm(realign=False), **options,
    )  # fmt: skip
    model.fit(cohort)
    at = waves.assign(sample=waves["seconds"] * SFREQ)
    model.mark(None, 0, at, X=cohort)
    return model, beats


def _first_beat(cohort: Cohort) -> np.ndarray:
    """Return a window around the steepest 0.1 s of the first recording."""
    length, before = round(float(LENGTH[:-1]) * SFREQ), round(BEFORE * SFREQ)
    x = cohort[0].values
    steep = np.convolve((np.diff(x, axis=0) ** 2).sum(1), np.ones(25), "same")
    onset = int(np.argmax(steep[before : len(steep) - length]))
    return x[None, onset : onset + length]


def find_waves(model: PerCDL, beats: PerCDL, raw: Cohort) -> pd.DataFrame:
    """Return the landmarks of all beats; those that whole beats leave no room for are added."""
    cohort = raw.bandpass(*BAND).resample(SFREQ)
    whole = model.personalize(cohort).events
    short = beats.personalize(raw.bandpass(*BEAT_BAND).resample(SFREQ)).events
    events = add_missing(whole, short, round(float(BEAT[:-1]) * SFREQ))
    return model.landmarks(cohort, events=events, level=LEVEL)


def add_missing(whole: pd.DataFrame, short: pd.DataFrame, near: int) -> pd.DataFrame:
    """Return events of both finders as onsets of whole beats, each beat once.

    The lag between the two onsets of a beat is the median of the person's.
    """
    frames = []
    for subject, own in whole.groupby("subject", sort=False):
        known = own["onset_sample"].to_numpy()
        onsets = short.loc[short["subject"] == subject, "onset_sample"].to_numpy()
        lags = onsets[:, None] - known
        later = np.where(lags >= 0, lags, np.inf).min(1)
        if np.isfinite(later).any():
            moved = onsets - np.median(later[np.isfinite(later)])
            alone = np.abs(moved[:, None] - known).min(1) > near
            known = np.sort(np.concatenate([known, moved[alone]]))
        frames.append(pd.DataFrame({"subject": subject, "onset_sample": known}))
    return pd.concat(frames)


def score(found: pd.DataFrame, waves: pd.DataFrame, name: str) -> Segmentation:
    """Compare landmarks of one name with annotations, between the first and last of a record."""
    ends = waves.groupby("subject")["seconds"].agg(["min", "max"])
    rows: Any = found[(found["landmark"] == name) & found["seconds"].notna()]
    span: Any = ends.reindex(rows["subject"])
    time = rows["seconds"].to_numpy()
    inside = (time >= span["min"].to_numpy() - 0.02) & (time <= span["max"].to_numpy() + 0.02)
    events = rows[inside].assign(atom=0, amplitude=1.0, onset_seconds=time[inside])
    events["onset_sample"] = events["seconds"] * SFREQ
    truth: Any = waves[waves["label"] == name]
    return score_events(events, truth, TOLERANCE, lag=0.0)


def delineate(raw: Cohort) -> pd.DataFrame:
    """Return the waves that NeuroKit2 finds in the lead."""
    python = os.environ.get("PERCDL_DETECTORS")
    if not python:
        raise Absent("PERCDL_DETECTORS names no Python with neurokit2")
    lead = raw.channels.index(LEAD)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "x.npy"), Path(folder, "waves.json")
        np.save(data, np.stack([record.values[:, lead] for record in raw]))
        subprocess.run([python, "-c", DELINEATE, str(data), str(out)], check=True)
        found = json.loads(out.read_text())
    rows = [
        (subject, name, sample / raw.sfreq)
        for subject, waves in zip(raw.subjects, found, strict=True)
        for name, samples in waves.items()
        for sample in samples
    ]
    return pd.DataFrame(rows, columns=["subject", "landmark", "seconds"])


def _describe(result: Segmentation) -> str:
    return (
        f"sensitivity {result.sensitivity:.3f}, PPV {result.ppv:.3f}, F1 {result.f1:.3f}, error "
        f"{1e3 * result.timing_bias:+.1f} ± {1e3 * result.timing_sd:.1f} ms"
    )
