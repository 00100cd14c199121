"""Phases of the gait cycle on an atom, and in which of them groups differ.

Two moments come from the annotation, whose intervals start when the foot begins to turn (the
heel rises) and end when it is at rest again (the foot is flat). Two come from the curve, as is
usual for a gyroscope on a foot: the toes leave the ground at the deepest dip before the peak
of the swing, the heel touches it at the deepest dip after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter1d
from scipy.signal import find_peaks

from percdl.estimators.base import BaseCDL
from percdl.experiments.studies.gait_fits import Walks

HEEL_OFF, TOE_OFF, HEEL_ON, FOOT_FLAT = "heel off", "toe off", "heel on", "foot flat"
# Onsets farther from every annotated start than this belong to none.
FARTHEST = 50
# "At" a moment is within so many samples of it.
NEAR = 5
# Peaks that rise less above their surroundings, relative to the highest, are ripples.
LEAST_PROMINENCE = 0.2
# Standard deviation of the Gaussian that humps are looked for through, in samples.
SMOOTHING = 2.0

Phases = Mapping[str, float]


def find_phases(curve: Float[np.ndarray, " L"], annotated: Float[np.ndarray, "S 2"]) -> Phases:
    """Return the four moments on a curve, in samples; those outside its window are left out.

    ``annotated`` are starts and ends in the same window, one row per person, see
    `annotated_window`; their mean over people counts.
    """
    start, end = np.nanmean(annotated, axis=0)
    top = int(np.argmax(curve))
    moments = {
        HEEL_OFF: float(start),
        TOE_OFF: float(np.argmin(curve[:top])) if top else np.nan,
        HEEL_ON: float(top + np.argmin(curve[top:])),
        FOOT_FLAT: float(end),
    }
    return {name: at for name, at in moments.items() if 0 <= at < len(curve)}


def annotated_window(model: BaseCDL, walks: Walks) -> Float[np.ndarray, "S 2"]:
    """Return everyone's median annotated start and end, in samples after the model's onsets."""
    onsets = dict(iter(model.events_.groupby("subject")["onset_sample"]))
    nobody = np.full(2, np.nan)
    return np.stack(
        [
            _median_window(onsets[s].to_numpy(), walks.swings[s]) if s in onsets else nobody
            for s in walks.cohort.subjects
        ]
    )


def _median_window(onsets: np.ndarray, swings: np.ndarray) -> np.ndarray:
    nearest = onsets[np.abs(np.subtract.outer(swings[:, 0], onsets)).argmin(axis=1)]
    relative = swings - nearest[:, None]
    close = np.abs(relative[:, 0]) <= FARTHEST
    return np.median(relative[close], axis=0) if close.any() else np.full(2, np.nan)


def find_humps(variability: Float[np.ndarray, " L"]) -> list[int]:
    """Return the samples where a group varies most beyond the reference, highest first.

    >>> find_humps(np.repeat([0.0, 1.0, 0.0, 0.5, 0.0], 20))
    [29, 69]
    """
    smooth = np.pad(gaussian_filter1d(variability, SMOOTHING, mode="nearest"), 1)
    if smooth.max() <= 0:
        return []
    peaks, _ = find_peaks(smooth, height=0, prominence=LEAST_PROMINENCE * smooth.max())
    return sorted((int(p) - 1 for p in peaks), key=lambda p: -smooth[p + 1])


def name_place(sample: int, phases: Phases) -> str:
    """Say in words where on the gait cycle a sample lies.

    >>> name_place(12, {"heel off": 20.0, "toe off": 30.0})
    'before heel off'
    >>> name_place(28, {"heel off": 20.0, "toe off": 30.0})
    'at toe off'
    """
    nearest = min(phases, key=lambda name: abs(phases[name] - sample))
    if abs(phases[nearest] - sample) <= NEAR:
        return f"at {nearest}"
    passed = [name for name in phases if phases[name] < sample]
    ahead = [name for name in phases if phases[name] > sample]
    if not passed:
        return f"before {ahead[0]}"
    return f"between {passed[-1]} and {ahead[0]}" if ahead else f"after {passed[-1]}"


def paper_statements(phases: Phases) -> dict[tuple[str, str], tuple[float, float]]:
    """Return what the paper says of the groups: (group, words) to the samples that are meant.

    The beginning of the swing is its first quarter, right before its end is the last.
    """
    toe, heel = phases[TOE_OFF], phases[HEEL_ON]
    quarter = (heel - toe) / 4
    return {
        ("Orthopedic", "beginning of the swing (toe off)"): (toe - NEAR, toe + quarter),
        ("Neurological", "end of the stance (heel off to toe off)"): (
            phases.get(HEEL_OFF, 0.0) - NEAR, toe + NEAR
        ),
        ("Neurological", "right before the end of the swing (heel on)"): (
            heel - quarter, heel + NEAR
        ),
    }  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Whether a group varies more than the reference where the paper says.

    Attributes
    ----------
    has_hump, has_highest : bool
        Whether one of the humps, or the highest of them, lies there.
    excess, time : float
        Which share of all variability beyond the reference lies there, and which share of the
        window that is.
    """

    has_hump: bool
    has_highest: bool
    excess: float
    time: float

    @property
    def agrees(self) -> bool:
        """A hump, and more than the share that chance would give."""
        return self.has_hump and self.excess > self.time

    def __str__(self) -> str:
        hump = "the highest hump" if self.has_highest else "a hump" if self.has_hump else "no hump"
        return (
            f"{'yes' if self.agrees else 'no'}: {hump}, {self.excess:.0%} of the excess in "
            f"{self.time:.0%} of the window"
        )


def judge(variability: Float[np.ndarray, " L"], meant: tuple[float, float]) -> Verdict:
    """Hold the variability of a group against a stretch of samples that the paper names."""
    humps, samples = find_humps(variability), np.arange(len(variability))
    inside = (samples >= meant[0]) & (samples <= meant[1])
    excess = np.maximum(variability, 0)
    return Verdict(
        any(inside[hump] for hump in humps),
        bool(humps) and bool(inside[humps[0]]),
        float(excess[inside].sum() / max(excess.sum(), np.finfo(float).tiny)),
        float(inside.mean()),
    )
