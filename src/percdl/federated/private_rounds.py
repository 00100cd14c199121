"""Rounds of a site under differential privacy: clipped contributions of subjects, plus noise.

A subject's contribution to a round is one vector with the fields that the update needs. Fields are
scaled so that each has a norm of about one for an ordinary subject, in any units of the signals.
One clip for all of them is then close to the best split of the noise. A contribution does not
depend on other subjects: chunks have one shape (`ROWS`), and programs treat their rows alike.

`Denoised` costs no privacy: it only uses released sums and the amount of noise, which is public.
An atom keeps its shape if an update would have an error larger than the atom itself. Otherwise the
difference to the old atom is shrunk by the share that noise explains (the James-Stein estimator),
and so is that of a Gram matrix to the one of people who do not warp. A ridge keeps it positive.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from percdl.algorithm import programs
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.local import Site
from percdl.algorithm.loop import Runtime
from percdl.algorithm.settings import Settings, SumOptions
from percdl.algorithm.shapes import personal_shapes
from percdl.estimators.base import BaseCDL
from percdl.estimators.start import check_atoms, given_atoms
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated import privacy as dp
from percdl.federated.manifest import Manifest, settings_of
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort, as_cohort
from percdl.steps.centering import SMOOTH_WIDTH, slow_enough, sum_warps
from percdl.steps.compilation import program
from percdl.steps.dictionary import apply_systems, normalize
from percdl.steps.prior import sine_table
from percdl.steps.types import Statistics
from percdl.steps.windows import move_windows
from percdl.transforms import TimeWarp

# Rows of all chunks and blocks. As it is fixed, a subject's numbers do not depend on others.
ROWS = 4
# The mean warp is computed from its first sines, which centering removes during the rounds too.
N_SINES = SMOOTH_WIDTH
# An ordinary warp moves samples by this share of the atom, root mean square.
ORDINARY_WARP = 0.05
# Counts are needed less precisely than shapes.
COUNT_SCALE = 0.5
# Number of neighbours of a local interpolation, less one: bandwidth of the Gram matrices.
REACH = {"linear": 1, "cubic": 3}
# Standard deviations by which the sum of an atom's weights must exceed the noise.
SEEN = 3.0
# Standard deviations by which the gain of a window must exceed the noise.
WORTH_A_MOVE = 2.0
# Least weight of a sample, relative to the mean: avoids division by noise around zero.
LEAST_WEIGHT = 0.2

Rows = dict[str, Float64[np.ndarray, "S ..."]]


@lru_cache(maxsize=16)
def scales_of(settings: Settings) -> dict[str, float]:
    """Return factors that give the fields of an ordinary subject a norm of about one.

    They depend on the manifest, not on data. "weight" is for weights of moments, "gram" for each
    entry of a Gram matrix, "n_warps" for the number of subjects, "warp" for the sines of a
    displacement in samples, "mixing" for parameters that mix channels.
    """
    length = settings.atom_length
    shapes = personal_shapes(settings, 0)  # sites with missing samples cannot join
    n_gram, side, _ = shapes.get("gram", (0, 1, length, length))[1:]
    n_warps = shapes.get("warp", (0, 1, length))[1]
    return {
        "moment": 1.0,
        "transported": 1.0,
        "weight": (length + 2 * settings.margin) ** -0.5,
        "gram": (n_gram * side) ** -0.5,
        "n_warps": COUNT_SCALE,
        "warp": 1 / (ORDINARY_WARP * length**1.5 * n_warps**0.5),
        "mixing": max(1, settings.n_params) ** -0.5,
    }


def reach_of(settings: Settings) -> int:
    """Return the bandwidth of a Gram matrix, whatever the data.

    A warped atom is interpolated between neighbouring samples, so entries further from the
    diagonal are zero. They are not released and get no noise.
    """
    transform = settings.transform
    if isinstance(transform, TimeWarp) and transform.interpolation in REACH:
        return min(REACH[transform.interpolation], settings.atom_length - 1)
    return settings.atom_length * settings.n_channels - 1


def contributions(site: Site, dictionary: np.ndarray, kind: str) -> Rows:
    """Return what each subject adds to the round just run, in the order of the cohort."""
    settings, parts, subjects = site.settings, [], []
    atoms = np.asarray(dictionary, settings.dtype)
    with jax.enable_x64(settings.dtype == "float64"):
        for block in site.blocks:
            statistics = block.gather([site.coded[index].statistics for index in block.chunks])
            if kind != "population" and settings.transform.shares_structure:
                inputs = settings.transform, atoms, statistics, block.params
                rows = _personal(_summarize_each(*inputs, settings.centering == "refit"), settings)
            else:
                moment, weight = _balance_each(statistics, atoms)
                rows = {"moment": moment, "weight": weight}
            n_subjects = sum(block.counts)
            parts.append({name: np.asarray(x, float)[:n_subjects] for name, x in rows.items()})
            subjects += [i for index in block.chunks for i in site.chunks[index].subjects]
    order = np.argsort(subjects)
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def to_sums(totals: dict[str, np.ndarray], like: Sums, settings: Settings) -> Sums:
    """Return totals of contributions as sums, zero elsewhere; the map is linear."""
    sums = nothing_like(like)
    if "gram" in totals:
        rows, columns = _band(settings, sums.gram.shape[-1])
        sums.gram[..., rows, columns] = sums.gram[..., columns, rows] = totals.pop("gram")
        for name, still in _still(settings, totals["n_warps"]).items():
            moved = totals[name]
            totals[name] = still + (moved @ _sines(settings).T if name == "warp" else moved)
    return replace(sums, **totals)


def nothing_like(sums: Sums) -> Sums:
    """Return zeros of the same shapes."""
    return Sums(**{name: np.zeros_like(x)[()] for name, x in vars(sums).items()})


def _personal(summary: programs.Summary, settings: Settings) -> dict[str, Any]:
    gram, active = np.asarray(summary.gram), np.asarray(summary.n_warps, float)
    band = gram[..., *_band(settings, gram.shape[-1])]
    rows = {"transported": summary.transported, "gram": band, "n_warps": active}
    for name, still in _still(settings, active).items():
        moved = np.asarray(getattr(summary, name), float) - still
        rows[name] = moved @ _sines(settings) if name == "warp" else moved
    return rows


@partial(program, static_argnames=("transform", "centres"))
def _summarize_each(transform, dictionary, statistics: Statistics, params, centres: bool):
    """Return the `Summary` of each subject alone, with weight one."""
    options = SumOptions(by_subject=True, centres=centres, searches=False, copy_steps=0)
    sum_one = partial(programs.summarize, transform, options, dictionary)
    return jax.vmap(lambda *own: sum_one(*_single(own)))(statistics, params)


@program
def _balance_each(statistics: Statistics, dictionary):
    """Return moment and weight of each subject alone, with weight one."""
    return jax.vmap(lambda own: programs.add_up(_single(own), dictionary, True))(statistics)


def _single(own):
    """Return the arrays of one subject as those of a cohort of one."""
    return jax.tree.map(lambda x: x[None], own)


def _still(settings: Settings, n_warps: np.ndarray) -> dict[str, np.ndarray]:
    """Return the sums of warps and mixtures of ``n_warps`` (..., K) neutral subjects.

    Sums that centering does not use are left out.
    """
    found, part = {}, settings.channel_part
    if settings.warps and settings.centering != "off":
        found["warp"] = n_warps[..., None, None] * np.arange(settings.atom_length)
    if part is not None and settings.centering == "refit":
        neutral = part[0].neutral(jnp.zeros((settings.atom_length, settings.n_channels)))
        found["mixing"] = n_warps[..., None] * np.asarray(neutral)
    return found


def _band(settings: Settings, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the released entries of a Gram matrix: the upper half of its band."""
    rows, columns = np.triu_indices(side)
    near = columns - rows <= reach_of(settings)
    return rows[near], columns[near]


