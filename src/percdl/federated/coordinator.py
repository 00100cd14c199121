"""The coordinator's half of Algorithm 2: joining, rounds over the sites, and the audit log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement, Terms
from percdl.federated.identities import FEWEST_SITES
from percdl.federated.layout import Layout, cover, layout_of
from percdl.federated.messages import Signals, Strict, explain, question_of, read_reply
from percdl.federated.secure_sum import decode, unveil
from percdl.federated.store import stamped
from percdl.runtimes.messages import Failure, Reply, Request, Wire, n_bytes
from percdl.runtimes.protocol import Rounds
from percdl.signals.files import append_private

# A site that failed in this number of rounds in a row is not asked again.
MOST_FAILURES = 3

Texts = dict[str, str]
Arrays = dict[str, np.ndarray]


class Patience(Strict):
    """Seconds until a site is left out of a round, and attempts until the run ends."""

    round_timeout: Annotated[float, Field(gt=0)]
    max_attempts: Annotated[int, Field(ge=1)]


@dataclass
class Attempt:
    """One line of the log: a question to some sites, and the answers.

    ``dropped`` holds the sites that were not counted, and why; ``unlifted`` the sites lost after
    they answered with a masked sum; ``afresh`` the sites without the state of the round before.
    Sizes in bytes are by site, ``seconds`` is the time until the last answer, and ``objective``
    is that of all sites together, if the sums contain it.
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


class Answers(NamedTuple):
    """Valid replies and their contents by site, and a line of the log with all others."""

    replies: dict[str, Reply]
    contents: dict[str, Any]
    line: Attempt


def convene(
    wire: Wire, run: str, agreement: Agreement, patience: Patience, audit: Audit
) -> Coordinator:
    """Let the sites join and announce their keys; return the coordinator of the run."""

    def ask(request: Request, sites: Sequence[str], least: int, did: str) -> Answers:
        got = ask_all(wire, request, sites, patience.round_timeout)
        audit.add(got.line)
        if len(got.replies) < least:
            raise FederationError(
                f"{len(got.replies)} site(s) ({', '.join(sorted(got.replies)) or 'none'}) have "
                f"{did}, and {least} are needed. {list_lost(got.line.dropped)}"
            )
        return got

    proposal = Request("join", run, 0, 0, {"agreement": agreement.model_dump()}, agreement.arrays)
    least = max(agreement.min_sites, FEWEST_SITES if agreement.secure is True else 0)
    joined = ask(proposal, wire.sites(), least, "joined").contents
    members, announcements = sorted(joined), []
    signals = joined[members[0]].signals
    for site in members:
        for name, a, b in zip(Signals._fields, signals, joined[site].signals, strict=True):
            if a != b:
                raise FederationError(
                    f"The sites must agree on {name}: site {members[0]} has {a!r}, and site "
                    f"{site} has {b!r}. Process the recordings alike, or leave one of them out."
                )
    secure = agreement.masks(len(members))
    if secure:
        least = max(FEWEST_SITES, agreement.min_sites)
        announced = ask(Request("keys", run, 1, 0), members, least, "announced a key")
        members = sorted(announced.replies)
        announcements = [announced.replies[site].facts["announcement"] for site in members]
    terms = Terms.of(
        agreement,
        signals=signals,
        n_masks=max(joined[site].n_masks for site in members),
        bounds=cover({site: joined[site].bounds for site in members}),
        members=tuple(members),
        secure=secure,
    )
    return Coordinator(wire, run, terms, patience, audit, announcements, round=2)


