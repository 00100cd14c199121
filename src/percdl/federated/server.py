"""A server that adds the posts and computes the dictionaries (``aggregate="server"``).

Sites see dictionaries and no totals, and trust the server to compute honestly. It runs the usual
loop of a fit on the posts; after a restart it repeats the rounds from the stored posts.
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.state import History, StopReason
from percdl.estimators.start import check_atoms
from percdl.exceptions import FederationError, PerCDLError
from percdl.federated.board import Board, Place
from percdl.federated.layout import check_broadcast
from percdl.federated.manifest import INIT, Terms, agree
from percdl.federated.messages import Post, Question, parse
from percdl.federated.privacy import count_rounds
from percdl.federated.private_rounds import denoised
from percdl.federated.rounds import FederatedRounds, Report, add_posts, find_wrong


class ServerRounds(Runtime):
    """Runtime of the server: a round is a question to all sites, and the total of their posts."""

    def __init__(self, board: Board):
        self.board, self.history = board, History()
        self.place = Place(board.manifest, "the server")

    @cached_property
    def terms(self) -> Terms:
        """The terms of the run; the first call waits until all sites have joined."""
        return agree(self.board.manifest, self._posts("join"))

    def _posts(self, kind: str) -> dict[str, Post]:
        return self.place.check(kind, self.board.wait(self.board.posts, self.place.slot))

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Let all sites run a round; return the sums over all."""
        self.ask(kind, broadcast.to_arrays())
        [total] = add_posts(self.terms, kind, self._posts(kind))
        why = find_wrong(self.history, kind, broadcast, total, self.terms)
        if why and self.board.manifest.privacy is None:  # else there are no objectives
            what = f"The objective of slot {self.place.slot} is {why} ({kind})"
            hint = "A server cannot tell which site sent them"
            raise FederationError(f"{what}: some sums were wrong. {hint}.")
        return total

    def ask(self, kind: Any, arrays: dict[str, np.ndarray], why: str = "") -> None:
        """Answer the posts of the last slot with the next round, or with the end."""
        at, run = self.place.slot, self.board.manifest.run
        question = Question(run=run, slot=at, kind=kind, arrays=arrays, why=why[:1000])
        self.board.answer(at, question.model_dump_json().encode())
        self.place.advance(self.board.look(at) or {})


def start_adding(board: Board) -> None:
    """Start the server's half of a run in a thread, if the manifest asks for it."""
    if board.manifest.aggregate == "server":
        threading.Thread(target=_add, args=[board], daemon=True).start()


def _add(board: Board) -> None:
    """Run the server's half of a run to its end; the last answer says why it ended."""
    rounds, manifest = ServerRounds(board), board.manifest
    with board.turn:
        try:
            settings = rounds.terms.settings
            first = check_atoms(np.asarray(manifest.arrays[INIT]), settings)
            runtime = denoised(rounds, settings, manifest)
            found = run_percdl(runtime, settings, first, rounds.history, lambda *_: None)
            rounds.ask("finish", {}, found.stop_reason.value)
        except Exception as error:  # of any kind: the sites must know of it
            known = isinstance(error, PerCDLError)
            rounds.ask("refusal", {}, str(error) if known else f"{type(error).__name__}: {error}")


def follow(rounds: FederatedRounds, report: Report) -> tuple[Broadcast, Sums, StopReason]:
    """Answer the questions of a server to its end; return the last dictionary, own sums and why.

    The manifest bounds the number of questions of each kind.
    """
    transcript, settings = rounds.transcript, rounds.terms.settings
    asked, most, last = Counter[str](), count_rounds(settings), None
    while True:
        question = parse(Question, transcript.answer, "The server's answer cannot be read")
        if question.kind == "refusal":
            raise FederationError(f"The server has ended run {question.run}: {question.why}")
        if (question.run, question.slot) != (transcript.manifest.run, transcript.slot - 1):
            raise FederationError("The server answers with a question of another run or slot.")
        if question.kind == "finish" and last is not None:
            if question.why not in list(StopReason):
                raise FederationError("The server ends the run for a reason that is unknown.")
            return *last, StopReason(question.why)
        if asked[question.kind] >= most[question.kind]:
            why = f"more {question.kind} rounds than the manifest has ({most[question.kind]})"
            raise FederationError(f"The server asks for {why}. Nothing is sent. Ask who runs it.")
        broadcast = check_broadcast(question.arrays, settings)
        sums, _ = rounds.post_round(question.kind, broadcast)
        last = broadcast, sums
        rounds.history.record(question.kind, asked[question.kind], "CSC", sums.objective)
        report(question.kind, asked[question.kind], sums.objective)
        asked[question.kind] += 1
