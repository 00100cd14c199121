"""A site: it holds recordings, and answers a coordinator with sums over its subjects."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.settings import Settings
from percdl.estimators.checkpoint import unpack_end
from percdl.exceptions import FederationError, PerCDLError
from percdl.federated import start
from percdl.federated.agreement import Agreement, Terms, fitted_model
from percdl.federated.consent import Conditions, Consent
from percdl.federated.identities import Identity, RunKeys, check_announcements
from percdl.federated.layout import Layout, check_broadcast, layout_of, withhold
from percdl.federated.messages import (
    are_finite,
    check_name,
    digest,
    frame,
    question_of,
    read_request,
)
from percdl.federated.privacy import count_releases, count_rounds
from percdl.federated.private_rounds import ROWS, PrivateRounds
from percdl.federated.secure_sum import MaskedSum, encode
from percdl.federated.store import Ledger, Store
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.messages import Reply, Request, n_bytes
from percdl.signals import Cohort
from percdl.signals.events import events_to_csv

Content = tuple[dict[str, Any], dict[str, np.ndarray]]


class Question(NamedTuple):
    """A request within a run: its content, the terms of the run, and the files of the site."""

    request: Request
    content: Any
    terms: Terms
    store: Store

    @property
    def follows(self) -> int | None:
        """The round that this one continues from."""
        return getattr(self.content, "follows", None)

    @property
    def layout(self) -> Layout:
        """Layout of the answer."""
        kind, options = self.request.kind, (self.terms.settings, self.terms.n_masks)
        if kind == "first":
            return start.trial_layout(len(self.request.arrays["dictionaries"]), *options)
        return layout_of(kind, *options)


@dataclass(frozen=True)
class FederatedSite:
    """A site of a federation: `answer` is a function from requests to replies.

    Its whole state lies in its folder, so each request may be answered by a new process. The
    contents of answers are listed in docs/federated. An error that could name a subject is written
    to the site's own log; only the type of the error is sent.

    Parameters
    ----------
    name, cohort : str, Cohort
        Name of the site, and its recordings.
    folder : Path
        Folder of its agreements, states, logs and results, by run.
    identity : Identity, optional
        Its registered key; needed for masked sums.
    registered : dict of Ed25519PublicKey
        The public keys of all sites.
    consent : Consent
        Its conditions.
    write_report : bool
        Whether to write an HTML report of its subjects at the end.

    Examples
    --------
    >>> from percdl import make_synthetic
    >>> site = FederatedSite("lyon", make_synthetic(4, random_state=0).cohort, Path("runs"))
    >>> site.consent.min_sites
    2
    """

    name: str
    cohort: Cohort = field(repr=False)
    folder: Path
    identity: Identity | None = None
    registered: dict[str, Any] = field(default_factory=dict)
    consent: Consent = field(default_factory=Consent)
    write_report: bool = False

    def __post_init__(self) -> None:
        check_name("site", self.name)

    def answer(self, request: Request) -> Reply:
        """Answer a request, or raise a `FederationError` that says why not."""
        store = Store(self.folder, request.run)
        line = {"asked": request.kind, "round": request.round, "attempt": request.attempt}
        try:
            facts, arrays = self._answer(request, store)
            echo = (request.kind, request.run, request.round, request.attempt)
            reply = Reply(self.name, *echo, facts, arrays)
            store.log({**line, "roster": request.facts.get("roster"), "bytes": n_bytes(reply)})
        except (PerCDLError, OSError) as error:
            with suppress(OSError):  # a full disk has no room for the log either
                store.log({**line, "refused": str(error)})
            if isinstance(error, FederationError):
                raise
            # The message may name subjects, so it stays here.
            why = getattr(error, "strerror", None) or type(error).__name__
            raise FederationError(
                f"Site {self.name} cannot answer ({why}); its own log says why."
            ) from error
        return reply

    @cached_property
    def rounds(self) -> LocalRounds:
        """The rounds on its recordings."""
        return LocalRounds(self.cohort, self.consent.min_subjects)

    @cached_property
    def conditions(self) -> Conditions:
        """Its consent, applied to its recordings."""
        return Conditions(self.name, self.cohort, self.consent.given(len(self.registered)))

    def _answer(self, request: Request, store: Store) -> Content:
        content, kind = read_request(self.name, request), request.kind
        if kind == "join":
            agreement = self.conditions.read_agreement(content.agreement, request.arrays)
            store.write_agreement(agreement, self.conditions.identity)
            return self.conditions.to_send(agreement).model_dump(mode="json"), {}
        agreement, recordings = store.read_agreement()
        if kind == "keys":
            if self.identity is None:
                raise FederationError(
                    f"Site {self.name} has no registered key, which masked sums need. Make one "
                    "with `percdl federate keys`, or agree on `secure=False`."
                )
            return {"announcement": self._keys(store).announce(self.identity)}, {}
        if content.terms.agreement != agreement.digest:
            raise FederationError(
                f"Site {self.name} has agreed to other terms of this run. Start a new run."
            )
        terms = Terms.of(agreement, **dict(content.terms))
        self.conditions.check_terms(terms, recordings, store.had_keys)
        question = Question(request, content, terms, store)
        if kind == "finish":
            self.rounds.keep_results(question, self.write_report)
            store.forget_keys()
            return {}, {}
        self.conditions.check_subjects(agreement)
        self.conditions.check_roster(terms, content.roster)
        if kind == "release":
            hidden = self._masked_sum(question, content.question)
            return {"seeds": {self.name: hidden.release(), **hidden.recover(content.lost)}}, {}
        sums, afresh = self.rounds.sums(question)
        if not terms.secure:
            return {"afresh": afresh}, {"sums": sums}
        encoded = self._encode(sums, question)
        hidden = self._masked_sum(question, question_of(request))
        return {"afresh": afresh, "backups": hidden.back_up()}, {"sums": hidden.mask(encoded)}

    def _encode(self, sums: np.ndarray, question: Question) -> np.ndarray:
        request, _, terms, store = question
        scales = question.layout.scales(terms.bounds, terms.settings)
        try:
            return encode(sums, scales, len(terms.members), question.layout.locate)
        except FederationError as error:
            # The message holds a sum of this site alone, so it stays here.
            store.log({"asked": request.kind, "round": request.round, "refused": str(error)})
            raise FederationError(
                f"A sum of site {self.name} exceeds its agreed bound; its own log says which."
            ) from error

    def _masked_sum(self, question: Question, context: str) -> MaskedSum:
        """Return the sum over the roster of a request, after a check of all keys."""
        request, content, _, store = question
        keys = self._keys(store)
        terms = digest(json.dumps(request.facts["terms"], sort_keys=True).encode())
        if keys.claim(digest(frame("terms", request.run)), terms) != terms:
            raise FederationError(
                f"The terms of run {request.run} have changed since site {self.name} took part in "
                "it. Start a new run."
            )
        roster = check_announcements(content.announcements, self.registered, request.run, keys)
        what = request.round, request.attempt, context.encode()
        return MaskedSum(keys, roster.only(content.roster), *what)

    def _keys(self, store: Store) -> RunKeys:
        if store.keys.exists():
            return RunKeys.read(self.name, store.run, store.keys)
        if store.had_keys:
            raise FederationError(
                f"Run {store.run} is over at site {self.name}, and its key of that run is "
                "deleted. Start a new run."
            )
        return RunKeys.generate(self.name, store.run, store.keys)


class LocalRounds:
    """Rounds on the recordings of a site, over ``min_subjects`` or more for each atom.

    The state after a round lies on disk. The last one is also kept in memory, for processes that
    live longer than one request.
    """

    def __init__(self, cohort: Cohort, min_subjects: int):
        self.cohort, self.min_subjects = cohort, min_subjects
        self._last: tuple[tuple[str, int], InProcess] | None = None

    def sums(self, question: Question) -> tuple[np.ndarray, bool]:
        """Return sums as a vector, and whether the site had no state of the round before.

        Asked again, a site repeats its answer, and its state does not change.
        """
        request, _, terms, store = question
        asked = question_of(request)
        known = store.read_sums(request.round, asked)
        if known is not None:
            return known, False
        given = read_question(question)
        n_agreed = agreed_rounds(terms.accepted, terms.settings)[request.kind]
        store.spend_round(n_agreed, request.kind, request.round, asked)
        state, afresh = {}, False
        if isinstance(given, Broadcast):
            runtime, given, afresh = self._ready(question, given)
            privacy = terms.accepted.make_privacy()
            if privacy is None:
                sums = runtime.run_round(request.kind, given)
                sums = withhold(sums, runtime.count_people(), self._least(terms))
            else:
                ledger = Ledger(count_releases(terms.settings), store.folder / "released")
                sums = PrivateRounds(runtime, privacy, ledger).run_round(request.kind, given)
            vector = question.layout.pack(sums)
            state, self._last = runtime.snapshot(), ((store.run, request.round), runtime)
        else:
            options = terms.settings, terms.n_masks, self._least(terms)
            vector = start.try_dictionaries(self.cohort, *options, given)
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            raise FederationError(
                f"The sum `{question.layout.locate(int(bad[0]))}` is not finite. Nothing is sent. "
                "Check the recordings of this site."
            )
        store.write_round(request.round, asked, vector, state)
        return vector, afresh

    def keep_results(self, question: Question, write_report: bool) -> None:
        """Write the site's own model, events and report to its disk."""
        _, content, terms, store = question
        last = _read_broadcast(question)
        runtime = self._state_after(question)
        if runtime is None:  # the site missed the end and catches up
            runtime = self._begin(terms)
            runtime.express(last)
        end = unpack_end(dict(content), last, runtime.results())
        model = fitted_model(terms, end, self.cohort)
        model.save(store.folder / "model.percdl")
        events_to_csv(model.events_, store.folder / "events.csv")
        if write_report:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.report(store.folder / "report.html")

    def _state_after(self, question: Question) -> InProcess | None:
        """Return a runtime in the state that a question continues from, if it is kept."""
        if self._last is not None and self._last[0] == (question.store.run, question.follows):
            return self._last[1]
        state = question.store.read_state(question.follows)
        if not state:
            return None
        runtime = self._begin(question.terms)
        runtime.restore(state)
        return runtime

    def _least(self, terms: Terms) -> int:
        """Return the smallest number of people behind a number that leaves the site."""
        return max(terms.accepted.min_subjects_per_site, self.min_subjects)

    def _begin(self, terms: Terms) -> InProcess:
        """Return a runtime before its first round."""
        if terms.accepted.privacy is not None:
            # A unit found from the recordings would let one subject's numbers depend on others.
            return InProcess(self.cohort, terms.settings, ROWS, terms.n_masks, unit=1.0)
        return InProcess(self.cohort, terms.settings, terms.settings.chunk_rows, terms.n_masks)

    def _ready(
        self, question: Question, broadcast: Broadcast
    ) -> tuple[InProcess, Broadcast, bool]:
        """Return a runtime, its broadcast, and whether it lacks the state of earlier rounds.

        Without that state, the codes of the present dictionary replace the missing ones.
        """
        kind, kept = question.request.kind, self._state_after(question)
        runtime = self._begin(question.terms) if kept is None else kept
        if kept is not None or question.follows is None:
            return runtime, broadcast, False
        broadcast = replace(broadcast, move=None, gauge=None, mixing_gauge=None)
        if kind == "personal":
            runtime.population_round(broadcast)
        return runtime, broadcast, True


