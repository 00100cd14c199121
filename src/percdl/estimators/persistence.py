"""Model files: data, never code."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from percdl.algorithm.settings import Algorithm, Huber
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.model_contents import (
    CONTENT,
    MODEL_NAMES,
    arrays_of,
    check_model,
)
from percdl.estimators.motif import Motif
from percdl.estimators.percdl import IndCDL, PerCDL, PopCDL
from percdl.estimators.validation import check_arguments
from percdl.exceptions import ModelFileError
from percdl.parameters import check_types, parameters_of
from percdl.signals.coerce import SupportsArray
from percdl.signals.contents import check_arrays
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

CLASSES: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        TimeWarp, Identity, Free, Rotation, Gain, Modulation, Shift, Compose, L0Coder, L1Coder,
        Algorithm, Huber, Motif,
    )
}  # fmt: skip
SAME_SINCE_0_1 = (
    "n_atoms", "atom_length", "penalty", "init", "n_restarts", "dtype", "random_state", "progress",
)  # fmt: skip
RENAMED_SINCE_0_1 = {
    "n_init": "population_rounds",
    "n_perso": "personal_rounds",
    "n_solver_steps": "solver_steps",
}
MODELS: dict[str, type[BaseCDL]] = {m.__name__: m for m in (PerCDL, PopCDL, IndCDL)}
ARRAYS = ("dictionary_", "params_", "n_activations_")
TABLES = ("events_", "history_")
TEXTS = (
    "objective_", "stop_reason_", "huber_delta_", "n_atoms_", "atom_length_", "penalty_",
    "subjects_", "channels_", "units_", "sfreq_", "n_channels_", "processing_",
)  # fmt: skip


def save(model: BaseCDL, path: Any) -> None:
    """Write a fitted model; an existing file is replaced at once or not at all."""
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in ARRAYS}
    tables: dict[str, dict[str, Any]] = {}
    for table in TABLES:
        tables[table] = {}
        for column, values in getattr(model, table).items():
            if pd.api.types.is_numeric_dtype(values):
                arrays[f"{table}/{column}"] = np.ascontiguousarray(values)
                tables[table][column] = None
            else:
                tables[table][column] = values.astype(str).tolist()
    content = {
        "model": type(model).__name__,
        "parameters": encode_parameters(model, arrays),
        "tables": tables,
        "fitted": {name: getattr(model, name) for name in TEXTS},
        "settings": model.settings_,
    }
    try:
        _rebuild(json.loads(json.dumps(content)), arrays)
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"The model was changed after its fit, and would not load again ({error}). Nothing is "
            "written. Fit it anew."
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


def _rebuild(content: Any, arrays: dict[str, np.ndarray]) -> BaseCDL:
    """Make a model of what a file holds, all of which is checked before any of it is used."""
    CONTENT.check(content, "")
    model = decode_model(content["model"], content["parameters"], arrays)
    check_model(content, arrays, model)
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    for table in TABLES:
        data = {
            column: arrays[f"{table}/{column}"] if texts is None else pd.Series(texts, dtype=str)
            for column, texts in content["tables"][table].items()
        }
        setattr(model, table, pd.DataFrame(data))
    # Files from before processing was recorded do not know of it, nor of settings.
    model.settings_ = content.get("settings")
    fitted = {"processing_": None, **content["fitted"]}
    for name in TEXTS:
        value = fitted[name]
        setattr(model, name, tuple(value) if isinstance(value, list) else value)
    return model


def decode_model(name: str, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> BaseCDL:
    """Return the estimator, not fitted, with the arguments that `encode_parameters` has written.

    Anything else is a `ValueError`: names select from the tables of this file, nothing more.
    """
    MODEL_NAMES.check(name, "model")
    parameters = upgrade(parameters)
    needed = arrays_of(parameters)
    check_arrays({own: x for own, x in arrays.items() if own in needed}, needed)
    unknown = parameters.keys() - {known.name for known in parameters_of(MODELS[name])}
    if unknown:
        raise ValueError(f"`{name}` has no argument `{min(unknown)}`")
    model = MODELS[name](**{k: _decode(v, arrays) for k, v in parameters.items()})
    check_arguments(model)
    return model


def encode_parameters(model: BaseCDL, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
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
    return {{"transform": "class", "coder": "class"}.get(k, k): v for k, v in value.items()}


def _encode(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
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
    if isinstance(value, (list, tuple, SupportsArray)):
        arrays[f"parameter/{name}"] = np.ascontiguousarray(value)
        return {"array": f"parameter/{name}"}
    if name == "random_state":
        return None  # a generator's state is spent; the fitted numbers are what counts
    if isinstance(value, Transform):
        raise ModelFileError(
            f"`{type(value).__name__}` holds code of your own, and model files hold none: they "
            "hold built-in transforms, numbers, text and arrays only. Save `dictionary_` and "
            "`params_` with `numpy.savez`, and the transform with your code."
        )
    raise ModelFileError(
        f"`{name}={value!r}` cannot be written to a model file. Files hold built-in transforms, "
        "numbers, text and arrays only."
    )


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decode(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array"}:
        return arrays[value["array"]]
    arguments = {name: _decode(one, arrays) for name, one in value.items()}
    name = arguments.pop("class", None)
    if name not in CLASSES:
        raise ValueError(f"{name!r} is not among the classes that files hold")
    if name == "Compose":
        return Compose(*arguments["stages"])
    made = CLASSES[name](**arguments)
    check_types(made)
    return made
