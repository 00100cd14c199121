"""A site: it holds recordings, and answers a coordinator with sums over its subjects."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from percdl.exceptions import FederationError, PerCDLError
from percdl.federated.agreement import Terms
from percdl.federated.consent import Conditions, Consent
from percdl.federated.identities import Identity, RunKeys, check_announcements
from percdl.federated.local_rounds import LocalRounds, layout_for
from percdl.federated.messages import InRun, check_name, digest, frame, question_of, read_request
from percdl.federated.secure_sum import MaskedSum, encode
from percdl.federated.store import Store
from percdl.runtimes.messages import Reply, Request, n_bytes
from percdl.signals import Cohort

Content = tuple[dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True)
class FederatedSite:
    """A site of a federation: `answer` is a function from requests to replies.

    Its whole state lies in its folder, so each request may be answered by a new process. The
    contents of answers are listed in docs/federated. An error that could name a subject is written
    to the site's own log; only the type of the error crosses.

    Parameters
    ----------
    name : str
        Name of the site.
    cohort : Cohort
        Its recordings.
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
            return self.conditions.to_tell(agreement).model_dump(mode="json"), {}
        agreement, recordings = store.read_agreement()
        if kind == "keys":
            return {"announcement": self._announce(store)}, {}
        if content.terms.agreement != agreement.digest:
            raise FederationError(
                f"Site {self.name} has agreed to other terms of this run. Start a new run."
            )
        terms = Terms.of(agreement, **dict(content.terms))
        self.conditions.check_terms(terms, recordings, store.had_keys)
        if kind == "finish":
            self.rounds.keep_results(terms, request, content, store, self.write_report)
            store.forget_keys()
            return {}, {}
        self.conditions.check_subjects(agreement)
        self.conditions.check_roster(terms, content.roster)
        if kind == "release":
            hidden = self._masked_sum(request, content, store, content.question)
            return {"seeds": {self.name: hidden.release(), **hidden.recover(content.lost)}}, {}
        follows = getattr(content, "follows", None)
        sums, afresh = self.rounds.sums(terms, request, follows, store)
        if not terms.secure:
            return {"afresh": afresh}, {"sums": sums}
        encoded = self._encode(sums, terms, request, store)
        hidden = self._masked_sum(request, content, store, question_of(request))
        return {"afresh": afresh, "backups": hidden.back_up()}, {"sums": hidden.mask(encoded)}

    def _encode(
        self, sums: np.ndarray, terms: Terms, request: Request, store: Store
    ) -> np.ndarray:
        layout = layout_for(request, terms)
        scales = layout.scales(terms.bounds, terms.settings)
        try:
            return encode(sums, scales, len(terms.members), layout.locate)
        except FederationError as error:
            # The message holds a sum of this site alone.
            store.log({"asked": request.kind, "round": request.round, "refused": str(error)})
            raise FederationError(
                f"A sum of site {self.name} exceeds its agreed bound; its own log says which."
            ) from error

    def _masked_sum(
        self, request: Request, content: InRun, store: Store, question: str
    ) -> MaskedSum:
        """Return the sum over the roster of a request, after a check of all keys."""
        keys = self._keys(store)
        terms = digest(json.dumps(request.facts["terms"], sort_keys=True).encode())
        if keys.claim(digest(frame("terms", request.run)), terms) != terms:
            raise FederationError(
                f"The terms of run {request.run} have changed since site {self.name} took part in "
                "it. Start a new run."
            )
        roster = check_announcements(content.announcements, self.registered, request.run, keys)
        what = request.round, request.attempt, question.encode()
        return MaskedSum(keys, roster.only(content.roster), *what)

    def _announce(self, store: Store) -> dict[str, str]:
        if self.identity is None:
            raise FederationError(
                f"Site {self.name} has no registered key, which masked sums need. Make one with "
                "`percdl federate keys`, or agree on `secure=False`."
            )
        return self._keys(store).announce(self.identity)

    def _keys(self, store: Store) -> RunKeys:
        if store.keys.exists():
            return RunKeys.read(self.name, store.run, store.keys)
        if store.had_keys:
            raise FederationError(
                f"Run {store.run} is over at site {self.name}, and its key of that run is "
                "deleted. Start a new run."
            )
        return RunKeys.generate(self.name, store.run, store.keys)
