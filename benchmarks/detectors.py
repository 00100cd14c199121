"""Published detectors of repeated patterns, run on gait: ``detectors.py NAME IN.npz OUT.npz``.

This file runs in an environment of its own, named by ``PERCDL_DETECTORS``, and imports nothing of
PerCDL: gaitmap needs older releases of NumPy and pandas. The input holds the walks, one array
each; the output holds onsets (and strengths) of each walk under the same name.
"""

from __future__ import annotations

import sys

import numpy as np

SFREQ, LENGTH = 100.0, 100
# alphacsc learns from every fifth walk: 30 walks take five minutes, all of them half an hour.
EVERY = 5


def barth_dtw(walks: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Find strides by gaitmap's BarthDtw (Barth et al., 2015, doi 10.3390/s150306419), defaults.

    It sees one axis of its template, the angular velocity in the sagittal plane in deg/s.
    """
    import pandas as pd
    from gaitmap.stride_segmentation import BarthDtw, BarthOriginalTemplate

    method = BarthDtw(template=BarthOriginalTemplate(use_cols=("gyr_ml",)))
    found = {}
    for name, x in walks.items():
        strides = method.clone().segment(pd.DataFrame({"gyr_ml": x}), SFREQ).stride_list_
        found[name] = np.stack([strides["start"], np.ones(len(strides))])
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


if __name__ == "__main__":
    kind, source, target = sys.argv[1:]
    np.savez(target, **{"barth_dtw": barth_dtw, "alphacsc": alphacsc}[kind](dict(np.load(source))))
