"""Files of every kind, as the present version writes them: kept, they must load for ever.

    python -m benchmarks.stress.fixtures tests/fixtures/vX.Y.Z

writes models of all estimators and of most transforms, checkpoints of fits in memory, on disk and
federated, shards, and beside them what they hold (``expected.json``) and their checksums.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from percdl import Algorithm, Cohort, IndCDL, L1Coder, PerCDL, PopCDL, make_synthetic, write_shards
from percdl.estimators.base import BaseCDL
from percdl.estimators.checkpoint import fit_with_checkpoints
from percdl.exceptions import NoActivationWarning
from percdl.federated import FederatedPerCDL
from percdl.signals.shards import ShardedCohort
from percdl.transforms import Compose, Gain, Modulation, Rotation, Shift, TimeWarp

LENGTH, ROUND = 16, {"algorithm": Algorithm(population_rounds=1, personal_rounds=1, chunk_rows=4)}
EXPECTED, SUMS = "expected.json", "SHA256SUMS"
#: Those that are asked about people they have not seen, too.
PERSONALIZED = ("warp", "population")


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def make_cohort(n_channels: int = 1, seed: int = 0) -> Cohort:
    """Return four short recordings of two people in two groups."""
    truth = make_synthetic(
        4, 120, atom_length=LENGTH, depth=1, width=3, noise_std=0.05, random_state=seed
    )
    rng = np.random.default_rng(seed)
    scale = 1 + 0.5 * np.arange(n_channels)
    arrays = [
        record.values * scale + 0.05 * rng.standard_normal((record.n_times, n_channels))
        for record in truth.cohort
    ]
    names = ["Ada", "Bo", "Zoë", "Di"]
    return Cohort.from_arrays(arrays, sfreq=50.0, subjects=names, groups=["a", "b", "a", "b"])


def make_models() -> dict[str, tuple[BaseCDL, int]]:
    """Return estimators, not fitted, and of how many channels their recordings are."""
    time = np.linspace(0, 1, LENGTH)
    first = np.stack([np.sin(2 * np.pi * (k + 1) * time) for k in range(2)])[..., None]
    one: dict[str, Any] = {
        "init": first,
        "n_atoms": 2,
        "atom_length": LENGTH,
        "penalty": 0.3,
        **ROUND,
    }
    two = {**one, "init": first[:1] * np.ones(2), "n_atoms": 1}
    still = replace(ROUND["algorithm"], realign=False)
    warp = {"transformation": TimeWarp(1, 3), "algorithm": replace(still, multistart=False)}
    turns = Compose(TimeWarp(1, 3), Rotation(), Gain())
    return {
        "warp": (PerCDL(**one | warp), 1),
        "population": (PopCDL(**one), 1),
        "individual": (IndCDL(**one), 1),
        "overlap": (PopCDL(coder=L1Coder(n_steps=20), **{**one, "penalty": 0.5}), 1),
        "silent": (PopCDL(**{**one, "penalty": 1e6}), 1),
        "shift": (PerCDL(transformation=Shift(), **one | {"algorithm": still}), 1),
        "rotation": (PerCDL(transformation=Rotation(), **two), 2),
        "gain": (PerCDL(transformation=Gain(), **two), 2),
        "modulation": (PerCDL(transformation=Modulation(3), **two), 2),
        "compose": (PerCDL(**two | warp | {"transformation": turns}), 2),
    }


def interrupt(n_rounds: int) -> Callable[..., None]:
    """Return a report that interrupts a fit after some rounds."""
    seen: list[Any] = []

    def report(*told: Any) -> None:
        seen.append(told)
        if len(seen) == n_rounds:
            raise Interrupted

    return report


def checkpointed(model: BaseCDL, cohort: Any, path: Path, n_rounds: int) -> None:
    """Fit for some rounds; leave the checkpoint."""
    settings = {"data": ["walks/"], "penalty": 0.3, "bandpass": None}
    try:
        fit_with_checkpoints(model, cohort, path, report=interrupt(n_rounds), settings=settings)
    except Interrupted:
        return
    raise RuntimeError("the fit was over before it was interrupted")


def write_checkpoints(folder: Path) -> None:
    """Write checkpoints of fits in memory and on disk, and the model of a federation."""
    cohort = make_cohort()
    again = make_models()["warp"][0].set_params(init="auto", n_restarts=2, random_state=5)
    checkpointed(again, cohort, folder / "restarted.checkpoint", 3)
    on_disk = ShardedCohort.open(folder / "shards")
    checkpointed(make_models()["warp"][0], on_disk, folder / "out_of_core.checkpoint", 1)
    for state in on_disk.folder.glob("state-*"):
        shutil.rmtree(state)
    sites = {"north": cohort[:2], "south": cohort[2:]}
    federation = FederatedPerCDL(make_models()["population"][0], secure=False).fit(sites)
    federation.model_.save(folder / "federated.percdl")


def write_fixtures(folder: Path) -> None:
    """Write everything to a folder that is not there yet."""
    folder.mkdir(parents=True)
    write_shards(make_cohort(), folder / "shards", recordings_per_shard=2)
    expected = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoActivationWarning)
        for name, (model, n_channels) in make_models().items():
            model.fit(make_cohort(n_channels))
            if name == "warp":
                model.settings_ = {"data": ["walks/"], "penalty": 0.3, "bandpass": [0.5, 20]}
            model.save(folder / f"{name}.percdl")
            expected[name] = describe(model)
            if name in PERSONALIZED:
                expected[name]["unseen"] = describe_people(model.personalize(unseen()))
        write_checkpoints(folder)
    (folder / EXPECTED).write_text(json.dumps(expected) + "\n")
    (folder / SUMS).write_text(checksums(folder))


def checksums(folder: Path) -> str:
    """Return the checksums of all files of a folder, as ``sha256sum`` writes them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    sums = ((hashlib.sha256(path.read_bytes()).hexdigest(), path) for path in files)
    return "".join(f"{total}  {path.relative_to(folder).as_posix()}\n" for total, path in sums)


def unseen() -> Cohort:
    """Return recordings that no model was fitted on."""
    return make_cohort(seed=1)


def describe(model: BaseCDL) -> dict[str, Any]:
    """Return what a model says, in numbers that JSON keeps exactly."""
    return {
        "model": type(model).__name__,
        "transform": repr(model.resolve("transformation")),
        "dictionary": model.dictionary_.tolist(),
        "objective": model.objective_,
        "subjects": list(model.subjects_),
        "settings": model.settings_,
        **describe_people(model),
    }


def describe_people(found: Any) -> dict[str, Any]:
    """Return parameters and events of a model, or of a personalization."""
    of_model = isinstance(found, BaseCDL)
    params = found.params_ if of_model else found.params
    events = found.events_ if of_model else found.events
    return {
        "params": np.where(np.isnan(params), None, params).tolist(),
        "events": events.to_dict(orient="list"),
    }


if __name__ == "__main__":
    write_fixtures(Path(sys.argv[1]))
