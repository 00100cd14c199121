"""Messages, errors and exit codes of commands: text for people, JSON lines for scripts."""

from __future__ import annotations

import json
import logging
import logging.handlers
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from percdl.exceptions import PerCDLError, visible

if TYPE_CHECKING:
    import pandas as pd

# Exit codes, explained by `percdl --help`.
INTERNAL, REFUSED, NOTHING_FOUND, INTERRUPTED = 1, 2, 3, 130
Report = Callable[[str, int, float], None]
# Without `logging_to`, nothing is logged.
LOG = logging.getLogger("percdl")
LOG.addHandler(logging.NullHandler())
LOG_BYTES, LOG_FILES = 10**7, 5


@dataclass(frozen=True)
class Output:
    """Options that decide what a command prints.

    Messages and results go to standard output, progress and warnings to standard error. With
    ``--json``, standard output holds JSON lines only: one object per event.
    """

    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, one object per event.")
    ] = False

    def say(self, text: str) -> None:
        """Print a message for people."""
        LOG.info(visible(text))
        if not (self.quiet or self.json):
            typer.echo(visible(text))

    def event(self, name: str, /, **values: Any) -> None:
        """Print an event for scripts."""
        if self.json:
            typer.echo(to_json({"event": name, **values}))

    def done(self, text: str, n_found: int = 1, /, **values: Any) -> None:
        """End a command: an event, a message, and an exit code if nothing was found."""
        self.event("done", **values)
        self.say(text)
        if not n_found:
            raise typer.Exit(NOTHING_FOUND)

    def warn(self, text: str) -> None:
        """Print a warning for both."""
        LOG.warning(visible(text))
        self.event("warning", message=text)
        if not self.json:
            typer.secho(f"Warning: {visible(text)}", err=True, fg="yellow")

    @contextmanager
    def showing_warnings(self) -> Iterator[None]:
        """Print Python warnings as they occur, without source lines; identical ones once."""
        shown: set[str] = set()

        def show(message: Warning | str, *_: Any) -> None:
            if str(message) not in shown:
                shown.add(str(message))
                self.warn(str(message))

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
            yield

    @contextmanager
    def rounds(self, n_rounds: int) -> Iterator[Report]:
        """Yield ``report(phase, round, objective)``, which shows the progress of a fit."""
        from percdl.estimators.fitting import progress_bar

        if not self.json:
            with progress_bar(not self.quiet, n_rounds) as report:
                yield report
            return
        began, n_done = time.perf_counter(), 0

        def write(phase: str, index: int, objective: float) -> None:
            nonlocal n_done
            n_done += 1
            seconds = time.perf_counter() - began
            self.event(
                "round",
                phase=phase,
                round=index + 1,
                objective=objective,
                seconds=round(seconds, 3),
                seconds_left=round(seconds / n_done * max(0, n_rounds - n_done), 1),
            )

        yield write


class CommandError(PerCDLError):
    """Raised when a command cannot do what was asked; the message says why."""


def fail(message: str) -> NoReturn:
    """Stop the command with a message on standard error."""
    raise CommandError(message)


@contextmanager
def reported(debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Turn an exception into a message, with JSON also on standard output, and an exit code."""
    try:
        yield
        return
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise  # typer handles these
    except KeyboardInterrupt as stop:
        event, message, code = "interrupted", str(stop) or "Stopped.", INTERRUPTED
    except Exception as error:
        if debug:
            traceback.print_exc()
        event, message, code = "error", str(error), REFUSED
        if isinstance(error, OSError) and error.strerror and error.filename:
            message = f"{error.filename}: {error.strerror}."
        elif not isinstance(error, (PerCDLError, OSError)):
            how = "Please report it, with the traceback that --debug shows."
            message = f"internal error: {type(error).__name__}: {error}. {how}"
            code = INTERNAL
    if as_json:
        typer.echo(json.dumps({"event": event, "message": message, "code": code}))
    message = visible(message)
    typer.secho(message if code == INTERRUPTED else f"Error: {message}", err=True, fg="red")
    raise SystemExit(code)


@contextmanager
def logging_to(path: Path | None) -> Iterator[None]:
    """Log to a file during the block, in a few files of limited size; None: not at all."""
    if path is None:
        yield
        return
    prepare_file(path, "--log")
    handler = logging.handlers.RotatingFileHandler(path, "a", LOG_BYTES, LOG_FILES - 1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    except BaseException as error:
        LOG.error("%s: %s", type(error).__name__, visible(str(error)))
        raise
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


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


def write_table(table: pd.DataFrame, path: Path, option: str, index: bool = False) -> None:
    """Write a table as a CSV file."""
    from percdl.signals.files import replace_file

    with writing(path, option):
        replace_file(path, table.to_csv(index=index, lineterminator="\n").encode())


def require_packages(packages: tuple[str, ...], extra: str, why: str) -> None:
    """Stop with installation instructions if a package is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        fail(
            f"{why} and needs {' and '.join(missing)}. "
            f"Install with: pip install 'percdl[{extra}]' (in a clone: pip install '.[{extra}]')"
        )


@contextmanager
def interruptible(output: Output, n_rounds: int, advise: Callable[[], str]) -> Iterator[Report]:
    """Yield a function that shows each round and raises after Ctrl-C, with the advice."""
    with output.rounds(n_rounds) as show, noticing_ctrl_c(output, "after this round") as pressed:

        def report(phase: str, index: int, objective: float) -> None:
            show(phase, index, objective)
            if pressed.is_set():
                raise KeyboardInterrupt

        try:
            yield report
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(advise()) from stop


@contextmanager
def noticing_ctrl_c(output: Output, when: str) -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets; a second Ctrl-C stops immediately.

    An interrupt that is raised at once can be lost in a callback of compiled code.
    """
    pressed = threading.Event()

    def on_signal(number: int, frame: Any) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        output.warn(f"stopping {when}. Press Ctrl-C again to stop immediately.")

    ctrl_break = getattr(signal, "SIGBREAK", signal.SIGINT)  # Windows
    with _handled(signal.SIGINT, on_signal), _handled(ctrl_break, on_signal):
        yield pressed


def terminating_like_ctrl_c() -> AbstractContextManager[None]:
    """Treat SIGTERM like Ctrl-C, so that child processes are stopped too."""
    return _handled(signal.SIGTERM, signal.default_int_handler)


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


def to_json(value: Any, infinity: Literal["null", "strings"] = "null") -> str:
    """Return JSON text: paths become strings, NaN and infinity null or strings."""
    from pydantic_core import to_json

    return to_json(value, inf_nan_mode=infinity, fallback=lambda number: number.item()).decode()
