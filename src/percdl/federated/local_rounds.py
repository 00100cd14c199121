"""Rounds of a site: from the state on its disk to sums, computed once per question."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace

import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.loop import run_frozen
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated import start
from percdl.federated.agreement import Agreement, Terms, fitted_model, make_end
from percdl.federated.layout import Layout, check_broadcast, layout_of
from percdl.federated.messages import Finish, are_finite, question_of
from percdl.federated.privacy import count_releases, count_rounds
from percdl.federated.private_rounds import ROWS, PrivateRounds
from percdl.federated.store import Ledger, Store
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.messages import Request
from percdl.runtimes.protocol import Rounds
from percdl.signals import Cohort
from percdl.signals.events import events_to_csv


class LocalRounds:
    """Rounds on the recordings of a site, over ``min_subjects`` or more.

    The state after a round lies on disk. The last one is also kept in memory, for processes that
    live longer than one request.
    """

    def __init__(self, cohort: Cohort, min_subjects: int):
        self.cohort, self.min_subjects = cohort, min_subjects
        self._last: tuple[tuple[str, int], InProcess] | None = None

    def sums(
        self, terms: Terms, request: Request, follows: int | None, store: Store
    ) -> tuple[np.ndarray, bool]:
        """Return sums as a vector, and whether the site had no state of the round before.

        Asked again, a site repeats its answer, and its state does not change.
        """
        question = question_of(request)
        known = store.read_sums(request.round, question)
        if known is not None:
            return known, False
        told = read_question(request, follows, terms)
        n_agreed = agreed_rounds(terms.accepted, terms.settings)[request.kind]
        store.spend_round(n_agreed, request.kind, request.round, question)
        layout = layout_for(request, terms)
        if isinstance(told, Broadcast):
            runtime, broadcast, afresh = self._ready(terms, request, follows, told, store)
            answering = self._answering(runtime, terms, store)
            vector = layout.pack(answering.run_round(request.kind, broadcast))
            state = runtime.snapshot()
            self._last = (store.run, request.round), runtime
        else:
            least = max(terms.accepted.min_subjects_per_site, self.min_subjects)
            options = terms.settings, terms.n_masks, least
            vector = start.try_dictionaries(self.cohort, *options, told)
            state, afresh = {}, False
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            raise FederationError(
                f"The sum `{layout.locate(int(bad[0]))}` is not finite. Nothing is sent. Check "
                "the recordings of this site."
            )
        store.write_round(request.round, question, vector, state)
        return vector, afresh

    def keep_results(
        self, terms: Terms, request: Request, content: Finish, store: Store, write_report: bool
    ) -> None:
        """Write the site's own model, events and report to its disk."""
        dictionary = read_broadcast(request, terms.settings).dictionary
        runtime = self._state_after(content.follows, terms, store)
        if runtime is None:  # the site missed the end and catches up
            runtime = self._begin(terms)
            run_frozen(runtime, terms.settings, dictionary)
        end = make_end(content, dictionary, runtime.results())
        model = fitted_model(terms, end, self.cohort)
        model.save(store.folder / "model.percdl")
        events_to_csv(model.events_, store.folder / "events.csv")
        if write_report:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.report(store.folder / "report.html")

    def _state_after(self, round_: int | None, terms: Terms, store: Store) -> InProcess | None:
        """Return a runtime in the state after a round, if that state is kept."""
        if self._last is not None and self._last[0] == (store.run, round_):
            return self._last[1]
        state = store.read_state(round_)
        if not state:
            return None
        runtime = self._begin(terms)
        runtime.restore(state)
        return runtime

    def _begin(self, terms: Terms) -> InProcess:
        """Return a runtime before its first round."""
        if terms.accepted.privacy is not None:
            # A unit found from the recordings would let one subject's numbers depend on others.
            return InProcess(self.cohort, terms.settings, ROWS, terms.n_masks, unit=1.0)
        return InProcess(self.cohort, terms.settings, terms.settings.chunk_rows, terms.n_masks)

    def _answering(self, runtime: InProcess, terms: Terms, store: Store) -> Rounds:
        """Return the runtime, or one that returns noisy sums in its place."""
        privacy = terms.accepted.make_privacy()
        if privacy is None:
            return runtime
        ledger = Ledger(count_releases(terms.settings), store.folder / "released")
        return PrivateRounds(runtime, privacy, ledger)

    def _ready(
        self, terms: Terms, request: Request, follows: int | None, told: Broadcast, store: Store
    ) -> tuple[InProcess, Broadcast, bool]:
        """Return a runtime, its broadcast, and whether it lacks the state of earlier rounds.

        Without that state, the codes of the present dictionary replace the missing ones.
        """
        runtime = self._state_after(follows, terms, store)
        if runtime is not None:
            return runtime, told, False
        runtime = self._begin(terms)
        if follows is None:
            return runtime, told, False
        told = replace(told, move=None, gauge=None, mixing_gauge=None)
        if request.kind != "population":
            runtime.population_round(told)
        if request.kind == "recenter":
            runtime.personal_round(told)
        return runtime, told, True


def agreed_rounds(agreement: Agreement, settings: Settings) -> Counter[str]:
    """Return how many rounds of each kind a site answers in a run.

    Differential privacy does not cover the search for a first dictionary.
    """
    rounds = count_rounds(settings)
    if agreement.privacy is None:
        rounds["first"] = start.count_trials(agreement.make_model())
    return rounds


def layout_for(request: Request, terms: Terms) -> Layout:
    """Return the layout of the answer to a request."""
    if request.kind == "first":
        n_candidates = len(request.arrays["dictionaries"])
        return start.trial_layout(n_candidates, terms.settings, terms.n_masks)
    return layout_of(request.kind, terms.settings, terms.n_masks)


def read_question(request: Request, follows: int | None, terms: Terms) -> np.ndarray | Broadcast:
    """Return the dictionaries to try, or the broadcast of a round."""
    if request.kind == "first":
        n_drawn = start.count_drawn(terms.accepted.make_model())
        return check_candidates(request.arrays.get("dictionaries"), terms.settings, n_drawn)
    if follows is None and request.kind != "population":
        raise FederationError(
            f"A round of kind {request.kind!r} continues from another one, and `follows` is None. "
            "The first round of a run is of kind 'population'."
        )
    return read_broadcast(request, terms.settings)


def check_candidates(
    dictionaries: np.ndarray | None, settings: Settings, n_drawn: int
) -> np.ndarray:
    """Return the dictionaries of a request, at most ``n_drawn``, if they can be tried."""
    shape = (settings.n_atoms, settings.atom_length, settings.n_channels)
    if dictionaries is None or dictionaries.ndim != 4 or dictionaries.shape[1:] != shape:
        raise FederationError(f"Dictionaries to try must be arrays (n, {shape}).")
    few = 0 < len(dictionaries) <= n_drawn
    if not few or not are_finite(dictionaries, settings.dtype):
        raise FederationError(
            f"Between 1 and {n_drawn} dictionaries of finite numbers can be tried at once."
        )
    return dictionaries


def read_broadcast(request: Request, settings: Settings) -> Broadcast:
    """Return the broadcast of a request; raises where arrays have other names or shapes."""
    try:
        return check_broadcast(request.arrays, settings)
    except ValueError as error:
        raise FederationError(f"The coordinator sent {error}") from error
