"""Render the HTML templates of the package."""

from __future__ import annotations

import base64
from typing import Any

import jinja2

from percdl import __version__


def render(template: str, **values: Any) -> str:
    """Return a page as HTML; raise if the template needs a value that is missing."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("percdl", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(version=__version__, **values)


def as_data_uri(picture: bytes) -> str:
    """Return a PNG image as a data URI."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")
