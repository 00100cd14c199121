"""Bad input raises an error that names the subject or the argument."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.claims._claim import Claim
from percdl import Algorithm, Cohort, PerCDL, TimeWarp, load
from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    ModelFileError,
    NoActivationWarning,
)

N, L = 200, 20


class Case(NamedTuple):
    """Something that must be refused, how, and what the message must contain."""

    name: str
    attempt: Callable[[], Any]
    error: type[BaseException]
    words: tuple[str, ...]


def claims() -> Iterator[Claim]:
    """Try every bad input and look at the message."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoActivationWarning)
        for case in CASES:
            message = _message(case)
            holds = message is not None and all(word in message for word in case.words)
            target = f"{case.error.__name__} with {', '.join(map(repr, case.words))}"
            yield Claim(case.name, target, message or "another outcome", holds)


def _message(case: Case) -> str | None:
    """Return the text of the refusal; None where there was none, or of another kind."""
    try:
        case.attempt()
    except case.error as refusal:
        return " ".join(str(refusal).split())
    except Exception:
        return None
    return None


ONE_ROUND = Algorithm(population_rounds=1, personal_rounds=1)


def _model(**changes: Any) -> PerCDL:
    options = {"n_atoms": 1, "atom_length": L, "transformation": TimeWarp(1, 2), "penalty": 1.0}
    return PerCDL(**{**options, "algorithm": ONE_ROUND, "random_state": 0, **changes})


def _signals(n_channels: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((N, n_channels)) for _ in range(3)]


def _cohort(last: np.ndarray | None = None, sfreq: Any = 100) -> Cohort:
    """Return subjects A, B and C; ``last`` replaces the recording of C."""
    signals = _signals()
    if last is not None:
        signals[-1] = last
    return Cohort.from_arrays(signals, sfreq=sfreq, subjects=["A", "B", "C"])


def _fit(last: np.ndarray | None = None, sfreq: Any = 100, **changes: Any) -> PerCDL:
    return _model(**changes).fit(_cohort(last, sfreq))


def _read_text() -> Any:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("notes.percdl").write_text("not a model")
        return load("notes.percdl")


CASES = (
    Case("empty cohort", lambda: _model().fit([]), InvalidRecordingError, ("at least one",)),
    Case(
        "a record shorter than the atom",
        lambda: _fit(np.ones((L - 1, 1))),
        InvalidRecordingError,
        ("atom_length=20", "C (19 samples)"),
    ),
    Case(
        "a record that is all NaN",
        lambda: _fit(np.full((N, 1), np.nan)),
        InvalidRecordingError,
        ("subject C", "NaN"),
    ),
    Case(
        "a flat record",
        lambda: _fit(np.ones((N, 1))),
        InvalidRecordingError,
        ("subject C", "constant"),
    ),
    Case(
        "infinite values",
        lambda: _fit(np.full((N, 1), np.inf)),
        InvalidRecordingError,
        ("Subject 'C'", "infinite"),
    ),
    Case(
        "channel counts that differ between subjects",
        lambda: _fit(_signals(2)[-1]),
        InvalidRecordingError,
        ("Subject 'A'", "'C'", "channels"),
    ),
    Case(
        "another channel count than was fitted",
        lambda: _fit().personalize(_signals(2)),
        InvalidParameterError,
        ("fitted on 1 channel", "X has 2"),
    ),
    Case(
        "mixed sampling rates",
        lambda: _fit(sfreq=[100, 100, 50]),
        InvalidRecordingError,
        ("Subject 'A'", "100 Hz", "'C'", "50 Hz"),
    ),
    Case(
        "zero activations at this penalty",
        lambda: _fit(penalty=1e9),
        NoActivationWarning,
        ("penalty",),
    ),
    Case("K out of range", lambda: _fit(n_atoms=0), InvalidParameterError, ("n_atoms=0",)),
    Case("L out of range", lambda: _fit(atom_length=2), InvalidParameterError, ("atom_length=2",)),
    Case("a file that is not a model", _read_text, ModelFileError, ("notes.percdl",)),
)
