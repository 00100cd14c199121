"""Linearize a fitted model: how atoms and warps depend on noise and on the sample of subjects.

Near a fit, the mean cycle of a person is linear in all unknowns, ``g + T dphi + J du``, with
``g = f(phi, a)`` and u the steps of the parameters. A fit is the root of two sums over subjects,

- the scores ``T_s^T rho_s``, with ``rho_s = sum_j z_j (y_j - z_j g)`` the residuals of the cycles;
- the gauges, the coordinates of the warps (and the mixture of channels), with a mean of zero.

Amplitudes are profiled out cycle by cycle and parameters person by person, with the prior of the
fit. The covariance of the root is the inverse derivative of the sums, times the covariance of
their terms, times the inverse again (the sandwich formula). It only assumes that subjects are
independent; within a subject it allows any noise, differences between cycles and a personal shape.
"""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from percdl.estimators.base import BaseCDL
from percdl.estimators.personalization import BATCH
from percdl.signals import Cohort
from percdl.steps.compilation import program
from percdl.steps.prior import MOST_COORDINATES, coordinates, n_coordinates
from percdl.steps.windows import window_variance
from percdl.transforms import Transform

# A step that the cycles do not determine is uniform in its bounded set Theta, ends included. Its
# error is then about twice its standard deviation in the population.
ROOM = 2.0
# Samples that no subject's warp visits carry no information, so their error is large, not zero.
RIDGE = 1e-10
# Variances in squared samples. A rounded onset is uniform within half a sample to either side; the
# onset of a person, if it is not seen, is within a sample to either side.
ROUNDING, OWN_ONSET = 1 / 12, 1 / 3
# Samples by which the window of an atom is off because the pattern is curved at its ends.
WINDOW_ERROR = 0.2


class Derivatives(NamedTuple):
    """Personal atom and gauge of a person, or of some, and the derivatives in atom and steps."""

    value: Float[Any, " n"]
    by_atom: Float[Any, "n n"]
    by_step: Float[Any, "n q"]
    gauge: Float[Any, " c"]
    gauge_by_step: Float[Any, "c q"]
    warp_by_step: Float[Any, "w q"]


@partial(program, static_argnames=("transform",))
def differentiate(transform: Transform, params, atom) -> Derivatives:
    """Differentiate the personal atoms f(phi, a) of some people, their warps and gauges."""
    return jax.vmap(lambda own: _differentiate_one(transform, own, atom))(params)


def _differentiate_one(transform: Transform, params, atom) -> Derivatives:
    shape, still = atom.shape, jnp.zeros(transform.n_moves(*atom.shape), params.dtype)
    warping, mixing = transform.warp_part(*shape), transform.channel_part(*shape)

    def act(step, atom):
        return transform.apply(transform.move(params, step), atom).reshape(-1)

    def warp(step):
        if warping is None:
            return jnp.zeros((0, shape[0]))
        own, at = warping
        return own.warp(transform.move(params, step)[at], *shape)

    def gauge(step):
        size = 0 if warping is None else warping[0].n_params(*shape) // len(warp(still))
        bend = coordinates(warp(step), n_coordinates(shape[0], size))
        mixture = transform.move(params, step)[mixing[1]] if mixing else jnp.zeros(0)
        return jnp.concatenate([bend.reshape(-1), mixture])

    by_step, by_atom = jax.jacfwd(act, argnums=(0, 1))(still, atom)
    return Derivatives(
        act(still, atom),
        by_atom.reshape(atom.size, atom.size),
        by_step,
        gauge(still),
        jax.jacfwd(gauge)(still),
        jax.jacfwd(warp)(still).reshape(warp(still).size, still.size),
    )


@partial(program, static_argnames=("transform",))
def neutral_moves(transform: Transform, atom) -> tuple[Float[Any, " p"], Float[Any, "p q"]]:
    """Return the neutral parameters, and their derivatives in the steps away from them."""
    neutral = transform.neutral(atom)
    still = jnp.zeros(transform.n_moves(*atom.shape), neutral.dtype)
    return neutral, jax.jacfwd(partial(transform.move, neutral))(still)


