"""The web server of the studio: pages, and their requests, answered as JSON.

It listens on this machine only. Every request needs the token of the start, as a cookie, and must
come from a page of the studio itself.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode

import uvicorn
from markupsafe import Markup
from starlette import responses
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from percdl.exceptions import PerCDLError
from percdl.report import as_script, read_asset, render
from percdl.report.cohort import as_script_data, join_scripts
from percdl.signals.extras import require
from percdl.studio.compare import compare
from percdl.studio.opened import Opened
from percdl.studio.project import Project, RefusedError, describe_recording

HOST = "127.0.0.1"
COOKIE = "percdl-studio"
# Longest question of a page, in bytes (the beats of a week); seconds that one for news may wait.
MOST_BYTES, PATIENCE = 40_000_000, 10.0
# Scripts of the page about a model, beside those of the report.
SCRIPTS = ("ask", "model", "correct", "compare", "live")
# Models that are kept open.
N_OPEN = 4
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Studio:
    """The web application of one project."""

    def __init__(self, project: Project):
        self.project, self.token = project, secrets.token_urlsafe(32)
        self._opened: dict[str, Opened] = {}
        shared = [read_asset("report", name) for name in ("packed.js", "charts.js")]
        ask, *own = (read_asset("studio", f"{name}.js") for name in SCRIPTS)
        self._scripts = {
            "plotly": require("plotly.offline", "The studio", "studio").get_plotlyjs(),
            "setup": as_script(*shared, ask, read_asset("studio", "setup.js")),
            "opening": as_script(*shared, ask, read_asset("studio", "opening.js")),
            "model": join_scripts(ask, *own),
        }

    def make_app(self) -> Starlette:
        """Return the application, with its guard in front."""
        pages = {"/": self.show_setup, "/model": self.show_model, "/file": self.send_file}
        routes = [Route(path, page) for path, page in pages.items()]
        routes.append(Route("/assets/{name}.js", self.send_script))
        for name, answer in self._answers().items():
            routes.append(Route(f"/api/{name}", _answering(answer), methods=["POST"]))
        return Starlette(routes=routes, middleware=[Middleware(Guard, token=self.token)])

    def _answers(self) -> dict[str, Callable[..., Any]]:
        """Return the requests of pages by name: functions of a question that return an answer."""
        project = self.project
        return {
            "files": project.list_files,
            "columns": project.read_head,
            "preview": lambda options, file: describe_recording(project, options, file),
            "run": lambda command, options: {"job": project.run(command, options)},
            "news": self._tell_news,
            "stop": lambda job: self._job(job).stop(),
            "open": self._tell_stage,
            "person": lambda file, s: self.open(file).describe_person(s),
            "piece": lambda file, s, start, stop: self.open(file).read_piece(s, start, stop),
            "mark": lambda file, **mark: self.open(file).mark(**mark),
            "unmark": lambda file, name: self.open(file).unmark(name),
            "correct": lambda file, s, events: self.open(file).correct(s, events),
            "refer": lambda file, reference: self.open(file).compare_with(reference),
            "compare": lambda file, **asked: compare(self.open(file).ready(), **asked),
        }

    def open(self, name: str) -> Opened:
        """Return a model of the folder, read on the first call and after its file changed."""
        path = self.project.inside(name)
        if not path.is_file():
            raise RefusedError(f"There is no file {name} in {self.project.folder}.")
        name = self.project.named(path)
        known = self._opened.get(name)
        if known is None or known.written != path.stat().st_mtime_ns:
            self._opened[name] = Opened(self.project, path)
            while len(self._opened) > N_OPEN:
                del self._opened[next(iter(self._opened))]
        return self._opened[name]

    def _job(self, number: Any) -> Any:
        if not isinstance(number, int) or not 0 <= number < len(self.project.jobs):
            raise RefusedError(f"There is no job {number!r}.")
        return self.project.jobs[number]

    def _tell_news(self, job: int, known: int) -> dict[str, Any]:
        asked = self._job(job)
        return {"line": asked.line, **asked.wait(int(known), PATIENCE)}

    def _tell_stage(self, file: str) -> dict[str, Any]:
        opened = self.open(file)
        return {"stage": opened.stage, "failure": opened.failure, "ready": opened.page is not None}

    async def show_setup(self, request: Request) -> Response:
        """Show the first page: files, preview, settings, fit."""
        style = Markup(read_asset("report", "report.css") + read_asset("studio", "studio.css"))
        values = {"folder": str(self.project.folder), "style": style}
        return responses.HTMLResponse(render("setup.html.j2", "studio", **values))

    async def show_model(self, request: Request) -> Response:
        """Show a model: its atoms while recordings are read, then everything."""
        try:
            opened = await run_in_threadpool(self.open, request.query_params.get("file", ""))
        except (PerCDLError, OSError) as error:
            page = render("problem.html.j2", "studio", problem=str(error))
            return responses.HTMLResponse(page, 404)
        if opened.failure:
            del self._opened[self.project.named(opened.path)]  # the next visit tries again
        if opened.page is None:
            data = as_script_data(opened.describe_atoms())
            page = render("opening.html.j2", "studio", data=data, name=opened.path.name)
            return responses.HTMLResponse(page)
        style = opened.page["style"] + Markup(read_asset("studio", "studio.css"))
        values = {**opened.page, "style": style, "data": as_script_data(opened.page["content"])}
        page = render("model.html.j2", "studio", scripts=(), sources="", **values)
        return responses.HTMLResponse(page)

    async def send_script(self, request: Request) -> Response:
        """Send one of the scripts."""
        text = self._scripts.get(request.path_params["name"])
        if text is None:
            return responses.PlainTextResponse("no such script", 404)
        return responses.Response(text, media_type="text/javascript")

    async def send_file(self, request: Request) -> Response:
        """Send a result of the folder, to be saved: never shown in the place of a page."""
        try:
            path = self.project.inside(request.query_params.get("name"))
        except RefusedError as error:
            return responses.PlainTextResponse(str(error), 403)
        if not path.is_file():
            return responses.PlainTextResponse("no such file", 404)
        return responses.FileResponse(path, filename=path.name)


def _answering(function: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler: the question is a JSON object of arguments, the answer is JSON."""

    async def handle(request: Request) -> Response:
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return responses.JSONResponse({"problem": "The question is too long."}, 413)
        try:
            question = json.loads(content or b"{}")
            if not isinstance(question, dict):
                raise TypeError("a question is an object")
            answer = await run_in_threadpool(function, **question)
        except (PerCDLError, OSError) as error:
            return responses.JSONResponse({"problem": str(error)}, 400)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            return responses.JSONResponse({"problem": f"The question is wrong: {error}."}, 400)
        return responses.JSONResponse(answer)

    return handle


