"""Libraries that only some installations have."""

from importlib import import_module
from types import ModuleType

from percdl.exceptions import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import a library of an extra, or say in words how to install it.

    >>> require("json", "data", "reading JSON").__name__
    'json'
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the library is there; it is broken for a reason of its own
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'percdl[{extra}]'",
            name=package,
        ) from error
    return import_module(module)
