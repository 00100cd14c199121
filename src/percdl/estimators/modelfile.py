"""Model files: one header in JSON, checked by its schema, and arrays; never code."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from percdl.algorithm.settings import Algorithm, Huber
from percdl.algorithm.shapes import broadcast_shapes
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.hyperparameters import Motif
from percdl.estimators.landmarks import Mark
from percdl.estimators.percdl import IndCDL, PerCDL, PopCDL
from percdl.estimators.validation import check_arguments
from percdl.exceptions import ModelFileError
from percdl.parameters import Count, Nonnegative, Positive, check_types, parameters_of
from percdl.signals.coerce import SupportsArray
from percdl.steps.coders import L0Coder, L1Coder
from percdl.transforms import (
    Compose,
    Free,
    Gain,
    Identity,
    Modulation,
    Rotation,
    Shift,
    TimeWarp,
    Transform,
)

Arrays = dict[str, np.ndarray]

MODELS: dict[str, type[BaseCDL]] = {m.__name__: m for m in (PerCDL, PopCDL, IndCDL)}
# The classes that arguments may be of. A name in a file can only select from this table.
CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        TimeWarp, Identity, Free, Rotation, Gain, Modulation, Shift, Compose, L0Coder, L1Coder,
        Algorithm, Huber, Motif,
    )
}  # fmt: skip
# Columns of the tables. Texts are in the header, numbers among the arrays (`SHAPES`).
COLUMNS = {
    "events_": ("subject", "atom", "onset_sample", "onset_seconds", "amplitude"),
    "history_": ("phase", "round", "step", "objective", "seconds"),
}
SHAPES = {
    "dictionary_": ("f", "K L P"),
    "params_": ("f", "S K M"),
    "n_activations_": ("i", "S K"),
    "events_/atom": ("i", "E"),
    "events_/onset_sample": ("i", "E"),
    "events_/onset_seconds": ("f", "E"),
    "events_/amplitude": ("f", "E"),
    "history_/round": ("i", "H"),
    "history_/objective": ("f", "H"),
    "history_/seconds": ("f", "H"),
}
# Columns and arrays that some models have.
OPTIONAL = {
    "events_/duration_samples": ("i", "E"),
    "events_/duration_seconds": ("f", "E"),
}
SAME_SINCE_0_1 = (
    "n_atoms", "atom_length", "penalty", "init", "n_restarts", "dtype", "random_state", "progress",
)  # fmt: skip
RENAMED_SINCE_0_1 = {
    "n_init": "population_rounds",
    "n_perso": "personal_rounds",
    "n_solver_steps": "solver_steps",
}


class Strict(BaseModel):
    """A part of a header: names and types as declared, and no others."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Fitted(Strict):
    """The attributes of a fitted model that are not arrays."""

    objective_: float
    stop_reason_: str
    huber_delta_: Nonnegative | None
    n_atoms_: Count
    atom_length_: Count
    atom_lengths_: list[Count] = []  # not in files of early versions
    penalty_: Nonnegative
    subjects_: list[str]
    channels_: list[str]
    units_: list[str]
    sfreq_: Positive
    n_channels_: Count
    processing_: list[str] | None = None  # unknown in files of early versions


class Landmark(Strict):
    """A landmark (`Mark`)."""

    name: str
    atom: int
    time: float
    spread: Nonnegative
    channel: str | None


class Header(Strict):
    """Everything in a model file that is not an array."""

    model: Literal["PerCDL", "PopCDL", "IndCDL"]
    parameters: dict[str, Any]
    tables: dict[Literal["events_", "history_"], dict[str, list[str] | None]]
    fitted: Fitted
    settings: dict[str, Any] | None = None
    marks: list[Landmark] = []
    atom_names: list[str] = []


def save(model: BaseCDL, path: Any) -> None:
    """Write a fitted model; an existing file is replaced atomically."""
    arrays, tables = {}, {table: {} for table in COLUMNS}
    for name in SHAPES:
        table, _, column = name.partition("/")
        values = getattr(model, table)
        arrays[name] = np.ascontiguousarray(values[column] if column else values)
    for table, columns in COLUMNS.items():
        for column in columns:
            is_number = f"{table}/{column}" in SHAPES
            texts = getattr(model, table)[column].astype(str).tolist()
            tables[table][column] = None if is_number else texts
    content = {
        "model": type(model).__name__,
        "parameters": encode_parameters(model, arrays),
        "tables": tables,
        "fitted": {name: getattr(model, name) for name in Fitted.model_fields},
        "settings": model.settings_,
        "marks": [asdict(mark) for mark in model.marks_],
        "atom_names": list(model.atom_names_),
    }
    for name in OPTIONAL:
        table, _, column = name.partition("/")
        if column in getattr(model, table):
            arrays[name] = np.ascontiguousarray(getattr(model, table)[column])
    if model.prior_ is not None:
        arrays["prior_"] = np.ascontiguousarray(model.prior_)
    try:
        _rebuild(json.loads(json.dumps(content)), arrays)
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"The model was changed after its fit, and would not load again ({error}). Nothing is "
            "written. Fit it again."
        ) from error
    container.write(path, container.MODEL, content, arrays)


