"""Self-contained HTML pages: pictures are included, and the network is not used."""

from base64 import b64encode
from typing import Any

from percdl import __version__


def render(template: str, **values: Any) -> str:
    """Return a page as HTML; raise if the template needs a value that is missing."""
    import jinja2

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
    return "data:image/png;base64," + b64encode(picture).decode("ascii")
