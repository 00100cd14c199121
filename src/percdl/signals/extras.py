"""Libraries that only some installations have."""

from importlib import import_module
from types import ModuleType

from percdl.exceptions import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a library of an extra, or say in words how to install it.

    >>> require("json", "data", "reading JSON").__name__
    'json'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise  # the library is there; it is broken for a reason of its own
        raise MissingExtraError(
            f"{purpose} needs {error.name}, which is not installed. "
            f"Install it with: pip install 'percdl[{extra}]'",
            name=error.name,
        ) from error