def _sines(settings: Settings) -> np.ndarray:
    """Return orthonormal sines (L, N_SINES), which vanish at both ends as displacements do."""
    length = settings.atom_length
    return sine_table(length, N_SINES).T * np.sqrt(2 / (length - 1))


class PrivateRounds(Runtime):
    """Rounds of a site with noise added to all sums.

    ``inside`` runs the rounds without noise; its state and results stay at the site. ``admit``
    says who counts (`Groups`), by default everyone. The noise is made from ``random_bytes``, by
    default of the operating system. No more rounds are answered than a fit has.
    """

    def __init__(
        self,
        cohort: Cohort,
        settings: Settings,
        privacy: dp.Privacy,
        random_bytes: dp.RandomBytes = os.urandom,
        admit: Callable[[np.ndarray], np.ndarray] = np.sign,
    ):
        dp.check_private(settings)
        # A unit found from the recordings would let one subject's numbers depend on others.
        self.inside = InProcess(cohort, settings, ROWS, unit=1.0, is_exact=True)
        self._settings, self._admit, self._random_bytes = settings, admit, random_bytes
        self._left = dp.count_releases(settings)
        self._bound = privacy.bound(settings.n_atoms)
        self._deviation = privacy.deviation(settings.n_atoms, self._left)

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round; return clipped and noisy sums, or zeros where they are not used."""
        exact = self.inside.run_round(kind, broadcast)
        if kind == "express":
            return nothing_like(exact)
        if self._left == 0:
            why = "one more would break the guarantee of differential privacy"
            raise FederationError(f"All agreed releases are spent, and {why}. Nothing is sent.")
        self._left -= 1
        counted = self._admit(self.inside.results().counts)
        rows = {
            name: x * counted.reshape(*counted.shape, *[1] * (x.ndim - 2))
            for name, x in contributions(self.inside.site, broadcast.dictionary, kind).items()
        }
        ends, scales = np.cumsum([x[0].size for x in rows.values()]), scales_of(self._settings)
        parts = np.split(self._add(_flat(rows, scales)), ends[:-1])
        pairs = zip(rows.items(), parts, strict=True)
        totals = {name: part.reshape(x.shape[1:]) / scales[name] for (name, x), part in pairs}
        return to_sums(totals, exact, self._settings)

    def _add(self, rows: np.ndarray) -> np.ndarray:
        """Clip and add the rows of each person, and add noise."""
        rows = add_by_person(rows, self.inside.site.cohort.persons)
        if self._deviation == 0:
            return dp.clip_rows(rows, self._bound).sum(0)
        step = dp.step_of(self._deviation)
        total = dp.add_on_grid(rows, self._bound, step)
        noise = dp.draw_noise(total.size, self._deviation, step, self._random_bytes)
        return step * (total + noise)


def _flat(rows: Rows, scales: dict[str, float]) -> np.ndarray:
    """Return contributions as an array (S, n), scaled."""
    return np.hstack([scales[name] * x.reshape(len(x), -1) for name, x in rows.items()])


def add_by_person(rows: np.ndarray, persons: Any) -> np.ndarray:
    """Return the sum of the rows (S, ...) of each person, in the order of the sorted persons."""
    names, owners = np.unique(persons, return_inverse=True)
    totals = np.zeros((len(names), *rows.shape[1:]), np.result_type(rows, int))
    np.add.at(totals, owners, rows)
    return totals


def suggest_clip(model: BaseCDL, X: Any, quantile: float = 0.75) -> float:
    """Return a clip for `Privacy`, a public number, from recordings that need no protection.

    Parameters
    ----------
    model : PerCDL or PopCDL
        The model to fit, with a first dictionary that is an array.
    X : Cohort or arrays
        Public recordings, or those of people who agreed.
    quantile : float
        Share of these subjects that would not be clipped.

    Returns
    -------
    float
        The quantile of the norms of persons' contributions in a round of each phase, per atom.

    Examples
    --------
    >>> from percdl import Algorithm, PerCDL, TimeWarp, make_synthetic
    >>> pilot = make_synthetic(4, n_times=200, atom_length=20, random_state=0)
    >>> plain = Algorithm(weighting="subjects", realign=False, multistart=False)
    >>> start = pilot.personal_dictionary[0]
    >>> model = PerCDL(2, 20, TimeWarp(1, 3), 0.5, init=start, algorithm=plain)
    >>> bool(1 < suggest_clip(model, pilot.cohort) < 3)
    True
    """
    cohort = as_cohort(X)
    settings = settings_of(model, cohort)
    dp.check_private(settings)
    first = given_atoms(model.init)
    if not isinstance(first, np.ndarray):
        what = f"a first dictionary: `init` an array, not {model.init!r}"
        raise InvalidParameterError(f"`suggest_clip` needs {what}.")
    broadcast = Broadcast(normalize(check_atoms(first, settings)))
    runtime = InProcess(cohort, settings, ROWS, is_exact=True)
    norms = []
    for kind in ("population", "personal"):
        runtime.run_round(kind, broadcast)
        rows = contributions(runtime.site, broadcast.dictionary, kind)
        own = add_by_person(_flat(rows, scales_of(settings)), cohort.persons)
        norms.append(np.linalg.norm(own, axis=1))
    return float(np.quantile(np.concatenate(norms) / np.sqrt(settings.n_atoms), quantile))


def denoised(rounds: Runtime, settings: Settings, manifest: Manifest) -> Runtime:
    """Return rounds over all members of a run, with noisy totals denoised."""
    privacy, n_sites = manifest.privacy, len(manifest.members)
    return rounds if privacy is None else Denoised(rounds, settings, privacy, n_sites)


class Denoised(Runtime):
    """Rounds over ``n_sites`` sites with noisy sums, whose totals are denoised."""

    def __init__(
        self, runtime: Runtime, settings: Settings, privacy: dp.Privacy, n_sites: int = 1
    ):
        noise = privacy.deviation(settings.n_atoms, dp.count_releases(settings))
        self._runtime, self._settings, self._scales = runtime, settings, scales_of(settings)
        self._deviation = noise * n_sites**0.5  # of the noise in the total

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round everywhere; return denoised sums."""
        sums = self._runtime.run_round(kind, broadcast)
        if kind == "express":
            return sums
        # Counts are not released; zeros would mean that no subject uses an atom.
        sums = replace(sums, counts=np.ones(self._settings.n_atoms))
        if sums.gram.size:
            return self._clear_gauge(self._clear_personal(sums, broadcast.dictionary), sums)
        return self._clear_population(sums, broadcast.dictionary)

    def _clear_population(self, sums: Sums, dictionary: np.ndarray) -> Sums:
        """Return moments and weights of the atoms above the noise, shrunk towards the old atoms.

        An atom moves to another window if the gain in energy exceeds the noise. Samples outside
        of the window are set to zero.
        """
        settings, deviation = self._settings, self._deviation
        moment, weight = np.zeros_like(sums.moment), np.zeros_like(sums.weight)
        flat = deviation / self._scales["weight"]
        for k, atom in enumerate(dictionary):
            mean = sums.weight[k].mean()
            if mean <= SEEN * deviation:
                continue
            clean = mean + _shrink(sums.weight[k] - mean, flat**2 * sums.weight[k].size)
            clean = np.maximum(clean, min(LEAST_WEIGHT * mean, flat))
            move = _find_window(sums.moment[k], mean, settings.margin, deviation)
            here = slice(settings.margin + move, settings.margin + move + settings.atom_length)
            old = clean[here] * move_windows(dictionary[k : k + 1], np.array([move]))[0]
            noise = deviation**2 * (atom.size + (atom**2).sum())
            weight[k, here] = clean[here]
            moment[k, here] = old + _step(sums.moment[k, here] - old, noise, mean)
        return replace(sums, moment=moment, weight=weight)

    def _clear_personal(self, sums: Sums, dictionary: np.ndarray) -> Sums:
        """Return positive systems of the atoms above the noise, shrunk towards the old atoms."""
        deviation = self._deviation
        gram, right = np.zeros_like(sums.gram), np.zeros_like(sums.transported)
        n_warps, (n_gram, side) = np.zeros_like(sums.n_warps), gram.shape[1:3]
        near = min(2 * reach_of(self._settings) + 1, side)
        entry = deviation / self._scales["gram"]
        # Number of noisy entries, and the largest eigenvalue of their noise (the semicircle law).
        n_noisy, edge = n_gram * side * near, 2 * entry * near**0.5
        for k, atom in enumerate(dictionary):
            level = np.trace(sums.gram[k], axis1=1, axis2=2).mean() / side
            if level <= SEEN * deviation * n_gram**0.5:
                continue
            residual = sums.transported[k] - apply_systems(sums.gram[k], atom)
            noise = deviation**2 * atom.size + entry**2 * near * (atom**2).sum()
            flat = level * np.eye(side)
            bent = sums.gram[k] - flat
            kept = _kept(bent, entry**2 * n_noisy, n_noisy / 2)
            gram[k] = flat + kept * (bent + edge * np.eye(side))
            right[k] = apply_systems(gram[k], atom) + _step(residual, noise, level)
            # An atom above the noise has subjects, even if their noisy number is negative.
            n_warps[k] = sums.n_warps[k] if deviation == 0 else max(sums.n_warps[k], level)
        return replace(sums, gram=gram, transported=right, n_warps=n_warps)

    def _clear_gauge(self, clear: Sums, noisy: Sums) -> Sums:
        """Return denoised sums of warps and mixtures, for the denoised numbers of subjects."""
        settings, deviation = self._settings, self._deviation
        still, before = _still(settings, clear.n_warps), _still(settings, noisy.n_warps)
        if "warp" in still:
            n_warps = clear.n_warps[:, None, None]
            noise = (deviation / self._scales["warp"]) ** 2 * N_SINES
            moved = noisy.warp - before["warp"]
            moved = np.stack([[_shrink(row, noise, N_SINES) for row in rows] for rows in moved])
            moved = moved / np.maximum(n_warps, 1)
            samples = np.arange(settings.atom_length)
            # Displacements are scaled so that time runs forward.
            mean = samples + slow_enough(samples, moved) * moved
            clear = replace(clear, warp=n_warps * mean)
            if noisy.inverse_warp.size:  # assume that all warps equal their mean
                with jax.enable_x64(True):
                    warps, counts = jnp.asarray(mean), jnp.asarray(clear.n_warps)
                    sums = jax.vmap(sum_warps)(warps[:, None], counts[:, None])
                clear = replace(clear, **jax.tree.map(np.asarray, sums._asdict()))
        if "mixing" in still:
            mixed = noisy.mixing - before["mixing"]
            noise = (deviation / self._scales["mixing"]) ** 2 * mixed.shape[1]
            mixed = np.stack([_shrink(row, noise) for row in mixed])
            clear = replace(clear, mixing=still["mixing"] + mixed)
        return clear


