"""Three axes of a gyroscope on a foot: the benefit of rotations and gains per person.

Gait (RRX, RRY, RRZ), each trial centred and at unit power. The common atom is learned from other
subjects, and each subject's transform from the first half of the trial. The error is that of the
second half, where only the activations are free, so parameters that fit noise do not help.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import gyroscope
from benchmarks.timing import follow
from percdl import Cohort, Compose, Gain, Identity, PerCDL, Rotation, Shift, TimeWarp
from percdl.algorithm.chunks import Chunk, bucket_length, fill
from percdl.signals import Recording
from percdl.steps.csc import L0Coder, encode
from percdl.steps.robust import rebuild
from percdl.transforms import Transform

N_FOLDS, PENALTY, LENGTH = 3, 0.01, 100
WARP = TimeWarp(4, 15)
TRANSFORMS: dict[str, Transform] = {
    "nothing": Identity(),
    "warp": WARP,
    "warp + shift": Compose(WARP, Shift()),
    "warp + rotation": Compose(WARP, Rotation(allow_reflections=False)),
    "warp + gain": Compose(WARP, Gain()),
    "warp + rotation + gain": Compose(Gain(), WARP, Rotation(allow_reflections=False)),
}


def claims() -> Iterator[Claim]:
    """Compare the transforms by held-out error, subjects of each fold held out in turn."""
    problem = gyroscope(24 if is_quick() else None)
    people = np.array([code.split("-")[0] for code in problem.cohort.subjects])
    fold = np.unique(people, return_inverse=True)[1] % N_FOLDS
    errors = {
        name: _held_out_error(transform, problem.cohort, fold, problem.options["init"])
        for name, transform in follow(TRANSFORMS.items(), "gyroscope, transform")
    }
    for name, error in errors.items():
        yield beside(
            f"held-out error, {name}", f"{error:.4f}, {error / errors['warp']:.3f} of warp"
        )
    for name in ("warp + rotation", "warp + gain"):
        yield at_most(
            f"held-out error, {name} / warp",
            errors[name] / errors["warp"],
            1.0,
            f"{len(problem.cohort)} trials, {N_FOLDS} folds of subjects",
        )
    yield at_most(
        "held-out error, warp + rotation + gain / warp + rotation",
        errors["warp + rotation + gain"] / errors["warp + rotation"],
        1.0,
    )


def _held_out_error(transform: Transform, cohort: Cohort, fold: np.ndarray, start) -> float:
    missed = energy = 0.0
    for index in range(N_FOLDS):
        train, test = (np.flatnonzero(chosen) for chosen in (fold != index, fold == index))
        model = PerCDL(1, LENGTH, transform, PENALTY, init=start, progress=False)
        model.fit(cohort[train])
        first, second = _halves(cohort[test])
        found = model.personalize(first)
        atoms = np.where(
            np.isnan(found.personal_dictionary), model.dictionary_, found.personal_dictionary
        )
        left, whole = _missed(second, atoms)
        missed, energy = missed + left, energy + whole
    return missed / energy


def _halves(cohort: Cohort) -> tuple[Cohort, Cohort]:
    """Cut every trial in the middle."""
    halves = [], []
    for record in cohort:
        middle = record.n_times // 2
        for half, values in zip(
            halves, (record.values[:middle], record.values[middle:]), strict=True
        ):
            half.append(Recording(values, sfreq=record.sfreq, subject=record.subject))
    return Cohort(halves[0]), Cohort(halves[1])


def _missed(cohort: Cohort, atoms: np.ndarray) -> tuple[float, float]:
    """Return what the best code with everyone's fixed atoms leaves, and the energy."""
    longest = bucket_length(int(cohort.lengths.max()))
    chunk = Chunk(np.arange(len(cohort)), len(cohort), longest)
    signals = fill(cohort, chunk, 0, "float32")
    atoms = atoms.astype(np.float32)
    events, _ = encode(signals, atoms, np.float32(PENALTY), L0Coder())
    residual = signals.values - np.asarray(rebuild(events, atoms, longest))
    return float((residual**2).sum()), float((signals.values**2).sum())
