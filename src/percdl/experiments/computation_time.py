"""time: how long the fits of the paper take here, beside the paper's laptop (M3 Max)."""

import os
import time
from collections.abc import Callable
from functools import partial

import jax

from percdl.datasets import make_synthetic
from percdl.estimators.base import BaseCDL
from percdl.experiments import ecg, fits, gait
from percdl.experiments.study import Result, Study, find, lines

METHODS = ("IndCDL", "PopCDL", "PerCDL")
# Recordings, and the seconds of each method, in the paper's appendix.
PAPER = find("time").paper


def computation_time(study: Study) -> Result:
    """Time every fit twice; the first may have to compile."""
    cases = _cases(study)

    def measure(case: str, method: str) -> dict[str, float]:
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            model = cases[case](method)
            seconds.append(time.perf_counter() - started)
        about = {"subjects": len(model.subjects_), "first": seconds[0], "again": seconds[1]}
        paper = {"paper": PAPER[case][method], "paper_subjects": PAPER[case]["recordings"]}
        return {**about, **paper}

    rows = study.sweep(measure, case=list(cases), method=METHODS)
    found = []
    for row in rows.to_dict("records"):
        quantity = f"{row['case']}, {row['method']}: seconds"
        paper = f"{row['paper']:g} ({row['paper_subjects']} recordings)"
        ours = f"{row['again']:.2f} ({row['subjects']} recordings; first {row['first']:.1f})"
        found.append((quantity, paper, ours))
    settings = f"{os.cpu_count()} CPU cores, {jax.devices()[0].device_kind}"
    return Result(lines(settings, found), {"": rows})


def _cases(study: Study) -> dict[str, Callable[[str], BaseCDL]]:
    """Return a function for each case that fits a method; the data are loaded."""
    cases: dict[str, Callable[[str], BaseCDL]] = {
        f"synthetic, S = {size}": partial(fits.fit, data=make_synthetic(size, random_state=0))
        for size in study.pick((2, 16), (2, 16, 128, 1024))
    }
    n_walks, n_ecgs = gait.n_per_group(study), ecg.n_per_class(study)
    start = gait.first_dictionary(n_walks, gait.FROM_DATA)
    walks = gait.load_walks(n_walks).cohort
    ecg.prepare(n_ecgs, ecg.RAW)
    cases["gait"] = lambda name: gait.build(name, start).fit(walks)
    # Without the cache of the study.
    cases["ECG"] = lambda name: ecg.fit.__wrapped__(name, n_ecgs, ecg.RAW)
    return cases
