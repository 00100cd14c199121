"""Flower as the wire between a coordinator and its sites."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from percdl.exceptions import FederationError
from percdl.runtimes.flower.records import read_reply, to_records
from percdl.runtimes.messages import Failure, Reply, Request

# Seconds between two looks for replies.
POLL = 0.5
# Seconds that Flower keeps a message beyond the time its answer is waited for.
MARGIN = 30.0


class FlowerWire:
    """Carry requests to the nodes of a Flower grid, and their replies back.

    Replies are told apart by the message they answer. One that comes after the timeout is never
    looked for again, so it cannot count in a later round.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        What a ServerApp is given, or a test's own.
    nodes : dict of int
        By site, the number its key was registered under. Others on the grid are not asked.
    poll : float, default=0.5
        Seconds between two looks for replies.
    """

    def __init__(self, grid: Grid, nodes: Mapping[str, int], poll: float = POLL) -> None:
        self._grid, self._nodes, self._poll = grid, dict(nodes), poll

    def sites(self) -> tuple[str, ...]:
        """Return who is connected now, sorted."""
        present = set(self._grid.get_node_ids())
        return tuple(sorted(site for site, node in self._nodes.items() if node in present))

    def ask(self, requests: Mapping[str, Request], timeout: float) -> dict[str, Reply | Failure]:
        """Ask some sites at once; return what each answered within so many seconds."""
        present = set(self.sites())
        answers: dict[str, Reply | Failure] = {
            site: Failure(site, "not connected") for site in requests if site not in present
        }
        asked = sorted(site for site in requests if site in present)
        waiting = self._send([(site, requests[site]) for site in asked], timeout)
        end = time.monotonic() + timeout
        while waiting:
            for message in self._grid.pull_messages(list(waiting)):
                site = waiting.pop(message.metadata.reply_to_message_id, None)
                if site is not None:  # else a second answer to the same message
                    answers[site] = _understood(site, message)
            left = end - time.monotonic()
            if not waiting or left <= 0:
                break
            time.sleep(min(self._poll, left))
        late = {
            site: Failure(site, f"no answer within {timeout:g} s") for site in waiting.values()
        }
        lost = {site: Failure(site, "the message could not be sent") for site in asked}
        return lost | answers | late

    def _send(self, requests: list[tuple[str, Request]], timeout: float) -> dict[str, str]:
        """Send requests; return the sites by the numbers of their messages."""
        if not requests:
            return {}
        messages = [
            Message(
                to_records(request),
                self._nodes[site],
                f"query.{request.kind}",
                ttl=timeout + MARGIN,
                group_id=str(request.round),
            )
            for site, request in requests
        ]
        sent = self._grid.push_messages(messages)
        return {number: site for number, (site, _) in zip(sent, requests, strict=True) if number}


def _understood(site: str, message: Message) -> Reply | Failure:
    """Return what a message says; what cannot be read, or is not signed by its sender, fails."""
    if message.has_error():
        return Failure(site, f"code {message.error.code} of Flower: {message.error.reason}")
    try:
        reply = read_reply(message.content)
    except FederationError as error:
        return Failure(site, f"malformed answer: {error}")
    if isinstance(reply, str):
        return Failure(site, reply)
    if reply.site != site:
        return Failure(site, f"answered as {reply.site!r}")
    return reply
