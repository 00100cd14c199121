"""Who opens the files of the corpus, and whether what was opened could be right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.stress.fixtures import make_cohort, make_models
from percdl import Cohort, load
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import ModelFileError, PerCDLError, UnreadableFileError
from percdl.signals.shards import ShardedCohort


class ModelReader:
    """Opens models, and reports whether they are unchanged, or valid."""

    def __init__(self, path: Path):
        self.open: Callable[[Path], Any] = load
        self.error = ModelFileError
        self.original = load(path)

    def is_equal(self, model: Any) -> bool:
        """Whether everything that matters is as it was."""
        first = self.original
        names = ("dictionary_", "params_", "n_activations_")
        return (
            repr(model.get_params()) == repr(first.get_params())
            and all(_same(getattr(model, n), getattr(first, n)) for n in names)
            and model.events_.equals(first.events_)
            and model.history_.equals(first.history_)
            and all(getattr(model, n) == getattr(first, n) for n in ("objective_", "settings_"))
            and (model.subjects_, model.channels_) == (first.subjects_, first.channels_)
        )

    def is_consistent(self, model: Any) -> bool:
        """Whether sizes agree; values are guarded by the checksum alone."""
        n_subjects, n_atoms, n_params = model.params_.shape
        transform, size = model.resolve("transformation"), model.dictionary_.shape[1:]
        return bool(
            n_params == transform.n_params(*size)
            and model.n_activations_.shape
            == (n_subjects, n_atoms)
            == (len(model.subjects_), len(model.dictionary_))
            and {*model.events_["subject"]} <= {*model.subjects_}
            and len(model.channels_) == len(model.units_) == model.n_channels_ == size[1]
        )


class CheckpointReader:
    """Opens checkpoints, and goes on from those that are accepted."""

    def __init__(self, path: Path):
        self.open = read_checkpoint
        self.error = ModelFileError
        self.original = read_checkpoint(path)
        self.cohort: Any = make_cohort()
        self.model = make_models()["warp"][0]
        if "site/folder" in self.original.arrays:
            self.cohort = ShardedCohort.open(path.parent / "shards")
        else:
            self.model.set_params(init="auto", n_restarts=2, random_state=5)

    def is_equal(self, checkpoint: Any) -> bool:
        """Whether everything is as it was."""
        return _same_content(checkpoint, self.original)

    def is_consistent(self, checkpoint: Any) -> bool:
        """Whether a fit goes on from it to finite numbers, or refuses to."""
        try:
            model = fit_with_checkpoints(self.model, self.cohort, None, resume=checkpoint)
        except PerCDLError:
            return True
        return bool(
            np.isfinite(model.dictionary_).all()
            and np.isfinite(model.objective_)
            and np.isfinite(model.params_[model.n_activations_ > 0]).all()
        )


class ShardReader:
    """Opens a folder of shards and reads every recording, all at once and one by one."""

    def __init__(self, folder: Path):
        self.error = UnreadableFileError
        self.original = self.open(folder)

    def open(self, folder: Path) -> tuple[Any, ...]:
        """Return all recordings, and what the index says of them."""
        cohort = ShardedCohort.open(folder)
        together = list(cohort)
        if [cohort[i] for i in range(len(cohort))] != together:
            raise AssertionError("recordings read one by one differ from those read together")
        measured = (cohort.power.tolist(), cohort.n_masks, cohort.empty, cohort.flat)
        return together, *measured

    def is_equal(self, found: tuple[Any, ...]) -> bool:
        """Whether all recordings are as they were."""
        return found == self.original

    def is_consistent(self, found: tuple[Any, ...]) -> bool:
        """Whether they form a cohort; recordings have been checked by their own class."""
        cohort = Cohort(found[0])
        return cohort.n_channels == 1 and len(found[1]) == len(cohort)


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and np.array_equal(first, second, equal_nan=True)


def _same_content(first: Any, second: Any) -> bool:
    return (
        json.dumps(first.content) == json.dumps(second.content)
        and first.arrays.keys() == second.arrays.keys()
        and all(_same(x, second.arrays[name]) for name, x in first.arrays.items())
    )


def _projects(transform: Any, params: np.ndarray) -> bool:
    if params.size == 0:
        return True
    found = np.asarray(transform.project(jnp.asarray(params)))
    return bool(np.allclose(found, params, atol=1e-2))
