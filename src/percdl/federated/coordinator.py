"""The coordinator's half of Algorithm 2: joining, rounds over the sites, and the audit log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement, Terms
from percdl.federated.identities import FEWEST_SITES
from percdl.federated.layout import Layout, cover, layout_of
from percdl.federated.messages import Signals, explain, question_of, read_reply
from percdl.federated.secure_sum import decode, unveil
from percdl.federated.store import stamped
from percdl.runtimes.messages import Failure, Kind, Reply, Request, Wire, n_bytes
from percdl.signals.files import append_private

# A site that failed in this number of rounds in a row is not asked again.
MOST_FAILURES = 3

Texts = dict[str, str]
Check = Callable[[Reply, Any], str | None]


@dataclass(frozen=True)
class Patience:
    """Seconds until a site is left out of a round, and attempts until the run ends."""

    round_timeout: float
    max_attempts: int


@dataclass
class Attempt:
    """One line of the log.

    Attributes
    ----------
    run : str
    round, attempt : int
    kind : str
        Kind of the request.
    roster : list of str
        Sites that were asked.
    dropped : dict of str
        Sites that were not counted, and why.
    unlifted : dict of str
        Sites lost after they answered with a masked sum, and why; others replaced them.
    afresh : list of str
        Sites that had no state of the round before and started from the present dictionary.
    bytes_down, bytes_up : dict of int
        Size of requests and replies, by site.
    seconds : float
        Time until the last answer.
    objective : float or None
        Objective of all sites together, where the sums contain it.
    """

    run: str
    round: int
    attempt: int
    kind: str
    roster: list[str]
    dropped: Texts
    unlifted: Texts
    afresh: list[str]
    bytes_down: dict[str, int]
    bytes_up: dict[str, int]
    seconds: float
    objective: float | None = None

    def add_release(self, release: Attempt) -> None:
        """Add the second question of a masked round, which asks for the seeds."""
        self.unlifted |= release.dropped
        self.seconds = round(self.seconds + release.seconds, 3)
        for site, size in release.bytes_down.items():
            self.bytes_down[site] += size
        for site, size in release.bytes_up.items():
            self.bytes_up[site] += size


@dataclass
class Audit:
    """Log of a run in memory and, with a path, in a file of JSON lines."""

    path: Path | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def add(self, attempt: Attempt) -> None:
        """Write a line; it is on disk before the next request goes out."""
        self.attempts.append(attempt)
        if self.path is not None:
            append_private(self.path, stamped(asdict(attempt)))

    def to_records(self) -> list[dict[str, Any]]:
        """Return all lines as dicts."""
        return [asdict(attempt) for attempt in self.attempts]


@dataclass(frozen=True)
class Answers:
    """Valid replies and their contents by site, the reasons of the others, and a log line."""

    replies: dict[str, Reply]
    contents: dict[str, Any]
    lost: Texts
    line: Attempt


def convene(
    wire: Wire, run: str, agreement: Agreement, patience: Patience, audit: Audit
) -> Coordinator:
    """Let the sites join and announce their keys; return the coordinator of the run.

    A site that joins tells channels, units, sampling rate and processing of its recordings,
    whether samples are missing, and powers of two above their energy and number of samples.
    """
    proposal = Request("join", run, 0, 0, {"agreement": agreement.to_json()}, agreement.arrays)
    joined = _ask(wire, proposal, wire.sites(), patience, audit)
    least = max(agreement.min_sites, FEWEST_SITES if agreement.secure is True else 0)
    _check_enough(joined, least, "joined")
    told = {site: joined.contents[site] for site in sorted(joined.contents)}
    signals = _common_signals({site: holdings.signals for site, holdings in told.items()})
    secure = agreement.masks(len(told))
    announcements: list[dict[str, Any]] = []
    if secure:
        question = Request("keys", run, 1, 0)
        announced = _ask(wire, question, tuple(told), patience, audit)
        _check_enough(announced, max(FEWEST_SITES, agreement.min_sites), "announced a key")
        told = {site: told[site] for site in sorted(announced.replies)}
        announcements = [announced.replies[site].facts["announcement"] for site in told]
    terms = Terms(
        agreement,
        signals,
        max(holdings.n_masks for holdings in told.values()),
        cover([holdings.bounds for holdings in told.values()]),
        tuple(told),
        secure,
    )
    return Coordinator(wire, run, terms, patience, audit, announcements, round=2)


@dataclass
class Coordinator:
    """Runtime over the subjects of all sites; rounds are numbered over the whole run.

    Attributes
    ----------
    wire : Wire
        Transport of requests and replies.
    run : str
        Name of the run.
    terms : Terms
    patience : Patience
    audit : Audit
    announcements : list of dict
        Signed keys of the sites, where sums are masked.
    round : int
        Number of the next round.
    follows : int or None
        The round that the next one continues from.
    failed : dict of int
        Number of consecutive rounds in which each site has failed.
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
        """Let all sites run CSC with the common atoms; return the sums."""
        return self._round("population", broadcast)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Let all sites run IPU and CSC; return the sums."""
        return self._round("personal", broadcast)

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Let all sites take over the centred dictionary; return the sums."""
        return self._round("recenter", broadcast)

    @cached_property
    def settings(self) -> Settings:
        """Settings of the fit."""
        return self.terms.make_settings()

    def _round(self, kind: Kind, broadcast: Broadcast) -> Sums:
        layout = layout_of(kind, self.settings, self.terms.n_masks)
        facts, arrays = {"follows": self.follows}, broadcast.to_arrays()
        vector = self.gather(kind, facts, arrays, layout, lambda x: layout.unpack(x).objective)
        self.follows = self.round - 1
        return layout.unpack(vector)

    def gather(
        self,
        kind: Kind,
        facts: dict[str, Any],
        arrays: dict[str, np.ndarray],
        layout: Layout,
        objective: Callable[[np.ndarray], float],
    ) -> np.ndarray:
        """Ask the sites for sums until enough have answered; return the total, a vector (n,).

        Plain sums are added over the sites that answered. Masked sums need the whole roster: a
        site that does not answer is left out, and the others are asked again.
        """
        roster, dropped = self._present(), {}
        for attempt in range(self.patience.max_attempts):
            if len(roster) < self._fewest:
                roster = self._present()  # sites that failed may be back
            if len(roster) < self._fewest:
                break
            request = self._request(kind, attempt, facts, arrays, roster)
            got = self._ask(request, roster, layout.size)
            dropped |= got.lost
            enough = not got.lost if self.terms.secure else len(got.replies) >= self._fewest
            total = self._add(request, got, layout) if enough else None
            dropped |= got.line.unlifted if total is None else {}
            got.line.objective = None if total is None else objective(total)
            self.audit.add(got.line)
            if total is not None:
                self._note(dropped.keys() - got.replies.keys(), got.replies)
                self.round += 1
                return total
            roster = sorted(got.replies) if self.terms.secure else roster
        raise FederationError(
            f"Round {self.round} of run {self.run} ({kind}) has no sum over {self._fewest} sites "
            f"or more: {list_lost(dropped) or 'no site can be reached'}. If there is a "
            "checkpoint, it is of the round before: resume when the sites are back."
        )

    def tell(self, kind: Kind, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Send all members a message that is not answered with sums."""
        roster = sorted(set(self.wire.sites()) & set(self.terms.members))
        request = self._request(kind, 0, facts, arrays, roster)
        if roster:
            self.audit.add(self._ask(request, roster, None).line)
        self.round += 1

    @property
    def _fewest(self) -> int:
        """Smallest number of sites in a sum."""
        least = self.terms.agreement.min_sites
        return max(least, FEWEST_SITES) if self.terms.secure else least

    def _present(self) -> list[str]:
        """Return the members that can be reached and have not failed too often."""
        members = set(self.wire.sites()) & set(self.terms.members)
        return sorted(site for site in members if self.failed[site] < MOST_FAILURES)

    def _note(self, lost: set[str], good: dict[str, Reply]) -> None:
        """Count failures in a row."""
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

    def _ask(self, request: Request, roster: list[str], size: int | None) -> Answers:
        """Ask some sites for a vector of a size; None: for no array."""

        def check(reply: Reply, content: Any) -> str | None:
            wrong = check_sums(reply, size, self.terms.secure)
            if wrong is None and self.terms.secure and size is not None:
                complete = content.backups.keys() == set(roster) - {reply.site}
                return None if complete else "sent no backups for the other sites"
            return wrong

        requests = dict.fromkeys(roster, request)
        return ask_all(self.wire, requests, self.patience.round_timeout, check)

    def _add(self, request: Request, got: Answers, layout: Layout) -> np.ndarray | None:
        """Add sums in the order of the names; None where seeds of masked sums are missing."""
        sites = sorted(got.replies)
        parts = [got.replies[site].arrays["sums"] for site in sites]
        if not self.terms.secure:
            return layout.add(dict(zip(sites, parts, strict=True)))
        total = np.sum(parts, axis=0, dtype=parts[0].dtype)
        backups = {site: got.contents[site].backups for site in sites}
        seeds = collect_seeds(backups, lambda lost: self._release(request, lost, got.line))
        if seeds.keys() != got.replies.keys():
            return None
        scales = layout.scales(self.terms.bounds, self.settings)
        return decode(unveil(total, seeds, sites), scales, len(self.terms.members))

    def _release(
        self, request: Request, lost: dict[str, Texts], line: Attempt
    ) -> dict[str, Texts]:
        """Ask sites for their seeds, and for those of lost sites; return seeds by site asked."""
        roster, question = request.facts["roster"], question_of(request)
        requests = {}
        for site, backups in lost.items():
            facts = {"question": question, "lost": backups}
            requests[site] = self._request("release", request.attempt, facts, {}, roster)

        def check(reply: Reply, content: Any) -> str | None:
            wanted = {reply.site, *lost[reply.site]}
            if reply.arrays or content.seeds.keys() != wanted:
                return "did not send the seeds it was asked for"
            return None

        got = ask_all(self.wire, requests, self.patience.round_timeout, check)
        line.add_release(got.line)
        return {site: content.seeds for site, content in got.contents.items()}


def collect_seeds(
    backups: dict[str, Texts], ask: Callable[[dict[str, Texts]], dict[str, Texts]]
) -> Texts:
    """Return the seeds of all sites of a masked sum; of some, where too many sites are lost.

    ``backups`` holds the backups that came with each masked sum. ``ask`` asks sites for their own
    seed and for those of lost sites, with the backups that these made for them.
    """
    answered = ask({site: {} for site in sorted(backups)})
    lost = sorted(backups.keys() - answered.keys())
    if lost and answered:
        answered |= ask({site: {of: backups[of][site] for of in lost} for site in answered})
    return {of: seed for seeds in answered.values() for of, seed in seeds.items()}


def ask_all(wire: Wire, requests: dict[str, Request], timeout: float, check: Check) -> Answers:
    """Ask sites; separate valid replies from all others."""
    began = time.perf_counter()
    answers = wire.ask(requests, timeout)
    good, contents, lost = {}, {}, {}
    for site, request in requests.items():
        answer = answers.get(site, Failure(site, "did not answer"))
        try:
            contents[site] = _read(site, answer, request, check)
            good[site] = answer
        except ValueError as error:
            lost[site] = explain(error)
    one = next(iter(requests.values()))
    line = Attempt(
        run=one.run,
        round=one.round,
        attempt=one.attempt,
        kind=one.kind,
        roster=sorted(requests),
        dropped=lost,
        unlifted={},
        afresh=sorted(site for site in good if getattr(contents[site], "afresh", False)),
        bytes_down={site: n_bytes(request) for site, request in requests.items()},
        bytes_up={site: n_bytes(reply) for site, reply in good.items()},
        seconds=round(time.perf_counter() - began, 3),
    )
    return Answers(good, contents, lost, line)


def check_sums(reply: Reply, size: int | None, secure: bool) -> str | None:
    """Return what is wrong with the arrays of a reply, if anything."""
    if size is None:
        return None if not reply.arrays else "sent arrays that were not asked for"
    dtype = np.dtype(np.uint64 if secure else np.float64)
    sums = reply.arrays.get("sums")
    if set(reply.arrays) != {"sums"} or not isinstance(sums, np.ndarray):
        return f"sent {', '.join(sorted(reply.arrays)) or 'nothing'} where `sums` was needed"
    if sums.shape != (size,) or sums.dtype != dtype:
        return f"sent {sums.dtype} of shape {sums.shape}, and {dtype} of ({size},) was needed"
    if not secure and not np.isfinite(sums).all():
        return "sent numbers that are not finite"
    return None


def list_lost(lost: Texts) -> str:
    """Return a list of lost sites with reasons."""
    return "; ".join(f"site {site}: {why}" for site, why in sorted(lost.items()))


def _ask(
    wire: Wire, request: Request, sites: tuple[str, ...], patience: Patience, audit: Audit
) -> Answers:
    """Ask sites before a run has terms; replies hold no arrays."""
    if not sites:
        return Answers({}, {}, {}, Attempt(request.run, 0, 0, "", [], {}, {}, [], {}, {}, 0.0))
    requests = dict.fromkeys(sites, request)
    got = ask_all(wire, requests, patience.round_timeout, lambda r, _: check_sums(r, None, False))
    audit.add(got.line)
    return got


def _read(site: str, answer: Reply | Failure, request: Request, check: Check) -> Any:
    """Return the content of a valid reply; raises `ValueError` for all others."""
    if isinstance(answer, Failure):
        raise ValueError(answer.why)
    if answer.site != site:
        raise ValueError(f"answered in the name of {answer.site!r}")
    told = (answer.kind, answer.run, answer.round, answer.attempt)
    if told != (request.kind, request.run, request.round, request.attempt):
        raise ValueError(
            "answered {} of run {}, round {}, attempt {}, which was not asked".format(*told)
        )
    try:
        content = read_reply(answer)
    except ValueError as error:
        raise ValueError(f"sent an answer that cannot be read ({explain(error)})") from error
    wrong = check(answer, content)
    if wrong is not None:
        raise ValueError(wrong)
    return content


def _check_enough(got: Answers, least: int, did: str) -> None:
    if len(got.replies) < least:
        raise FederationError(
            f"{len(got.replies)} site(s) ({', '.join(sorted(got.replies)) or 'none'}) have {did}, "
            f"and {least} are needed. {list_lost(got.lost)}"
        )


def _common_signals(told: dict[str, Signals]) -> Signals:
    """Return the signal properties of all sites, which must be the same."""
    first, *others = told
    for site in others:
        for name, a, b in zip(Signals._fields, told[first], told[site], strict=True):
            if a != b:
                raise FederationError(
                    f"The sites must agree on {name}: site {first} has {a!r}, and site {site} "
                    f"has {b!r}. Process the recordings alike, or leave one of them out."
                )
    return told[first]