@dataclass
class Coordinator(Rounds):
    """Runtime over the subjects of all sites; rounds are numbered over the whole run.

    ``announcements`` are the signed keys of the sites, where sums are masked; ``round`` is the
    number of the next round, ``follows`` the round that it continues from, and ``failed`` counts
    the consecutive rounds in which each site has failed.
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

    @property
    def settings(self) -> Settings:
        """Settings of the fit."""
        return self.terms.settings

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Let all sites run a round of a kind; return the sums."""
        layout = layout_of(kind, self.settings, self.terms.n_masks)
        facts, arrays = {"follows": self.follows}, broadcast.to_arrays()
        vector = self.gather(kind, facts, arrays, layout, lambda x: layout.unpack(x).objective)
        self.follows = self.round - 1
        return layout.unpack(vector)

    def gather(
        self,
        kind: Any,
        facts: dict[str, Any],
        arrays: Arrays,
        layout: Layout,
        objective: Callable[[np.ndarray], float],
    ) -> np.ndarray:
        """Ask the sites for sums until enough have answered; return the total, a vector (n,).

        Masked sums need the whole roster: if a site does not answer, the others are asked again.
        """
        secure, roster, dropped = self.terms.secure, self._present(), {}
        for attempt in range(self.patience.max_attempts):
            if len(roster) < self._fewest:
                roster = self._present()  # sites that failed may be back
            if len(roster) < self._fewest:
                break
            request = self._request(kind, attempt, facts, arrays, roster)
            got = self._ask(request, roster, layout.size)
            dropped |= got.line.dropped
            enough = not got.line.dropped if secure else len(got.replies) >= self._fewest
            total = self._add(request, got, layout) if enough else None
            if total is not None:
                got.line.objective = objective(total)
            self.audit.add(got.line)
            if total is not None:
                self.failed.update(dropped.keys() - got.replies.keys())
                for site in got.replies:
                    self.failed.pop(site, None)
                self.round += 1
                return total
            dropped |= got.line.unlifted
            roster = sorted(got.replies) if secure else roster
        raise FederationError(
            f"Round {self.round} of run {self.run} ({kind}) has no sum over {self._fewest} sites "
            f"or more: {list_lost(dropped) or 'no site can be reached'}. If there is a "
            "checkpoint, it is of the round before: resume when the sites are back."
        )

    def tell(self, kind: Any, facts: dict[str, Any], arrays: Arrays) -> None:
        """Send all members a message that is not answered with sums."""
        roster = sorted(set(self.wire.sites()) & set(self.terms.members))
        self.audit.add(self._ask(self._request(kind, 0, facts, arrays, roster), roster).line)
        self.round += 1

    @property
    def _fewest(self) -> int:
        """Smallest number of sites in a sum."""
        least = self.terms.accepted.min_sites
        return max(least, FEWEST_SITES) if self.terms.secure else least

    def _present(self) -> list[str]:
        """Return the members that can be reached and have not failed too often."""
        members = set(self.wire.sites()) & set(self.terms.members)
        return sorted(site for site in members if self.failed[site] < MOST_FAILURES)

    def _request(
        self, kind: Any, attempt: int, facts: dict[str, Any], arrays: Arrays, roster: Sequence[str]
    ) -> Request:
        shared = {"terms": self.terms.model_dump(mode="json"), "roster": list(roster)}
        if self.announcements:
            shared["announcements"] = self.announcements
        return Request(kind, self.run, self.round, attempt, {**shared, **facts}, arrays)

    def _ask(
        self, request: Request, sites: Sequence[str], size: int | None = None, more: Any = None
    ) -> Answers:
        dtype = np.dtype(np.uint64 if self.terms.secure else np.float64)
        needed = None if size is None else (dtype, size)
        return ask_all(self.wire, request, sites, self.patience.round_timeout, needed, more)

    def _add(self, request: Request, got: Answers, layout: Layout) -> np.ndarray | None:
        """Add sums in the order of the names; None if seeds of masked sums are missing."""
        sites = sorted(got.replies)
        parts = {site: got.replies[site].arrays["sums"] for site in sites}
        if not self.terms.secure:
            return layout.add(parts)
        backups = {site: got.contents[site].backups for site in sites}
        seeds = collect_seeds(backups, lambda lost: self._release(request, lost, got.line))
        if seeds.keys() != got.replies.keys():
            return None
        masked = np.stack(list(parts.values())).sum(axis=0, dtype=np.uint64)
        scales = layout.scales(self.terms.bounds, self.settings)
        return decode(unveil(masked, seeds, sites), scales, len(self.terms.members))

    def _release(
        self, request: Request, lost: dict[str, Texts], line: Attempt
    ) -> dict[str, Texts]:
        """Ask sites for their seeds, and for those of lost sites; return seeds by site asked."""
        facts, roster = {"question": question_of(request)}, request.facts["roster"]
        release = self._request("release", request.attempt, facts, {}, roster)
        more = {site: {"lost": backups} for site, backups in lost.items()}
        got = self._ask(release, list(lost), more=more)
        # The log has one line for both questions of a masked round.
        line.unlifted |= got.line.dropped
        line.seconds = round(line.seconds + got.line.seconds, 3)
        line.bytes_down = dict(Counter(line.bytes_down) + Counter(got.line.bytes_down))
        line.bytes_up = dict(Counter(line.bytes_up) + Counter(got.line.bytes_up))
        return {site: content.seeds for site, content in got.contents.items()}


