"""Published detectors, run on gait and ECG: ``detectors.py NAME IN.npz OUT.npz``.

This file runs in a separate environment, named by ``PERCDL_DETECTORS``, and imports nothing of
PerCDL: gaitmap needs older releases of NumPy and pandas. The input holds the recordings, one array
each; the output holds onsets (and strengths) of each under the same name.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

SFREQ, LENGTH, ECG_SFREQ = 100.0, 100, 360
# alphacsc learns from every fifth walk: 30 walks take five minutes, all of them half an hour.
EVERY = 5


def barth_dtw(walks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Find strides by gaitmap's BarthDtw (Barth et al., 2015, doi 10.3390/s150306419), defaults.

    It sees one of the three axes of its template, the angular velocity in the sagittal plane in
    deg/s. Strength is one over the cost of a match.
    """
    return _find_strides(walks)


def barth_dtw_any_cost(walks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Find strides likewise, however costly, so that a threshold can be chosen afterwards."""
    return _find_strides(walks, max_cost=20.0)


def _find_strides(walks: dict[str, np.ndarray], **options: Any) -> dict[str, np.ndarray]:
    import pandas as pd
    from gaitmap.stride_segmentation import BarthDtw, BarthOriginalTemplate

    method = BarthDtw(template=BarthOriginalTemplate(use_cols=("gyr_ml",)), **options)
    found = {}
    for name, x in walks.items():
        own = method.clone().segment(pd.DataFrame({"gyr_ml": x}), SFREQ)
        found[name] = np.stack([own.stride_list_["start"], 1 / np.asarray(own.costs_)])
    return found


def alphacsc(walks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Learn one atom by alphacsc's BatchCDL, defaults, and find it in every walk.

    alphacsc learns from recordings of one length: the middle of some walks, cut as the shortest.
    Its activations come in runs; the peaks of a run at least half an atom apart are kept.
    """
    from alphacsc import BatchCDL
    from scipy.signal import find_peaks

    some = list(walks.values())[::EVERY]
    shortest = min(map(len, some))
    middle = np.stack([x[(len(x) - shortest) // 2 :][:shortest] for x in some])
    model = BatchCDL(1, LENGTH, rank1=False, random_state=0, verbose=0)
    model.fit(middle[:, None])
    found = {}
    for name, x in walks.items():
        code = model.transform(x[None, None])[0, 0]
        onsets = find_peaks(np.pad(code, 1), distance=LENGTH // 2)[0] - 1
        found[name] = np.stack([onsets, code[onsets]])
    return found


def neurokit(records: dict[str, np.ndarray], method: str = "neurokit") -> dict[str, np.ndarray]:
    """Find R peaks by NeuroKit2, after its own cleaning for the method, at 360 Hz."""
    import neurokit2

    found = {}
    for name, x in records.items():
        clean = neurokit2.ecg_clean(x, sampling_rate=ECG_SFREQ, method=method)
        _, about = neurokit2.ecg_peaks(clean, sampling_rate=ECG_SFREQ, method=method)
        found[name] = np.stack([about["ECG_R_Peaks"], np.ones(len(about["ECG_R_Peaks"]))])
    return found


def pan_tompkins(records: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Find R peaks by NeuroKit2's ``pantompkins1985``."""
    return neurokit(records, "pantompkins1985")


METHODS = (barth_dtw, barth_dtw_any_cost, alphacsc, neurokit, pan_tompkins)

if __name__ == "__main__":
    kind, source, target = sys.argv[1:]
    detect = {method.__name__: method for method in METHODS}
    np.savez(target, **detect[kind](dict(np.load(source))))
