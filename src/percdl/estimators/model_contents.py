"""What a model file holds: every name, type, size and range, and how they hang together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from percdl.estimators.base import BaseCDL
from percdl.estimators.theta import ROUNDING, is_allowed
from percdl.signals.contents import (
    Array,
    ByName,
    Choice,
    FreeForm,
    Many,
    Number,
    Record,
    Text,
    Whole,
    check_arrays,
    maybe,
)

INIT = "parameter/init"
# Checked in detail when the estimator is made of them, against their declaration.
PARAMETERS = ByName(FreeForm())
MODEL_NAMES = Choice(("PerCDL", "PopCDL", "IndCDL"))
_IN_ARRAY = Choice((None,))
_EVENTS = ("atom", "onset_sample", "onset_seconds", "amplitude")
CONTENT = Record(
    {
        "model": MODEL_NAMES,
        "parameters": PARAMETERS,
        "tables": Record(
            {
                "events_": Record({"subject": Many(Text()), **dict.fromkeys(_EVENTS, _IN_ARRAY)}),
                "history_": Record(
                    {
                        "phase": Many(Text(), least=1),
                        "round": _IN_ARRAY,
                        "step": Many(Text(), least=1),
                        "objective": _IN_ARRAY,
                        "seconds": _IN_ARRAY,
                    }
                ),
            }
        ),
        "fitted": Record(
            {
                "objective_": Number(),
                "stop_reason_": Text(),
                "huber_delta_": maybe(Number(0)),
                "n_atoms_": Whole(1),
                "atom_length_": Whole(3),
                "penalty_": Number(0),
                "subjects_": Many(Text()),
                "channels_": Many(Text()),
                "units_": Many(Text()),
                "sfreq_": Number(np.finfo(float).tiny),
                "n_channels_": Whole(1),
            },
            {"processing_": maybe(Many(Text()))},
        ),
    },
    {"settings": maybe(ByName(FreeForm()))},
)
ARRAYS = {
    "dictionary_": Array("float64", "K L P"),
    "params_": Array("float64", "S K M", gaps=True),
    "n_activations_": Array("int64", "S K", least=0),
    "events_/atom": Array("int64", "E", least=0),
    "events_/onset_sample": Array("int64", "E", least=0),
    "events_/onset_seconds": Array("float64", "E", least=0),
    "events_/amplitude": Array("float64", "E"),
    "history_/round": Array("int64", "H", least=0),
    "history_/objective": Array("float64", "H"),
    "history_/seconds": Array("float64", "H", least=0),
}
# A first dictionary that was given, in whatever numbers.
_REAL = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool"
FIRST = {INIT: Array(_REAL, "a b c")}


def check_model(content: dict[str, Any], arrays: dict[str, np.ndarray], model: BaseCDL) -> None:
    """Raise `ValueError` where what was learned is not as a fit leaves it.

    ``content`` has been checked by `CONTENT`, and ``model`` made of its arguments. Cost: one pass
    over all arrays.
    """
    fitted, tables = content["fitted"], content["tables"]
    required = ARRAYS | arrays_of(content["parameters"])
    sizes = check_arrays(arrays, required)
    told = {"K": "n_atoms_", "L": "atom_length_", "P": "n_channels_"}
    for letter, name in told.items():
        _agree(name, fitted[name], sizes[letter])
    for name in ("channels_", "units_"):
        _agree(name, len(fitted[name]), sizes["P"])
    _agree("subjects_", len(fitted["subjects_"]), sizes["S"])
    _agree("subjects_", len(set(fitted["subjects_"])), sizes["S"])
    for name in ("phase", "step"):
        _agree(f"history_.{name}", len(tables["history_"][name]), sizes["H"])
    _check_events(fitted, tables["events_"]["subject"], arrays)
    check_atoms("dictionary_", arrays["dictionary_"])
    check_people(model, arrays["dictionary_"], arrays["params_"], arrays["n_activations_"])


def arrays_of(parameters: dict[str, Any]) -> dict[str, Array]:
    """Return the arrays that the arguments of a constructor come with."""
    return FIRST if parameters.get("init") == {"array": INIT} else {}


def check_atoms(where: str, dictionary: np.ndarray) -> None:
    """Raise where atoms (K, L, P) are not at unit norm; one that is nothing cannot be."""
    energy = np.square(dictionary).sum((1, 2))
    if not ((np.abs(energy - 1) <= ROUNDING) | (energy == 0)).all():
        raise ValueError(f"`{where}` holds an atom of squared norm {energy.max():g}, not 1")


def check_people(
    model: BaseCDL, dictionary: np.ndarray, params: np.ndarray, counts: np.ndarray
) -> None:
    """Raise where parameters (S, K, M) are not of the model, or known of atoms nobody has."""
    transform, size = model.resolve("transformation"), dictionary.shape[1:]
    _agree("params_", params.shape[2], transform.n_params(*size))
    known = params[counts > 0]
    if not (np.isnan(params[counts == 0]).all() and np.isfinite(known).all()):
        raise ValueError("`params_` is NaN elsewhere than where there is no activation")
    if not is_allowed(transform, known, *size):
        raise ValueError(f"`params_` holds values that {type(transform).__name__} never has")


def _check_events(fitted: dict[str, Any], who: list[str], arrays: dict[str, np.ndarray]) -> None:
    """Raise where events are not those of the subjects, in order, and as many as was counted."""
    atom, onset = arrays["events_/atom"], arrays["events_/onset_sample"]
    rows = {subject: row for row, subject in enumerate(fitted["subjects_"])}
    _agree("events_.subject", len(who), len(atom))
    if not set(who) <= rows.keys():
        raise ValueError("`events_` names somebody who is not among the subjects")
    subject = np.array([rows[name] for name in who], int)
    for wrong in _wrong_events(subject, atom, onset, arrays, fitted["sfreq_"]):
        raise ValueError(f"`events_` {wrong}")


def _wrong_events(
    subject: np.ndarray, atom: np.ndarray, onset: np.ndarray, arrays: dict[str, Any], sfreq: float
) -> Iterator[str]:
    counts = arrays["n_activations_"]
    if (atom >= counts.shape[1]).any():
        yield f"has an atom {atom.max()}, of {counts.shape[1]}"
    step, later = np.diff(subject), np.diff(onset)
    if ((step < 0) | ((step == 0) & (later < 0))).any():
        yield "is not in order of subjects and onsets"
    if not np.array_equal(arrays["events_/onset_seconds"], onset / sfreq):
        yield "has onsets in seconds that are not those in samples"
    if not arrays["events_/amplitude"].all():
        yield "has an amplitude of 0"
    if not are_counted(subject, atom, counts):
        yield "is not what `n_activations_` has counted"


def are_counted(subject: np.ndarray, atom: np.ndarray, counts: np.ndarray) -> bool:
    """Whether events of these rows and atoms are as many as was counted (S, K)."""
    found = np.zeros(counts.shape, int)
    np.add.at(found, (subject, atom), 1)
    return np.array_equal(found, counts)


def _agree(name: str, found: int, needed: int) -> None:
    if found != needed:
        raise ValueError(f"`{name}` says {found}, and the arrays {needed}")
