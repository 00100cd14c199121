"""Optional packages."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from percdl.exceptions import MissingPackageError


def require(module: str, purpose: str, extra: str = "data") -> Any:
    """Import an optional package; the error says how to install it.

    >>> require("json", "Reading JSON").__name__
    'json'
    """
    try:
        with hushed():
            import_module(module.partition(".")[0])
            return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackageError(
            f"{purpose} needs the package `{package}`, which cannot be imported ({error}). "
            f"Install it with `pip install 'percdl[{extra}]'`, in a clone with "
            f"`pip install '.[{extra}]'`."
        ) from error


@contextmanager
def hushed() -> Iterator[None]:
    """Silence deprecation warnings of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
