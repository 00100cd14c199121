"""R peaks of the MIT-BIH Arrhythmia Database, found without any annotation.

The 20 records in the folder, first lead, 30 minutes each. Settings were chosen on every other
record; the limits hold for the rest and for all. Band-pass, z-score, one atom of 0.28 s, signed
amplitudes, `judge_events`; the peak of a beat is the largest deflection of the person's atom.
Beats of all classes within 150 ms count as found, one to one. NeuroKit2 (its default and
``pantompkins1985``) runs on the same records, unfiltered, if ``PERCDL_DETECTORS`` names a Python
with neurokit2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick, skipped
from benchmarks.claims.detectors import detect
from percdl import Cohort, L0Coder, PerCDL, TimeWarp, read_annotations
from percdl.analysis import Segmentation, judge_events, score_events
from percdl.datasets.downloads import find_dataset
from percdl.exceptions import DatasetError

TOLERANCE = "150ms"
LEAST, LARGEST_ERROR = 0.995, 0.010
BAND, SFREQ, PENALTY = (8, 25), 180, 5.0
# Minutes of each record that the atom is learned from.
MINUTES = 5
DETECTORS = ("neurokit", "pan_tompkins")


def claims() -> Iterator[Claim]:
    """Claim sensitivity, positive predictive value and timing, for the records not chosen on."""
    try:
        folder = find_dataset("mitdb", _with_beats, None, None)
    except DatasetError as error:
        raise Absent(str(error)) from error
    headers = sorted(folder.glob("*.hea"))[: 4 if is_quick() else None]
    raw = read_records(headers)
    beats = read_annotations([path.with_suffix(".atr") for path in headers])
    events = find_beats(raw)
    halves = {"chosen on": raw.subjects[::2], "not chosen on": raw.subjects[1::2]}
    for half, subjects in halves.items():
        score = _score(events, beats, subjects)
        if half == "chosen on":
            yield beside(f"mitdb, {len(subjects)} records {half}", _describe(score))
            continue
        yield at_least(f"mitdb, {half}: sensitivity", score.sensitivity, LEAST, _describe(score))
        yield at_least(f"mitdb, {half}: PPV", score.ppv, LEAST)
        yield at_most(f"mitdb, {half}: mean error, s", score.timing_error, LARGEST_ERROR)
        for row in score.table.itertuples():
            figure = f"sensitivity {row.sensitivity:.4f}, PPV {row.ppv:.4f}"
            yield beside(f"mitdb, {row.subject}", figure)
    score = _score(events, beats, raw.subjects)
    yield at_least("mitdb, all: sensitivity", score.sensitivity, LEAST, _describe(score))
    yield at_least("mitdb, all: PPV", score.ppv, LEAST)
    yield at_most("mitdb, all: mean error, s", score.timing_error, LARGEST_ERROR)
    for kind in DETECTORS:
        try:
            found = detect(kind, raw)
        except Absent as reason:
            yield skipped(f"mitdb, {kind}", reason)
            continue
        found = found.assign(onset_seconds=found["onset_sample"] / raw.sfreq)
        for half, subjects in halves.items():
            yield beside(f"mitdb, {kind}, {half}", _describe(_score(found, beats, subjects)))


def _with_beats(folder: Path) -> Path | None:
    return folder if any(folder.glob("*.atr")) else None


def read_records(headers: list[Path]) -> Cohort:
    """Return the first lead of each record; records differ in the names of their leads."""
    both = [Cohort.from_wfdb(path)[0] for path in headers]
    return Cohort(
        replace(one, values=one.values[:, :1], channels=("ECG",), units=one.units[:1])
        for one in both
    )


def find_beats(raw: Cohort) -> pd.DataFrame:
    """Return the R peaks of unannotated recordings as events."""
    cohort = raw.bandpass(*BAND).resample(SFREQ).zscore()
    first = Cohort(replace(one, values=one.values[: MINUTES * 60 * SFREQ]) for one in cohort)
    options = {"coder": L0Coder(signed=True), "random_state": 0, "progress": False}
    model = PerCDL(1, "0.28s", TimeWarp(2, 7), penalty=PENALTY, **options).fit(first)
    found = model.personalize(cohort)
    judged = judge_events(found.events)
    peaks = np.abs(found.personal_dictionary[:, 0, :, 0]).argmax(1)
    late = judged["subject"].map(dict(zip(found.subjects, peaks, strict=True)))
    moved = {"onset_sample": judged["onset_sample"] + late}
    moved["onset_seconds"] = moved["onset_sample"] / SFREQ
    return judged.assign(**moved)[judged["probability"] > 0.5]


def _score(events: pd.DataFrame, beats: pd.DataFrame, subjects: tuple[str, ...]) -> Segmentation:
    return score_events(events, beats[beats["subject"].isin(subjects)], TOLERANCE)


def _describe(score: Segmentation) -> str:
    mean, spread = 1e3 * score.timing_error, 1e3 * score.timing_sd
    return f"{score!r}; mean error {mean:.1f} ms, s.d. {spread:.1f} ms"
