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
from percdl.federated.agreement import Terms, choices_of
from percdl.federated.local_rounds import LocalRounds
from percdl.federated.store import Store
from percdl.runtimes.messages import Request
from percdl.signals.writers.events import events_to_csv


def make_model(terms: Terms, outcome: Outcome, history: History) -> BaseCDL:
    """Return the model that a federated fit has learned: a dictionary, and no subjects."""
    model, settings = terms.agreement.make_model(), terms.make_settings()
    end = End(
        outcome.dictionary,
        outcome.sums.objective,
        outcome.stop_reason,
        history,
        _nobody(settings),
    )
    model._adopt(end, choices_of(model), terms.signals, settings)
    return model


def last_words(outcome: Outcome, history: History) -> dict[str, Any]:
    """Return what sites are told at the end besides the dictionary, as JSON."""
    return {
        "objective": outcome.sums.objective,
        "reason": outcome.stop_reason.value,
        "history": [list(astuple(record)) for record in history.records],
    }


def keep_results(
    rounds: LocalRounds, terms: Terms, request: Request, store: Store, write_report: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Write a site's model, events and report to its disk; nothing of them crosses."""
    model, settings = terms.agreement.make_model(), terms.make_settings()
    dictionary = request.arrays["dictionary"]
    runtime = rounds.state_after(request.facts["follows"], terms, settings, store)
    if runtime is None:  # it missed the end, and catches up
        runtime = rounds.begin(terms, settings)
        run_frozen(runtime, settings, dictionary)
    end = End(
        dictionary,
        float(request.facts["objective"]),
        StopReason(request.facts["reason"]),
        read_history(request.facts["history"]),
        runtime.results(),
    )
    model._adopt(end, choices_of(model), rounds.cohort, settings)
    model.save(store.folder / "model.percdl")
    events_to_csv(model.events_, store.folder / "events.csv")
    if write_report:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.report(store.folder / "report.html")
    return {}, {}


def _nobody(settings: Settings) -> Results:
    """Return results over no subjects."""
    none = np.zeros(0, int)
    params = np.zeros((0, settings.n_atoms, settings.n_params))
    counts = np.zeros((0, settings.n_atoms), int)
    return Results(params, counts, none, none, none, np.zeros(0))
