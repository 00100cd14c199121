"""The coordinator's rounds: ask all sites, check the answers, add them up, repeat if need be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.agreement import Terms
from percdl.federated.audit import Attempt, Audit
from percdl.federated.lifting import add_release, check_backups, check_seeds, lift_veils
from percdl.federated.local_rounds import question_of
from percdl.federated.packing import Layout, layout_of
from percdl.federated.roster import FEWEST_SITES
from percdl.federated.secure import decode
from percdl.federated.veils import unveil
from percdl.runtimes.messages import Failure, Kind, Reply, Request, Wire, n_bytes

# A site that failed in so many rounds in a row is not asked again.
MOST_FAILURES = 3


@dataclass(frozen=True)
class Patience:
    """How long a coordinator waits, and how often it asks.

    Attributes
    ----------
    round_timeout : float
        Seconds until a site that has not answered is dropped from the round.
    max_attempts : int
        How often a round is tried before the run ends.
    """

    round_timeout: float
    max_attempts: int


@dataclass
class Coordinator:
    """A runtime whose subjects are at sites; rounds are numbered over the whole run.

    Attributes
    ----------
    wire : Wire
        What carries requests and replies.
    run : str
        Name of the run.
    terms : Terms
        What all have agreed on.
    patience : Patience
    audit : Audit
        The log.
    announcements : list of dict
        The signed keys of the sites, where sums are masked.
    round : int
        Number of the next round.
    follows : int or None
        The round whose states the next one starts from.
    failed : dict of int
        In how many rounds in a row each site has failed.
    """

    wire: Wire
    run: str
    terms: Terms
    patience: Patience
    audit: Audit
    announcements: list[dict[str, Any]] = field(default_factory=list)
    round: int = 1
    follows: int | None = None
    failed: Counter[str] = field(default_factory=Counter)

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Have all sites run CSC with the common atoms; return the sums."""
        return self._round("population", broadcast)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Have all sites run IPU and CSC; return the sums."""
        return self._round("personal", broadcast)

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Have all sites take over the centred dictionary; return the sums."""
        return self._round("recenter", broadcast)

    @cached_property
    def settings(self) -> Settings:
        """What is solved and how."""
        return self.terms.make_settings()

    def _round(self, kind: Kind, broadcast: Broadcast) -> Sums:
        layout = layout_of(kind, self.settings, self.terms.n_masks)
        facts = {"follows": self.follows}
        arrays = broadcast.to_arrays()
        vector = self.gather(kind, facts, arrays, layout, lambda x: layout.unpack(x).objective)
        self.follows = self.round - 1
        return layout.unpack(vector)

    def gather(
        self,
        kind: Kind,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        layout: Layout,
        objective: Callable[[np.ndarray], float | None] = lambda total: None,
    ) -> np.ndarray:
        """Ask the sites for sums until enough have answered; return the total, a vector (n,).

        Plain sums are added over those that answered. Masked ones must come from the whole
        roster: who is missing is left out, and the others are asked again.
        """
        roster, dropped = self._present(), {}
        for attempt in range(self.patience.max_attempts):
            if len(roster) < self._fewest:
                roster = self._present()  # perhaps those that failed are back
            if len(roster) < self._fewest:
                break
            request = self._request(kind, attempt, facts, arrays, roster)
            good, lost, line = self._ask(request, roster, layout.size)
            dropped |= lost
            enough = not lost if self.terms.secure else len(good) >= self._fewest
            total = self._add(request, good, layout, line) if enough else None
            dropped |= line["unlifted"] if total is None else {}
            told = None if total is None else objective(total)
            self.audit.add(Attempt(**line, objective=told))
            if total is not None:
                self._note(dropped.keys() - good.keys(), good)
                self.round += 1
                return total
            roster = sorted(good) if self.terms.secure else roster
        raise FederationError(
            f"Round {self.round} of run {self.run} ({kind}) has no sum over {self._fewest} sites "
            f"or more: {list_lost(dropped) or 'no site can be reached'}. The checkpoint, if there "
            "is one, is that of the round before: resume when the sites are back."
        )

    def tell(
        self, kind: Kind, facts: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> dict[str, Reply]:
        """Tell all members something that no sum comes of; return who has answered."""
        roster = sorted(set(self.wire.sites()) & set(self.terms.members))
        request = self._request(kind, 0, facts, arrays, roster)
        good, _, line = self._ask(request, roster, None)
        self.audit.add(Attempt(**line))
        self.round += 1
        return good

    @property
    def _fewest(self) -> int:
        """Fewest sites of a sum."""
        least = self.terms.agreement.min_sites
        return max(least, FEWEST_SITES) if self.terms.secure else least

    def _present(self) -> list[str]:
        """Return the members that can be reached and have not failed too often."""
        members = set(self.wire.sites()) & set(self.terms.members)
        return sorted(site for site in members if self.failed[site] < MOST_FAILURES)

    def _note(self, lost: set[str], good: dict[str, Reply]) -> None:
        """Count failures; one good answer makes up for all of them."""
        for site in lost:
            self.failed[site] += 1
        for site in good:
            self.failed.pop(site, None)

    def _request(
        self,
        kind: Kind,
        attempt: int,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        roster: Sequence[str],
    ) -> Request:
        shared = {"terms": self.terms.to_json(), "roster": list(roster)}
        if self.announcements:
            shared["announcements"] = self.announcements
        return Request(kind, self.run, self.round, attempt, {**shared, **facts}, arrays)

    def _ask(
        self, request: Request, roster: list[str], size: int | None
    ) -> tuple[dict[str, Reply], dict[str, str], dict[str, Any]]:
        """Ask some sites; return good replies, who was lost and why, and a line for the log."""

        def check(reply: Reply) -> str | None:
            wrong = check_sums(reply, size, self.terms.secure)
            masked = self.terms.secure and size is not None
            return wrong or (check_backups(reply, roster) if masked else None)

        requests = dict.fromkeys(roster, request)
        return ask_all(self.wire, requests, self.patience.round_timeout, check)

    def _add(
        self, request: Request, good: dict[str, Reply], layout: Layout, line: dict[str, Any]
    ) -> np.ndarray | None:
        """Add up in the order of the names; None where veils stay on, and why in the line."""
        parts = [good[site].arrays["sums"] for site in sorted(good)]
        if not self.terms.secure:
            return layout.add(dict(zip(sorted(good), parts, strict=True)))
        total = np.sum(parts, axis=0, dtype=parts[0].dtype)
        seeds = lift_veils(good, lambda lost: self._release(request, lost, line))
        if seeds.keys() != good.keys():
            return None
        scales = layout.scales(self.terms.bounds, self.settings)
        return decode(unveil(total, seeds, sorted(good)), scales, len(self.terms.members))

    def _release(
        self, request: Request, lost: dict[str, dict[str, str]], line: dict[str, Any]
    ) -> dict[str, Reply]:
        """Ask sites to lift their veils, and those of lost ones whose backups they are sent."""
        roster, question = request.facts["roster"], question_of(request)
        requests = {}
        for site, backups in lost.items():
            facts = {"question": question, "lost": backups}
            requests[site] = self._request("release", request.attempt, facts, {}, roster)
        good, unlifted, more = ask_all(
            self.wire,
            requests,
            self.patience.round_timeout,
            lambda reply: check_seeds(reply, lost[reply.site]),
        )
        add_release(line, unlifted, more)
        return good


def ask_all(
    wire: Wire,
    requests: dict[str, Request],
    timeout: float,
    check: Callable[[Reply], str | None],
) -> tuple[dict[str, Reply], dict[str, str], dict[str, Any]]:
    """Ask sites; return good replies, why others are not, and a line for the log."""
    began = time.perf_counter()
    answers = wire.ask(requests, timeout)
    good, lost = {}, {}
    for site, request in requests.items():
        answer = answers.get(site, Failure(site, "did not answer"))
        why = _why_not(site, answer, request) or check(answer)  # pyright: ignore[reportArgumentType]
        if why is None and isinstance(answer, Reply):
            good[site] = answer
        else:
            lost[site] = str(why)
    one = next(iter(requests.values()))
    line = {
        "run": one.run,
        "round": one.round,
        "attempt": one.attempt,
        "kind": one.kind,
        "roster": sorted(requests),
        "dropped": lost,
        "unlifted": {},
        "afresh": sorted(site for site in good if good[site].facts.get("afresh")),
        "bytes_down": {site: n_bytes(request) for site, request in requests.items()},
        "bytes_up": {site: n_bytes(reply) for site, reply in good.items()},
        "seconds": round(time.perf_counter() - began, 3),
    }
    return good, lost, line


def check_sums(reply: Reply, size: int | None, secure: bool) -> str | None:
    """Return what is wrong with the arrays of a reply; None where nothing is."""
    if size is None:
        return None if not reply.arrays else "sent arrays that nobody asked for"
    dtype = np.dtype(np.uint64 if secure else np.float64)
    sums = reply.arrays.get("sums")
    if set(reply.arrays) != {"sums"} or not isinstance(sums, np.ndarray):
        return f"sent {', '.join(sorted(reply.arrays)) or 'nothing'} where `sums` was needed"
    if sums.shape != (size,) or sums.dtype != dtype:
        return f"sent {sums.dtype} of shape {sums.shape}, and {dtype} of ({size},) was needed"
    if not secure and not np.isfinite(sums).all():
        return "sent numbers that are not finite"
    return None


def _why_not(site: str, answer: Reply | Failure, request: Request) -> str | None:
    """Return why an answer is none to this request."""
    if isinstance(answer, Failure):
        return answer.why
    if answer.site != site:
        return f"answered in the name of {answer.site!r}"
    asked = (request.kind, request.run, request.round, request.attempt)
    told = (answer.kind, answer.run, answer.round, answer.attempt)
    if asked != told:
        return "answered {} of run {}, round {}, attempt {}, which is not what was asked".format(
            *told
        )
    return None


def list_lost(lost: dict[str, str]) -> str:
    """Name the sites that are lost, and say why."""
    return "; ".join(f"site {site}: {why}" for site, why in sorted(lost.items()))