def collect_seeds(
    backups: dict[str, Texts], ask: Callable[[dict[str, Texts]], dict[str, Texts]]
) -> Texts:
    """Return the seeds of all sites of a masked sum; of some, if too many sites are lost.

    ``backups`` came with the masked sums; ``ask`` asks sites for their own seed and, with the
    backups made for them, for those of lost sites.
    """
    answered = ask({site: {} for site in sorted(backups)})
    lost = sorted(backups.keys() - answered.keys())
    if lost and answered:
        answered |= ask({site: {of: backups[of][site] for of in lost} for site in answered})
    return {of: seed for seeds in answered.values() for of, seed in seeds.items()}


def ask_all(
    wire: Wire,
    request: Request,
    sites: Sequence[str],
    timeout: float,
    needed: tuple[np.dtype, int] | None = None,
    more: dict[str, dict[str, Any]] | None = None,
) -> Answers:
    """Ask sites, with ``more`` facts for each; separate valid replies from all others.

    ``needed`` are the type and the number of the sums to answer with, None for no sums.
    """
    own = more or {}
    requests = {s: replace(request, facts=request.facts | own.get(s, {})) for s in sites}
    began = time.perf_counter()
    answers = wire.ask(requests, timeout) if requests else {}
    good, contents, lost = {}, {}, {}
    for site in sites:
        answer = answers.get(site, Failure(site, "did not answer"))
        try:
            contents[site] = _read(site, answer, requests[site], needed)
            good[site] = answer
        except ValueError as error:
            lost[site] = str(error)
    line = Attempt(
        run=request.run,
        round=request.round,
        attempt=request.attempt,
        kind=request.kind,
        roster=sorted(sites),
        dropped=lost,
        unlifted={},
        afresh=sorted(site for site in good if getattr(contents[site], "afresh", False)),
        bytes_down={site: n_bytes(asked) for site, asked in requests.items()},
        bytes_up={site: n_bytes(reply) for site, reply in good.items()},
        seconds=round(time.perf_counter() - began, 3),
    )
    return Answers(good, contents, line)


def _read(
    site: str, answer: Reply | Failure, request: Request, needed: tuple[np.dtype, int] | None
) -> Any:
    """Return the content of a valid reply; raises `ValueError` for all others."""
    if isinstance(answer, Failure):
        raise ValueError(answer.why)
    if answer.site != site:
        raise ValueError(f"answered in the name of {answer.site!r}")
    echo = (answer.kind, answer.run, answer.round, answer.attempt)
    if echo != (request.kind, request.run, request.round, request.attempt):
        raise ValueError(
            "answered {} of run {}, round {}, attempt {}, which was not asked".format(*echo)
        )
    try:
        content = read_reply(answer)
    except ValueError as error:
        raise ValueError(f"sent an answer that cannot be read ({explain(error)})") from error
    found = {
        name: (x.dtype, *x.shape) if isinstance(x, np.ndarray) else type(x)
        for name, x in answer.arrays.items()
    }
    if found != ({} if needed is None else {"sums": needed}):
        raise ValueError(f"sent arrays {found} where {needed or 'no sums'} was needed")
    if not all(np.isfinite(sums).all() for sums in answer.arrays.values()):
        raise ValueError("sent numbers that are not finite")
    others = set(request.facts.get("roster", ())) - {site}
    if needed and needed[0] == np.uint64 and content.backups.keys() != others:
        raise ValueError("sent no backups for the other sites")
    if request.kind == "release" and content.seeds.keys() != {site, *request.facts["lost"]}:
        raise ValueError("did not send the seeds it was asked for")
    return content


def list_lost(lost: Texts) -> str:
    """Return a list of lost sites with reasons."""
    return "; ".join(f"site {site}: {why}" for site, why in sorted(lost.items()))