def agreed_rounds(agreement: Agreement, settings: Settings) -> Counter[str]:
    """Return how many rounds of each kind a site answers in a run.

    Differential privacy does not cover the search for a first dictionary.
    """
    rounds = count_rounds(settings)
    if agreement.privacy is None:
        rounds["first"] = start.count_trials(agreement.make_model())
    return rounds


def read_question(question: Question) -> np.ndarray | Broadcast:
    """Return the dictionaries to try, or the broadcast of a round."""
    kind, arrays = question.request.kind, question.request.arrays
    if kind == "first":
        n_drawn = start.count_drawn(question.terms.accepted.make_model())
        return check_candidates(arrays.get("dictionaries"), question.terms.settings, n_drawn)
    if question.follows is None and kind != "population":
        raise FederationError(
            f"A round of kind {kind!r} continues from another one, and `follows` is None. The "
            "first round of a run is of kind 'population'."
        )
    return _read_broadcast(question)


def check_candidates(
    dictionaries: np.ndarray | None, settings: Settings, n_drawn: int
) -> np.ndarray:
    """Return the dictionaries of a request, at most ``n_drawn``, if they can be tried."""
    shape = (settings.n_atoms, settings.atom_length, settings.n_channels)
    tried = np.empty(0) if dictionaries is None else dictionaries
    if tried.shape[1:] != shape or not 0 < len(tried) <= n_drawn:
        raise FederationError(f"Dictionaries to try must be an array (1 to {n_drawn}, {shape}).")
    if not are_finite(tried, settings.dtype):
        raise FederationError("Dictionaries to try must hold finite numbers.")
    return tried


def _read_broadcast(question: Question) -> Broadcast:
    """Return the broadcast of a request; raises if arrays have other names or shapes."""
    try:
        return check_broadcast(question.request.arrays, question.terms.settings)
    except ValueError as error:
        raise FederationError(f"The coordinator sent {error}") from error
