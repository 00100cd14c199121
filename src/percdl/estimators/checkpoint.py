"""Checkpoints: a fit that was interrupted goes on, and ends as if it had not been.

A checkpoint is a file like that of a model, written after each round. It holds the state of all
subjects, so it is about as large as what the fit keeps in memory between rounds, recordings aside.
The last one holds the result instead, so that it is not lost before a model file is written.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Le
from pydantic import StringConstraints

from percdl import __version__
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.results import Results
from percdl.algorithm.state import FitState, HalfStep, History, StopReason
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.container import Arrays, under
from percdl.estimators.fitting import End, Moment, Watch, learn
from percdl.estimators.modelfile import Strict, check_shapes, decode_model, encode_parameters
from percdl.estimators.start import Choices, choose
from percdl.estimators.validation import check_arguments
from percdl.exceptions import CheckpointWarning, InvalidParameterError
from percdl.parameters import Amount, Count, Nonnegative
from percdl.runtimes.hosting import check_place
from percdl.runtimes.protocol import Place
from percdl.signals import AnyCohort, ShardedCohort, as_any_cohort

# What may differ between the fit that was interrupted and the one that goes on.
MAY_DIFFER = ("progress",)


# A line of the history: phase, round, step, objective, seconds.
Line = tuple[
    Literal["population", "personal", "final"],
    Amount,
    Literal["CSC", "CDU", "IPU", "PerCDU", "express"],
    float,
    Nonnegative,
]
# Text of a `StopReason`.
Reason = Literal[tuple(reason.value for reason in StopReason)]  # pyright: ignore[reportInvalidTypeForm]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Ended(Strict):
    """How the best run so far ended."""

    objective: float
    reason: Reason  # pyright: ignore[reportInvalidTypeForm]
    history: list[Line]


class Header(Strict):
    """All that a checkpoint holds beside arrays."""

    population: Amount
    personal: Amount
    reason: Reason  # pyright: ignore[reportInvalidTypeForm]
    coded: float | None
    updated: float | None
    is_fixed: bool
    history: list[Line]
    restart: Amount
    draws: tuple[Annotated[Amount, Le(624)], Annotated[Amount, Le(1)], float]
    best: Ended | None
    version: str
    model: str
    parameters: dict[str, Any]
    chosen: tuple[Count, Count, Nonnegative, Nonnegative | None]
    cohort: Sha256
    settings: dict[str, Any] | None


@dataclass(frozen=True)
class Checkpoint:
    """A fit between two rounds, as read from a file.

    Attributes
    ----------
    content : dict
        The header, see `Header`.
    arrays : dict of arrays
        The state of the fit.
    """

    content: dict[str, Any]
    arrays: Arrays

    @property
    def settings(self) -> dict[str, Any] | None:
        """The options of the command that ran the fit; None if it was run from Python."""
        return self.content["settings"]

    @property
    def n_rounds(self) -> int:
        """How many rounds of this run are done."""
        return sum(line[2] in ("CDU", "PerCDU") for line in self.content["history"])


def read_checkpoint(path: Any) -> Checkpoint:
    """Read a file that `fit_with_checkpoints` wrote; raise `ModelFileError` if it is damaged."""
    content, arrays = container.read(path, container.CHECKPOINT)
    with container.naming(path, container.CHECKPOINT):
        Header.model_validate_json(json.dumps(content))
        model = decode_model(content["model"], content["parameters"], arrays)
        _check_sizes(content, arrays, model)
        checkpoint = Checkpoint(content, arrays)
        _unpack(checkpoint)
    return checkpoint


def _check_sizes(content: dict[str, Any], arrays: Arrays, model: BaseCDL) -> None:
    """Raise `ValueError` where arrays do not agree in size with the header."""
    needed = {"broadcast/dictionary": ("f", "K L P")}
    n_atoms, length, *_ = content["chosen"]
    n_channels = arrays["broadcast/dictionary"].shape[-1]
    sizes = {"K": n_atoms, "L": length, "P": n_channels}
    if content["best"] is not None:
        best = under("best/results/", arrays)
        needed["best/dictionary"] = ("f", "K L P")
        needed |= {
            f"best/results/{name}": kind
            for name, kind in {
                "params": ("f", "S K M"),
                "counts": ("i", "S K"),
                "subject": ("i", "E"),
                "onset": ("i", "E"),
                "atom": ("i", "E"),
                "amplitude": ("f", "E"),
                "error": ("f", "S"),
            }.items()
        }
        sizes |= {
            "S": len(best["counts"]),
            "E": len(best["onset"]),
            "M": model.resolve("transformation").n_params(length, n_channels),
        }
    check_shapes(arrays, needed, sizes)
    if arrays["draws"].shape != (624,):
        raise ValueError("`draws` is not the state of a generator")


def fit_with_checkpoints(
    model: BaseCDL,
    cohort: AnyCohort,
    path: Any,
    *,
    resume: Checkpoint | None = None,
    report: Callable[[str, int, float], None] = lambda phase, index, objective: None,
    settings: dict[str, Any] | None = None,
    runtime: Place | None = None,
) -> BaseCDL:
    """Fit a model, writing a checkpoint after each round.

    Parameters
    ----------
    model : estimator
    cohort : Cohort
    path : path or None
        Where the checkpoint goes; None: nowhere.
    resume : Checkpoint, optional
        Go on from there, with the same recordings and arguments: the result is the same, bit
        for bit, as that of a fit that was not interrupted.
    report : function, optional
        Called as ``report(phase, round, objective)`` after each round.
    settings : dict, optional
        Options of the command that runs the fit, kept in the checkpoint and as
        ``model.settings_``.
    runtime : DaskRuntime or OutOfCore, optional
        Where to run, see `PerCDL.fit`. Where the state of the subjects is on disk, a checkpoint
        says where, and that folder stays until the fit is done, or until another fit has written
        its checkpoint to the same path.

    Returns
    -------
    estimator
        The model, fitted.

    Warns
    -----
    CheckpointWarning
        Where a checkpoint cannot be written; the fit goes on.
    """
    check_place(runtime)
    check_arguments(model)
    cohort = as_any_cohort(cohort)
    identity = identify(cohort)
    moment, warned = None, []
    if resume is None:
        chosen = choose(model, cohort)
    else:
        _check_same(resume, model, identity)
        chosen = Choices(*resume.content["chosen"])
        moment = _unpack(resume)

    def save(take: Callable[[], Moment]) -> bool:
        try:
            content, arrays = _pack(take())
            content |= {
                "version": __version__,
                "model": type(model).__name__,
                "parameters": encode_parameters(model, arrays),
                "chosen": list(chosen),
                "cohort": identity,
                "settings": settings,
            }
            container.write(path, container.CHECKPOINT, content, arrays)
        except OSError as error:
            _warn_once(path, error, warned)
            return False
        return True

    watch = Watch(report, resumed=moment)
    if path is not None:
        watch = Watch(report, Path(path), save, moment)
    learn(model, cohort, chosen, watch, runtime)
    model.settings_ = settings
    return model


def _warn_once(path: Any, error: OSError, warned: list[OSError]) -> None:
    """Say that a checkpoint could not be written; it is no reason to give up the fit."""
    if not warned:
        warnings.warn(
            f"The checkpoint {path} cannot be written ({error.strerror or error}). The fit goes "
            "on, but could not be resumed from here.",
            CheckpointWarning,
            stacklevel=2,
        )
    warned.append(error)


def identify(cohort: AnyCohort) -> str:
    """Return a checksum of all samples, subjects, channels and the sampling rate."""
    if isinstance(cohort, ShardedCohort):
        return cohort.fingerprint
    digest = hashlib.sha256(repr((cohort.subjects, cohort.channels, cohort.sfreq)).encode())
    for recording in cohort:
        digest.update(np.ascontiguousarray(recording.values).tobytes())
    return digest.hexdigest()


def _check_same(resume: Checkpoint, model: BaseCDL, identity: str) -> None:
    """Raise where a fit would not go on with what it began with."""
    if resume.content["version"] != __version__:
        raise InvalidParameterError(
            f"The checkpoint was written by PerCDL {resume.content['version']}, and this is "
            f"{__version__}. Resume with that version, or start again."
        )
    arrays: Arrays = {}
    now, before = encode_parameters(model, arrays), resume.content["parameters"]
    for name in now:
        same = now[name] == before.get(name)
        if f"parameter/{name}" in arrays and same:
            pair = arrays[f"parameter/{name}"], resume.arrays[f"parameter/{name}"]
            same = np.array_equal(*pair)
        if not same and name not in MAY_DIFFER:
            raise InvalidParameterError(
                f"The checkpoint is of a fit with `{name}={before.get(name)!r}`, not "
                f"`{name}={now[name]!r}`. Resume with the same arguments, or start again."
            )
    if resume.content["cohort"] != identity:
        raise InvalidParameterError(
            "The checkpoint is of a fit to other recordings: some samples, subjects, channels or "
            "the sampling rate differ. Resume with the same ones, or start again."
        )


def pack_state(state: FitState, history: History) -> tuple[dict[str, Any], Arrays]:
    """Return the server's part of a fit between two rounds, as JSON and arrays."""
    content = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "broadcast"}
    content |= {"reason": state.reason.value, "history": [astuple(r) for r in history.records]}
    arrays = state.broadcast.to_arrays()
    return content, {f"broadcast/{name}": value for name, value in arrays.items()}


