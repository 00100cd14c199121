"""A federation of real processes on this machine: keys, certificates, files of options, commands.

Sites and server are the commands that hospitals run, over TLS with authenticated nodes, on free
ports of the loopback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from percdl import Cohort, write_shards

RUN = "trial"


class Federation:
    """Files and processes of a federation in one folder; to be used as a context.

    Parameters
    ----------
    folder : Path
        Where everything is written.
    cohorts : dict of Cohort
        Recordings by site.
    model : dict
        The table ``[model]`` of the server.
    server, site : dict, optional
        More keys of ``[server]``, and of ``[site]`` for all sites.
    """

    def __init__(
        self,
        folder: Path,
        cohorts: Mapping[str, Cohort],
        model: Mapping[str, Any],
        server: Mapping[str, Any] | None = None,
        site: Mapping[str, Any] | None = None,
    ) -> None:
        from percdl.runtimes.flower.processes import free_port

        self.folder, self.sites, self.port = folder, sorted(cohorts), free_port()
        self._children: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.command("federate", "keys", "--ca", "--server", "127.0.0.1", "--quiet")
        for name, cohort in cohorts.items():
            self.command("federate", "keys", name, "--quiet")
            write_shards(cohort, folder / f"{name}.data")
            self._write_site(name, site or {})
        self._write_server(model, server or {})

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._children:
            if child.poll() is None:
                child.terminate()
        for child in self._children:
            child.wait(60)

    @property
    def results(self) -> Path:
        """Where the server writes model, log and checkpoint."""
        return self.folder / "server" / RUN

    def command(self, *arguments: str) -> None:
        """Run ``percdl`` to its end; raise where it fails."""
        subprocess.run(_percdl(*arguments), cwd=self.folder, env=environment(), check=True)

    def start(
        self, *arguments: str, log: str, python: tuple[str, ...] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start ``percdl`` (or another Python program) in the folder; its words go to a log."""
        command = _percdl(*arguments) if python is None else [sys.executable, *python, *arguments]
        with open(self.folder / log, "ab") as file:
            child = subprocess.Popen(
                command, cwd=self.folder, env=environment(), stdout=file, stderr=file
            )
        self._children.append(child)
        return child

    def start_site(self, name: str) -> subprocess.Popen[bytes]:
        """Start the command of a site."""
        return self.start("federate", "site", f"{name}.toml", log=f"{name}.log")

    def start_server(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the command of the server."""
        return self.start("federate", "server", "server.toml", *options, log="server.log")

    def audit(self) -> list[dict[str, Any]]:
        """Return the lines that the server's log has by now."""
        path = self.results / "audit.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def wait_for(self, kind: str, seconds: float, n: int = 1) -> None:
        """Wait until the server's log has so many lines of a kind."""
        end = time.monotonic() + seconds
        while sum(line["kind"] == kind for line in self.audit()) < n:
            if time.monotonic() > end:
                raise TimeoutError(f"no {kind} round within {seconds:g} s; see {self.folder}")
            time.sleep(0.3)

    def said(self, name: str) -> str:
        """Return what a command has said."""
        return (self.folder / f"{name}.log").read_text()

    def _write_site(self, name: str, more: Mapping[str, Any]) -> None:
        table = {
            "name": name,
            "server": f"127.0.0.1:{self.port}",
            "folder": f"{name}.own",
            "authority": "keys/ca.crt",
            "node": f"keys/{name}.node",
            "identity": f"keys/{name}.key",
            "registered": "keys",
            "report": False,
            "retry": 10,
        }
        text = _toml("site", {**table, **more}) + _toml("data", {"data": f"{name}.data"})
        (self.folder / f"{name}.toml").write_text(text)

    def _write_server(self, model: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        table = {
            "run": RUN,
            "folder": "server",
            "port": self.port,
            "authority": "keys/ca.crt",
            "certificate": "keys/server.crt",
            "key": "keys/server.key",
            "wait": 240,
        }
        sites = {name: f"keys/{name}.nodepub" for name in self.sites}
        text = _toml("server", {**table, **more}) + _toml("sites", sites) + _toml("model", model)
        (self.folder / "server.toml").write_text(text)


def _percdl(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "percdl", *arguments]


def environment() -> dict[str, str]:
    """Return the environment of children: the same percdl, wherever they run."""
    paths = [path for path in sys.path if path and Path(path).is_dir()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _toml(name: str, table: Mapping[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join([f"[{name}]", *lines, "", ""])
