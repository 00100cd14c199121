"""Jacobians and adjoints are right, and after centering the mean warp is the identity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.claims._claim import Claim, at_most, is_quick
from benchmarks.claims._oracle import in_double
from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.steps.centering import SMOOTH_WIDTH, recenter_params, smooth_warp
from percdl.transforms.interpolation import INTERPOLATIONS

L, P, B = 11, 2, 20
STEP = 1e-6
MOST_JACOBIAN, MOST_ADJOINT = 1e-6, 1e-12
LONG, N_PASSES = 50, 3
# Mean warps are in units of the atom's duration.
MOST_OFF, MOST_WHOLE = 1e-3, 1e-2


def claims() -> Iterator[Claim]:
    """Check every interpolation, with one warp for all channels and with one for each."""
    for interpolation in INTERPOLATIONS:
        kinds = [TimeWarp(3, 4, interpolation, per_channel) for per_channel in (False, True)]
        yield at_most(
            f"{interpolation}: Jacobian against finite differences",
            max(_jacobian_error(transform) for transform in kinds),
            MOST_JACOBIAN,
        )
        yield at_most(
            f"{interpolation}: adjoint, <T x, y> - <x, T' y>",
            max(_adjoint_error(transform) for transform in kinds),
            MOST_ADJOINT,
        )
    yield from _centering(16 if is_quick() else 256)


def _draw(transform: TimeWarp, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Return B sets of parameters inside Theta, and an atom."""
    rng = np.random.default_rng(0)
    raw = size * rng.standard_normal((B, transform.n_params(L, P)))
    return in_double(transform.project, raw), rng.standard_normal((L, P))


def _jacobian_error(transform: TimeWarp) -> float:
    """Return the largest difference to central differences, relative to the largest entry."""
    # Small warps: interpolation is smooth only between samples, so none may be crossed.
    params, atom = _draw(transform, 0.2)
    slope, basis = in_double(partial(_slope_and_directions, transform), params, atom)
    n_warps, per_warp = basis.shape[1:3]
    errors, largest = [], 0.0
    for m, nudge in enumerate(STEP * np.eye(params.shape[1])):
        ahead, behind = (in_double(transform.apply, params + s * nudge, atom) for s in (1, -1))
        motion = np.zeros((B, n_warps, L))
        motion[:, m // per_warp] = basis[:, m // per_warp, m % per_warp]
        column = slope * np.swapaxes(np.broadcast_to(motion, (B, max(n_warps, P), L)), 1, 2)
        errors.append(np.abs((ahead - behind) / (2 * STEP) - column).max())
        largest = max(largest, np.abs(column).max())
    return float(max(errors) / largest)


def _slope_and_directions(transform: TimeWarp, params, atom):
    point = transform.evaluate(params, atom)
    return point.slope, transform.directions(point)


def _adjoint_error(transform: TimeWarp) -> float:
    """Return the largest difference between the two sides of the definition of the adjoint."""
    params, x = _draw(transform, 1.0)
    y = np.random.default_rng(1).standard_normal((L, P))
    operator = in_double(lambda a: transform.operator(a, L, P), params)
    forth = in_double(transform.apply, params, x)
    back = np.einsum("bplm,lp->bmp", np.broadcast_to(operator, (B, P, L, L)), y)
    return float(np.abs(np.sum(forth * y, (1, 2)) - np.sum(back * x, (1, 2))).max())


def _centering(n_subjects: int) -> Iterator[Claim]:
    """Centre warps that lean to one side; then say how far the gauge of a fit is off."""
    transform, rng = TimeWarp(3, 10), np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (n_subjects, 3, 10))
    rows *= 0.5 / np.abs(rows).sum(-1, keepdims=True)
    rows[..., 0] += 0.1
    params = rows.reshape(n_subjects, -1)
    before = _mean_warp(transform, params)
    for _ in range(N_PASSES):
        mean = smooth_warp(_mean_warp(transform, params))
        params = in_double(lambda a, m: recenter_params(transform, a, m, 1), params, mean)
    name = "mean warp, largest distance to the identity as a share of the duration"
    detail = f"{n_subjects} warps, {_distance(before):.3f} before"
    after = _distance(smooth_warp(_mean_warp(transform, params)))
    yield at_most(f"{name}: centred {N_PASSES} times", after, MOST_OFF, detail)
    data = make_synthetic(n_subjects, random_state=0)
    model = PerCDL(2, 50, transform, 1e-2, init=data.personal_dictionary[0], progress=False)
    fitted = model.fit(data.cohort).params_
    means = [_mean_warp(transform, a[~np.isnan(a[:, 0])]) for a in np.moveaxis(fitted, 1, 0)]
    smooth = max(_distance(smooth_warp(mean)) for mean in means)
    whole = max(_distance(mean) for mean in means)
    after_fit = f"{name}: after a fit, S = {n_subjects}"
    yield at_most(f"{after_fit}, first {SMOOTH_WIDTH} sines", smooth, MOST_OFF)
    yield at_most(f"{after_fit}, in all", whole, MOST_WHOLE)


def _mean_warp(transform: TimeWarp, params: np.ndarray) -> np.ndarray:
    return in_double(lambda a: transform.warp(a, LONG, 1), params).mean(0)


def _distance(warp: np.ndarray) -> float:
    return float(np.abs(warp - np.arange(LONG)).max() / (LONG - 1))
