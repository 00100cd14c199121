"""Phases of the gait cycle on an atom, and in which of them groups differ.

Two moments come from the annotation, whose intervals start when the foot begins to turn (the
heel rises) and end when it is at rest again (the foot is flat). Two come from the curve, as is
usual for a gyroscope on a foot: the toes leave the ground at the deepest trough before the peak
of the swing, the heel touches it at the deepest trough after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from scipy.signal import find_peaks

from percdl.estimators.base import BaseCDL
from percdl.experiments.gait_fits import LENGTH, Walks

HEEL_OFF, TOE_OFF, HEEL_ON, FOOT_FLAT = "heel off", "toe off", "heel on", "foot flat"
# Onsets farther from every annotated start than this belong to none.
FARTHEST = 50
# "At" a moment is within so many samples of it.
NEAR = 5
# Peaks that rise less above their surroundings, relative to the highest, are ripples.
LEAST_PROMINENCE = 0.2

Phases = Mapping[str, float]


def find_phases(
    model: BaseCDL, walks: Walks, curve: Float[np.ndarray, " L"], group: str | None = None
) -> Phases:
    """Return the four moments on the window of a model's atoms, in samples.

    ``curve`` is the common atom or the mean of a group, whose troughs are read; of the
    annotation the mean over the participants (of the group) of each one's median.
    """
    wanted = walks.groups == group if group else np.ones(len(walks.cohort), bool)
    placed = [
        _annotated(model, walks, str(record.subject))
        for record, is_wanted in zip(walks.cohort, wanted, strict=True)
        if is_wanted
    ]
    start, end = np.nanmean(placed, axis=0)
    top = int(np.argmax(curve))
    moments = {
        HEEL_OFF: float(start),
        TOE_OFF: float(np.argmin(curve[:top])) if top else np.nan,
        HEEL_ON: float(top + np.argmin(curve[top:])),
        FOOT_FLAT: float(end),
    }
    return {name: at for name, at in moments.items() if 0 <= at < LENGTH}


def _annotated(model: BaseCDL, walks: Walks, subject: str) -> tuple[float, float]:
    """Return a person's median annotated start and end, in samples after the onset."""
    onsets = model.events_.loc[model.events_["subject"] == subject, "onset_sample"].to_numpy()
    swings = walks.swings[subject]
    if not len(onsets):
        return np.nan, np.nan
    own = onsets[np.abs(np.subtract.outer(swings[:, 0], onsets)).argmin(axis=1)]
    relative = swings - own[:, None]
    close = np.abs(relative[:, 0]) <= FARTHEST
    start, end = np.median(relative[close], axis=0) if close.any() else (np.nan, np.nan)
    return float(start), float(end)


def find_humps(variability: Float[np.ndarray, " L"]) -> list[int]:
    """Return the samples where a group varies most beyond the reference, highest first.

    >>> find_humps(np.array([0.0, 0.2, 1.0, 0.2, 0.0, 0.5, 0.0]))
    [2, 5]
    """
    highest = variability.max()
    if highest <= 0:
        return []
    padded = np.pad(variability, 1, constant_values=min(0.0, variability.min()))
    peaks, _ = find_peaks(padded, height=0, prominence=LEAST_PROMINENCE * highest)
    return sorted((int(p) - 1 for p in peaks), key=lambda p: -variability[p])


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


def judge(
    humps: Sequence[int], variability: Float[np.ndarray, " L"], meant: tuple[float, float]
) -> str:
    """Say whether humps of variability lie where the paper says: yes, yes but smaller, or no."""
    inside = [hump for hump in humps if meant[0] <= hump <= meant[1]]
    if not inside:
        return "no"
    if inside[0] == humps[0]:
        return "yes, the highest"
    return f"yes, {variability[inside[0]] / variability[humps[0]]:.0%} of the highest"