def load(path: Any) -> Any:
    """Read a model written by ``save``.

    Raises `ModelFileError` when the file is not a PerCDL model, is damaged, or comes from a
    newer version. Cost: one read of the file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    PerCDL, PopCDL or IndCDL
        The fitted model, without recordings.

    Examples
    --------
    >>> import tempfile
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(2, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.percdl")
    ...     load(f"{folder}/model.percdl").dictionary_.shape
    (2, 50, 1)
    """
    content, arrays = container.read(path, container.MODEL)
    with container.naming(path, container.MODEL):
        return _rebuild(content, arrays)


def _rebuild(content: dict[str, Any], arrays: Arrays) -> BaseCDL:
    """Make a model of the content of a file."""
    header = Header.model_validate(content)
    model = decode_model(header.model, header.parameters, arrays)
    _check_sizes(header, arrays, model)
    for name in ("dictionary_", "params_", "n_activations_"):
        setattr(model, name, arrays[name])
    model.prior_ = arrays.get("prior_")
    for table, columns in COLUMNS.items():
        texts = header.tables[table]  # pyright: ignore[reportArgumentType]
        numbers = container.under(f"{table}/", arrays)
        data = {c: numbers[c] if c in numbers else pd.Series(texts[c], dtype=str) for c in columns}
        setattr(model, table, pd.DataFrame(data | numbers))
    model.settings_ = header.settings
    model.marks_ = tuple(Mark(**dict(mark)) for mark in header.marks)
    model.atom_names_ = tuple(header.atom_names)
    for name, value in header.fitted:
        setattr(model, name, tuple(value) if isinstance(value, list) else value)
    model.atom_lengths_ = model.atom_lengths_ or (model.atom_length_,) * model.n_atoms_
    return model


def _check_sizes(header: Header, arrays: Arrays, model: BaseCDL) -> None:
    """Raise `ValueError` if the sizes of arrays, lists and header do not agree."""
    fitted, transform = header.fitted, model.resolve("transformation")
    length, n_channels = fitted.atom_length_, fitted.n_channels_
    of_events, phases, steps = (
        header.tables[table].get(column) or ()  # pyright: ignore[reportArgumentType]
        for table, column in (("events_", "subject"), ("history_", "phase"), ("history_", "step"))
    )
    n_params = transform.n_params(length, n_channels)
    counts = fitted.n_atoms_, length, n_channels, len(fitted.subjects_), n_params
    sizes = dict(zip("KLPSMEH", (*counts, len(of_events), len(phases)), strict=True))
    shapes = SHAPES | {name: OPTIONAL[name] for name in OPTIONAL.keys() & arrays.keys()}
    for name, (kind, axes) in shapes.items():
        array, shape = arrays[name], tuple(sizes[axis] for axis in axes.split())
        if array.dtype.kind != kind or array.shape != shape:
            raise ValueError(f"`{name}` is {array.dtype} {array.shape}, not {kind} {shape}")
    needed = shapes.keys() | array_names(header.parameters)
    if "prior_" in arrays:
        needed = needed | {"prior_"}
        prior = broadcast_shapes(transform, *arrays["dictionary_"].shape).get("precision")
        if arrays["prior_"].shape != prior:
            raise ValueError(f"`prior_` has the shape {arrays['prior_'].shape}")
    for agree, what in (
        (arrays.keys() == needed, "it holds other arrays than a model has"),
        (
            len(fitted.channels_) == len(fitted.units_) == n_channels,
            f"`channels_` and `units_` are not of {n_channels} channels",
        ),
        (
            len(fitted.atom_lengths_) in (0, fitted.n_atoms_)
            and max(fitted.atom_lengths_, default=length) == length,
            f"`atom_lengths_` are not those of {fitted.n_atoms_} atoms",
        ),
        (len(steps) == len(phases), "the columns of `history_` are of different lengths"),
        ({*of_events} <= {*fitted.subjects_}, "`events_` names a subject not in `subjects_`"),
        (
            all(0 <= mark.atom < fitted.n_atoms_ for mark in header.marks)
            and {mark.channel for mark in header.marks} <= {None, *fitted.channels_},
            "a landmark is on an atom or a channel that is not there",
        ),
        (
            len(header.atom_names) == len({*header.atom_names} - {""})
            and len(header.atom_names) in (0, fitted.n_atoms_),
            f"there are not {fitted.n_atoms_} different names of atoms",
        ),
    ):
        if not agree:
            raise ValueError(what)


