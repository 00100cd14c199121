"""A board over HTTPS: a small server, and the connection of a site to it.

Sites only make outgoing connections. A member signs every request, and every post separately, so
the server cannot change a post. It decides nothing, unless the manifest lets it add the posts.
"""

from __future__ import annotations

import ssl
import threading
import time
from contextlib import AbstractContextManager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from percdl.exceptions import FederationError
from percdl.federated.board import Board, WaitedError
from percdl.federated.identities import Identity
from percdl.federated.manifest import Invitation, Manifest
from percdl.federated.messages import MOST_BYTES, frame, pack, read_post, unpack
from percdl.federated.server import start_adding
from percdl.signals.headers import read_json

# Seconds that the server holds a request for posts, between its looks at the board, and between
# two attempts of a site after a failure.
_HOLD, _LOOK, _RETRY = 20.0, 0.05, 2.0
# Bytes by which the posts of a slot, or the server's answer, may differ in size.
_MOST_MORE = 2**22
# Bytes of an answer about the health of a server.
_MOST_LOOK = 1000
# Seconds that the server keeps running after the end, so that all sites can read the last posts.
LINGER = 15.0


def signed_request(run: str, method: str, slot: int) -> bytes:
    """Return the text that a site signs to prove its identity."""
    return frame("percdl request, version 3", run, method, slot)


def make_app(board: Board, hold: float = _HOLD) -> Starlette:
    """Return the web application of a board."""

    async def answer(request: Request) -> Response:
        if not _is_member(board.manifest, request):
            return PlainTextResponse("no member of this run", 403)
        return await (post if request.method == "POST" else read)(request)

    async def post(request: Request) -> Response:
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return PlainTextResponse("too long", 413)
        try:
            await run_in_threadpool(board.post, bytes(content))
        except FederationError as error:
            return PlainTextResponse(str(error), 409)
        return PlainTextResponse("")

    async def read(request: Request) -> Response:
        slot = request.path_params["slot"]
        posts = await _wait(board, slot, hold)
        if posts is None:
            return PlainTextResponse(", ".join(board.missing(slot)) or "the server", 202)
        return Response(pack(posts), media_type="application/octet-stream")

    async def health(request: Request) -> Response:
        return JSONResponse({"slot": board.latest, "over": board.is_over})

    posts = Route("/posts/{slot:int}", answer, methods=["GET", "POST"])
    return Starlette(routes=[posts, Route("/health", health)])


async def _wait(board: Board, slot: int, hold: float) -> dict[str, bytes] | None:
    """Wait for a slot without a thread, so that threads are free for posts."""
    end = time.monotonic() + hold
    while (posts := board.look(slot)) is None and time.monotonic() < end:
        await anyio.sleep(_LOOK)
    return posts


def _is_member(manifest: Manifest, request: Request) -> bool:
    site, _, signature = request.headers.get("authorization", "").partition(" ")
    text = signed_request(manifest.run, request.method, request.path_params["slot"])
    try:
        manifest.verify(site, bytes.fromhex(signature), text)
    except (FederationError, ValueError):
        return False
    return True


def serve(board: Board, server: uvicorn.Server, linger: float = LINGER) -> None:
    """Run a server until ``linger`` seconds after the end of the run, or an interruption."""

    def watch() -> None:
        while not server.should_exit:
            if board.is_over:
                time.sleep(linger)
                server.should_exit = True
            time.sleep(0.2)

    threading.Thread(target=watch, daemon=True).start()
    start_adding(board)
    server.run()


def make_server(app: Any, host: str, port: int, certificate: Path, key: Path) -> uvicorn.Server:
    """Return a server with TLS, not yet running; certificate and private key are PEM files."""
    tls = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    quiet: Any = {"ws": "none", "log_config": None, "log_level": "info", "server_header": False}
    return uvicorn.Server(uvicorn.Config(app, host, port, **tls, **quiet))


