"""Requests and replies as messages of Flower: the coordinator's wire and a site's ClientApp.

Arrays cross as arrays, everything else as one JSON text.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_args

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from pydantic import BaseModel, ConfigDict, Field

from percdl.exceptions import FederationError, PerCDLError
from percdl.runtimes.messages import Answer, Failure, Kind, Reply, Request
from percdl.signals.headers import read_json

_log = logging.getLogger(__name__)
KINDS: tuple[str, ...] = get_args(Kind)
_ARRAYS, _SAID, _TEXT = "arrays", "said", "json"
# A site that refuses sends this field instead of a reply.
_REFUSED = "refused"
# Seconds between two looks for replies, and until Flower drops a message after its timeout.
POLL, MARGIN = 0.5, 30.0
MOST_CHARACTERS = 10**8


class _Header(BaseModel):
    """Fields of every message; `percdl.federated.messages` checks the facts."""

    model_config = ConfigDict(strict=True, extra="forbid")

    kind: Kind
    run: Annotated[str, Field(max_length=1000)]
    round: int
    attempt: int
    facts: dict[str, Any]


class _ReplyHeader(_Header):
    site: Annotated[str, Field(max_length=1000)]


def to_records(message: Request | Reply) -> RecordDict:
    """Return a message as records; arrays keep their types and shapes."""
    said = {f.name: getattr(message, f.name) for f in fields(message) if f.name != "arrays"}
    arrays = {name: Array(np.asarray(array)) for name, array in message.arrays.items()}
    text = ConfigRecord({_TEXT: json.dumps(said)})
    return RecordDict({_ARRAYS: ArrayRecord(arrays), _SAID: text})


def refusal_records(why: str) -> RecordDict:
    """Return the records of a site that refuses, with its reason."""
    return RecordDict({_SAID: ConfigRecord({_TEXT: json.dumps({_REFUSED: why})})})


def read_request(records: RecordDict) -> Request:
    """Read a request; raises for anything else."""
    return Request(**_check(_Header, _read_text(records)), arrays=_read_arrays(records))


def read_reply(records: RecordDict) -> Reply | str:
    """Read a reply, or the reason of a refusal; raises for anything else."""
    said = _read_text(records)
    if isinstance(said.get(_REFUSED), str):
        return said[_REFUSED]
    return Reply(**_check(_ReplyHeader, said), arrays=_read_arrays(records))


def _check(model: type[_Header], said: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(model.model_validate(said))
    except ValueError as error:
        raise FederationError(f"this is not a message of a federation ({error}).") from error


def _read_text(records: RecordDict) -> dict[str, Any]:
    try:
        text = str(records.config_records[_SAID][_TEXT])
        said = read_json(text) if len(text) <= MOST_CHARACTERS else None
        if not isinstance(said, dict):
            raise ValueError("not an object")
    except (KeyError, ValueError) as error:
        raise FederationError("the message holds no readable text.") from error
    return said


def _read_arrays(records: RecordDict) -> dict[str, np.ndarray]:
    try:
        return {name: array.numpy() for name, array in records.array_records[_ARRAYS].items()}
    except Exception as error:  # NumPy raises many types for a malformed header
        raise FederationError("the arrays of the message cannot be read.") from error


def make_client_app(answer: Answer) -> ClientApp:
    """Return a ClientApp that answers the requests of a coordinator, and no other message.

    An error of PerCDL becomes an answer with its reason. Any other error is written to the log of
    the site and crosses as "internal error", because its text may hold private data.
    """
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        try:
            records = to_records(answer(read_request(message.content)))
        except PerCDLError as error:
            _log.warning("refused: %s", error)
            records = refusal_records(str(error))
        except Exception:
            _log.exception("a request could not be answered")
            records = refusal_records("internal error; the log of the site has more.")
        return Message(records, reply_to=message)

    for kind in KINDS:
        app.query(kind)(handle)
    return app


class FlowerWire:
    """Wire of a coordinator over the nodes of a Flower grid.

    ``nodes`` are the node ids by site; other nodes of the grid are not asked. A reply belongs to
    the message that it answers. After the timeout it is not looked for again, so it cannot count
    in a later round.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, int], poll: float = POLL) -> None:
        self._grid, self._nodes, self._poll = grid, dict(nodes), poll

    def sites(self) -> tuple[str, ...]:
        """Return the connected sites, sorted."""
        present = set(self._grid.get_node_ids())
        return tuple(sorted(site for site, node in self._nodes.items() if node in present))

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask some sites at once; return their answers within ``timeout`` seconds."""
        present = sorted(set(self.sites()) & set(requests))
        waiting = self._send({site: requests[site] for site in present}, timeout)
        answers: dict[str, Reply | Failure] = {}
        for site in requests:
            why = "the message could not be sent" if site in present else "not connected"
            why = f"no answer within {timeout:g} s" if site in waiting.values() else why
            answers[site] = Failure(site, why)
        end = time.monotonic() + timeout
        while waiting:
            for message in self._grid.pull_messages(list(waiting)):
                site = waiting.pop(message.metadata.reply_to_message_id, None)
                if site is not None:  # else a second answer to the same message
                    answers[site] = _read_answer(site, message)
            left = end - time.monotonic()
            if not waiting or left <= 0:
                break
            time.sleep(min(self._poll, left))
        return answers

    def _send(self, requests: Mapping[str, Request], timeout: float) -> dict[str, str]:
        """Send requests; return the sites by message id."""
        messages = [
            Message(
                to_records(request),
                self._nodes[site],
                f"query.{request.kind}",
                ttl=timeout + MARGIN,
                group_id=str(request.round),
            )
            for site, request in requests.items()
        ]
        sent = self._grid.push_messages(messages) if messages else []
        return {number: site for number, site in zip(sent, requests, strict=True) if number}


def _read_answer(site: str, message: Message) -> Reply | Failure:
    """Return the reply in a message; one that is malformed or from another site is a failure."""
    if message.has_error():
        return Failure(site, f"code {message.error.code} of Flower: {message.error.reason}")
    try:
        reply = read_reply(message.content)
    except FederationError as error:
        return Failure(site, f"malformed answer: {error}")
    if isinstance(reply, str):
        return Failure(site, reply)
    return reply if reply.site == site else Failure(site, f"answered as {reply.site!r}")
