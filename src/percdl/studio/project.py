"""A folder of recordings and models, the commands run in it, and previews of recordings."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from glob import glob
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.signal import welch

from percdl.exceptions import PerCDLError
from percdl.report.packing import envelope, pack
from percdl.signals import Cohort
from percdl.signals.formats import FORMAT_OF
from percdl.signals.from_files import find_files, is_result
from percdl.steps.period import autocorrelate, find_lags

if TYPE_CHECKING:
    import pandas as pd

# Commands that succeeded, one per line: a shell script that does the same.
SCRIPT = "percdl-studio.sh"
HEAD = '#!/bin/sh\nset -e\ncd "$(dirname "$0")"\n'
MODEL, CHECKPOINT = ".percdl", ".percdl.checkpoint"
# Most files that are listed.
MOST_FILES = 5000
# Commands that the studio runs, the option that names the result, and options that name files.
COMMANDS = (
    "suggest", "fit", "personalize", "report", "person", "landmarks", "events", "mark", "watch"
)  # fmt: skip
PATHS = ("metadata", "out", "report", "events", "intervals", "corrections", "resume", "init")
# Options that say who is compared, and all others that are not about recordings or the model.
OF_PEOPLE = ("person", "reference")
OF_COMMANDS = (
    "model", "name", "at", "atom", "channel", "about", "learn", "samples", *OF_PEOPLE, *PATHS
)  # fmt: skip
# Most characters of the files of a command; Windows allows 32,767 for a command.
MOST_CHARACTERS = 30_000
# Messages of a command that are kept for pages that ask late.
N_MESSAGES = 2000
# Points of a preview, lags of an autocorrelation, and candidate lengths.
N_POINTS, N_LAGS, N_CANDIDATES = 3000, 1500, 4
# Most samples of the segments whose spectra are averaged: 8 s at 1 kHz.
N_SEGMENT = 8192
# A peak of the autocorrelation below this is not a candidate.
LEAST = 0.1


class RefusedError(PerCDLError):
    """Raised when the studio refuses a request of a page."""


class Job:
    """A command that runs in a separate process; its messages are JSON lines.

    ``succeeded`` is called with the settings of the command, if it has some, when it has ended
    without an error.
    """

    def __init__(self, arguments: Sequence[str], folder: Path, succeeded: Callable[[Any], None]):
        self._succeeded, self._settings = succeeded, None
        self.line = shlex.join(["percdl", *arguments])
        self.code: int | None = None  # exit code; None while it runs
        self._messages: deque[dict[str, Any]] = deque(maxlen=N_MESSAGES)
        self._n_messages, self._has_failed = 0, False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "percdl", arguments[0], "--json", *arguments[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # On Windows, only Ctrl-Break can be sent, and only to a process group.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._drain, daemon=True)
        self._listener.start()
        threading.Thread(target=self._listen, daemon=True).start()

    def stop(self) -> None:
        """Stop the command as Ctrl-C does: a fit ends after its round and keeps a checkpoint.

        A command that has said nothing yet may not listen to Ctrl-C, and has nothing to keep.
        """
        if not self._n_messages:
            self._process.terminate()
        elif self._process.poll() is None:
            self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))

    def wait(self, n_known: int, seconds: float) -> dict[str, Any]:
        """Return the messages after the first ``n_known``, or none after a while.

        ``known`` is the number of all messages so far; old ones are dropped.
        """
        with self._changed:
            ended = self.code is not None
            self._changed.wait_for(lambda: ended or self._n_messages > n_known, seconds)
            n_new = min(max(self._n_messages - n_known, 0), len(self._messages))
            news = [*self._messages][len(self._messages) - n_new :]
            return {"messages": news, "known": self._n_messages, "code": self.code}

    def _drain(self) -> None:
        self._said = list(self._process.stderr)  # pyright: ignore[reportArgumentType]

    def _listen(self) -> None:
        with self._process:
            for line in self._process.stdout:  # pyright: ignore[reportOptionalIterable]
                self._add(json.loads(line))
            self._listener.join()
        number = self._process.returncode
        code = number if number >= 0 else 128 - number  # ended by a signal, as shells count it
        said = "".join(self._said).strip()
        if code and not self._has_failed:
            self._add({"event": "error", "message": said[-2000:] or f"Exit code {code}."})
        if not code:
            self._succeeded(self._settings)
        self._add({"event": "exit", "code": code})

    def _add(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._messages.append(message)
            self._n_messages += 1
            self._settings = message.get("settings", self._settings)
            self._has_failed |= message["event"] in ("error", "interrupted")
            self.code = message["code"] if message["event"] == "exit" else None
            self._changed.notify_all()


class Shell(NamedTuple):
    """The parts of the command line that the studio uses.

    ``read`` reads recordings, given options by name, and ``read_table`` the table of their people.
    ``reading`` are the names of the options about recordings, ``model`` those of the model with
    their defaults.
    """

    read: Callable[[Mapping[str, Any]], Cohort]
    read_table: Callable[[Mapping[str, Any], Cohort], pd.DataFrame | None]
    reading: frozenset[str]
    model: Mapping[str, Any]


class Project:
    """The folder that the studio works in; nothing outside of it is read or written."""

    def __init__(self, folder: Path, shell: Shell):
        self.folder, self.shell = folder.resolve(), shell
        self.jobs: list[Job] = []
        self._lock = threading.Lock()

    def inside(self, name: Any) -> Path:
        """Return the path of a file in the folder; raise for any other place."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise RefusedError(f"{name!r} is not the name of a file.")
        try:
            path = (self.folder / name).resolve()
        except RuntimeError as error:
            raise RefusedError(f"{name} is a link to itself.") from error
        if not path.is_relative_to(self.folder):
            raise RefusedError(
                f"{name} is not in {self.folder}. Start the studio in a folder that holds it."
            )
        return path

    def named(self, path: Path) -> str:
        """Return the name of a file as the commands take it."""
        return path.relative_to(self.folder).as_posix()

    def list_files(self) -> dict[str, Any]:
        """Return recordings with their sizes, models by age, and the number of the running job."""
        recordings, models, more = [], [], False
        for path in sorted(self.folder.rglob("*")):
            name = self.named(path)
            if any(part.startswith(".") for part in Path(name).parts) or not path.is_file():
                continue
            if name.endswith((MODEL, CHECKPOINT)):
                models.append({"name": name, "changed": path.stat().st_mtime})
            elif path.suffix.lower() in FORMAT_OF and not is_result(Path(name)):
                more = len(recordings) >= MOST_FILES
                if not more:
                    recordings.append({"name": name, "bytes": path.stat().st_size})
        models.sort(key=lambda one: -one["changed"])
        runs = bool(self.jobs) and self.jobs[-1].code is None
        job = len(self.jobs) - 1 if runs else None
        return {"recordings": recordings, "models": models, "job": job, "more": more}

    def read_head(
        self, name: str, delimiter: str | None = None, skip_lines: int | None = None
    ) -> dict[str, Any]:
        """Return the columns of a table, or the channels of another recording.

        For a table of text, also the signs between cells and for decimals, unless they are usual.
        """
        import pandas as pd

        path, skipped = self.inside(name), skip_lines or 0
        if FORMAT_OF.get(path.suffix.lower()) != "csv":
            return {"columns": self.read({"data": [name]}).channels}
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            header, row, *_ = [*islice(file, skipped, skipped + 2), "", ""]
        usual = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
        fitting = (x for x in (usual, ";", "\t", "|") if 0 < header.count(x) == row.count(x))
        mark = delimiter or next(fitting, usual)
        decimal = "," if mark != "," and re.search(r"\d,\d", row) else ""
        try:
            columns = pd.read_csv(path, sep=mark, nrows=0, skiprows=skipped).columns
        except (ValueError, pd.errors.ParserError) as error:
            raise RefusedError(f"{name} is not a table of text: {error}.") from error
        signs = {"delimiter": "" if mark == usual else mark, "decimal": decimal}
        return {"columns": [*map(str, columns)], **signs}

    def read(self, options: Mapping[str, Any]) -> Cohort:
        """Read recordings of the folder, with the options of the shell."""
        return self.shell.read(self._checked(options))

    def read_people(self, options: Mapping[str, Any]) -> tuple[Cohort, pd.DataFrame | None]:
        """Read recordings, and the table of their people if there is one."""
        checked = self._checked(options)
        cohort = self.shell.read(checked)
        return cohort, self.shell.read_table(checked, cohort)

    def run(self, command: str, options: Mapping[str, Any]) -> int:
        """Start a command and return its number; one runs at a time."""
        arguments = self.make_arguments(command, options)
        if command == "fit" and options.get("out") and self.inside(options["out"]).exists():
            raise RefusedError(f"There is a model {options['out']} already. Choose another name.")
        with self._lock:
            if self.jobs and self.jobs[-1].code is None:
                raise RefusedError(f"{self.jobs[-1].line} is running. Wait for it, or stop it.")

            def succeeded(settings: Any) -> None:
                if "resume" in options:  # the checkpoint is gone; the whole fit gives the same
                    usual = self.shell.model
                    own = {
                        k: v for k, v in settings.items() if v is not None and v != usual.get(k)
                    }
                    self.write_down(self.make_arguments(command, own))
                elif command != "watch":  # which follows a recording that grows
                    self.write_down(arguments)

            self.jobs.append(Job(arguments, self.folder, succeeded))
        return len(self.jobs) - 1

    def write_down(self, arguments: Sequence[str]) -> None:
        """Add a command to the script of the folder."""
        line = shlex.join(["percdl", *arguments])
        with self._lock, (self.folder / SCRIPT).open("a", encoding="utf-8") as file:
            head = "" if file.tell() else HEAD
            file.write(f"{head}{line}  # {time.strftime('%Y-%m-%d %H:%M')}\n")

    def make_arguments(self, command: str, options: Mapping[str, Any]) -> list[str]:
        """Return a command of the shell as a list of arguments."""
        if command not in COMMANDS:
            raise RefusedError(f"The studio runs {', '.join(COMMANDS)}; not {command!r}.")
        checked = self._checked(options)
        places = self._shortened(checked.pop("data", []))
        if "model" in checked:
            places.insert(0, checked.pop("model"))
        arguments = [command]
        for name, value in checked.items():
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                arguments += [f"--{flag}" if value else f"--no-{flag}"]
            elif name == "bandpass":
                arguments += [f"--{flag}", *(str(float(end)) for end in value)]
            else:
                listed = value if isinstance(value, (list, tuple)) else [value]
                arguments.append(f"--{flag}={','.join(map(str, listed))}")
        return [*arguments, "--", *places] if places else arguments

    def _shortened(self, names: list[str]) -> list[str]:
        """Return files, as patterns if they are too many for a command.

        A pattern stands for neighbours that are all the files of a folder with their ending.
        """
        if sum(len(name) + 3 for name in names) <= MOST_CHARACTERS:
            return names
        shortened = []
        for place, own in groupby(map(Path, names), lambda name: (name.parent, name.suffix)):
            pattern = (place[0] / f"*{place[1]}").as_posix()
            files = [name.as_posix() for name in own]
            found = [Path(name).as_posix() for name in glob(pattern, root_dir=self.folder)]
            shortened += [pattern] if sorted(found) == files else files
        return shortened

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that were given; raise for unknown ones and for files elsewhere."""
        given = {name: value for name, value in options.items() if value not in (None, "", [])}
        for name, value in given.items():
            if name == "data":
                places = [self.inside(one) for one in value]
                for place in places:
                    with suppress(FileNotFoundError):  # the command says what is missing
                        for file in find_files(place, tuple(FORMAT_OF)):
                            self.inside(self.named(file))  # raises if it is a link out
                given[name] = list(map(self.named, places))
            elif name in (*PATHS, "model"):
                given[name] = self.named(self.inside(value))
            elif name not in {*self.shell.reading, *self.shell.model, *OF_COMMANDS}:
                raise RefusedError(f"The studio has no option {name!r}.")
            elif isinstance(value, str) and re.search(r"[\0\n\r]", value):
                raise RefusedError(f"{name} must be one line of text.")
        return given


def describe_recording(project: Project, options: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Return the first recording of a file as the fit would read it, and its autocorrelation."""
    cohort = project.read({**options, "data": [file]})
    record = cohort[0]
    values = np.asarray(record.values, float)
    run = max(1, len(values) // N_POINTS)
    run = 1 if run == 1 else max(4, run)
    similar = autocorrelate(values)
    return {
        "subject": record.subject,
        "n_recordings": len(cohort),
        "sfreq": cohort.sfreq,
        "channels": list(cohort.channels),
        "units": list(cohort.units),
        "n_times": len(values),
        "missing": float(np.isnan(values).mean()),
        "run": run,
        "curves": pack(envelope(values, run).T),
        "similar": _thin(similar),
        "spectrum": [_short(column) for column in spectrum(values, cohort.sfreq)],
        "candidates": _candidates(similar, cohort.sfreq),
    }


def spectrum(values: np.ndarray, sfreq: float) -> tuple[np.ndarray, np.ndarray]:
    """Return frequencies in Hz, and the share of the power of a recording at each.

    The powers of the channels are added; missing samples count as the mean.
    """
    import pandas as pd

    table = pd.DataFrame(values)
    centred = (table - table.mean()).fillna(0).to_numpy()
    n_segment = min(len(values) // 2 + 1, N_SEGMENT)
    frequencies, powers = welch(centred, sfreq, nperseg=n_segment, axis=0)
    power = powers.sum(axis=1)
    return frequencies, power / max(power.sum(), np.finfo(float).tiny)


def _thin(similar: np.ndarray) -> dict[str, Any]:
    step = max(1, len(similar) // N_LAGS)
    return {"step": step, "values": _short(similar[::step])}


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{x:.4g}") for x in values]


def _candidates(similar: np.ndarray, sfreq: float) -> list[dict[str, float]]:
    """Return the lags at which a recording resembles itself most, the shortest first."""
    peaks = find_lags(similar)
    peaks = peaks[similar[peaks] >= LEAST]
    best = sorted(peaks[np.argsort(-similar[peaks])][:N_CANDIDATES])
    return [{"seconds": lag / sfreq, "similarity": float(similar[lag])} for lag in best]
