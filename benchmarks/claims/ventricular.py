"""Ventricular beats of the MIT-BIH Arrhythmia Database, found without any label.

The 20 records in the folder, first lead, 30 minutes. Beats are found as in the claim `mitdb`, and
each record's are sorted by `sort_cycles` into four kinds (other settings as in `kinds_mitdb`).
Best matching: a kind is ventricular if most of its beats are. A beat within 150 ms of an annotated
one has its class. For comparison, the number of kinds of ``n_kinds="auto"``. Settings were chosen
on every other record; limits hold for the rest. The F1 counts ventricular beats that were not
found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from benchmarks.claims.kinds_mitdb import BAND, SORTING
from benchmarks.claims.mitdb import _with_beats, find_beats, read_records
from percdl import read_annotations
from percdl.analysis import sort_cycles
from percdl.datasets.downloads import find_dataset
from percdl.exceptions import DatasetError

LEAST, ENOUGH, N_KINDS = 0.85, 20, 4
SFREQ, TOLERANCE = 120, 0.15


def claims() -> Iterator[Claim]:
    """Claim the F1 of ventricular beats in each record that has enough of them."""
    try:
        folder = find_dataset("mitdb", _with_beats, None, None)
    except DatasetError as error:
        raise Absent(str(error)) from error
    headers = sorted(folder.glob("*.hea"))[: 4 if is_quick() else None]
    raw = read_records(headers)
    beats = read_annotations([path.with_suffix(".atr") for path in headers])
    events = find_beats(raw)
    events = events.assign(onset_sample=np.rint(events["onset_seconds"] * SFREQ).astype(int))
    wide, worst = raw.bandpass(*BAND).resample(SFREQ), 1.0
    table = sort_cycles(events, wide, N_KINDS, **SORTING)
    apart = sort_cycles(events, wide, **SORTING).groupby("subject")["kind"].nunique()
    for i, subject in enumerate(raw.subjects):
        own = beats[beats["subject"] == subject]
        rows = table[table["subject"] == subject]
        n_true = int((own["symbol"] == "V").sum())
        score, alone = score_record(rows, own)
        half = "not chosen on" if i % 2 else "chosen on"
        figure = f"{n_true} ventricular beats, {apart[subject]} kind(s) apart"
        if n_true >= ENOUGH:
            figure += f", F1 {score:.3f} (one kind alone {alone:.3f})"
            worst = min(worst, score) if i % 2 else worst
        yield beside(f"record {subject}, {half}", figure)
    yield at_least(f"records not chosen on with {ENOUGH} and more: least F1", worst, LEAST)


def score_record(rows: pd.DataFrame, beats: pd.DataFrame) -> tuple[float, float]:
    """Return the F1 of ventricular beats, and that of the one kind that is best."""
    seconds, truth = beats["seconds"].to_numpy(), (beats["symbol"] == "V").to_numpy()
    at, kind = rows["onset_seconds"].to_numpy(), rows["kind"].to_numpy()
    after = np.clip(np.searchsorted(seconds, at), 1, len(seconds) - 1)
    near = np.where(at - seconds[after - 1] < seconds[after] - at, after - 1, after)
    own = truth[near] & (np.abs(seconds[near] - at) <= TOLERANCE)
    shares = pd.Series(own).groupby(kind).mean()
    called = pd.Series(kind).map(shares > 0.5).to_numpy(bool)
    both = [_f1(own, kind == k, truth.sum()) for k in shares.index]
    return _f1(own, called, truth.sum()), max(both)


def _f1(own: np.ndarray, called: np.ndarray, n_true: int) -> float:
    return float(2 * (own & called).sum() / max(n_true + called.sum(), 1))
