"""Equal windows: the R peak is at the same time of everyone's window.

Lead II of the Lobachevsky University ECG Database, all settings automatic. The option was chosen
on every other record; the limits hold for the other 50. The annotated R peaks are used only for
the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.claims.ludb import BAND, LEAD, SFREQ, read_waves, with_waves
from percdl import Algorithm, Cohort, PerCDL
from percdl.datasets.downloads import find_dataset
from percdl.exceptions import DatasetError

# Share of people whose R peak lies more than this many seconds from the median of all.
FAR, MOST_FAR = 0.02, 0.10
# Width of the window's part that holds the R peaks of 90% of the people, in seconds.
MOST_SPREAD = 0.03
# What it costs: the error over that of windows that may move.
MOST_ERROR = 1.03


def claims() -> Iterator[Claim]:
    """Compare fits with windows alike for all and with personal windows."""
    try:
        folder = find_dataset("ludb", with_waves, None, None)
    except DatasetError as error:
        raise Absent(str(error)) from error
    paths = sorted(folder.glob("*.hea"), key=lambda path: int(path.stem))[1::2]
    paths = paths[: 8 if is_quick() else None]
    cohort = Cohort.from_wfdb(paths, channels=LEAD).bandpass(*BAND).resample(SFREQ)
    waves = read_waves(paths)
    peaks = waves[waves["label"] == "QRS peak"]
    far, spread, error = {}, {}, {}
    for name, own in (("alike", False), ("personal", True)):
        options = Algorithm(personal_windows=own)
        model = PerCDL(algorithm=options, random_state=0, progress=False).fit(cohort)
        at = find_peaks(model, peaks)
        far[name] = float(np.mean(np.abs(at - np.median(at)) > FAR))
        spread[name] = float(np.ptp(np.quantile(at, (0.05, 0.95))))
        error[name] = 1 - model.score(cohort)
    yield at_most("windows alike: share of R peaks more than 20 ms away", far["alike"], MOST_FAR)
    yield beside("personal windows: the same", f"{far['personal']:.3g}")
    yield at_most("windows alike: range of 90% of the R peaks, s", spread["alike"], MOST_SPREAD)
    yield beside("personal windows: the same", f"{spread['personal']:.3g}")
    ratio = error["alike"] / error["personal"]
    yield at_most("error over that of personal windows", ratio, MOST_ERROR)


def find_peaks(model: PerCDL, peaks: pd.DataFrame) -> np.ndarray:
    """Return the median time of the annotated peaks in each person's window, in seconds."""
    found = []
    for subject, own in model.events_.groupby("subject"):
        true = peaks.loc[peaks["subject"] == subject, "seconds"].to_numpy()
        away = true[None] - own["onset_seconds"].to_numpy()[:, None]
        inside = away[(away >= 0) & (away < model.atom_length_ / model.sfreq_)]
        if len(inside):
            found.append(np.median(inside))
    return np.array(found)