class Cycles(NamedTuple):
    """The cycles of one person: ``power = sum_j z_j^2`` of each sample, and the residuals.

    ``left`` is ``rho / power``, the mean residual; ``around`` are the cycles less their mean.
    ``project`` removes the directions that amplitudes absorb.
    """

    power: Float[np.ndarray, " n"]
    project: Float[np.ndarray, "n n"]
    left: Float[np.ndarray, " n"]
    around: Float[np.ndarray, "e n"]


class Person(NamedTuple):
    """One atom of a person, with its parameters profiled out.

    ``gain`` (q, n) is the derivative of the steps in the mean cycle, ``inverse`` (q, q) that of
    their system, ``prior`` (q, q) their precision without data, ``bias`` (q, q) the covariance
    that it leaves.
    """

    index: int
    near: Derivatives
    cycles: Cycles
    gain: Float[np.ndarray, "q n"]
    inverse: Float[np.ndarray, "q q"]
    prior: Float[np.ndarray, "q q"]
    bias: Float[np.ndarray, "q q"]

    @property
    def response(self) -> Float[np.ndarray, "q n"]:
        """How much the steps respond to a change of the common atom."""
        return self.gain @ self.near.by_atom

    @property
    def information(self) -> Float[np.ndarray, "n n"]:
        """How much the score falls with the common atom, parameters and amplitudes following."""
        weighed = self.near.by_atom.T @ (self.cycles.power[:, None] * self.cycles.project)
        return weighed @ (self.near.by_atom - self.near.by_step @ self.response)

    def step_covariance(self, noise: np.ndarray) -> np.ndarray:
        """Return the covariance (q, q) of the steps, for cycles with this covariance."""
        return self.gain @ self.mean_noise(noise) @ self.gain.T + self.bias

    def mean_noise(self, noise: np.ndarray) -> np.ndarray:
        """Return the covariance (n, n) of the mean cycle."""
        root = _inverse(np.sqrt(self.cycles.power))
        return root[:, None] * noise * root

    def expected_left(self, noise: np.ndarray) -> np.ndarray:
        """Return the covariance of the mean residual if the model is right."""
        keep = self.cycles.project - self.near.by_step @ self.gain
        bias = self.near.by_step @ self.bias @ self.near.by_step.T
        return keep @ self.mean_noise(noise) @ keep.T + bias


