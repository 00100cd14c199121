"""Self-contained HTML pages: pictures are included, and the network is not used."""

import platform
from base64 import b64encode
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from percdl import __version__

# Packages that influence the numbers; pages show their versions.
PACKAGES = ("jax", "numpy", "scipy", "scikit-learn")


def render(template: str, *folders: str, **values: Any) -> str:
    """Return a page as HTML; raise if the template needs a value that is missing.

    Templates are in this folder of the package, and in the others given.
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
    return environment.get_template(template).render(version=__version__, **values)


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


def name_versions() -> str:
    """Return the versions of the packages that the numbers depend on."""
    versions = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([f"Python {platform.python_version()}", *versions])
