"""All settings automatic: as good as a motif and numbers chosen by hand.

Gait: the annotated cycles. ECG: no beat is annotated in PTB-XL, so beats are the peaks of the
energy between 8 and 20 Hz over all leads, where QRS complexes lie, at least 0.3 s apart (the
idea of Pan and Tompkins). The length to expect is that of a beat. It must be shorter than
nearly all RR intervals, since atoms do not overlap, so it is compared with the 65 samples chosen
by hand; the estimated period is compared with the median RR interval.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.signal import butter, find_peaks, sosfiltfilt

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.cohorts import Problem, ecg, gait, present
from percdl import PerCDL, load_gait, suggest_atom_length
from percdl.analysis import Segmentation, score_events

MOST_OFF, MOST_LOST = 0.15, 0.01
# The paper's rules for gait.
TOLERANCE, LEAST_AMPLITUDE = 100, 0.02
QRS_BAND, LEAST_RR, QRS_WIDTH, LEAST_ENERGY = (8, 20), 0.3, 13, 0.3


def claims() -> Iterator[Claim]:
    """Fit gait and ECG twice: as given by hand, and with nothing given."""
    yield from _gait()
    yield from _ecg()


def _gait() -> Iterator[Claim]:
    problem = gait(20 if is_quick() else None)
    cycles = present(load_gait, trials=problem.cohort.subjects).cycles
    period = float(np.median([np.median(np.diff(onsets)) for onsets in cycles.values()]))
    yield from _compare(problem, cycles, TOLERANCE, period, "median annotated cycle")


def _ecg() -> Iterator[Claim]:
    problem = ecg(100 if is_quick() else None)
    beats = {str(record.subject): find_beats(record.values) for record in problem.cohort}
    intervals = float(np.median([np.median(np.diff(b)) for b in beats.values() if len(b) > 1]))
    found = suggest_atom_length(problem.cohort).period
    yield at_most(
        "ECG: period, relative to the median RR interval", abs(found / intervals - 1), MOST_OFF,
        f"{found:g} and {intervals:g} samples",
    )  # fmt: skip
    by_hand = float(problem.options["atom_length"])
    tolerance = LEAST_RR * problem.cohort.sfreq / 2
    yield from _compare(problem, beats, tolerance, by_hand, "length chosen by hand", at_peak=True)


def _compare(
    problem: Problem,
    cycles: dict[str, np.ndarray],
    tolerance: float,
    expected_length: float,
    what: str,
    at_peak: bool = False,
) -> Iterator[Claim]:
    """Compare lengths, numbers of atoms and sensitivities of the two fits.

    ``at_peak``: cycles are annotated by their peak; where the atom is loudest stands for it.
    """
    by_hand = problem.model().fit(problem.cohort)
    alone = PerCDL(
        "auto", "auto", by_hand.transformation, "auto", random_state=0, progress=False
    ).fit(problem.cohort)
    scores = [_score(m, cycles, tolerance, at_peak) for m in (by_hand, alone)]
    name = problem.name
    off = abs(alone.atom_length_ / expected_length - 1)
    yield at_most(
        f"{name}: automatic length, relative to the {what}", off, MOST_OFF,
        f"{alone.atom_length_} and {expected_length:g} samples",
    )  # fmt: skip
    yield at_most(f"{name}: number of atoms, automatic", alone.n_atoms_, 1)
    hand, auto = scores
    yield at_least(
        f"{name}: sensitivity, automatic minus by hand", auto.sensitivity - hand.sensitivity,
        -MOST_LOST, f"{auto.sensitivity:.4f} and {hand.sensitivity:.4f}",
    )  # fmt: skip
    yield beside(
        f"{name}: false positives per cycle",
        f"automatic {auto.false_positives:.4f}, by hand {hand.false_positives:.4f}",
    )
    yield beside(
        f"{name}: penalty", f"automatic {alone.penalty_:.3g}, by hand {by_hand.penalty_:.3g}"
    )


def _score(
    model: PerCDL,
    cycles: dict[str, np.ndarray],
    tolerance: float,
    at_peak: bool,
) -> Segmentation:
    events = model.events_
    if at_peak:
        peaks = np.nan_to_num(np.square(model.personal_dictionary_)).sum(3).argmax(2)
        rows = pd.Series(range(len(peaks)), model.subjects_).loc[events["subject"]].to_numpy()
        inside = peaks[rows, events["atom"].to_numpy()]
        events = events.assign(onset_sample=events["onset_sample"] + inside)
    return score_events(events, cycles, tolerance, least_amplitude=LEAST_AMPLITUDE)


def find_beats(values: np.ndarray, sfreq: float = 100) -> np.ndarray:
    """Return the samples of the QRS complexes of a record (N, P)."""
    band = butter(2, QRS_BAND, "bandpass", fs=sfreq, output="sos")
    filtered = sosfiltfilt(band, np.asarray(values, float), axis=0)
    power = np.mean(filtered**2, axis=0)
    energy = np.mean(filtered**2 / np.where(power > 0, power, 1), axis=1)
    smooth = np.convolve(energy, np.hanning(QRS_WIDTH) / np.hanning(QRS_WIDTH).sum(), "same")
    peaks = find_peaks(smooth, distance=int(LEAST_RR * sfreq))[0]
    typical = np.median(np.sort(smooth[peaks])[-max(5, len(peaks) // 2) :])
    return peaks[smooth[peaks] > LEAST_ENERGY * typical]
