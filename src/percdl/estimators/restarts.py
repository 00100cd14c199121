"""The fit from each of several first dictionaries; the lowest objective wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from percdl.algorithm.history import History, StopReason
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.algorithm.standing import Standing, begin
from percdl.estimators.first_dictionary import revive_atoms
from percdl.estimators.validation import check_samples, warn_offset
from percdl.runtimes.hosting import host_fit
from percdl.runtimes.protocol import HostedFit, Place
from percdl.signals import AnyCohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


@dataclass(frozen=True)
class End:
    """How one run ended: the dictionary (K, L, P), how good it is, why, and all about subjects."""

    dictionary: np.ndarray
    objective: float
    stop_reason: StopReason
    history: History
    results: Results


@dataclass(frozen=True)
class Moment:
    """A fit between two rounds.

    Attributes
    ----------
    restart : int
        Which run this is.
    standing, history
        How far it has come.
    draws : tuple
        State of the random generator.
    best : End or None
        The best of the runs before.
    site : dict of arrays
        The state of the subjects; none at the end of a fit, which ``best`` tells all about.
    """

    restart: int
    standing: Standing
    history: History
    draws: tuple
    best: End | None
    site: dict[str, np.ndarray]


@dataclass(frozen=True)
class Watch:
    """Who is told of a fit, and where it starts.

    ``save(take)`` is called after each round, then ``report(phase, round, objective)``; once
    more at the end. It writes the moment that ``take()`` returns to ``path``, and returns whether
    both could be done. With ``resumed``, the fit goes on from there.
    """

    report: Callable[[str, int, float], None]
    path: Path | None = None
    save: Callable[[Callable[[], Moment]], bool] = lambda take: True
    resumed: Moment | None = None


def count_runs(model: BaseCDL) -> int:
    """Return from how many first dictionaries a fit is run: one that was given is the only one."""
    return model.n_restarts if isinstance(model.init, str) else 1


def rounds_per_run(model: BaseCDL) -> int:
    """Return the largest number of rounds from one first dictionary."""
    algorithm = model.resolve("algorithm")
    return algorithm.population_rounds + algorithm.personal_rounds


def count_rounds(model: BaseCDL) -> int:
    """Return how many rounds a fit has at most."""
    return count_runs(model) * rounds_per_run(model)


def run_restarts(
    model: BaseCDL, cohort: AnyCohort, settings: Settings, watch: Watch, place: Place | None
) -> End:
    """Run from each first dictionary; return the end with the lowest objective."""
    runtime = host_fit(place, cohort, settings, settings.chunk_rows)
    try:
        check_samples(cohort)  # the runtime has measured them as it took them up
        warn_offset(cohort, settings.dtype, type(model).__name__)
        end, is_saved = _run_restarts(model, cohort, settings, watch, runtime)
    except BaseException:
        # A checkpoint may speak of what is there.
        runtime.close(keep=True)
        raise
    runtime.close(keep=not is_saved)
    return end


def _run_restarts(
    model: BaseCDL, cohort: AnyCohort, settings: Settings, watch: Watch, runtime: HostedFit
) -> tuple[End, bool]:
    """Return the best end, and whether nobody needs the state of the subjects any more."""
    rng = check_random_state(model.random_state)
    revive = None  # a dictionary that was given is not meddled with
    if isinstance(model.init, str):
        revive = partial(revive_atoms, cohort=cohort, settings=settings, rng=rng)
    first, best, resumed = 0, None, watch.resumed
    if resumed is not None and resumed.best is not None and not resumed.site:
        return resumed.best, True
    if resumed is not None:
        runtime.restore(resumed.site)
        rng.set_state(resumed.draws)
        first, best = resumed.restart, resumed.best
    for restart in range(first, count_runs(model)):
        if resumed is not None:
            history, start, resumed = resumed.history, resumed.standing, None
        else:
            history = History()
            start = model._first_dictionary(cohort, settings, rng, restart)

        def save(standing: Standing, restart=restart, history=history, best=best) -> None:
            if watch.path is not None:
                moment = Moment(restart, standing, history, _draws(rng), best, {})
                if watch.save(partial(_with_site, moment, runtime, watch.path)):
                    runtime.settle()

        outcome = run_percdl(runtime, settings, start, history, watch.report, revive, save)
        if best is None or outcome.sums.objective < best.objective:
            best = End(
                outcome.dictionary,
                outcome.sums.objective,
                outcome.stop_reason,
                history,
                runtime.results(),
            )
    assert best is not None  # there is at least one run
    end = Moment(restart, begin(best.dictionary), history, _draws(rng), best, {})
    return best, watch.save(lambda: end)


def _with_site(moment: Moment, runtime: HostedFit, path: Path) -> Moment:
    return replace(moment, site=runtime.snapshot(path))


def _draws(rng: np.random.RandomState) -> tuple:
    return tuple(rng.get_state(legacy=True))