def _connect(server: str, authority: str, timeout: float) -> httpx.Client:
    """Return a client of a server whose certificate is signed by an authority (PEM text)."""
    try:
        context = ssl.create_default_context(cadata=authority)
    except ssl.SSLError as error:
        raise FederationError("The authority is not a certificate in PEM.") from error
    # Without compression, a body cannot grow when it is unpacked.
    headers, url = {"accept-encoding": "identity"}, f"https://{server}"
    return httpx.Client(base_url=url, verify=context, timeout=timeout, headers=headers)


def look_at_server(server: str, authority: str, timeout: float = 30.0) -> float | None:
    """Return the seconds by which the clock of a relay is ahead; None if no server answers.

    Raises `FederationError` if the server does not prove its identity, or is not a relay.
    """
    try:
        client = _connect(server, authority, timeout)
        with client, client.stream("GET", "/health") as answer:
            content = _read_body(answer, _MOST_LOOK, time.monotonic() + timeout)
        date = parsedate_to_datetime(answer.headers["date"])
        read_json(content.decode())["slot"]
    except httpx.InvalidURL as error:
        raise FederationError(f"The server {server!r} must be a host and a port.") from error
    except httpx.TransportError as error:
        if "CERTIFICATE_VERIFY_FAILED" not in str(error):
            return None
        why = f"does not prove its identity ({error}). Do not join. Ask for the right authority"
        raise FederationError(f"The server at {server} {why}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FederationError(f"The server at {server} is not a relay of percdl.") from error
    return date.timestamp() - time.time()


class Relayed(AbstractContextManager):
    """Connection of a site to a board over HTTPS; a context manager.

    It retries for ``patience`` seconds. Proxies are taken from the environment (``HTTPS_PROXY``).
    """

    def __init__(self, invited: Invitation, identity: Identity, patience: float = 3600.0):
        self._identity, self._manifest, self._patience = identity, invited.manifest, patience
        self._client = _connect(invited.server, invited.authority, _HOLD + 40)
        self._most = MOST_BYTES

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def post(self, content: bytes) -> None:
        """Post a message."""
        slot = read_post(content, self._manifest.verify).head.slot
        self._most = (len(self._manifest.members) + 1) * (len(content) + _MOST_MORE)
        status, text = self._ask("POST", slot, time.monotonic() + self._patience, content)
        if status != 200:
            raise WaitedError(f"The server refuses a post: {_shown(text)}")

    def read(self, slot: int) -> dict[str, bytes]:
        """Wait for the messages of all members in a slot; return them by site."""
        end = time.monotonic() + self._patience
        while True:
            status, content = self._ask("GET", slot, end)
            if status == 200:
                return unpack(content)
            if status != 202:
                raise FederationError(f"The server refuses to answer: {_shown(content)}")
            if time.monotonic() > end:
                what = f"has not posted in slot {slot}. Join again to continue the run"
                raise WaitedError(f"After {self._patience:g} s, {_shown(content)} {what}.")

    def _ask(self, method: str, slot: int, end: float, content: bytes = b"") -> tuple[int, bytes]:
        """Send a request, again after a failure of the network; return status and body."""
        text = signed_request(self._manifest.run, method, slot)
        headers = {"authorization": f"{self._identity.site} {self._identity.sign(text).hex()}"}
        request = {"content": content, "headers": headers}
        while True:
            try:
                with self._client.stream(method, f"/posts/{slot}", **request) as answer:
                    return answer.status_code, _read_body(answer, self._most, end + _HOLD)
            except httpx.TransportError as error:
                if time.monotonic() > end:
                    why = f"The server cannot be reached ({error})"
                    raise WaitedError(f"{why}. Join again to continue the run.") from error
                time.sleep(_RETRY)


def _read_body(answer: httpx.Response, most: int, end: float) -> bytes:
    """Return the body of an answer, unless it is too long or takes too long."""
    content = bytearray()
    for part in answer.iter_raw():
        content += part
        if len(content) > most:
            what = f"more than {most} bytes, too many for a relay"
            raise FederationError(f"The server sends {what}. Ask who runs it.")
        if time.monotonic() > end:
            raise WaitedError("The server is too slow. Join again to continue the run.")
    return bytes(content)


def _shown(content: bytes) -> str:
    return content[:500].decode(errors="replace")
