"""A federation of real processes on this machine: keys, invitation, relay and sites.

Relay and sites are the commands that hospitals run, over TLS, on a free port of the loopback.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
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
        The table ``[model]`` of the invitation.
    federation, site : dict, optional
        More keys of ``[federation]``, and of ``[site]`` for all sites.
    """

    def __init__(
        self,
        folder: Path,
        cohorts: Mapping[str, Cohort],
        model: Mapping[str, Any],
        federation: Mapping[str, Any] | None = None,
        site: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.sites, self.port = folder, sorted(cohorts), free_port()
        self._children: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.command("federate", "keys", "--ca", "--server", "127.0.0.1", "--quiet")
        for name, cohort in cohorts.items():
            self.command("federate", "keys", name, "--quiet")
            write_shards(cohort, folder / f"{name}.data")
        table = {"run": RUN, "server": f"127.0.0.1:{self.port}", "authority": "keys/ca.crt"}
        members = {name: f"keys/{name}.pub" for name in self.sites}
        text = _toml("federation", {**table, "min-subjects": 1, **(federation or {})})
        text += _toml("members", members) + _toml("model", model)
        (folder / "federation.toml").write_text(text)
        self.command("federate", "invite", "federation.toml", "--quiet")
        for name in self.sites:
            self._write_site(name, site or {})

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._children:
            if child.poll() is None:
                child.terminate()
        for child in self._children:
            child.wait(60)

    def command(self, *arguments: str) -> None:
        """Run ``percdl`` to its end; raise where it fails."""
        subprocess.run(_percdl(*arguments), cwd=self.folder, env=environment(), check=True)

    def start(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start ``percdl`` in the folder; its words go to a log."""
        with open(self.folder / log, "ab") as file:
            child = subprocess.Popen(
                _percdl(*arguments), cwd=self.folder, env=environment(), stdout=file, stderr=file
            )
        self._children.append(child)
        return child

    def start_site(self, name: str) -> subprocess.Popen[bytes]:
        """Start the command of a site."""
        site = ("--site", f"{name}.toml")
        return self.start("federate", "join", "invitation.toml", *site, log=f"{name}.log")

    def start_relay(self) -> subprocess.Popen[bytes]:
        """Start the command of the server."""
        files = ("--certificate", "keys/server.crt", "--key", "keys/server.key")
        port = ("--port", str(self.port))
        return self.start("federate", "relay", "invitation.toml", *files, *port, log="relay.log")

    def place(self, name: str) -> Path:
        """Return the folder of the run at a site."""
        return self.folder / f"{name}.own" / RUN

    def audit(self, name: str) -> list[dict[str, Any]]:
        """Return the lines that the log of a site has by now."""
        path = self.place(name) / "log.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def said(self, name: str) -> str:
        """Return what a command has said."""
        return (self.folder / f"{name}.log").read_text()

    def _write_site(self, name: str, more: Mapping[str, Any]) -> None:
        from percdl.cli.federate_config import read_invitation_file

        manifest = read_invitation_file(self.folder / "invitation.toml").manifest
        table = {
            "identity": f"keys/{name}.key",
            "folder": f"{name}.own",
            "manifest": manifest.fingerprint,
            "min-subjects": 1,
            "report": False,
        }
        text = _toml("site", {**table, **more}) + _toml("data", {"data": f"{name}.data"})
        (self.folder / f"{name}.toml").write_text(text)


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _percdl(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "percdl", *arguments]


def environment() -> dict[str, str]:
    """Return the environment of children: the same percdl, wherever they run."""
    paths = [path for path in sys.path if path and Path(path).is_dir()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _toml(name: str, table: Mapping[str, Any]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join([f"[{name}]", *lines, "", ""])
