"""The bootstrap over subjects: whole fits, or the last rounds of a fit in one compiled program.

With the onsets of a fit, two statistics describe a subject. A draw counts each subject as often
as it was drawn. Warps, dictionary and gauge are then fitted again, starting from those of the fit.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from percdl.algorithm.settings import Huber
from percdl.analysis.checks import check_fitted_on, check_level, has_own_windows
from percdl.estimators.base import BaseCDL
from percdl.estimators.start import make_settings
from percdl.exceptions import InvalidParameterError
from percdl.seeds import Seed, as_random_state
from percdl.signals import Cohort
from percdl.steps.centering import recenter_params, smooth_warp
from percdl.steps.compilation import program
from percdl.steps.dictionary import RIDGE
from percdl.steps.ipu import explained_energy, find_posterior, gauss_newton
from percdl.steps.prior import Prior, estimate_noise
from percdl.transforms.base import WarpTransform, divide

# Rounds of a draw that keeps the onsets, and steps of IPU in each.
N_ROUNDS, N_STEPS = 4, 3


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The common atoms of cohorts resampled from the subjects.

    Attributes
    ----------
    dictionary : array (K, L, P)
        The common atoms of the whole cohort.
    draws : array (B, K, L, P)
        Those of each resampled cohort, in the same order and with the same signs.
    """

    dictionary: Float[np.ndarray, "K L P"]
    draws: Float[np.ndarray, "B K L P"]

    def __repr__(self) -> str:
        return (
            f"Bootstrap({len(self.draws)} draws, {len(self.dictionary)} atoms, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    @cached_property
    def atom_se(self) -> Float[np.ndarray, "K L P"]:
        """Standard errors of the common atoms: their standard deviation over the draws."""
        return self.draws.std(0, ddof=1)

    def atom_band(self, level: float = 0.95, simultaneous: bool = False):
        """Return the lower and upper ends (K, L, P) of percentile bands.

        If ``simultaneous``, the bands hold whole atoms in a share ``level`` of the draws.
        """
        check_level(level)
        if not simultaneous:
            return tuple(np.quantile(self.draws, [0.5 - level / 2, 0.5 + level / 2], axis=0))
        error = np.maximum(self.atom_se, np.finfo(float).tiny)
        largest = (np.abs(self.draws - self.draws.mean(0)) / error).max((2, 3))
        half = np.quantile(largest, level, axis=0)[:, None, None] * error
        return self.dictionary - half, self.dictionary + half


def bootstrap_atoms(
    model: BaseCDL,
    X: Any,
    n_draws: int = 100,
    random_state: Seed = None,
    *,
    keep_onsets: bool = False,
) -> Bootstrap:
    """Fit the model again to subjects drawn with replacement.

    The draws include all variation between subjects: noise, warps, amplitudes, misfit. Cost:
    ``n_draws`` fits; with ``keep_onsets``, about as many personal rounds without coding.

    Parameters
    ----------
    model, X : PerCDL, PopCDL or IndCDL, Cohort or arrays
        Fitted, and the recordings it was fitted on.
    n_draws, random_state : int
        Number and seed of the draws; 50 are enough for standard errors, bands need hundreds.
    keep_onsets : bool
        Keep the activations of the fit, and repeat only its last rounds: warps, dictionary and
        gauge, all draws in one compiled program. That takes seconds, and is for `PopCDL` and a
        single warp. By default each draw is a whole fit from the dictionary of the model.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(4, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> bootstrap_atoms(model, truth.cohort, n_draws=2, random_state=0).draws.shape
    (2, 2, 50, 1)
    """
    cohort = check_fitted_on(model, X)
    if n_draws < 2:
        raise InvalidParameterError(f"`bootstrap_atoms(n_draws={n_draws!r})` must be at least 2.")
    rng = as_random_state(random_state)
    drawn = rng.randint(len(cohort), size=(n_draws, len(cohort)))
    if keep_onsets:
        return Bootstrap(model.dictionary_, redraw(model, cohort, drawn))
    again: BaseCDL = clone(model)  # pyright: ignore[reportAssignmentType]
    settings = make_settings(model, cohort)
    again.set_params(
        init=model.dictionary_, n_atoms=settings.n_atoms, atom_length=settings.atom_length,
        penalty=settings.penalty, progress=False,
        loss="squared" if settings.delta is None else Huber(settings.delta),
    )  # fmt: skip
    draws = []
    for subjects in drawn.tolist():
        some = [replace(cohort[s], subject=f"draw {i}: {s}") for i, s in enumerate(subjects)]
        dictionary = again.fit(Cohort(some)).dictionary_
        draws.append(match_to(dictionary, model.dictionary_, settings.coder.signed))
    return Bootstrap(model.dictionary_, np.stack(draws))


def match_to(dictionary: np.ndarray, reference: np.ndarray, signed: bool = False) -> np.ndarray:
    """Return atoms of unit norm in the order, and with ``signed`` the signs, of a reference."""
    likeness = np.einsum("klp,jlp->kj", reference, dictionary)
    rows, order = linear_sum_assignment(np.abs(likeness) if signed else likeness, maximize=True)
    sign = np.where(signed & (likeness[rows, order] < 0), -1, 1)
    return dictionary[order] * sign[:, None, None]


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
        counted, is_active = counts[:, None, None], weight.sum((1, 2)) > 0

        def one_round(_, state):
            atom, params = state
            params, extra = _personalize(transform, atom, moment, weight, params, precision)
            gram, right = transform.normal_equations(
                params, atom, counted * moment, counted * weight, *extra
            )
            atom = _solve(gram, right, atom)
            if centres:
                warps, n_alike = transform.warp(params, *atom.shape), counts * is_active
                # As in every round of a fit, only the first sines of the mean warp are removed.
                gauge = smooth_warp(jnp.einsum("s,scl->cl", n_alike, warps) / n_alike.sum())
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
