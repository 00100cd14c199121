"""Model files: data, never code."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pandas as pd

from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.individual import IndCDL
from percdl.estimators.model_contents import (
    CONTENT,
    MODEL_NAMES,
    PARAMETERS,
    arrays_of,
    check_model,
)
from percdl.estimators.motif import Motif
from percdl.estimators.percdl import PerCDL
from percdl.estimators.population import PopCDL
from percdl.exceptions import ModelFileError
from percdl.signals.coerce import SupportsArray
from percdl.signals.contents import check_arrays
from percdl.steps.coders import L0Coder
from percdl.steps.csc_l1 import L1Coder
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

MODELS: dict[str, type[BaseCDL]] = {m.__name__: m for m in (PerCDL, PopCDL, IndCDL)}
TRANSFORMS = {t.__name__: t for t in (TimeWarp, Identity, Free, Rotation, Gain, Modulation, Shift)}
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
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary, n_init=1).fit(truth.cohort)
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
    """Return the estimator, not fitted, whose arguments `encode_parameters` has written.

    Anything else is a `ValueError`: names select from the tables of this file, nothing more.
    """
    MODEL_NAMES.check(name, "model")
    PARAMETERS.check(parameters, "parameters")
    needed = arrays_of(parameters)
    check_arrays({own: x for own, x in arrays.items() if own in needed}, needed)
    unknown = parameters.keys() - MODELS[name]().get_params(deep=False).keys()
    if unknown:
        raise ValueError(f"`{name}` has no argument `{min(unknown)}`")
    return MODELS[name](**{k: _decode(v, arrays) for k, v in parameters.items()})


def encode_parameters(model: BaseCDL, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Write all arguments of the constructor as JSON; arrays go among the tensors."""
    return {k: _encode(k, v, arrays) for k, v in model.get_params(deep=False).items()}


def _encode(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, Transform):
        return _encode_transform(value)
    if isinstance(value, (L0Coder, L1Coder)):
        return {"coder": type(value).__name__, **value._asdict()}
    if isinstance(value, Motif):
        return {"motif": asdict(value)}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Motif):
        return {"motifs": [asdict(motif) for motif in value]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, SupportsArray)):
        arrays[f"parameter/{name}"] = np.ascontiguousarray(value)
        return {"array": f"parameter/{name}"}
    if name == "random_state":
        return None  # a generator's state is spent; the fitted numbers are what counts
    raise ModelFileError(
        f"`{name}={value!r}` cannot be written to a model file. Files hold built-in transforms, "
        "numbers, text and arrays only."
    )


def _encode_transform(transform: Transform) -> dict[str, Any]:
    """Write a built-in transform, or several composed, as JSON."""
    if isinstance(transform, Compose):
        return {"compose": [_encode_transform(stage) for stage in transform.stages]}
    name = type(transform).__name__
    if name not in TRANSFORMS:
        raise ModelFileError(
            f"`{name}` holds code of your own, and model files hold none: they hold built-in "
            "transforms, numbers, text and arrays only. Save `dictionary_` and `params_` with "
            "`numpy.savez`, and the transform with your code."
        )
    values = {field.name: getattr(transform, field.name) for field in fields(TRANSFORMS[name])}
    options = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    return {"transform": name, **options}


def _decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "coder" in value:
        options = {k: v for k, v in value.items() if k != "coder"}
        return {"L0Coder": L0Coder, "L1Coder": L1Coder}[value["coder"]](**options)
    if "motif" in value:
        return Motif(**value["motif"])
    if "motifs" in value:
        return [Motif(**motif) for motif in value["motifs"]]
    if "compose" in value:
        return Compose(*(_decode(stage, arrays) for stage in value["compose"]))
    options = {k: v for k, v in value.items() if k != "transform"}
    return TRANSFORMS[value["transform"]](**options)