class Linearization:
    """One atom of a fitted model as a linear one.

    With ``sigma`` the noise is white and known; with ``conditional`` parameters and amplitudes
    are known too. Otherwise covariances are robust: they follow from the spread of the data.
    """

    def __init__(
        self, model: BaseCDL, cohort: Cohort, k: int, conditional: bool, sigma: float | None
    ):
        self.model, self.cohort, self.k = model, cohort, k
        self.transform: Transform = model.resolve("transformation")
        self.atom = np.asarray(model.dictionary_[k], float)
        self.profile, self.sigma = not conditional, sigma
        self.robust = self.profile and sigma is None
        shape = self.atom.shape
        part = self.transform.warp_part(*shape) or self.transform.channel_part(*shape)
        centers = model.resolve("algorithm").centering != "off"
        self.centred = self.profile and centers and part is not None
        self.active = np.flatnonzero(model.n_activations_[:, k] > 0)
        self.params = np.asarray(model.params_[self.active, k], float)
        self.people = [*self._people()]
        self.noise = self._noise()

    def _people(self) -> Iterator[Person]:
        """Yield the subjects with the atom, linearized."""
        k, prior, events = self.k, self.model.prior_, self.model.events_
        prior, spread = None if prior is None else np.asarray(prior[k], float), self._spread()
        names = ("atom", "onset_sample", "amplitude")
        atoms, onsets, amplitudes = (events[name].to_numpy() for name in names)
        rows_of = self.model.personalization_.rows_of
        for s, near in zip(self.active.tolist(), self._differentiate(), strict=True):
            own = rows_of[s][atoms[rows_of[s]] == k]
            cycles = self._cut(onsets[own], amplitudes[own].astype(float), s, near.value)
            yield self._profile(s, near, cycles, spread, prior)

    def _differentiate(self) -> Iterator[Derivatives]:
        """Yield the derivatives of each of these people, computed for some together."""
        size = max(1, min(BATCH, len(self.params)))
        for start in range(0, len(self.params), size):
            some = self.params[start : start + size]
            padded = np.pad(some, ((0, size - len(some)), (0, 0)))
            with jax.enable_x64(True):
                found = differentiate(self.transform, padded, self.atom)
            arrays = [np.asarray(array)[: len(some)] for array in found]
            yield from map(Derivatives, *arrays)

    def _cut(self, onsets: np.ndarray, z: np.ndarray, s: int, value: np.ndarray) -> Cycles:
        """Cut the cycles of a person, and compare them with its atom."""
        z, window = z[:, None], onsets[:, None] + np.arange(len(self.atom))
        values = np.asarray(self.cohort[s].values, float)[window].reshape(len(z), -1)
        seen = np.isfinite(values)
        values = np.where(seen, values, 0)
        power = (z**2 * seen).sum(0)
        mean = (z * values).sum(0) * _inverse(power)
        project = np.eye(len(mean))
        if self.profile:
            shape = seen * value
            share = z**2 * _inverse((shape**2).sum(1, keepdims=True))
            project -= ((shape * share).T @ shape) * _inverse(power)[:, None]
        left = np.where(power > 0, mean - value, 0)
        return Cycles(power, project, left, seen * (values - z * mean))

    def _profile(self, s: int, near: Derivatives, cycles: Cycles, spread, precision) -> Person:
        """Profile the parameters out, with the prior of the fit."""
        by_step = near.by_step * self.profile
        near = near._replace(by_step=by_step, warp_by_step=near.warp_by_step * self.profile)
        n_seen = max((cycles.power > 0).sum(), 1)
        n_free = max(n_seen - MOST_COORDINATES - 1, n_seen / 2)
        noise = np.sum(cycles.power * cycles.left**2) / n_free
        if self.sigma is not None:
            noise = self.sigma**2
        prior = spread
        if precision is not None:
            n_bent = precision.shape[0] * precision.shape[1]
            bent = near.gauge_by_step[:n_bent].reshape(*precision.shape[:2], -1)
            prior = spread + (np.swapaxes(bent, 1, 2) @ precision @ bent).sum(0)
        weighed = by_step.T @ (cycles.power[:, None] * cycles.project)
        inverse = np.linalg.pinv(weighed @ by_step + noise * prior, rcond=RIDGE, hermitian=True)
        bias = noise**2 * self.profile * inverse @ prior @ inverse
        return Person(s, near, cycles, inverse @ weighed, inverse, prior, bias)

    def _noise(self) -> Float[np.ndarray, "n n"]:
        """Return the covariance of a cycle around the mean of its person.

        It is white if noise is assumed white, or if no person repeats the atom.
        """
        size, people = self.atom.size, self.people
        n_free = sum(len(x.cycles.around) - 1 for x in people)
        if self.sigma is not None:
            return self.sigma**2 * np.eye(size)
        if n_free == 0:
            left = sum(np.sum(x.cycles.power * x.cycles.left**2) for x in people)
            return np.eye(size) * left / max(size * len(people) / 2, 1)
        around = np.concatenate([x.cycles.around for x in people])
        # An amplitude takes one degree of freedom of each cycle.
        found = around.T @ around / (n_free * (1 - self.profile / size))
        return found if self.robust else np.eye(size) * np.trace(found) / size

    @cached_property
    def blind(self) -> Float[np.ndarray, " S"]:
        """How far an onset error below two samples goes unnoticed, between 0 and 1.

        The warp must compensate for it, and the sample that the window loses at one end must be
        within the noise of a person.
        """
        lost = min((self.atom[0] ** 2).sum(), (self.atom[-1] ** 2).sum())
        variance = max(np.trace(self.noise) / self.atom.size, np.finfo(float).tiny)
        found = []
        for person in self.people:
            power, slope = person.cycles.power, person.near.by_atom @ _slope(self.atom)
            seen = power * (person.cycles.project @ slope)
            absorbed = seen @ person.near.by_step @ person.gain @ slope
            share = absorbed / max(seen @ slope, np.finfo(float).tiny)
            found.append(share * np.exp(-lost * power.mean() / (2 * variance)))
        return np.clip(found, 0, 1) * self.robust

    def common(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances of the common atom and of what the model misses, both (n, n).

        The second is a share of the mean residuals: the one that noise does not explain.
        """
        people, count, size = self.people, len(self.people), self.atom.size
        scores = np.array([x.near.by_atom.T @ (x.cycles.power * x.cycles.left) for x in people])
        gauges = np.array([x.near.gauge for x in people])[:, self._gauges]
        terms = np.hstack([scores @ self._across, -gauges])
        terms -= terms.mean(0)
        meat = terms.T @ terms * count / max(count - 1, 1)
        if not self.robust or count == 1:
            meat[:size] = meat[:, :size] = 0
            meat[:size, :size] = self.noise[0, 0] * self._information
        root = self.solve()
        left = np.array([x.cycles.left for x in people])
        expected = sum(np.trace(x.expected_left(self.noise)) for x in people)
        share = max(0, 1 - expected / max((left**2).sum(), np.finfo(float).tiny)) * self.robust
        return root @ meat @ root.T + self._displaced(), share * left.T @ left / count

    @property
    def _gauges(self) -> slice:
        return slice(None if self.centred else 0)

    @cached_property
    def _across(self) -> np.ndarray:
        """The changes (n, n) of the atom that keep its norm; all, if amplitudes are known."""
        atom = self.atom.ravel()
        return np.eye(len(atom)) - self.profile * np.outer(atom, atom) / (atom @ atom)

    @cached_property
    def _information(self) -> np.ndarray:
        return self._across @ sum(x.information for x in self.people) @ self._across

    def solve(self) -> np.ndarray:
        """Return the derivative (n, n + c) of the common atom in the sums of scores and gauges.

        The mean gauge is held at zero. Parameters adapt to that too, as far as the prior and the
        cycles allow.
        """
        across, bread, size = self._across, self._information, self.atom.size
        turns = [x.near.gauge_by_step[self._gauges] for x in self.people]
        pairs = [*zip(turns, self.people, strict=True)]
        pull = -sum(turn @ x.response for turn, x in pairs) @ across
        loose: Any = sum(turn @ x.inverse @ turn.T for turn, x in pairs)
        scale = np.trace(bread) / size
        if not scale > 0:
            return np.full((size, size + len(pull)), np.nan)
        regular = bread + scale * (np.eye(size) - across + RIDGE * np.eye(size))
        unit = scale * _inverse(np.sqrt((pull**2).sum(1)))[:, None]  # of a constraint
        pull, loose = pull * unit, loose * unit * unit.T + RIDGE * scale * np.eye(len(pull))
        system = np.block([[regular, pull.T], [pull, -loose]])
        found = across @ np.linalg.solve(system, np.eye(len(system)))[:size]
        return found * np.concatenate([np.ones(size), unit[:, 0]])

    def _displaced(self) -> np.ndarray:
        """Return the covariance (n, n) due to the common onset, and to second order.

        At its peaks an atom does not change with a displacement d, only with its square.
        """
        count, slope = len(self.people), self._across @ _slope(self.atom)
        if not self.robust:
            return np.zeros((len(slope), len(slope)))
        power, left = (np.array([x.cycles[i] for x in self.people]) for i in (0, 2))
        information = power.mean() / max((power * left**2).mean(), np.finfo(float).tiny)
        known = window_variance(self.atom, float(information), count) + WINDOW_ERROR**2
        onset = self.blind.mean() * known
        moved = np.full((len(slope), len(slope)), onset)
        if self.centred and self.model.warps_.size:
            warps = self.model.warps_[self.active, self.k].reshape(count, -1)
            spread = np.cov(warps.T, ddof=min(1, count - 1)) / count
            moved += _by_sample(spread, self.atom.shape)
        return onset * np.outer(slope, slope) + _second_order(_bend(self.atom), moved)

    def of_person(
        self, i: int, common: np.ndarray, misfit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariances of the personal atom (n, n) and the warp (w, w) of one person."""
        person, blind = self.people[i], self.blind[i]
        near = person.near
        steps = person.step_covariance(self.noise)
        follow = near.by_atom - near.by_step @ person.response
        atom = near.by_step @ steps @ near.by_step.T + follow @ common @ follow.T + misfit
        if self.robust:
            moved = near.warp_by_step @ steps @ near.warp_by_step.T
            atom += self._own(person, blind, moved)
        return atom, self.warp(person, common)

    def warp(self, person: Person, common: np.ndarray) -> Float[np.ndarray, "w w"]:
        """Return the covariance of the warp of a person."""
        steps = person.step_covariance(self.noise)
        steps += person.response @ common @ person.response.T
        return person.near.warp_by_step @ steps @ person.near.warp_by_step.T

    def _own(self, person: Person, blind: float, moved: np.ndarray) -> np.ndarray:
        """Return the covariance (n, n) of a personal atom due to onsets, curvature and misfit.

        The warp compensates for a wrong onset, except at the ends. If the data do not show onsets,
        each cycle is off by up to half a sample. Residuals of a person beyond the noise count as
        error.
        """
        read, left = person.near.by_atom, person.cycles.left
        slope = read @ _slope(self.atom)
        ends = slope - person.near.by_step @ person.gain @ slope
        expected = np.trace(person.expected_left(self.noise))
        share = max(0, 1 - expected / max(left @ left, np.finfo(float).tiny))
        found = OWN_ONSET * blind * np.outer(ends, ends) + share * np.outer(left, left)
        found += ROUNDING * blind / len(person.cycles.around) * np.outer(slope, slope)
        if len(moved):
            found += _second_order(read @ _bend(self.atom), _by_sample(moved, self.atom.shape))
        return found

    def degrees_of_freedom(self) -> float:
        """Return the degrees of freedom of subjects, or of the noise if it is the only error."""
        if self.robust or self.centred:
            return float(max(len(self.people) - 1, 1))
        return float(max(sum(len(x.cycles.around) - 1 for x in self.people), 1) * self.atom.size)

    def _spread(self) -> np.ndarray:
        """Return the precision (q, q) of the steps in the population, with some room."""
        from sklearn.covariance import ledoit_wolf

        with jax.enable_x64(True):
            neutral, moves = map(np.asarray, neutral_moves(self.transform, self.atom))
        if moves.size == 0:
            return np.zeros((0, 0))
        params = self.params - neutral
        # A single row is repeated, because scikit-learn warns of one.
        params = np.resize(params, (max(2, len(params)), neutral.size))
        covariance, _ = ledoit_wolf(np.linalg.lstsq(moves, params.T)[0].T, assume_centered=True)
        covariance += RIDGE * max(np.trace(covariance), RIDGE) * np.eye(len(covariance))
        return np.linalg.inv(ROOM**2 * covariance)


def _inverse(x: np.ndarray) -> np.ndarray:
    """Return 1 / x, zero where x is."""
    return np.divide(1, x, out=np.zeros_like(x), where=x > 0)


def _slope(atom: np.ndarray) -> np.ndarray:
    """Return the derivative (n,) of an atom in time; outside of its window it is zero.

    At a corner, such as an end, it is the root mean square of both sides.
    """
    steps = np.diff(np.pad(atom, ((1, 1), (0, 0))), axis=0)
    before, after = steps[:-1], steps[1:]
    return (np.sign(before + after) * np.sqrt((before**2 + after**2) / 2)).ravel()


def _bend(atom: np.ndarray) -> np.ndarray:
    """Return the second derivative (n,) of an atom in time."""
    padded = np.pad(atom, ((1, 1), (0, 0)), mode="edge")
    return (padded[2:] - 2 * atom + padded[:-2]).ravel()


def _second_order(bend: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return the mean square of ``bend d^2 / 2`` for Gaussian displacements d (Isserlis)."""
    variance = np.diagonal(moved)
    return np.outer(bend, bend) * (np.outer(variance, variance) + 2 * moved**2) / 4


def _by_sample(covariance: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the covariance (n, n) of samples from that of warps (C L, C L)."""
    length, n_channels = shape
    rows = np.arange(len(covariance)).reshape(-1, length).T
    rows = np.broadcast_to(rows, (length, n_channels)).ravel()
    return covariance[np.ix_(rows, rows)]
