"""An open model with its recordings, read in the background and drawn in pieces."""

from __future__ import annotations

import math
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from percdl.estimators.modelfile import load
from percdl.exceptions import PerCDLError
from percdl.report.cohort import collect, describe_marks, describe_person, fill_page
from percdl.report.packing import envelope, pack
from percdl.report.people import Groups, People, gather_people
from percdl.report.words import Words
from percdl.signals.from_files import CORRECTIONS, RESULTS
from percdl.signals.reconstruction import rebuild
from percdl.studio.compare import list_sides
from percdl.studio.corrections import Corrections
from percdl.studio.project import OF_PEOPLE, Project, RefusedError

# Most points of a curve that a page asks for at once.
N_POINTS = 6000
# Recordings are kept as the extremes of runs of this many samples as well.
RUN = 64
# People whose curves are kept.
N_KEPT = 4


class Opened:
    """A model file and its recordings.

    ``stage`` is the current step of reading; ``page``, set at its end, holds the values of the
    template of the page.
    """

    def __init__(self, project: Project, path: Path):
        self.project, self.path = project, path
        self.written = path.stat().st_mtime_ns
        self.model = load(path)
        self.stage, self.failure = "Reading the recordings", ""
        self.people: People | None = None
        self.page: dict[str, Any] | None = None
        self.lock = threading.Lock()
        self._read_curves = lru_cache(N_KEPT)(self._make_curves)
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the page shows them
                self._look()
        except FileNotFoundError as error:
            self.failure = (
                f"{error} A model names its files as they were seen from the folder of its fit. "
                "Start the studio in that folder, or put the files back."
            )
        except (PerCDLError, OSError) as error:
            self.failure = str(error)
        except (
            Exception
        ) as error:  # shown on the page, because the output of a thread is not visible
            traceback.print_exc()
            self.failure = f"Internal error: {type(error).__name__}: {error}."

    def _look(self) -> None:
        options = self.reading_options()
        if not options.get("data"):
            raise RefusedError(
                f"{self.path.name} was fitted in Python, so it does not name the files of its "
                "recordings, and its people cannot be shown here. To see them, run `percdl report "
                f"{self.project.named(self.path)} RECORDINGS` in a terminal, with the folder of "
                "the recordings and the options that read them (`percdl report --help`), or fit "
                "the recordings on the page of recordings."
            )
        about = self._settings(OF_PEOPLE)
        # Events of the fit obey its corrections; later ones are applied to what is shown.
        cohort, table = self.project.read_people({**options, "corrections": None})
        people = gather_people(self.model, cohort, metadata=table, **about)
        self.stage = "Measuring every cycle"
        _ = people.cycles, people.errors
        self.stage = "Comparing people"
        _ = people.deviation
        self.stage, groups, words = "Comparing groups", Groups(people), Words(people)
        content = collect(people, groups)
        own = self._settings(("corrections",)).get("corrections")
        path = self.path.with_suffix(CORRECTIONS)
        path = path if own is None else self.project.inside(own)
        layout = people.cohort.sfreq, self.model.atom_length_, self.model.atom_names_
        self.corrections = Corrections(path, *layout)
        content |= {
            "file": self.project.named(self.path),
            "corrections": self.project.named(path),
            "results": f"{RESULTS}/{self.path.stem}",
            "n_corrections": len(self.corrections),
            "reading": self.reading_options(),
            "compared": about,
            "sides": list_sides(people),
            "fit": self.fit_options(),
        }
        self.people, self.words = people, words
        self.page = fill_page(people, groups, words, content, content["file"])

    def reading_options(self) -> dict[str, Any]:
        """Return the options about recordings that the model was fitted with."""
        return self._settings(self.project.shell.reading)

    def fit_options(self) -> dict[str, Any]:
        """Return all options that the model was fitted with, except defaults."""
        usual = self.project.shell.model
        own = {k: v for k, v in self._settings(usual.keys()).items() if v != usual[k]}
        return self.reading_options() | self._settings(OF_PEOPLE) | own

    def _settings(self, names: Iterable[str]) -> dict[str, Any]:
        settings: Mapping[str, Any] = self.model.settings_ or {}
        return {name: settings[name] for name in names if settings.get(name) is not None}

    def ready(self) -> People:
        """Return the people, once they are read."""
        if self.people is None:
            raise RefusedError(self.failure or f"{self.stage} of {self.path.name} takes a while.")
        return self.people

    def describe_atoms(self) -> dict[str, Any]:
        """Return the common atoms, which need no recordings: the first picture."""
        model = self.model
        return {
            "file": self.project.named(self.path),
            "clocks": model.personalization_.clocks(model.sfreq_).tolist(),
            "channels": list(model.channels_),
            "units": list(model.units_),
            "common": pack(np.moveaxis(model.dictionary_, 2, 1)),
        }

    def position(self, s: Any) -> int:
        """Return the number of a person; raise if it does not exist."""
        if not isinstance(s, int) or not 0 <= s < len(self.ready().cohort):
            raise RefusedError(f"There is no person number {s!r}.")
        return s

    def describe_person(self, s: int) -> dict[str, Any]:
        """Return the curves and events of a person, and the whole recording at a glance."""
        people = self.ready()
        n_times = int(people.cohort.lengths[self.position(s)])
        person = describe_person(self.words, s)
        person["events"] = self.corrections.apply(people.cohort.subjects[s], person["events"])
        return person | {"piece": self.read_piece(s, 0, n_times)}

    def read_piece(self, s: int, start: int, stop: int) -> dict[str, Any]:
        """Return samples of a recording and of its reconstruction, or their extremes."""
        curves = self._read_curves(self.position(s))
        start, stop = max(0, start), min(stop, len(curves[0].values))
        run = max(1, math.ceil((stop - start) / N_POINTS))
        run = 1 if run == 1 else max(4, run)
        if run > RUN:
            run = RUN * math.ceil(run / RUN)
            start -= start % RUN
        seen, made = (pack(curve.read(start, stop, run).T) for curve in curves)
        return {"start": start, "run": run, "seen": seen, "made": made}

    def _make_curves(self, s: int) -> tuple[Curves, Curves]:
        people = self.ready()
        found, record = people.found, people.cohort[s]
        events = found.events.iloc[found.rows_of[s]]
        atoms = found.personal_dictionary[s : s + 1]
        (made,) = rebuild([record], events, np.nan_to_num(atoms), found.n_terms)
        return Curves(record.values), Curves(made)

    def correct(self, s: int, events: list[dict[str, Any]]) -> dict[str, Any]:
        """Save the corrected events of a person; return the number of corrections."""
        with self.lock:
            people = self.ready()
            subject = people.cohort.subjects[self.position(s)]
            end, n_atoms = people.cohort.lengths[s], len(people.found.dictionary)
            for one in events:
                inside = 0 <= one["onset"] < one["onset"] + one["length"] <= end
                if not inside or one["atom"] not in range(n_atoms):
                    raise RefusedError(
                        f"{one} is no event: it needs an atom below {n_atoms}, and an onset and "
                        f"a length within the {end} samples of {subject}."
                    )
            before = people.found.events.iloc[people.found.rows_of[s]]
            table = self.corrections.save(subject, before, events)
            assert self.page is not None
            self.page["content"]["n_corrections"] = len(table)
        return {"n_corrections": len(table)}

    def compare_with(self, reference: str) -> None:
        """Save the group that others are compared with; the model is then read again."""
        with self.lock:
            if reference and reference not in self.ready().groups:
                raise RefusedError(f"There is no group {reference!r}.")
            self.model.settings_ = {**(self.model.settings_ or {}), "reference": reference or None}
            self.model.save(self.path)

    def mark(self, name: str, atom: int, time: float, channel: str | None) -> list[Any]:
        """Place a landmark, save the model, and return all landmarks at everyone's times."""
        arguments = [f"--name={name}", f"--at={time:.4f}", f"--atom={atom}"]
        arguments += [] if channel is None else [f"--channel={channel}"]
        mark = partial(self.model.mark, str(name), atom, round(float(time), 4), channel=channel)
        return self._change_marks(mark, arguments)

    def unmark(self, name: str) -> list[Any]:
        """Remove a landmark, save the model, and return the others at everyone's times."""
        return self._change_marks(partial(self.model.unmark, name), [f"--remove={name}"])

    def _change_marks(self, change: Callable[[], Any], arguments: list[str]) -> list[Any]:
        with self.lock:
            people = self.ready()
            change()
            self.model.save(self.path)
            self.written = self.path.stat().st_mtime_ns
            self.project.write_down(["mark", *arguments, "--", self.project.named(self.path)])
            marks = describe_marks(people)
            assert self.page is not None
            self.page["content"]["marks"] = marks
        return marks or []


class Curves:
    """The samples of a recording (n, P), and the extremes of runs of them."""

    def __init__(self, values: np.ndarray):
        self.values = values
        self._coarse = envelope(values, RUN)

    def read(self, start: int, stop: int, run: int) -> np.ndarray:
        """Return samples, or the extremes of runs; a multiple of `RUN` is fast."""
        if run <= RUN:
            return envelope(self.values[start:stop], run)
        ends = self._coarse[2 * (start // RUN) : 2 * math.ceil(stop / RUN)]
        starts = np.arange(0, len(ends) // 2, run // RUN)
        low, high = np.fmin.reduceat(ends[::2], starts), np.fmax.reduceat(ends[1::2], starts)
        return np.stack([low, high], axis=1).reshape(-1, self.values.shape[1])
