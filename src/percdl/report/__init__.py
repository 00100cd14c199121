"""Self-contained HTML pages: pictures are included, and the network is not used."""

import platform
from base64 import b64encode
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from io import BytesIO
from typing import Any

from percdl import __version__

# Packages that influence the numbers; pages show their versions.
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn")


def render(template: str, *folders: str, **values: Any) -> str:
    """Return a page as HTML; raise if the template needs a value that is missing.

    Templates are in this folder of the package, and in the others given. Every page can say when
    and with which versions it was made.
    """
    import jinja2

    places = [jinja2.PackageLoader("percdl", folder) for folder in ("report", *folders)]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(places),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    packages = [f"{name} {version(name)}" for name in PACKAGES]
    return environment.get_template(template).render(
        version=__version__,
        versions=", ".join([f"Python {platform.python_version()}", *packages]),
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z").strip(),
        **values,
    )


def as_png(figure: Any, dpi: int) -> bytes:
    """Return a matplotlib figure as a PNG image."""
    image = BytesIO()
    figure.savefig(image, format="png", dpi=dpi)
    return image.getvalue()


def as_data_uri(picture: bytes) -> str:
    """Return a PNG image as a data URI."""
    return "data:image/png;base64," + b64encode(picture).decode("ascii")


def read_asset(package: str, name: str) -> str:
    """Return a script or a style sheet of the report or the studio."""
    return (files(f"percdl.{package}") / "assets" / name).read_text("utf-8")


def as_script(*parts: str) -> str:
    """Return scripts as one, whose names are not visible to other scripts of the page."""
    own = "\n".join(parts)
    return f'"use strict";\n(() => {{\n{own}\n}})();'
