"""How a page is made: one look, pictures inside, nothing fetched from elsewhere."""

from __future__ import annotations

import base64
from typing import Any

import jinja2

from percdl import __version__


def render(template: str, **values: Any) -> str:
    """Return a page as HTML; a value the template needs and does not get is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("percdl", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(version=__version__, **values)


def as_data_uri(picture: bytes) -> str:
    """Return a PNG image as text that stands in for its address."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")
