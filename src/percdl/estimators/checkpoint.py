"""Checkpoints: an interrupted fit continues, with the same result as without interruption.

A checkpoint is a file in the format of model files, written after each round. It contains the
state of all subjects, about as much as the fit keeps in memory between rounds, without the
recordings. The last one contains the result, so nothing is lost before a model file is written.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Le

from percdl import __version__
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.results import Results, check_codes
from percdl.algorithm.shapes import broadcast_shapes
from percdl.algorithm.state import FitState, HalfStep, History, StopReason
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.container import Arrays, prefixed, under
from percdl.estimators.fitting import End, Moment, Watch, learn, prepare
from percdl.estimators.modelfile import decode_model, encode_parameters
from percdl.estimators.start import Choices, choose
from percdl.exceptions import CheckpointWarning, InvalidParameterError
from percdl.parameters import Amount, Count, Nonnegative
from percdl.runtimes.protocol import Place
from percdl.signals import AnyCohort, ShardedCohort
from percdl.signals.files import sweep_parts
from percdl.signals.headers import Strict
from percdl.transforms import Transform

# Arguments that may differ between the interrupted fit and the one that continues it.
MAY_DIFFER = ("progress",)
# Arrays that hold integers only.
WHOLE = ("draws", "results/counts", "results/subject", "results/onset", "results/atom")
# A line of the history: phase, round, step, objective, seconds.
Line = tuple[
    Literal["population", "personal", "final"],
    Amount,
    Literal["CSC", "CDU", "IPU", "PerCDU", "express"],
    float,
    Nonnegative,
]


class Ended(Strict):
    """How a run ended."""

    objective: float
    reason: StopReason
    history: list[Line]


class State(Strict):
    """The server's part of a fit between two rounds, as `pack_state` writes it."""

    population: Amount
    personal: Amount
    reason: StopReason
    coded: float | None
    updated: float | None
    is_fixed: bool
    history: list[Line]


class Header(State):
    """Everything in a checkpoint that is not an array."""

    restart: Amount
    draws: tuple[Annotated[Amount, Le(624)], Annotated[Amount, Le(1)], float]
    best: Ended | None
    version: str
    model: str
    parameters: dict[str, Any]
    chosen: tuple[Count, Count, Nonnegative, Nonnegative | None, list[Count]]
    cohort: str
    settings: dict[str, Any] | None


@dataclass(frozen=True)
class Checkpoint:
    """A fit between two rounds, as read from a file: the header (`Header`) and the arrays."""

    content: dict[str, Any]
    arrays: Arrays

    @property
    def settings(self) -> dict[str, Any] | None:
        """The options of the command that ran the fit; None if it was run from Python."""
        return self.content["settings"]

    @property
    def n_rounds(self) -> int:
        """Number of rounds of this run that are done."""
        return sum(line[2] in ("CDU", "PerCDU") for line in self.content["history"])


def read_checkpoint(path: Any) -> Checkpoint:
    """Read a file that `fit_with_checkpoints` wrote; raise `ModelFileError` if it is damaged."""
    content, arrays = container.read(path, container.CHECKPOINT)
    checkpoint = Checkpoint(content, arrays)
    with container.naming(path, container.CHECKPOINT):
        Header.model_validate_json(json.dumps(content))
        model = decode_model(content["model"], content["parameters"], arrays)
        _check_arrays(content, arrays, model.resolve("transformation"))
        if content["best"] is not None:
            _check_results(under("results/", arrays))
        check_codes(under("site/", arrays), content["chosen"][0])
        _unpack(checkpoint)
    return checkpoint


def _check_arrays(content: dict[str, Any], arrays: Arrays, transform: Transform) -> None:
    """Raise `ValueError` if arrays do not agree with the header, or are not finite."""
    n_atoms, length, *_ = content["chosen"]
    n_channels = arrays["broadcast/dictionary"].shape[-1]
    shapes = broadcast_shapes(transform, n_atoms, length, n_channels)
    shapes = prefixed("broadcast/", shapes) | prefixed("best/", shapes)
    shapes |= {"draws": (624,), "site/round": (1,)}
    if content["best"] is not None:
        results = under("results/", arrays)
        n_subjects, n_events = len(results["counts"]), len(results["onset"])
        by_atom = n_subjects, n_atoms
        n_params = transform.n_params(length, n_channels)
        own = {"params": (*by_atom, n_params), "counts": by_atom, "error": (n_subjects,)}
        own |= dict.fromkeys(("subject", "onset", "atom", "amplitude"), (n_events,))
        shapes |= prefixed("results/", own)
    for name, array in arrays.items():
        kinds, shape = "iu" if name in WHOLE else "iuf", shapes.get(name)
        if shape is not None and (array.shape != shape or array.dtype.kind not in kinds):
            raise ValueError(f"`{name}` is {array.dtype} {array.shape}, not {shape}")
        if name.endswith("/dictionary") and not np.isfinite(array).all():
            raise ValueError(f"`{name}` is not finite")