class Guard:
    """Let requests through that carry the token and come from a page of the studio.

    Other sites cannot read answers or send questions: cookies are ``SameSite=Strict``, and the
    headers ``Host``, ``Origin`` and ``Sec-Fetch-Site``, which scripts cannot forge, must fit.
    """

    def __init__(self, app: Any, token: str):
        self.app, self.token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = self._refuse(request) or self._admit(request)
        if response is not None:
            response.headers.update(HEADERS)
            await response(scope, receive, send)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        await self.app(scope, receive, send_guarded)

    def _refuse(self, request: Request) -> Response | None:
        """Return a refusal for a request that another site may have caused."""
        host, headers = request.headers.get("host", ""), request.headers
        port = request.scope["server"][1]
        known = host in (f"{HOST}:{port}", f"localhost:{port}")
        origin = headers.get("origin", f"http://{host}")
        site = headers.get("sec-fetch-site", "same-origin")
        if known and origin == f"http://{host}" and site in ("same-origin", "none"):
            return None
        return responses.PlainTextResponse("from elsewhere", 403)

    def _admit(self, request: Request) -> Response | None:
        """Return None for requests with the cookie; a token in the address becomes a cookie."""
        given = request.query_params.get("token", "")
        if request.url.path == "/" and hmac.compare_digest(given.encode(), self.token.encode()):
            model = request.query_params.get("model")
            target = "/" if model is None else f"/model?{urlencode({'file': model})}"
            response = responses.RedirectResponse(target, 303)
            name = f"{COOKIE}-{request.scope['server'][1]}"
            response.set_cookie(name, self.token, httponly=True, samesite="strict")
            return response
        cookie = request.cookies.get(f"{COOKIE}-{request.scope['server'][1]}", "")
        if hmac.compare_digest(cookie.encode(), self.token.encode()):
            return None
        text = "Open the address that `percdl studio` printed: it holds the key to this page."
        return responses.PlainTextResponse(text, 403)


class Server(NamedTuple):
    """A web server, the socket it listens on, and the project."""

    server: Any
    listening: socket.socket
    project: Project

    def run(self) -> None:
        """Answer until `stop` is called, or Ctrl-C is pressed; then end the running command."""
        try:
            self.server.run(sockets=[self.listening])
        finally:
            for job in self.project.jobs:
                job.stop()

    def stop(self) -> None:
        """End soon."""
        self.server.should_exit = True


def listen(studio: Studio, port: int, host: str = HOST) -> tuple[Server, str]:
    """Return a server, not yet running, and the address that lets a person in.

    ``host`` is the network address to listen on. Whatever it is, browsers must ask for this
    machine by name (see `Guard`), so that a container has to publish the port to its own machine.
    """
    # asyncio sets TCP_NODELAY only on sockets that state their protocol. Without it, every
    # answer is delayed by 40 ms.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen()  # so that a browser that is faster than the server waits
    config = uvicorn.Config(studio.make_app(), log_level="warning", ws="none", server_header=False)
    address = f"http://{HOST}:{listening.getsockname()[1]}/?token={studio.token}"
    return Server(uvicorn.Server(config), listening, studio.project), address