def array_names(parameters: dict[str, Any]) -> set[str]:
    """Return the names of the arrays that the arguments of a constructor refer to."""
    return {
        value["array"]
        for value in parameters.values()
        if isinstance(value, dict) and value.keys() == {"array"}
    }


def decode_model(name: str, parameters: dict[str, Any], arrays: Arrays) -> BaseCDL:
    """Return the estimator, not fitted, with the arguments that `encode_parameters` has written.

    Anything else is a `ValueError`.
    """
    if name not in MODELS:
        raise ValueError(f"{name!r} is not the name of a model")
    parameters = upgrade(parameters)
    unknown = parameters.keys() - {known.name for known in parameters_of(MODELS[name])}
    if unknown:
        raise ValueError(f"`{name}` has no argument `{min(unknown)}`")
    model = MODELS[name](**{k: _decode(k, v, arrays) for k, v in parameters.items()})
    check_arguments(model)
    return model


def encode_parameters(model: BaseCDL, arrays: Arrays) -> dict[str, Any]:
    """Write all arguments of the constructor as JSON; arrays go among the tensors."""
    return {k: _encode(k, v, arrays) for k, v in model.get_params(deep=False).items()}


def upgrade(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of version 0.1 under the names of this version; others unchanged."""
    if "n_init" not in parameters:
        return parameters
    old = {name: _upgrade_value(value) for name, value in parameters.items()}
    new = {name: old.pop(name) for name in SAME_SINCE_0_1 if name in old}
    if "transform" in old:
        new["transformation"] = old.pop("transform")
    ratio, delta = old.pop("penalty_ratio", None), old.pop("huber_delta", None)
    if ratio is not None:
        new["penalty"] = f"{100 * ratio:.12g}%"
    new["loss"] = {"class": "Huber", "delta": delta} if old.pop("loss") == "huber" else "squared"
    coder = {name: old.pop(name) for name in ("signed", "min_gap", "max_activations")}
    new["coder"] = old.pop("coder", None) or {"class": "L0Coder", **coder}
    renamed = {RENAMED_SINCE_0_1.get(name, name): value for name, value in old.items()}
    return {**new, "algorithm": {"class": "Algorithm", **renamed}}


def _upgrade_value(value: Any) -> Any:
    """Return a nested object as this version writes it."""
    if not isinstance(value, dict):
        return value
    if "compose" in value:
        return {
            "class": "Compose",
            "stages": [_upgrade_value(stage) for stage in value["compose"]],
        }
    if "motif" in value:
        return {"class": "Motif", **value["motif"]}
    if "motifs" in value:
        return [{"class": "Motif", **motif} for motif in value["motifs"]]
    new = {{"transform": "class", "coder": "class"}.get(k, k): v for k, v in value.items()}
    return {"prior": None, **new} if new.get("class") == "TimeWarp" else new


def _encode(name: str, value: Any, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) in CLASSES.values():
        given = {own.name: getattr(value, own.name) for own in fields(value)}
        encoded = {own: _encode(own, x, arrays) for own, x in given.items()}
        return {"class": type(value).__name__, **encoded}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (Motif, Transform)):
        return [_encode(name, one, arrays) for one in value]
    if name == "atom_length":
        return list(value)
    if isinstance(value, (list, tuple, SupportsArray)):
        arrays[f"parameter/{name}"] = np.ascontiguousarray(value)
        return {"array": f"parameter/{name}"}
    if name == "random_state":
        return None  # the results do not depend on the final state of a generator
    raise ModelFileError(
        f"`{name}={value!r}` cannot be written to a model file: files hold built-in transforms, "
        "numbers, text and arrays, and no code of your own. Save `dictionary_` and `params_` with "
        "`numpy.savez`, and the rest with your code."
    )


def _decode(name: str, value: Any, arrays: Arrays) -> Any:
    if isinstance(value, list):
        return [_decode(name, one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    if value == {"array": f"parameter/{name}"}:
        array = arrays.get(f"parameter/{name}")
        if array is None or array.dtype.kind not in "biuf":
            raise ValueError(f"`parameter/{name}` is not an array of real numbers")
        return array
    arguments = {own: _decode(own, one, arrays) for own, one in value.items()}
    name = arguments.pop("class", None)
    if name not in CLASSES:
        raise ValueError(f"{name!r} is not among the classes that files hold")
    if name == "Compose":
        return Compose(*arguments["stages"])
    made = CLASSES[name](**arguments)
    check_types(made)
    return made