def _check_results(arrays: Arrays) -> None:
    """Raise `ValueError` if the results of the best run cannot be right."""
    used = arrays["counts"] > 0
    for name, most in zip(("subject", "atom"), used.shape, strict=True):
        if not ((arrays[name] >= 0) & (arrays[name] < most)).all():
            raise ValueError(f"`results/{name}` is not between 0 and {most - 1}")
    if not np.isfinite(arrays["params"][used]).all() or not np.isfinite(arrays["amplitude"]).all():
        raise ValueError("some results are not finite")


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
    """Fit a model and return it, writing a checkpoint to ``path`` (None: nowhere) each round.

    With ``resume``, the fit continues from a checkpoint with the same recordings and arguments,
    and the result equals that of an uninterrupted fit, bit for bit. ``report`` is called as
    ``report(phase, round, objective)`` after each round. ``settings`` are the options of the
    command that runs the fit, kept in the checkpoint and as ``model.settings_``. If the runtime
    keeps the state of the subjects on disk, the checkpoint says where, and that folder stays until
    the fit is done or another fit has written its checkpoint to the same path. A checkpoint that
    cannot be written gives a `CheckpointWarning`, and the fit continues.
    """
    if path is not None:
        sweep_parts(Path(path).parent)  # of a checkpoint that a kill has cut off
    cohort = prepare(model, cohort, runtime)
    identity = identify(cohort)
    moment, failed = None, []
    if resume is None:
        chosen = choose(model, cohort)
    else:
        _check_same(resume, model, identity)
        chosen = Choices(*resume.content["chosen"])
        moment = _unpack(resume)

    def save(take: Callable[[Path], Moment]) -> bool:
        if path is None:
            return True
        try:
            content, arrays = _pack(take(Path(path)))
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
            if not failed:  # warn once
                warnings.warn(
                    f"The checkpoint {path} cannot be written ({error.strerror or error}). The "
                    "fit continues, but cannot be resumed from here.",
                    CheckpointWarning,
                    stacklevel=2,
                )
            failed.append(error)
            return False
        return True

    learn(model, cohort, chosen, Watch(report, save, moment), runtime)
    model.settings_ = settings
    return model


def identify(cohort: AnyCohort) -> str:
    """Return a checksum of all samples, subjects, channels, corrections and the sampling rate."""
    if isinstance(cohort, ShardedCohort):
        return cohort.fingerprint
    digest = hashlib.sha256(repr((cohort.subjects, cohort.channels, cohort.sfreq)).encode())
    if cohort.corrections:
        digest.update(repr(cohort.corrections).encode())
    for recording in cohort:
        digest.update(recording.values.tobytes())
    return digest.hexdigest()


def _check_same(resume: Checkpoint, model: BaseCDL, identity: str) -> None:
    """Raise if version, arguments or recordings are not those of the checkpoint."""
    if resume.content["version"] != __version__:
        raise InvalidParameterError(
            f"The checkpoint was written by PerCDL {resume.content['version']}, and this is "
            f"{__version__}. Resume with that version, or start again."
        )
    arrays: Arrays = {}
    now, before = encode_parameters(model, arrays), resume.content["parameters"]
    for name, value in now.items():
        own, other = (found.get(f"parameter/{name}", ()) for found in (arrays, resume.arrays))
        same = value == before.get(name) and np.array_equal(own, other)
        if not same and name not in MAY_DIFFER:
            raise InvalidParameterError(
                f"The checkpoint is of a fit with `{name}={before.get(name)!r}`, not "
                f"`{name}={value!r}`. Resume with the same arguments, or start again."
            )
    if resume.content["cohort"] != identity:
        raise InvalidParameterError(
            "The checkpoint is of a fit to other recordings: some samples, subjects, channels, "
            "corrections or the sampling rate differ. Resume with the same ones, or start again."
        )


def pack_state(state: FitState, history: History, site: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return a fit between two rounds as JSON and arrays; ``site`` is the subjects' state."""
    content = {**vars(state), "reason": state.reason.value, "history": _lines(history)}
    arrays = content.pop("broadcast").to_arrays()
    return content, prefixed("broadcast/", arrays) | prefixed("site/", site)


def unpack_state(content: dict[str, Any], arrays: Arrays) -> tuple[FitState, History, Arrays]:
    """Return the state, the history and the subjects' state that `pack_state` packed."""
    values = {name: content[name] for name in State.model_fields}
    history = _read_history(values.pop("history"))
    values["reason"] = StopReason(values["reason"])
    state = FitState(Broadcast(**under("broadcast/", arrays)), **values)
    return state, history, under("site/", arrays)


def _pack(moment: Moment) -> tuple[dict[str, Any], Arrays]:
    _, key, *draws = moment.draws
    content, arrays = pack_state(moment.state, moment.history, moment.site)
    content |= {"restart": moment.restart, "draws": draws, "best": None}
    arrays["draws"] = np.asarray(key)
    if (best := moment.best) is not None:
        reason, lines = best.stop_reason.value, _lines(best.history)
        content["best"] = {"objective": best.objective, "reason": reason, "history": lines}
        arrays |= prefixed("best/", best.broadcast.to_arrays())
        arrays |= prefixed("results/", vars(best.results))
    return content, arrays


def _unpack(checkpoint: Checkpoint) -> Moment:
    content, arrays = checkpoint.content, checkpoint.arrays
    state, history, site = unpack_state(content, arrays)
    draws, best = ("MT19937", arrays["draws"], *content["draws"]), None
    if (ended := content["best"]) is not None:
        last, results = Broadcast(**under("best/", arrays)), Results(**under("results/", arrays))
        reached = ended["objective"], StopReason(ended["reason"]), _read_history(ended["history"])
        best = End(last.dictionary, *reached, results, last.precision)
    return Moment(content["restart"], state, history, draws, best, site)


def _lines(history: History) -> list[tuple[Any, ...]]:
    return [astuple(record) for record in history.records]


def _read_history(lines: Any) -> History:
    """Return a history with a clock that continues where it stopped."""
    records = [HalfStep(*line) for line in lines]
    return History(records, time.perf_counter() - (records[-1].seconds if records else 0))
