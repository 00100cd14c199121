"""First dictionary of a federation: agreed on, or found from sums alone.

Sites cannot look for recurring segments together, because segments are recordings. Instead all
draw the same smooth random shapes. Sites code some of their recordings with each candidate, and
the sums of an ordinary population round, masked as all others, give a better atom. Many candidates
take that step in one post, and the best go on. Atoms are added one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.server import population_update
from percdl.algorithm.settings import Settings
from percdl.estimators.start import (
    MOST_LENGTHS,
    MOST_RECORDINGS,
    by_power,
    check_atoms,
    given_atoms,
)
from percdl.federated.groups import Groups
from percdl.federated.layout import Layout, layout_of
from percdl.federated.manifest import Manifest
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort, Recording
from percdl.steps.initialization import draw_shapes

# Shapes drawn for each atom, and how many candidates go on after each step.
N_DRAWN, N_KEPT = 24, (8, 3, 1)
Gather: TypeAlias = Callable[[np.ndarray], list[Sums]]


def first_dictionary(manifest: Manifest, settings: Settings, gather: Gather) -> np.ndarray:
    """Return the first dictionary (K, L, P) of a run, given or found by sums.

    ``gather`` returns the totals over all sites of the sums with each of some candidates. The
    search takes three posts per atom. It draws ``n_restarts`` times as many shapes.
    """
    model = manifest.make_model()
    given = given_atoms(model.init)
    if given is not None:
        return check_atoms(np.asarray(given, float), settings)
    seed = model.random_state
    if seed is None:  # every site draws the same shapes
        seed = int.from_bytes(hashlib.sha256(manifest.run.encode()).digest()[:8], "big")
    rng, n_drawn = np.random.default_rng(int(seed)), N_DRAWN * model.n_restarts
    # Empty slots hold zero atoms, which are never activated.
    found = np.zeros((settings.n_atoms, settings.atom_length, settings.n_channels))
    for k in range(settings.n_atoms):
        candidates = np.repeat(found[None], n_drawn, axis=0)
        candidates[:, k] = draw_shapes(n_drawn, settings.atom_length, settings.n_channels, rng)
        for n_kept in N_KEPT:
            candidates = _advance(candidates, settings, gather)[:n_kept]
        found = candidates[0]
    return found


def try_dictionaries(
    cohort: Cohort, settings: Settings, n_masks: int, least: int, dictionaries: np.ndarray
) -> np.ndarray:
    """Return the sums of a population round with each of some dictionaries (C, K, L, P).

    The sums are over the beginnings of some recordings, at least ``least`` of them for each atom
    of each candidate. Candidates are not compared: one has nothing to do with the next.
    """
    trial, layout = _trial(settings, n_masks)
    sample, vectors = _sample(cohort, settings, least), []
    for dictionary in dictionaries:
        runtime, broadcast = InProcess(sample, trial, None, n_masks), Broadcast(dictionary)
        groups = Groups(len(sample), settings.n_atoms, least)
        sums = groups.limit(runtime, runtime.population_round(broadcast), "population", broadcast)
        vectors.append(layout.pack(sums))
    return np.concatenate(vectors)


def trial_layout(n_candidates: int, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the sums of several trials, one after the other."""
    return Layout(_trial(settings, n_masks)[1].entries * n_candidates)


def split_trials(
    total: np.ndarray, n_candidates: int, settings: Settings, n_masks: int
) -> list[Sums]:
    """Return the sums of each trial."""
    one = _trial(settings, n_masks)[1]
    return [one.unpack(part) for part in np.split(total, n_candidates)]


def _trial(settings: Settings, n_masks: int) -> tuple[Settings, Layout]:
    """Return settings that code candidates without overlap, and the layout of their sums."""
    trial = replace(settings, coder=settings.disjoint_coder)
    return trial, layout_of("population", trial, n_masks)


def _advance(candidates: np.ndarray, settings: Settings, gather: Gather) -> np.ndarray:
    """Let all candidates take the step of a population round; return them, the best first."""
    trial, sums = replace(settings, coder=settings.disjoint_coder), gather(candidates)
    order = np.argsort([own.objective for own in sums], kind="stable")
    steps = (population_update(sums[c], Broadcast(candidates[c]), trial)[0] for c in order)
    return np.stack([step.dictionary for step in steps])


def _sample(cohort: Cohort, settings: Settings, least: int) -> Cohort:
    """Return the beginnings of some recordings, over the whole range of powers."""
    n_picked = min(len(cohort), max(MOST_RECORDINGS, least))
    ranks = np.linspace(0, len(cohort) - 1, n_picked).astype(int)
    longest = MOST_LENGTHS * settings.atom_length
    picked = (cohort[i] for i in np.sort(by_power(cohort)[ranks]))
    return Cohort(Recording(r.values[:longest], subject=r.subject) for r in picked)
