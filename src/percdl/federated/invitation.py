"""Invitation to a run: one readable file for the server and for all sites.

It holds the address of the server, the certificate of its authority and the manifest. Sites get it
by any way, and compare its fingerprint by telephone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from percdl.exceptions import FederationError
from percdl.federated.manifest import Manifest
from percdl.federated.messages import MOST_HEAD, Strict, explain, parse
from percdl.signals.files import replace_file
from percdl.signals.headers import read_json

_HEAD = "# Invitation to a federation of percdl. Compare the fingerprint by telephone:\n# {}\n"


class _Content(Strict):
    manifest: dict[str, Any]
    arrays: dict[str, list[Any]]


class _File(Strict):
    server: Annotated[str, Field(max_length=1000)]
    authority: Annotated[str, Field(max_length=100_000)]
    manifest: Annotated[str, Field(max_length=MOST_HEAD)]


class Invitation(NamedTuple):
    """Address of a server, certificate of its authority (PEM), and the manifest of the run."""

    server: str
    authority: str
    manifest: Manifest

    def write(self, path: Path) -> None:
        """Write the invitation as TOML; the manifest is JSON, since TOML has no null."""
        arrays = {name: array.tolist() for name, array in self.manifest.arrays.items()}
        content = {"manifest": self.manifest.model_dump(), "arrays": arrays}
        text = _HEAD.format(self.manifest.fingerprint) + f"server = {json.dumps(self.server)}\n"
        for name, value in (("authority", self.authority), ("manifest", json.dumps(content))):
            text += f"{name} = '''\n{value.strip()}\n'''\n"
        replace_file(path, text.encode())


def read_invitation(content: dict[str, Any], path: Path) -> Invitation:
    """Return the invitation in the content of a TOML file; raises `FederationError`."""
    try:
        file = parse(_File, content)
        inside = parse(_Content, read_json(file.manifest))
        arrays = {name: np.array(values, float) for name, values in inside.arrays.items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise FederationError(f"{path} is not an invitation ({explain(error)}).") from error
    return Invitation(file.server, file.authority, Manifest.read(inside.manifest, arrays))
