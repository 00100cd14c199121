"""A server that adds: with ``aggregate="server"`` it computes dictionaries, and sites get them.

Sites see no totals then. The server is trusted to compute honestly, since it could choose any
dictionary (docs/federated/threat_model.md). It runs the loop of every fit on the posts of the
sites, and starts over after a restart, which gives the same answers. A site follows it for as
many rounds as the manifest has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History, StopReason
from percdl.exceptions import FederationError, PerCDLError
from percdl.federated import start
from percdl.federated.alarm import contradicts, is_broken
from percdl.federated.board import SERVER, Board, TakingTurns
from percdl.federated.layout import check_broadcast, layout_of
from percdl.federated.manifest import Manifest, Terms, combine
from percdl.federated.messages import Joining, Post, Question, explain, parse
from percdl.federated.private_rounds import denoised
from percdl.federated.rounds import FederatedRounds, add_posts
from percdl.federated.transcript import Place, check_posts, link
from percdl.runtimes.protocol import Rounds


def read_joined(posts: Mapping[str, Post]) -> dict[str, Joining]:
    """Return what all sites have posted on joining; raises for anything else."""
    joined = {}
    for site, post in posts.items():
        try:
            joined[site] = parse(Joining, post.head.facts)
        except ValueError as error:
            raise FederationError(
                f"Site {site} joined with a message that cannot be read ({explain(error)})."
            ) from error
    return joined


def agree(manifest: Manifest, joined: Mapping[str, Joining]) -> Terms:
    """Return the terms of a run that all members have joined."""
    return Terms(manifest, combine({site: post.holdings for site, post in joined.items()}))


@dataclass
class ServerRounds(Rounds):
    """Runtime of the server: a round is a question to all sites, and the total of their posts."""

    manifest: Manifest
    board: Board | TakingTurns
    history: History = field(default_factory=History)
    slot: int = 0
    chain: str = ""
    _joined: dict[str, bytes] = field(default_factory=dict)

    def join(self) -> Terms:
        """Wait until all sites have joined; return the terms of the run."""
        self.chain = self.manifest.digest
        self.terms = agree(self.manifest, read_joined(self._collect("join")))
        return self.terms

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Let all sites run a round; return the sums over all."""
        layout = layout_of(kind, self.terms.settings, self.terms.n_masks)
        self.ask(kind, broadcast.to_arrays())
        total = layout.unpack(add_posts(self.terms, kind, layout, self._collect(kind)))
        exact = self.manifest.privacy is None  # else there are no objectives
        if exact and (
            contradicts(total, broadcast, self.terms.settings)
            or is_broken(self.history, kind, broadcast, total)
        ):
            raise FederationError(
                f"The objective of slot {self.slot} of run {self.manifest.run} is not what the "
                f"sums promised ({kind}): some sums were wrong. A server that adds cannot tell "
                "whose. Have the sites checked, or let the sites add."
            )
        return total

    def ask(self, kind: str, arrays: Mapping[str, np.ndarray], why: str = "") -> None:
        """Answer the posts of the last slot with the next round, or with the end."""
        question = Question(run=self.manifest.run, slot=self.slot, kind=kind, why=why[:1000])  # pyright: ignore[reportArgumentType]
        content = question.write(arrays)
        self.board.answer(self.slot, content)
        self.chain = link(self.chain, self.slot, {SERVER: content, **self._joined})
        self.slot += 1

    def _collect(self, kind: str) -> dict[str, Post]:
        received = self.board.collect(self.slot)
        assert received is not None  # there is no limit of time
        self._joined = received if self.slot == 0 else {}
        at = Place(self.slot, self.chain, kind, "the server")
        return check_posts(self.manifest, at, received)


def add_for_sites(manifest: Manifest, board: Board | TakingTurns) -> None:
    """Run the server's half of a run to its end; the last answer says why it ended."""
    rounds = ServerRounds(manifest, board)
    try:
        settings = rounds.join().settings
        first = start.first_dictionary(manifest, settings, _search)
        runtime = denoised(rounds, settings, manifest)
        found = run_percdl(
            runtime, settings, first, rounds.history, lambda phase, index, value: None
        )
        rounds.ask("finish", {}, found.stop_reason.value)
    except Exception as error:  # sites must hear of it, whatever it is
        why = str(error) if isinstance(error, PerCDLError) else f"{type(error).__name__}: {error}"
        rounds.ask("refusal", {}, why)


def _search(candidates: np.ndarray) -> NoReturn:
    raise FederationError("A server that adds the sums needs a first dictionary in the manifest.")


def follow(
    rounds: FederatedRounds, report: Callable[[str, int, float], None]
) -> tuple[Broadcast, Sums, StopReason]:
    """Answer the questions of a server; return the last one, the own sums then, and why it ended.

    The manifest bounds the number of questions of each kind.
    """
    transcript, settings = rounds.transcript, rounds.terms.settings
    asked, most = Counter[str](), count_rounds(settings)
    last = None
    while True:
        question, arrays = Question.read(transcript.answer)
        if question.kind == "refusal":
            raise FederationError(f"The server has ended run {question.run}: {question.why}")
        if (question.run, question.slot) != (transcript.manifest.run, transcript.slot - 1):
            raise FederationError("The server answers with a question of another run or slot.")
        if question.kind == "finish" and last is not None:
            return *last, _reason(question.why)
        if asked[question.kind] >= most[question.kind]:
            raise FederationError(
                f"The server asks for more {question.kind} rounds than the manifest has "
                f"({most[question.kind]}). Nothing is sent. Ask who runs it."
            )
        broadcast = check_broadcast(arrays, settings)
        sums, _, _ = rounds.post_round(question.kind, broadcast)
        last = broadcast, sums
        rounds.history.record(question.kind, asked[question.kind], "CSC", sums.objective)
        report(question.kind, asked[question.kind], sums.objective)
        asked[question.kind] += 1


def _reason(why: str) -> StopReason:
    try:
        return StopReason(why)
    except ValueError as error:
        raise FederationError("The server ends the run for a reason that is unknown.") from error


def count_rounds(settings: Settings) -> Counter[str]:
    """Return how many rounds of each kind a fit has at most, the closing ones included."""
    n_init, n_perso = settings.schedule
    population = max(n_init, 1) + (n_perso == 0)
    return Counter(population=population, personal=n_perso + (n_perso > 0), express=1)
