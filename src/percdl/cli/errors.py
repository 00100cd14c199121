"""How a command ends when it cannot go on: one message, no traceback, exit code 2."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import typer

EXIT_CODE = 2


def fail(message: str) -> NoReturn:
    """Write the message to standard error and leave."""
    typer.secho(f"Error: {message}", err=True, fg="red")
    raise SystemExit(EXIT_CODE)


def prepare_folder(folder: Path, option: str) -> None:
    """Make a folder and see that files can be written there, before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fail(f"cannot write to {folder} ({error.strerror}). Choose another folder with {option}.")


def require_packages(packages: tuple[str, ...], extra: str, why: str) -> None:
    """Leave, saying what to install, where a command lacks packages."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(
            f"{why} and needs {' and '.join(missing)}. "
            f"Install them with: pip install 'percdl[{extra}]' "
            f"(in a clone: pip install '.[{extra}]')"
        )
