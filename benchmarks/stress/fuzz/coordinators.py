"""What a server of a federation is told: answers of sites that are broken, or mean ill."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens, mutate
from benchmarks.stress.fuzz.engine import WrongResultError
from benchmarks.stress.fuzz.sites import NAMES, RUN, change_arrays, change_facts, make_model
from percdl.algorithm.exchange import Broadcast
from percdl.exceptions import FederationError
from percdl.federated.agreement import propose
from percdl.federated.coordinator import Audit, Patience, convene
from percdl.federated.layout import layout_of
from percdl.runtimes.messages import Failure, Reply, Request

TOLD = {"signals": [["ch0"], [""], 50.0, []], "n_masks": 0, "bounds": [7, 7]}


class AnswersOf:
    """`convene` and a round of the coordinator, with answers that were changed."""

    documented = (FederationError,)

    def __init__(self, secure: bool) -> None:
        self.name = f"answers to a server, {'masked' if secure else 'plain'} sums"
        self._agreement = propose(make_model(), secure, 2, 1)
        first = next(iter(self._agreement.arrays.values()))
        self._broadcast = Broadcast(np.asarray(first))

    def case(self, draws: random.Random) -> None:
        """Begin a run and ask for one sum."""
        wire = LyingWire(draws)
        coordinator = convene(
            wire, RUN, self._agreement, Patience(round_timeout=1.0, max_attempts=2), Audit()
        )
        layout = layout_of("population", coordinator.settings, coordinator.terms.n_masks)
        wire.size = layout.size
        sums = coordinator.population_round(self._broadcast)
        if not np.isfinite(layout.pack(sums)).all():
            raise WrongResultError("the total is not finite")


class PlainAnswers(AnswersOf):
    """Answers with plain sums."""

    def __init__(self, folder: Path) -> None:
        super().__init__(secure=False)


class MaskedAnswers(AnswersOf):
    """Answers with masked sums."""

    def __init__(self, folder: Path) -> None:
        super().__init__(secure=True)


class LyingWire:
    """Three sites, whose answers are good but for what the draws change."""

    def __init__(self, draws: random.Random) -> None:
        self._draws, self.size = draws, 1

    def sites(self) -> tuple[str, ...]:
        """Return who can be reached."""
        return NAMES if happens(self._draws, 0.97) else NAMES[:2]

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Return answers, some of them changed, some left out."""
        answers: dict[str, Reply | Failure] = {}
        for site, request in requests.items():
            reply = self._answer(site, request)
            kind = self._draws.randrange(24)
            if kind == 0:
                continue
            answers[site] = Failure(site, "lost") if kind == 1 else self._changed(reply, kind)
        return answers

    def _answer(self, site: str, request: Request) -> Reply:
        facts: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        if request.kind == "join":
            facts = dict(TOLD)
        elif request.kind == "keys":
            own = {"site": site, "run": RUN, "public": "00" * 32, "signature": "00" * 64}
            facts = {"announcement": own}
        elif request.kind == "release":
            seeds = {site: "0f" * 32} | {lost: "f0" * 32 for lost in request.facts["lost"]}
            facts = {"seeds": seeds}
        else:
            secure = request.facts["terms"]["secure"]
            arrays = {"sums": np.full(self.size, 3, np.uint64 if secure else np.float64)}
            others = [name for name in request.facts["roster"] if name != site]
            facts = {"afresh": False, "backups": dict.fromkeys(others, "ab" * 32)}
        echo = (request.kind, request.run, request.round, request.attempt)
        return Reply(site, *echo, facts, arrays)

    def _changed(self, reply: Reply, kind: int) -> Reply:
        draws = self._draws
        if kind == 2:
            return replace(reply, facts=change_facts(reply.facts, draws))
        if kind == 3:
            return replace(reply, arrays=change_arrays(reply.arrays, draws))
        if kind == 4:
            return replace(reply, site=junk.text(draws))
        if kind == 5:
            name = draws.choice(("round", "attempt"))
            return replace(reply, **{name: draws.choice((0, -1, 10**400, True))})
        if kind == 6 and reply.arrays:
            sums = reply.arrays["sums"].copy()
            sums[draws.randrange(len(sums))] = draws.choice(
                (1e308 if sums.dtype.kind == "f" else 2**64 - 1, 0, 2**53)
            )
            return replace(reply, arrays={"sums": sums})
        return reply


class Records:
    """Messages as records of Flower, read by both ends."""

    name = "messages of Flower"
    documented = (FederationError,)

    def __init__(self, folder: Path) -> None:
        from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

        from percdl.runtimes.flower.wire import read_reply, read_request, to_records

        self._kinds = Array, ArrayRecord, ConfigRecord, RecordDict
        self._readers = read_request, read_reply
        request = Request("population", RUN, 2, 0, {"roster": list(NAMES)}, {"x": np.ones((2, 3))})
        self._text = str(to_records(request).config_records["said"]["json"])
        self._array = Array(np.ones((2, 3)))

    def case(self, draws: random.Random) -> None:
        """Read a message whose text and arrays were changed."""
        _, array_record, config_record, record_dict = self._kinds
        said: dict[str, Any] = json.loads(self._text)
        for _ in range(draws.randrange(3)):
            said = change_facts(said, draws)
        text = json.dumps(said)
        if happens(draws, 0.2):
            text = mutate(text.encode(), draws).decode("utf-8", "replace")
        if happens(draws, 0.02):
            text = "[" * draws.choice((5, 200_000))
        records = record_dict({
            "said": config_record({"json": draws.choice((text, text, text, 3, b"x"))}),
            "arrays": array_record({"x": self._odd_array(draws)}),
        })  # fmt: skip
        if happens(draws, 0.05):
            records = record_dict({"said": config_record({"json": text})})
        message = draws.choice(self._readers)(records)
        if not isinstance(message, str) and not isinstance(message.facts, dict):
            raise WrongResultError(repr(message))

    def _odd_array(self, draws: random.Random) -> Any:
        array = self._kinds[0]
        if happens(draws, 0.5):
            return self._array
        data = self._array.data
        for _ in range(draws.randrange(4)):
            data = mutate(data, draws, (b"(9999999999,)", b"|O", b"<f8", b"\x93NUMPY\x03\x00"))
        shape = tuple(draws.choice((2, 3, 0, 10**12)) for _ in range(2))
        return array(draws.choice(("float64", "object", "x")), shape, "numpy.ndarray", data)
