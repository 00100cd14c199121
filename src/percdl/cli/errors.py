"""How a command ends: one message, no traceback, and an exit code for scripts.

Exit codes: 0 success, 1 internal error, 2 wrong options, unreadable files or no place to write,
3 success but no pattern found, 130 interrupted (Ctrl-C).
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import typer

from percdl.exceptions import PerCDLError

INTERNAL, REFUSED, NOTHING_FOUND, INTERRUPTED = 1, 2, 3, 130


class CommandError(Exception):
    """Raised when a command cannot do what was asked; the message says why."""


def fail(message: str) -> NoReturn:
    """Stop the command with a message on standard error."""
    raise CommandError(message)


@contextmanager
def reported(debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Turn an exception into a message and an exit code.

    With ``debug``, the traceback comes first. With ``as_json``, standard output ends with the
    message as a JSON object.
    """
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise  # typer handles these
    except KeyboardInterrupt as stop:
        _exit(str(stop) or "Stopped.", INTERRUPTED, as_json)
    except Exception as error:
        if debug:
            traceback.print_exc()
        _exit(*_describe(error), as_json)


def _describe(error: Exception) -> tuple[str, int]:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}.", REFUSED
    if isinstance(error, (CommandError, PerCDLError, OSError)):
        return str(error), REFUSED
    how = "Please report it, with the traceback that --debug shows."
    return f"internal error: {type(error).__name__}: {error}. {how}", INTERNAL


def _exit(message: str, code: int, as_json: bool) -> NoReturn:
    stopped = code == INTERRUPTED
    if as_json:
        event = "interrupted" if stopped else "error"
        typer.echo(json.dumps({"event": event, "message": message, "code": code}))
    typer.secho(message if stopped else f"Error: {message}", err=True, fg="red")
    raise SystemExit(code)


def prepare_folder(folder: Path, option: str, private: bool = False) -> None:
    """Create a folder and check that it is writable, before any work is done."""
    from percdl.signals.files import make_private_folder

    try:
        make_private_folder(folder) if private else folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        fail(f"cannot write to {folder} ({error.strerror}). Choose another folder with {option}.")


def prepare_file(path: Path, option: str) -> None:
    """Check that a file can be written, before any work is done; create its folder."""
    if path.is_dir():
        fail(f"{path} is a folder. Name a file with {option}.")
    prepare_folder(path.parent, option)


@contextmanager
def writing(path: Path, option: str) -> Iterator[None]:
    """Explain a failure to write a file; an older file of that name is kept."""
    try:
        yield
    except OSError as error:
        fail(
            f"cannot write {path} ({error.strerror or error}). No incomplete file was left. Free "
            f"some space, or choose another place with {option}."
        )


def require_packages(packages: tuple[str, ...], extra: str, why: str) -> None:
    """Stop with installation instructions if a package is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(
            f"{why} and needs {' and '.join(missing)}. "
            f"Install with: pip install 'percdl[{extra}]' (in a clone: pip install '.[{extra}]')"
        )


@contextmanager
def stopping_between_rounds(warn: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Delay Ctrl-C to the end of a round.

    Yields a function to call after each round, which raises `KeyboardInterrupt` if Ctrl-C was
    pressed. Raised at any other point, an interrupt can be lost in a callback of compiled code.
    A second Ctrl-C stops immediately.
    """
    pressed = threading.Event()

    def check() -> None:
        if pressed.is_set():
            raise KeyboardInterrupt

    def on_signal(number: int, frame: Any) -> None:
        check()
        pressed.set()
        warn("stopping after this round. Press Ctrl-C again to stop immediately.")

    with _handled(signal.SIGINT, on_signal):
        yield check


@contextmanager
def terminating_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that child processes are stopped too."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with _handled(signal.SIGTERM, interrupt):
        yield


@contextmanager
def _handled(number: int, handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Install a signal handler during the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
