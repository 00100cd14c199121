"""The end of a run: the model that all share, and what each site keeps of its own subjects."""

from __future__ import annotations

import warnings
from dataclasses import astuple
from typing import Any

import numpy as np

from percdl.algorithm.history import History, StopReason
from percdl.algorithm.loop import Outcome, run_frozen
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.estimators.base import BaseCDL
from percdl.estimators.checkpoint import read_history
from percdl.estimators.restarts import End
from percdl.exceptions import FederationError
from percdl.federated.agreement import Terms, choices_of
from percdl.federated.local_rounds import LocalRounds, read_broadcast
from percdl.federated.store import Store
from percdl.runtimes.messages import Request
from percdl.signals.events import events_to_csv


def conclude(outcome: Outcome, history: History, settings: Settings) -> End:
    """Return the end of a fit as the coordinator knows it: without subjects."""
    objective, reason = outcome.sums.objective, outcome.stop_reason
    return End(outcome.dictionary, objective, reason, history, nobody(settings))


def make_model(terms: Terms, end: End) -> BaseCDL:
    """Return the model that a federated fit has learned: a dictionary, and no subjects."""
    model = terms.agreement.make_model()
    model._adopt(end, choices_of(model), terms.signals, terms.make_settings())
    return model


def last_words(end: End) -> dict[str, Any]:
    """Return what sites are told at the end besides the dictionary, as JSON."""
    return {
        "objective": end.objective,
        "reason": end.stop_reason.value,
        "history": [list(astuple(record)) for record in end.history.records],
    }


def read_end(told: dict[str, Any], dictionary: np.ndarray, results: Results) -> End:
    """Read back `last_words`; anything else is refused."""
    try:
        reason, history = StopReason(told["reason"]), read_history(told["history"])
        return End(dictionary, float(told["objective"]), reason, history, results)
    except (KeyError, TypeError, ValueError) as error:
        raise FederationError(
            f"What is told of the end of a run cannot be read ({error!r}). Coordinator and sites "
            "must run the same version of percdl."
        ) from error


def keep_results(
    rounds: LocalRounds, terms: Terms, request: Request, store: Store, write_report: bool
) -> None:
    """Write a site's model, events and report to its disk; nothing of them crosses."""
    model, settings = terms.agreement.make_model(), terms.make_settings()
    dictionary = read_broadcast(request, settings).dictionary
    runtime = rounds.state_after(request.facts["follows"], terms, settings, store)
    if runtime is None:  # it missed the end, and catches up
        runtime = rounds.begin(terms, settings)
        run_frozen(runtime, settings, dictionary)
    end = read_end(request.facts, dictionary, runtime.results())
    model._adopt(end, choices_of(model), rounds.cohort, settings)
    model.save(store.folder / "model.percdl")
    events_to_csv(model.events_, store.folder / "events.csv")
    if write_report:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.report(store.folder / "report.html")


def nobody(settings: Settings) -> Results:
    """Return results over no subjects."""
    none = np.zeros(0, int)
    params = np.zeros((0, settings.n_atoms, settings.n_params))
    counts = np.zeros((0, settings.n_atoms), int)
    return Results(params, counts, none, none, none, np.zeros(0), np.zeros(0))
