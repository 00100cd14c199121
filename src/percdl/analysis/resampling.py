"""A bootstrap over subjects that repeats only the last rounds of a fit.

With the onsets of the fit, two statistics describe a subject. A draw counts each subject as often
as it was drawn. Warps, dictionary and gauge are then fitted again, starting from those of the fit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.analysis.checks import has_own_windows
from percdl.exceptions import InvalidParameterError
from percdl.steps.centering import recenter_params, smooth_warp
from percdl.steps.compilation import program
from percdl.steps.dictionary import RIDGE
from percdl.steps.ipu import explained_energy, find_posterior, gauss_newton
from percdl.steps.prior import Prior, estimate_noise
from percdl.transforms.base import WarpTransform, divide

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.signals import Cohort

N_ROUNDS, N_STEPS = 4, 3


def redraw(
    model: BaseCDL, cohort: Cohort, drawn: Int[np.ndarray, "B S"]
) -> Float[np.ndarray, "B K L P"]:
    """Return the common atoms of each draw of subjects.

    The change that the rounds make with each subject counted once is subtracted. Cost
    O(B S K L M^2).
    """
    transform, algorithm = model.resolve("transformation"), model.resolve("algorithm")
    has_params = model.params_.shape[-1] > 0
    is_known = isinstance(transform, WarpTransform) or not has_params
    is_known = is_known and not has_own_windows(model)
    if not is_known or model.loss != "squared" or algorithm.weighting != "amplitude":
        raise InvalidParameterError(
            "`keep_onsets` needs a single warp, the squared loss, weighting='amplitude' and "
            f"cycles without individual lengths or baselines, not {model!r}. Use "
            "`bootstrap_atoms(..., keep_onsets=False)`."
        )
    counts = np.stack([np.bincount(row, minlength=len(cohort)) for row in drawn])
    counts = np.vstack([np.ones(len(cohort)), counts]).astype(float)
    moment, weight = _statistics(model, cohort)
    precision = None if model.prior_ is None else np.asarray(model.prior_, float)
    params = np.nan_to_num(np.asarray(model.params_, float))
    centres = has_params and algorithm.centering != "off"
    with jax.enable_x64(True):
        first, *found = np.asarray(repeat_rounds(
            transform, centres, np.asarray(model.dictionary_, float), moment, weight, params,
            precision, counts,
        ))  # fmt: skip
    moved = np.stack(found) - first + model.dictionary_
    return moved / np.sqrt((moved**2).sum((2, 3), keepdims=True))


def _statistics(model: BaseCDL, cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments and weights (S, K, L, P) at the onsets of the fit."""
    shape = (len(cohort), *model.dictionary_.shape)
    moment, weight = np.zeros(shape), np.zeros(shape)
    rows = {subject: s for s, subject in enumerate(cohort.subjects)}
    for subject, events in model.events_.groupby("subject", observed=True):
        s: Any = rows[str(subject)]
        z = events["amplitude"].to_numpy(float)[:, None, None]
        window = events["onset_sample"].to_numpy()[:, None] + np.arange(shape[2])
        values = np.asarray(cohort[s].values, float)[window]
        atom = events["atom"].to_numpy()
        np.add.at(moment[s], atom, z * np.nan_to_num(values))
        np.add.at(weight[s], atom, z**2 * np.isfinite(values))
    return moment, weight


@partial(program, static_argnames=("transform", "centres"))
def repeat_rounds(
    transform: Any,
    centres: bool,
    dictionary: Float[Array, "K L P"],
    moment: Float[Array, "S K L P"],
    weight: Float[Array, "S K L P"],
    params: Float[Array, "S K M"],
    precision: Float[Array, "K C m m"] | None,
    counts: Float[Array, "B S"],
) -> Float[Array, "B K L P"]:
    """Repeat IPU, PerCDU and centering for each draw, atom by atom."""

    def one_atom(counts, inputs):
        atom, moment, weight, params, precision = inputs
        counted = counts[:, None, None]

        def one_round(_, state):
            atom, params = state
            params, extra = _personalize(transform, atom, moment, weight, params, precision)
            gram, right = transform.normal_equations(
                params, atom, counted * moment, counted * weight, *extra
            )
            atom = _solve(gram, right, atom)
            if centres:
                warps = transform.warp(params, *atom.shape)
                gauge = _mean_warp(warps, counts * (weight.sum((1, 2)) > 0))
                atom = transform.resample(atom, gauge)
                params = recenter_params(transform, params, gauge, atom.shape[1])
            return atom / jnp.linalg.norm(atom), params

        return jax.lax.fori_loop(0, N_ROUNDS, one_round, (atom, params))[0]

    by_atom = [jnp.moveaxis(x, 1, 0) for x in (moment, weight, params)]
    inputs = dictionary, *by_atom, precision
    return jax.lax.map(lambda row: jax.lax.map(partial(one_atom, row), inputs), counts)


def _personalize(transform, atom, moment, weight, params, precision):
    """Return the parameters, and the posterior variance of the warps if there is a prior."""
    if params.shape[-1] == 0:
        return params, ()
    if precision is None:
        return gauss_newton(transform, atom, moment, weight, params, N_STEPS)[0], ()
    energy = divide(moment**2, weight).sum((1, 2))
    explained = explained_energy(transform.apply(params, atom), moment, weight)[0]
    n_seen = (weight > 0).sum((1, 2))
    prior = Prior(precision, estimate_noise(energy, explained, n_seen, precision.shape[-1]))
    params = gauss_newton(transform, atom, moment, weight, params, N_STEPS, prior=prior)[0]
    known = find_posterior(transform, atom, moment, weight, params, prior).variance
    return params, (jnp.where((n_seen > 0)[:, None, None], known, 0),)


def _solve(gram: Float[Array, "G n n"], right, atom):
    """Solve for the atom; a ridge keeps the old one where the data do not determine it."""
    size = gram.shape[-1]
    ridge = RIDGE * jnp.trace(gram, axis1=1, axis2=2).mean() / size
    systems = gram + ridge * jnp.eye(size)
    columns = (right + ridge * atom).reshape(-1, 1) if size == atom.size else right + ridge * atom
    if len(gram) > 1:  # one for each channel
        return jnp.linalg.solve(systems, columns.T[..., None])[..., 0].T
    return jnp.linalg.solve(systems[0], columns).reshape(atom.shape)


def _mean_warp(warps: Float[Array, "S C L"], counts: Float[Array, " S"]) -> Float[Array, "C L"]:
    """Return the first sines of the mean warp, which a fit removes in every round."""
    return smooth_warp(jnp.einsum("s,scl->cl", counts, warps) / counts.sum())