def unpack_state(content: dict[str, Any], arrays: Arrays) -> tuple[FitState, History]:
    """Return the state and the history that `pack_state` packed."""
    values = {f.name: content[f.name] for f in fields(FitState) if f.name != "broadcast"}
    values["reason"] = StopReason(content["reason"])
    state = FitState(Broadcast(**under("broadcast/", arrays)), **values)
    return state, read_history(content["history"])


def _pack(moment: Moment) -> tuple[dict[str, Any], Arrays]:
    best = moment.best
    _, key, *draws = moment.draws
    content, arrays = pack_state(moment.state, moment.history)
    arrays |= {f"site/{name}": value for name, value in moment.site.items()}
    arrays["draws"] = np.asarray(key)
    content |= {"restart": moment.restart, "draws": draws, "best": None}
    if best is not None:
        content["best"] = {
            "objective": best.objective,
            "reason": best.stop_reason.value,
            "history": [astuple(record) for record in best.history.records],
        }
        for name, value in best.broadcast.to_arrays().items():
            arrays[f"best/{name}"] = value
        for field in fields(Results):
            arrays[f"best/results/{field.name}"] = getattr(best.results, field.name)
    return content, {name: np.ascontiguousarray(value) for name, value in arrays.items()}


def _unpack(checkpoint: Checkpoint) -> Moment:
    content, arrays = checkpoint.content, checkpoint.arrays
    state, history = unpack_state(content, arrays)
    best = None
    if content["best"] is not None:
        found = under("best/results/", arrays)
        best = End(
            arrays["best/dictionary"],
            content["best"]["objective"],
            StopReason(content["best"]["reason"]),
            read_history(content["best"]["history"]),
            Results(**found),
            arrays.get("best/precision"),
        )
    return Moment(
        content["restart"],
        state,
        history,
        ("MT19937", arrays["draws"], *content["draws"]),
        best,
        under("site/", arrays),
    )


def read_history(lines: list[list[Any]]) -> History:
    """Return a history; its clock continues where it stopped."""
    records = [HalfStep(*line) for line in lines]
    return History(records, time.perf_counter() - (records[-1].seconds if records else 0))
