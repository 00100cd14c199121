"""First dictionary of a federation: agreed on, or found from sums alone.

Sites cannot look for recurring segments together, because segments are recordings. Instead the
coordinator draws smooth random shapes. Sites code some of their recordings with each candidate,
and the sums of an ordinary population round, masked as all others, give a better atom. Many
candidates take that step in one message, and the best go on. Atoms are added one by one.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.server import population_update
from percdl.algorithm.settings import Settings
from percdl.estimators.base import BaseCDL
from percdl.estimators.start import (
    MOST_LENGTHS,
    MOST_RECORDINGS,
    by_power,
    check_atoms,
    given_atoms,
)
from percdl.federated.coordinator import Coordinator
from percdl.federated.layout import Layout, layout_of, withhold
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort, Recording
from percdl.steps.initialization import draw_shapes

# Shapes drawn for each atom, and how many candidates go on after each step.
N_DRAWN, N_KEPT = 24, (8, 3, 1)


def first_dictionary(coordinator: Coordinator) -> np.ndarray:
    """Return the first dictionary (K, L, P) of a run, given or found by sums.

    The search takes three messages per atom. It draws ``n_restarts`` times as many shapes.
    """
    settings, model = coordinator.settings, coordinator.terms.accepted.make_model()
    given = given_atoms(model.init)
    if given is not None:
        return check_atoms(np.asarray(given, float), settings)
    seed = model.random_state
    if seed is None:  # every attempt at the run draws the same shapes
        seed = int.from_bytes(hashlib.sha256(coordinator.run.encode()).digest()[:8], "big")
    rng, n_drawn = np.random.default_rng(int(seed)), count_drawn(model)
    # Empty slots hold zero atoms, which are never activated.
    found = np.zeros((settings.n_atoms, settings.atom_length, settings.n_channels))
    for k in range(settings.n_atoms):
        candidates = np.repeat(found[None], n_drawn, axis=0)
        candidates[:, k] = draw_shapes(n_drawn, settings.atom_length, settings.n_channels, rng)
        for n_kept in N_KEPT:
            candidates = _advance(coordinator, candidates)[:n_kept]
        found = candidates[0]
    return found


def count_drawn(model: BaseCDL) -> int:
    """Return the number of shapes drawn per atom, the most dictionaries in a message."""
    return N_DRAWN * model.n_restarts


def count_trials(model: BaseCDL) -> int:
    """Return the number of messages of the search; 0 if a dictionary is given."""
    return 0 if given_atoms(model.init) is not None else len(N_KEPT) * int(model.n_atoms)


def try_dictionaries(
    cohort: Cohort, settings: Settings, n_masks: int, least: int, dictionaries: np.ndarray
) -> np.ndarray:
    """Return the sums of a population round with each of some dictionaries (C, K, L, P).

    The sums are over the beginnings of some recordings, at least ``least`` of them for each atom.
    """
    trial, layout = _trial(settings, n_masks)
    sample, vectors = _sample(cohort, settings, least), []
    for dictionary in dictionaries:
        runtime = InProcess(sample, trial, None, n_masks)
        sums = runtime.population_round(Broadcast(dictionary))
        vectors.append(layout.pack(withhold(sums, runtime.count_people(), least)))
    return np.concatenate(vectors)


def trial_layout(n_candidates: int, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the sums of several trials, one after the other."""
    return Layout(_trial(settings, n_masks)[1].entries * n_candidates)


def _trial(settings: Settings, n_masks: int) -> tuple[Settings, Layout]:
    """Return settings that code candidates without overlap, and the layout of their sums."""
    trial = replace(settings, coder=settings.disjoint_coder)
    return trial, layout_of("population", trial, n_masks)


def _advance(coordinator: Coordinator, candidates: np.ndarray) -> np.ndarray:
    """Let all candidates take the step of a population round; return them, the best first."""
    options = coordinator.settings, coordinator.terms.n_masks
    trial, one = _trial(*options)

    def read(total: np.ndarray) -> list[Sums]:
        return [one.unpack(part) for part in np.split(total, len(candidates))]

    def best(total: np.ndarray) -> float:
        return min(sums.objective for sums in read(total))

    layout, arrays = trial_layout(len(candidates), *options), {"dictionaries": candidates}
    sums = read(coordinator.gather("first", {}, arrays, layout, best))
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
