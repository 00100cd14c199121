"""How a command ends: one message, no traceback, and an exit code that scripts can use.

0: done. 1: an error of PerCDL itself. 2: it cannot be done as asked: wrong options, files that
cannot be read, nowhere to write. 3: done, but no pattern was found. 130: interrupted (Ctrl-C).
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import typer

from percdl.exceptions import PerCDLError

INTERNAL, REFUSED, NOTHING_FOUND, INTERRUPTED = 1, 2, 3, 130
# What typer itself raises and knows how to show. Its base class is nowhere exported.
_OF_TYPER: tuple[type[Exception], ...] = (typer.Exit, typer.Abort, typer.BadParameter.__mro__[2])
# Arguments of readers, as messages name them, that are options here; calls in Python stay.
_ARGUMENT = re.compile(
    r"`[\w.]+\([^`]*`|"
    r"\b(sfreq|time|channels|units|subject|group|metadata|metadata_subject|delimiter|decimal|"
    r"encoding|skip_lines|format)=(?=[\s,.'\"\d])"
)
# Arguments of models, as messages name them: `PerCDL(atom_length=2)`, `loss='huber'`, `penalty`.
# Those that are true or false stay: as options they have no value.
_OF_MODEL = re.compile(r"`(?:PerCDL\()?(\w+(?:=(?!True|False)[^`()]+)?)\)?`")
# Options that are called otherwise than the arguments.
_CALLED = {"format": "input-format", "n_restarts": "restarts", "random_state": "seed"}


class CannotDoError(Exception):
    """Raised where a command cannot do what was asked; the message says why."""


def fail(message: str) -> NoReturn:
    """Leave with a message on standard error."""
    raise CannotDoError(message)


@contextmanager
def told(
    debug: bool = False, as_json: bool = False, options: Collection[str] = ()
) -> Iterator[None]:
    """Turn what goes wrong inside into a message and an exit code.

    With ``debug``, the traceback comes before the message; with ``as_json``, the last line on
    standard output is an object that says the same. Where the command has ``options`` for
    arguments of a model, the message names those.
    """
    try:
        yield
    except (*_OF_TYPER, BrokenPipeError):
        raise
    except KeyboardInterrupt as stop:
        _end(str(stop) or "Stopped.", INTERRUPTED, "interrupted", as_json)
    except Exception as error:
        if debug:
            traceback.print_exc()
        _end(*_explain(error, options), "error", as_json)


def _explain(error: Exception, options: Collection[str]) -> tuple[str, int]:
    if isinstance(error, (CannotDoError, PerCDLError)):
        message = _OF_MODEL.sub(lambda found: _as_options(found, options), str(error))
        return _ARGUMENT.sub(_as_option, message), REFUSED
    if isinstance(error, OSError):
        if error.strerror and error.filename:
            return f"{error.filename}: {error.strerror}.", REFUSED
        return str(error), REFUSED
    return (
        f"this should not have happened: {type(error).__name__}: {error}. With --debug the "
        "traceback is shown; please report it.",
        INTERNAL,
    )


def _as_option(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0]
    follows = found.string[found.end() : found.end() + 1]
    return _spell(found[1]) + ("" if follows in " ,." else " ")


def _as_options(found: re.Match[str], options: Collection[str]) -> str:
    """Return arguments as they are told to a command, or as they are where one is no option."""
    parts = [part.partition("=") for part in found[1].split(", ")]
    names = {_spell(name) for name, _, _ in parts}
    if not names <= {_spell(option) for option in options}:
        return found[0]
    return " ".join(f"{_spell(name)} {value}".strip() for name, _, value in parts)


def _spell(name: str) -> str:
    """Return the option of an argument."""
    return "--" + _CALLED.get(name, name).replace("_", "-")


def _end(message: str, code: int, event: str, as_json: bool) -> NoReturn:
    if as_json:
        import json

        typer.echo(json.dumps({"event": event, "message": message, "code": code}))
    prefix = "" if code == INTERRUPTED else "Error: "
    typer.secho(f"{prefix}{message}", err=True, fg="red")
    raise SystemExit(code)


def prepare_folder(folder: Path, option: str, private: bool = False) -> None:
    """Make a folder and see that files can be written there, before any work is done."""
    from percdl.signals.writers.files import make_private_folder

    try:
        make_private_folder(folder) if private else folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fail(f"cannot write to {folder} ({error.strerror}). Choose another folder with {option}.")


def prepare_file(path: Path, option: str) -> None:
    """See that a file can be written, before any work is done; make its folder."""
    if path.is_dir():
        fail(f"{path} is a folder. Name a file with {option}.")
    prepare_folder(path.parent, option)


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Say in words where a file could not be written; the old one is then still there."""
    try:
        yield
    except OSError as error:
        fail(
            f"cannot write {path} ({error.strerror or error}). Nothing was left half-written. "
            f"Make room, or choose another place with {option}."
        )


def require_packages(packages: tuple[str, ...], extra: str, why: str) -> None:
    """Leave, saying what to install, where a command lacks packages."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(
            f"{why} and needs {' and '.join(missing)}. "
            f"Install them with: pip install 'percdl[{extra}]' "
            f"(in a clone: pip install '.[{extra}]')"
        )
