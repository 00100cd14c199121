"""A board over HTTPS: a small server, and the connection of a site to it.

Sites only make outgoing connections. Every request is signed with the key of a member, every post
once more in itself; the server cannot change a post, and has nothing to decide, unless the
manifest lets it add the posts.
"""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from percdl.exceptions import FederationError
from percdl.federated.board import SERVER, Board, WaitedError
from percdl.federated.identities import Identity
from percdl.federated.manifest import Manifest
from percdl.federated.messages import MOST_BYTES, frame, read_post
from percdl.federated.server import add_for_sites
from percdl.signals.extras import require

if TYPE_CHECKING:
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

# Seconds that a request for posts waits at the server, and between two tries after a failure.
_HOLD, _RETRY = 20.0, 2.0
# Seconds that the server stays after the end of a run, so that all sites read the last posts.
LINGER = 15.0


def _package(name: str) -> Any:
    return require(name, "A federation over HTTPS", "federated")


def signed_request(run: str, method: str, slot: int) -> bytes:
    """Return the text that a site signs to prove who asks."""
    return frame("percdl request, version 2", run, method, slot)


def pack(posts: dict[str, bytes]) -> bytes:
    """Return posts as one message, each with its length in front; the server's comes first."""
    return frame(*(posts[site] for site in sorted(posts)))


def unpack(content: bytes, manifest: Manifest) -> dict[str, bytes]:
    """Return the posts of a message by site; raises `FederationError` for anything else."""
    parts = []
    while content:
        size = int.from_bytes(content[:8], "big")
        parts.append(content[8 : 8 + size])
        content = content[8 + size :]
    answers = {SERVER: parts.pop(0)} if manifest.aggregate == "server" and parts else {}
    return answers | {read_post(post, manifest.verify).head.site: post for post in parts}


def make_app(board: Board, hold: float = _HOLD) -> Starlette:
    """Return the web application of a board."""
    applications, responses = _package("starlette.applications"), _package("starlette.responses")
    routing, threadpool = _package("starlette.routing"), _package("starlette.concurrency")
    plain = responses.PlainTextResponse

    async def post(request: Request) -> Response:
        if not _is_member(board.manifest, request):
            return plain("no member of this run", 403)
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return plain("too long", 413)
        try:
            await threadpool.run_in_threadpool(board.post, bytes(content))
        except FederationError as error:
            return plain(str(error), 409)
        return plain("")

    async def read(request: Request) -> Response:
        if not _is_member(board.manifest, request):
            return plain("no member of this run", 403)
        slot = request.path_params["slot"]
        posts = await threadpool.run_in_threadpool(board.read, slot, hold)
        if posts is None:
            return plain(", ".join(board.missing(slot)) or "the server", 202)
        return responses.Response(pack(posts), media_type="application/octet-stream")

    async def health(request: Request) -> Response:
        return responses.JSONResponse({"slot": board.latest, "over": board.is_over})

    return applications.Starlette(
        routes=[
            routing.Route("/posts/{slot:int}", post, methods=["POST"]),
            routing.Route("/posts/{slot:int}", read, methods=["GET"]),
            routing.Route("/health", health),
        ]
    )


def _is_member(manifest: Manifest, request: Request) -> bool:
    """Whether a request is signed by a member of the run."""
    site, _, signature = request.headers.get("authorization", "").partition(" ")
    text = signed_request(manifest.run, request.method, request.path_params["slot"])
    try:
        manifest.verify(site, bytes.fromhex(signature), text)
    except (FederationError, ValueError):
        return False
    return True


class Listening(NamedTuple):
    """Address of a server, and its PEM files: certificate and private key."""

    host: str
    port: int
    certificate: Path
    key: Path


def serve(board: Board, at: Listening, linger: float = LINGER) -> None:
    """Run a server until the run is over, and a little longer, or until it is interrupted."""
    server = make_server(make_app(board), at)

    def watch() -> None:
        while not server.should_exit:
            if board.is_over:
                time.sleep(linger)
                server.should_exit = True
            time.sleep(0.2)

    threading.Thread(target=watch, daemon=True).start()
    if board.manifest.aggregate == "server":
        threading.Thread(target=add_for_sites, args=[board.manifest, board], daemon=True).start()
    server.run()


def make_server(app: Any, at: Listening) -> Any:
    """Return a server with TLS, not yet running."""
    uvicorn = _package("uvicorn")
    config = uvicorn.Config(
        app,
        host=at.host,
        port=at.port,
        ssl_certfile=str(at.certificate),
        ssl_keyfile=str(at.key),
        ws="none",
        log_level="warning",
        server_header=False,
    )
    return uvicorn.Server(config)


class Relayed:
    """Connection of a site to a board over HTTPS; a context manager.

    It retries for ``patience`` seconds. ``authority`` is the certificate of the authority that the
    server must have (PEM text). Proxies are taken from the environment (``HTTPS_PROXY``).
    """

    def __init__(
        self,
        server: str,
        authority: str,
        identity: Identity,
        manifest: Manifest,
        patience: float = 3600.0,
    ):
        httpx = _package("httpx")
        try:
            context = ssl.create_default_context(cadata=authority)
        except ssl.SSLError as error:
            raise FederationError("The authority is not a certificate in PEM.") from error
        self._identity, self._manifest, self._patience = identity, manifest, patience
        self._errors = httpx.TransportError
        self._client: httpx.Client = httpx.Client(
            base_url=f"https://{server}", verify=context, timeout=_HOLD + 40
        )

    def __enter__(self) -> Relayed:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def post(self, content: bytes) -> None:
        """Post a message."""
        slot = read_post(content, self._manifest.verify).head.slot
        answer = self._ask("POST", slot, time.monotonic() + self._patience, content)
        if answer.status_code != 200:
            raise FederationError(f"The server refuses a post: {answer.text[:500]}")

    def read(self, slot: int) -> dict[str, bytes]:
        """Wait for the messages of all members in a slot; return them by site."""
        end = time.monotonic() + self._patience
        while True:
            answer = self._ask("GET", slot, end)
            if answer.status_code == 200:
                return unpack(answer.content, self._manifest)
            if answer.status_code != 202:
                raise FederationError(f"The server refuses to answer: {answer.text[:500]}")
            if time.monotonic() > end:
                raise WaitedError(
                    f"After {self._patience:g} s, {answer.text[:500]} has not posted in slot "
                    f"{slot} of run {self._manifest.run}. Join again to continue the run."
                )

    def _ask(self, method: str, slot: int, end: float, content: bytes = b"") -> httpx.Response:
        """Send a request, again after a failure of the network."""
        text = signed_request(self._manifest.run, method, slot)
        signature = f"{self._identity.site} {self._identity.sign(text).hex()}"
        while True:
            try:
                return self._client.request(
                    method, f"/posts/{slot}", content=content, headers={"authorization": signature}
                )
            except self._errors as error:
                if time.monotonic() > end:
                    raise WaitedError(
                        f"The server cannot be reached ({error}). Join again to continue the run."
                    ) from error
                time.sleep(_RETRY)
