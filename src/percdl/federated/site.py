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
from percdl.federated import admission
from percdl.federated.admission import Consent, Holdings
from percdl.federated.agreement import Terms
from percdl.federated.finish import keep_results
from percdl.federated.keys import Identity, check_name, frame
from percdl.federated.local_rounds import LocalRounds, layout_for, question_of
from percdl.federated.roster import Roster, check_announcements
from percdl.federated.run_keys import RunKeys
from percdl.federated.secure import digest, encode, mask
from percdl.federated.store import Store
from percdl.federated.veils import back_up, recover, release
from percdl.runtimes.messages import Reply, Request, n_bytes
from percdl.signals import Cohort

Content = tuple[dict[str, Any], dict[str, np.ndarray]]


@dataclass(frozen=True)
class FederatedSite:
    """A site of a federation: `answer` is a function from requests to replies.

    All it must remember lies in its folder, so that every request may meet a new process. What
    an answer holds is listed in docs/federated; an error that could name a subject is written
    to the site's own log, and crosses as the name of the error alone.

    Parameters
    ----------
    name : str
        What the site is called.
    cohort : Cohort
        Its recordings.
    folder : Path
        Where it keeps agreements, states, its log and its results, by run.
    identity : Identity, optional
        Its registered key; needed for masked sums.
    registered : dict of Ed25519PublicKey
        The public keys of all sites.
    consent : Consent
        What it insists on.
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
            with suppress(OSError):  # a disk that is full takes no log either
                store.log({**line, "refused": str(error)})
            if isinstance(error, FederationError):
                raise
            # What it says may name subjects: it stays here.
            why = getattr(error, "strerror", None) or type(error).__name__
            raise FederationError(
                f"Site {self.name} cannot answer ({why}); its own log says why."
            ) from error
        return reply

    @cached_property
    def rounds(self) -> LocalRounds:
        """The rounds on its recordings."""
        return LocalRounds(self.cohort, self.limits.min_subjects)

    @cached_property
    def limits(self) -> Consent:
        """What it insists on, now that it is known whose keys it has."""
        return self.consent.given(len(self.registered))

    @cached_property
    def holdings(self) -> Holdings:
        """What it tells of its recordings when it joins."""
        return admission.take_stock(self.cohort)

    def _answer(self, request: Request, store: Store) -> Content:
        admission.check_request(self.name, request)
        if request.kind == "join":
            return self._join(request, store), {}
        if request.kind == "keys":
            store.read_agreement()  # a site that has not joined makes no key
            return {"announcement": self._keys(store).announce(self._known())}, {}
        terms = self._terms(request, store)
        if request.kind == "finish":
            keep_results(self.rounds, terms, request, store, self.write_report)
            store.forget_keys()
            return {}, {}
        roster = list(request.facts["roster"])
        admission.check_subjects(self.name, terms.agreement, self.cohort, self.limits)
        admission.check_roster(self.name, terms, roster, self.limits)
        if request.kind == "release":
            return self._lift(request, store)
        sums, afresh = self.rounds.sums(terms, request, store)
        if not terms.secure:
            return {"afresh": afresh}, {"sums": sums}
        masked, backups = self._mask(sums, terms, request, store)
        return {"afresh": afresh, "backups": backups}, {"sums": masked}

    def _join(self, request: Request, store: Store) -> dict[str, Any]:
        """Agree to the terms of a run, once; return what is told of the recordings."""
        agreement = admission.read_agreement(self.name, request)
        admission.check_agreement(self.name, agreement, self.cohort, self.limits)
        store.write_agreement(agreement, self.holdings.checksum)
        return admission.withhold(self.name, self.holdings, agreement).told()

    def _terms(self, request: Request, store: Store) -> Terms:
        """Return the terms of the run, if they are those this site has agreed to."""
        agreement, recordings = store.read_agreement()
        if request.facts["terms"].get("agreement") != agreement.digest:
            raise FederationError(
                f"Site {self.name} has agreed to other terms of this run. Start a new run."
            )
        terms = Terms.from_json(request.facts["terms"], agreement)
        holdings = admission.withhold(self.name, self.holdings, agreement)
        own = (recordings, holdings, self.limits, store.had_keys)
        admission.check_terms(self.name, terms, *own)
        return terms

    def _mask(
        self, sums: np.ndarray, terms: Terms, request: Request, store: Store
    ) -> tuple[np.ndarray, dict[str, str]]:
        """Return sums under masks that cancel over the roster and a veil, and its backups."""
        settings = terms.make_settings()
        layout = layout_for(request, settings, terms.n_masks)
        scales = layout.scales(terms.bounds, settings)
        try:
            encoded = encode(sums, scales, len(terms.members), layout.locate)
        except FederationError as error:
            # It tells a sum of this site alone.
            store.log({"asked": request.kind, "round": request.round, "refused": str(error)})
            raise FederationError(
                f"A sum of site {self.name} exceeds what was agreed on; its own log says which."
            ) from error
        occasion = self._occasion(request, store, question_of(request))
        return mask(encoded, *occasion), back_up(*occasion)

    def _lift(self, request: Request, store: Store) -> Content:
        """Lift the veil over what was answered, and those of sites that are lost."""
        occasion = self._occasion(request, store, request.facts["question"])
        lost = request.facts["lost"]
        return {"seeds": {self.name: release(*occasion), **recover(lost, *occasion)}}, {}

    def _occasion(
        self, request: Request, store: Store, question: str
    ) -> tuple[RunKeys, Roster, str, int, int, bytes]:
        """Return what tells a masked sum from all others, with the keys of its roster checked."""
        keys, announced = self._keys(store), request.facts.get("announcements", [])
        terms = digest(json.dumps(request.facts["terms"], sort_keys=True).encode())
        if keys.claim(digest(frame("terms", request.run)), terms) != terms:
            raise FederationError(
                f"The terms of run {request.run} have changed since site {self.name} took part in "
                "it. Start a new run."
            )
        roster = check_announcements(announced, self.registered, request.run, keys)
        chosen = roster.only(request.facts["roster"])
        return keys, chosen, request.run, request.round, request.attempt, question.encode()

    def _keys(self, store: Store) -> RunKeys:
        if store.had_keys and not store.keys.exists():
            raise FederationError(
                f"Run {store.run} is over at site {self.name}, and its key of that run is "
                "deleted. Start a new run."
            )
        if store.keys.exists():
            return RunKeys.read(self.name, store.run, store.keys)
        return RunKeys.generate(self.name, store.run, store.keys)

    def _known(self) -> Identity:
        if self.identity is None:
            raise FederationError(
                f"Site {self.name} has no registered key, which masked sums need. Make one with "
                "`percdl federate keys`, or agree on `secure=False`."
            )
        return self.identity
