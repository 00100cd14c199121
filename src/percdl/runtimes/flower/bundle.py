"""The app bundle that Flower wants for a run.

It names two apps and holds no code of its own. Sites of `percdl federate` never unpack it: they
run the percdl that is installed there.
"""

from __future__ import annotations

import hashlib

from flwr.cli.build import build_fab_from_files
from flwr.supercore.fab import Fab

_PROJECT = """\
[project]
name = "percdl"
version = "1.0.0"
description = "Placeholder: server and sites run the percdl installed there."
license = "MIT"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "percdl"

[tool.flwr.app.components]
serverapp = "percdl.none:app"
clientapp = "percdl.none:app"
"""


def make_bundle() -> Fab:
    """Return the bundle; the same bytes each time."""
    content, _ = build_fab_from_files({"pyproject.toml": _PROJECT.encode()})
    return Fab(hashlib.sha256(content).hexdigest(), content, {})