def _find_window(moment: np.ndarray, weight: float, margin: int, rough: float) -> int:
    """Return by how many samples to move a window within a noisy moment (Lw, P)."""
    squares = (moment**2).sum(1)
    length = len(squares) - 2 * margin
    starts = np.arange(2 * margin + 1)[:, None]
    inside = (starts <= np.arange(len(squares))) & (np.arange(len(squares)) < starts + length)
    energy = inside @ squares / weight
    # Only the samples that two windows do not share matter for the noise of their difference.
    variance = 2 * rough**4 * moment.shape[1] + 4 * rough**2 * squares
    spread = np.sqrt((inside ^ inside[margin]) @ variance) / weight
    gain = energy - energy[margin] - WORTH_A_MOVE * spread
    best = int(gain.argmax())
    return best - margin if gain[best] > 1e-6 * energy[margin] else 0


def _step(difference: np.ndarray, noise: float, level: float) -> np.ndarray:
    """Return the step of an atom of norm one, whose sums it has ``level`` times."""
    return _shrink(difference, noise) if noise < level**2 else np.zeros_like(difference)


def _shrink(difference: np.ndarray, noise: float, freedom: float | None = None) -> np.ndarray:
    """Return the part of a difference that noise of this expected square does not explain."""
    return difference * _kept(difference, noise, freedom)


def _kept(difference: np.ndarray, noise: float, freedom: float | None = None) -> float:
    """Return the share of a difference that noise of this expected square does not explain.

    The margin ``doubt`` is larger for fewer numbers, whose squared noise varies more.
    """
    doubt = 1 + 2 * math.sqrt(2 / (difference.size if freedom is None else freedom))
    square = float((difference**2).sum())
    return max(0.0, 1 - doubt * noise / square) if square > 0 else 0.0
