"""Three axes, rotations and warps together: both are found, and so are the letters.

Noise-free handwriting-like cohorts (`make_handwriting`), started from the letters of subject 0.
A rotation of the common atom is a gauge, so rotations are compared after the one that suits all
subjects best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation as Turn

from benchmarks.claims._claim import Claim, at_least, at_most, is_quick
from benchmarks.timing import follow
from percdl import Compose, PerCDL, Rotation, TimeWarp
from percdl.datasets import SyntheticCohort, make_handwriting, match_atoms, onset_accuracy
from percdl.experiments.fits import error_of_fit
from percdl.steps.ipu import gauss_newton

N_SUBJECTS, N_SEEDS = 64, 10
MOST_DEGREES, MOST_RATIO, LEAST_ONSETS, MOST_DIFFERENCE = 1.0, 1.5, 0.99, 1e-3
WARP = TimeWarp(3, 10)
BOTH = Compose(WARP, Rotation(allow_reflections=False))


class Outcome(NamedTuple):
    """How one fit came out."""

    distance: float
    floor: float
    mean_degrees: float
    most_degrees: float
    onsets: float
    error: float


def claims() -> Iterator[Claim]:
    """Fit every seed, and compare the two ways to a rotation."""
    n_seeds = 2 if is_quick() else N_SEEDS
    outcomes = [_fit(seed) for seed in follow(range(n_seeds), "handwriting, seed")]
    distance, floor, mean, most, onsets, error = np.array(outcomes).T
    setting = f"S = {N_SUBJECTS}, {n_seeds} seeds"
    yield at_most("rotations: mean error, degrees", mean.mean(), MOST_DEGREES, setting)
    yield at_most("rotations: largest error of all, degrees", most.max(), MOST_DEGREES, setting)
    yield at_most(
        "letters: distance to the truth / gauge floor",
        distance.mean() / floor.mean(),
        MOST_RATIO,
        f"means {distance.mean():.4f} and {floor.mean():.4f}; error {np.median(error):.1e}",
    )
    yield at_least("letters: onsets within one sample", onsets.mean(), LEAST_ONSETS)
    yield at_most(
        "rotation by the Lemma against automatic differentiation: largest difference",
        _closed_form_against_autodiff(),
        MOST_DIFFERENCE,
    )


def _fit(seed: int) -> Outcome:
    data = make_handwriting(N_SUBJECTS, random_state=seed)
    start = data.personal_dictionary[0]
    model = PerCDL(2, 50, BOTH, 1e-2, init=start, progress=False).fit(data.cohort)
    degrees = np.concatenate(_rotation_errors(model, data))
    return Outcome(
        distance=data.distance_to_truth(model.dictionary_),
        floor=data.gauge_floor(),
        mean_degrees=degrees.mean(),
        most_degrees=degrees.max(),
        onsets=onset_accuracy(model.events_, data.events, tolerance=1),
        error=error_of_fit(model, data.cohort),
    )


def _rotation_errors(model: PerCDL, data: SyntheticCohort) -> list[np.ndarray]:
    """Return the angles between found and true rotations, for each letter."""
    part = BOTH.channel_part(*data.dictionary.shape[1:])
    assert part is not None
    errors = []
    for true, found in enumerate(match_atoms(model.dictionary_, data.dictionary)):
        there, here = (
            params[:, k, part[1]].reshape(-1, 3, 3)
            for params, k in ((data.params, true), (model.params_, found))
        )
        left, _, right = np.linalg.svd(np.einsum("sab,sac->bc", there, here))
        difference = there @ (left @ right) @ here.transpose(0, 2, 1)
        errors.append(np.degrees(Turn.from_matrix(difference).magnitude()))
    return errors


def _closed_form_against_autodiff() -> float:
    """Return the largest difference of entries, over noisy segments of turned letters."""
    data = make_handwriting(64, noise_std=0.0, random_state=0)
    noise = np.random.default_rng(0).standard_normal(data.personal_dictionary[:, 0].shape)
    moment = data.personal_dictionary[:, 0] + 0.2 * noise
    turn = Rotation(allow_reflections=False)
    with jax.enable_x64(True):
        atom, moment = jnp.asarray(data.dictionary[0]), jnp.asarray(moment)
        weight = jnp.ones((len(moment), len(atom), 1))
        closed = turn.solve(atom, moment, weight)
        start = jnp.tile(turn.neutral(atom), (len(moment), 1))
        found, _ = gauss_newton(turn, atom, moment, weight, start, 200, 0.0)
    return float(jnp.abs(closed - found).max())
