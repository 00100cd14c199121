"""Algorithm 1 of the paper; runtimes differ only in where the sums are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from percdl.algorithm.coding import ROUNDING
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.server import fix_gauge, personal_update, population_update
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import FitState, History, StopReason, begin
from percdl.steps.dictionary import normalize

# One more update follows if the end of a fit gains this share of the recordings' energy, and if
# the cohort is not larger than this. Both are set by hand.
CLEARLY, FEW = 1e-3, 64


class Runtime(ABC):
    """A place where local rounds run and their sums are added."""

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Run CSC with the common atoms everywhere; return the sums."""
        return self.run_round("population", broadcast)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Run IPU and CSC everywhere; return the sums."""
        return self.run_round("personal", broadcast)

    def express(self, broadcast: Broadcast) -> Sums:
        """Find codes and parameters from the start, with a fixed dictionary; return the sums."""
        return self.run_round("express", broadcast)

    @abstractmethod
    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round, "population", "personal" or "express", everywhere; return the sums."""


@dataclass(frozen=True)
class Outcome:
    """The end of a fit: the dictionary (K, L, P), the last sums, and why it stopped."""

    dictionary: np.ndarray
    sums: Sums
    stop_reason: StopReason
    precision: np.ndarray | None = None


def run_percdl(
    runtime: Runtime,
    settings: Settings,
    start: np.ndarray | FitState,
    history: History,
    report: Callable[[str, int, float], None],
    revive: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    save: Callable[[FitState], None] = lambda state: None,
) -> Outcome:
    """Run both phases of Algorithm 1 from a first dictionary (K, L, P), or from a state.

    After each round ``save(state)`` is called, then ``report(phase, round, objective)``. To
    continue from a state, pass the runtime and the history at that state. Between rounds of the
    first phase, ``revive(dictionary, dead)`` may replace unused atoms (dead, boolean array (K,));
    it needs recordings, so it is optional. One more local round follows the last update, so that
    codes and parameters belong to the dictionary returned.
    """
    state = start if isinstance(start, FitState) else begin(start)
    sums, is_first = None, not (state.population or state.personal)
    n_init, n_perso = settings.schedule
    for index in range(state.population, n_init):  # lines 2-5
        sums = runtime.population_round(state.broadcast)  # line 3, CSC
        history.record("population", index, "CSC", sums.objective)
        if not sums.counts.any():
            return Outcome(state.broadcast.dictionary, sums, StopReason.NO_ACTIVATIONS)
        moves = _moves_left(state, sums)
        broadcast, objective = population_update(sums, state.broadcast, settings, moves)  # line 4
        history.record("population", index, "CDU", objective)
        settled = _settled(state.coded, sums.objective, settings.tol)
        if not settled and revive is not None and not sums.counts.all() and index < n_init - 1:
            alive_again = revive(broadcast.dictionary, sums.counts == 0)
            broadcast = replace(broadcast, dictionary=normalize(alive_again))
        state = replace(
            state,
            broadcast=broadcast,
            population=n_init if settled else index + 1,
            reason=StopReason.CONVERGED if settled else state.reason,
            coded=sums.objective,
            updated=objective,
            is_fixed=moves is not None,
        )
        save(state)
        report("population", index, objective)
        if settled:
            break
    if sums is None and is_first:  # codes to start from, without a first phase
        sums = runtime.population_round(state.broadcast)
    for index in range(state.personal, n_perso):  # lines 6-10
        sums = runtime.personal_round(state.broadcast)  # lines 7-8
        history.record("personal", index, "IPU", sums.objective_fitted)
        history.record("personal", index, "CSC", sums.objective)
        settled = _settled(state.coded if index else None, sums.objective, settings.tol)
        left = 0 if settled else n_perso - 1 - index
        broadcast, objective = personal_update(sums, state.broadcast, settings, left)  # line 9
        history.record("personal", index, "PerCDU", objective)
        state = replace(
            state,
            broadcast=broadcast,
            population=n_init,
            personal=n_perso if settled else index + 1,
            reason=StopReason.CONVERGED if settled else StopReason.ROUNDS_DONE,
            coded=sums.objective,
        )
        save(state)
        report("personal", index, objective)
        if settled:
            break
    return _close(runtime, settings, state, history)


def _close(runtime: Runtime, settings: Settings, state: FitState, history: History) -> Outcome:
    """Bring codes and parameters up to date with the last dictionary, and center it.

    The parameters are found from the start, as for new subjects: a recording gets the same ones
    in both cases. If they explain clearly more than those of the rounds, then the dictionary was
    fitted to worse ones. Among few people, one of them can move the mean warp, so the dictionary
    is updated once more; among many, an update changes little and can lose what was gained.
    """
    broadcast = state.broadcast
    if not settings.schedule[1]:
        sums = runtime.population_round(broadcast)
        history.record("final", 0, "CSC", sums.objective)
        return Outcome(broadcast.dictionary, sums, state.reason, broadcast.precision)
    for index in range(2):
        sums = runtime.personal_round(broadcast)
        history.record("final", index, "IPU", sums.objective_fitted)
        history.record("final", index, "CSC", sums.objective)
        if not settings.ends_centred:
            break
        reached = sums.objective
        broadcast = fix_gauge(sums, broadcast, settings)
        sums = runtime.express(broadcast)
        history.record("final", index, "express", sums.objective)
        # Sums with noise for privacy have no counts here, and no objective.
        few = sums.counts.any() and sums.n_warps.max() <= FEW
        if index or not few or reached - sums.objective < CLEARLY * sums.signal:
            break
        broadcast, _ = personal_update(sums, broadcast, settings, 0)
    return Outcome(broadcast.dictionary, sums, state.reason, broadcast.precision)


def _moves_left(state: FitState, sums: Sums) -> np.ndarray | None:
    """Return the moves of windows that CDU has to make, or None if it may choose.

    A window with more energy can be worse: if recordings end with a pattern, its last repetition
    cannot follow the move. The objective of the exact codes is then above that of CDU, which is
    impossible if the window stays. The move is then undone, and no other move follows.
    """
    move, reached = state.broadcast.move, state.updated
    rose = reached is not None and sums.objective > reached + ROUNDING * sums.signal
    if move is None or not (rose or state.is_fixed):
        return None
    return -move if rose else np.zeros_like(move)


def _settled(before: float | None, now: float, tol: float) -> bool:
    """Whether the objectives of two rounds of a phase differ by less than the tolerance."""
    return tol > 0 and before is not None and abs(before - now) <= tol * abs(before)
