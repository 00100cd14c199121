"""Model files: one header in JSON, checked by its schema, and arrays; never code."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from percdl import transforms
from percdl.algorithm.settings import Algorithm, Huber
from percdl.algorithm.shapes import broadcast_shapes
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.container import Arrays
from percdl.estimators.hyperparameters import ROUNDS_OF_0_1, Motif
from percdl.estimators.landmarks import Mark
from percdl.estimators.percdl import IndCDL, PerCDL, PopCDL
from percdl.estimators.validation import check_arguments
from percdl.exceptions import ModelFileError
from percdl.parameters import Count, Nonnegative, Positive, checked, parameters_of
from percdl.signals.headers import Strict
from percdl.signals.shards import SupportsArray
from percdl.steps.coders import L0Coder, L1Coder

MODELS: dict[str, type[BaseCDL]] = {m.__name__: m for m in (PerCDL, PopCDL, IndCDL)}
# The classes that arguments may be of. A name in a file can only select from this table.
CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        transforms.Compose, transforms.Free, transforms.Gain, transforms.Identity,
        transforms.Modulation, transforms.Rotation, transforms.Shift, transforms.TimeWarp,
        L0Coder, L1Coder, Algorithm, Huber, Motif,
    )
}  # fmt: skip
# Kind and axes of the arrays and the columns of tables; not all models have those of `OPTIONAL`.
# Texts are in the header, numbers among the arrays.
SHAPES = {
    "dictionary_": ("f", "KLP"),
    "params_": ("f", "SKM"),
    "n_activations_": ("i", "SK"),
    "events_/subject": ("text", "E"),
    "events_/atom": ("i", "E"),
    "events_/onset_sample": ("i", "E"),
    "events_/onset_seconds": ("f", "E"),
    "events_/amplitude": ("f", "E"),
    "events_/duration_samples": ("i", "E"),
    "events_/duration_seconds": ("f", "E"),
    "history_/phase": ("text", "H"),
    "history_/round": ("i", "H"),
    "history_/step": ("text", "H"),
    "history_/objective": ("f", "H"),
    "history_/seconds": ("f", "H"),
}
OPTIONAL = ("events_/duration_samples", "events_/duration_seconds")


class Fitted(Strict):
    """The attributes of a fitted model that are not arrays."""

    objective_: float
    stop_reason_: str
    huber_delta_: Nonnegative | None
    n_atoms_: Count
    atom_length_: Count
    atom_lengths_: list[Count] = Field(default_factory=list)  # not in files of early versions
    penalty_: Nonnegative
    subjects_: list[str]
    channels_: list[str]
    units_: list[str]
    sfreq_: Positive
    n_channels_: Count
    processing_: list[str] | None = None  # unknown in files of early versions


class Tables(Strict):
    """The columns of text of the tables; None for numbers."""

    events_: dict[str, list[str] | None]
    history_: dict[str, list[str] | None]


class Header(Strict):
    """Everything in a model file that is not an array."""

    model: Literal["PerCDL", "PopCDL", "IndCDL"]
    parameters: dict[str, Any]
    tables: Tables
    fitted: Fitted
    settings: dict[str, Any] | None = None
    marks: list[dict[str, Any]] = Field(default_factory=list)
    atom_names: list[str] = Field(default_factory=list)


def save(model: BaseCDL, path: Any) -> None:
    """Write a fitted model; an existing file is replaced atomically."""
    arrays, tables = {}, {"events_": {}, "history_": {}}
    for name, (kind, _) in SHAPES.items():
        table, _, column = name.partition("/")
        values = getattr(model, table)
        if column and name not in OPTIONAL:
            tables[table][column] = values[column].astype(str).tolist() if kind == "text" else None
        values = values.get(column) if column else values
        if values is not None and kind != "text":
            arrays[name] = np.asarray(values)
    if model.prior_ is not None:
        arrays["prior_"] = model.prior_
    content = {
        "model": type(model).__name__,
        "parameters": encode_parameters(model, arrays),
        "tables": tables,
        "fitted": {name: getattr(model, name) for name in Fitted.model_fields},
        "settings": model.settings_,
        "marks": [asdict(mark) for mark in model.marks_],
        "atom_names": list(model.atom_names_),
    }
    try:
        _rebuild(json.loads(json.dumps(content)), arrays)
    except (LookupError, TypeError, ValueError) as error:
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
    marks = [checked(Mark(**mark)) for mark in header.marks]
    model.marks_ = tuple(replace(mark, time=float(mark.time)) for mark in marks)
    _check_sizes(header, arrays, model)
    for name in ("dictionary_", "prior_", "params_", "n_activations_"):
        setattr(model, name, arrays.get(name))
    for table, texts in header.tables:
        data = {c: pd.Series(values, dtype=str) for c, values in texts.items()}
        data |= container.under(f"{table}/", arrays)
        columns = [column for column in container.under(f"{table}/", SHAPES) if column in data]
        setattr(model, table, pd.DataFrame(data)[columns])
    model.settings_, model.atom_names_ = header.settings, tuple(header.atom_names)
    for name, value in header.fitted:
        setattr(model, name, tuple(value) if isinstance(value, list) else value)
    model.atom_lengths_ = model.atom_lengths_ or (model.atom_length_,) * model.n_atoms_
    return model


def _check_sizes(header: Header, arrays: Arrays, model: BaseCDL) -> None:
    """Raise `ValueError` if the sizes of arrays, lists and header do not agree."""
    fitted, names, transform = header.fitted, header.atom_names, model.resolve("transformation")
    n_atoms, length, n_channels = fitted.n_atoms_, fitted.atom_length_, fitted.n_channels_
    found: dict[str, Any] = {name: (x.dtype.kind, x.shape) for name, x in arrays.items()}
    for table, columns in header.tables:
        texts = {name: x for name, x in columns.items() if x is not None}
        found |= {f"{table}/{name}": ("text", (len(x),)) for name, x in texts.items()}
    (n_events,), (n_steps,) = found["events_/subject"][1], found["history_/phase"][1]
    sizes = {"K": n_atoms, "L": length, "P": n_channels, "S": len(fitted.subjects_)}
    sizes |= {"M": transform.n_params(length, n_channels), "E": n_events, "H": n_steps}
    needed = {
        name: (kind, tuple(sizes[axis] for axis in axes))
        for name, (kind, axes) in SHAPES.items()
        if name in found or name not in OPTIONAL
    }
    for name, shape in needed.items():
        if found[name] != shape:
            raise ValueError(f"`{name}` is {found[name]}, not {shape}")
    own, prior = array_names(header.parameters), arrays.keys() & {"prior_"}
    of_prior = broadcast_shapes(transform, n_atoms, length, n_channels).get("precision")
    lengths = fitted.atom_lengths_
    agreements = {
        "it holds other arrays than a model has": found.keys() == needed.keys() | own | prior,
        f"`prior_` is not of shape {of_prior}": not prior or arrays["prior_"].shape == of_prior,
        f"`channels_` and `units_` are not of {n_channels} channels": (
            len(fitted.channels_) == len(fitted.units_) == n_channels
        ),
        f"`atom_lengths_` are not those of {n_atoms} atoms": (
            len(lengths) in (0, n_atoms) and max(lengths, default=length) == length
        ),
        "`events_` names a subject not in `subjects_`": (
            {*(header.tables.events_["subject"] or ())} <= {*fitted.subjects_}
        ),
        "a landmark is on an atom or a channel that is not there": all(
            0 <= mark.atom < n_atoms and mark.channel in (None, *fitted.channels_)
            for mark in model.marks_
        ),
        f"there are not {n_atoms} different names of atoms": (
            len(names) == len({*names} - {""}) and len(names) in (0, n_atoms)
        ),
    }
    for problem, is_absent in agreements.items():
        if not is_absent:
            raise ValueError(problem)


def array_names(parameters: dict[str, Any]) -> set[str]:
    """Return the names of the arrays that the arguments of a constructor refer to."""
    values = [x for x in parameters.values() if isinstance(x, dict) and x.keys() == {"array"}]
    return {value["array"] for value in values}


def encode_parameters(model: BaseCDL, arrays: Arrays) -> dict[str, Any]:
    """Write all arguments of the constructor as JSON; arrays go among the tensors."""
    return {k: _encode(k, v, arrays) for k, v in model.get_params(deep=False).items()}


def decode_model(name: str, parameters: dict[str, Any], arrays: Arrays) -> BaseCDL:
    """Return the estimator, not fitted, that `encode_parameters` wrote; else a `ValueError`."""
    if name not in MODELS:
        raise ValueError(f"{name!r} is not the name of a model")
    parameters = _upgrade(parameters)
    unknown = parameters.keys() - {known.name for known in parameters_of(MODELS[name])}
    if unknown:
        raise ValueError(f"`{name}` has no argument `{min(unknown)}`")
    model = MODELS[name](**{k: _decode(k, v, arrays) for k, v in parameters.items()})
    check_arguments(model)
    return model


def _upgrade(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of version 0.1 under the names of this version; others unchanged."""
    if "n_init" not in parameters:
        return parameters
    old = {name: _upgrade_value(value) for name, value in parameters.items()}
    new = {own.name: old.pop(own.name) for own in parameters_of(PerCDL) if own.name in old}
    if "transform" in old:
        new["transformation"] = old.pop("transform")
    ratio, delta = old.pop("penalty_ratio", None), old.pop("huber_delta", None)
    if ratio is not None:
        new["penalty"] = f"{100 * ratio:.12g}%"
    new["loss"] = {"class": "Huber", "delta": delta} if new["loss"] == "huber" else "squared"
    coder = {name: old.pop(name) for name in ("signed", "min_gap", "max_activations")}
    new["coder"] = new.get("coder") or {"class": "L0Coder", **coder}
    renamed = {ROUNDS_OF_0_1.get(name, name): value for name, value in old.items()}
    return {**new, "algorithm": {"class": "Algorithm", **renamed}}


def _upgrade_value(value: Any) -> Any:
    """Return a nested object as this version writes it."""
    if not isinstance(value, dict):
        return value
    if "compose" in value:
        return {"class": "Compose", "stages": [_upgrade_value(x) for x in value["compose"]]}
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
        own = {x.name: _encode(x.name, getattr(value, x.name), arrays) for x in fields(value)}
        return {"class": type(value).__name__, **own}
    is_list = isinstance(value, (list, tuple))
    if is_list and value and isinstance(value[0], (Motif, transforms.Transform)):
        return [_encode(name, one, arrays) for one in value]
    if name == "atom_length":
        return list(value)
    if is_list or isinstance(value, SupportsArray):
        arrays[f"parameter/{name}"] = np.asarray(value)
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
        return transforms.Compose(*arguments["stages"])
    return checked(CLASSES[name](**arguments))
