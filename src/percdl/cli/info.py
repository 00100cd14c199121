"""``percdl info``: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from percdl.cli.voice import plain


def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A model, or a checkpoint.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is in a model file: the model, who it was fitted on, and the settings.

    percdl info gait.percdl
    """
    from percdl.estimators import container

    version = container.written_by(file)
    is_model = container.kind_of(file) != container.CHECKPOINT
    described = _describe_model(file) if is_model else _describe_checkpoint(file)
    described = plain({"file": file, "version": version, **described})
    if json:
        import json as json_format

        typer.echo(json_format.dumps(described))
        return
    for line in _lines(described):
        typer.echo(line)


def _describe_model(path: Path) -> dict[str, Any]:
    from percdl.estimators.persistence import load

    model = load(path)
    n_subjects, n_atoms, n_params = model.params_.shape
    per_person = model.n_activations_.sum(1)
    return {
        "model": type(model).__name__,
        "transform": repr(model._get_transform()),
        "atoms": n_atoms,
        "atom_length": model.atom_length_,
        "atom_seconds": model.atom_length_ / model.sfreq_,
        "penalty": model.penalty_,
        "parameters_per_atom": n_params,
        "subjects": n_subjects,
        "channels": list(model.channels_),
        "units": list(model.units_),
        "sfreq": model.sfreq_,
        "processing": None if model.processing_ is None else list(model.processing_),
        "events": len(model.events_),
        "subjects_without_events": int((per_person == 0).sum()),
        "objective": model.objective_,
        "rounds": int(model.history_["step"].isin(["CDU", "PerCDU"]).sum()),
        "seconds": float(model.history_["seconds"].iloc[-1]),
        "stop_reason": model.stop_reason_,
        "settings": model.settings_,
    }


def _describe_checkpoint(path: Path) -> dict[str, Any]:
    from percdl.estimators.checkpoint import read_checkpoint

    checkpoint = read_checkpoint(path)
    chosen = checkpoint.content["chosen"]
    return {
        "checkpoint_of": checkpoint.content["model"],
        "run": checkpoint.content["restart"] + 1,
        "rounds_done": checkpoint.n_rounds,
        "atoms": chosen[0],
        "atom_length": chosen[1],
        "penalty": chosen[2],
        "objective": checkpoint.content["history"][-1][3],
        "to_go_on": f"percdl fit --resume {path}",
        "settings": checkpoint.settings,
    }


def _lines(described: dict[str, Any]) -> list[str]:
    settings = described.pop("settings")
    lines = [f"{_words(name)} {_text(value)}" for name, value in described.items()]
    if settings is None:
        return [*lines, f"{_words('settings')} not made by a command"]
    said = {name: value for name, value in settings.items() if value is not None}
    lines.append("settings")
    return lines + [f"  {name.replace('_', '-'):<22} {_text(v)}" for name, v in said.items()]


def _words(name: str) -> str:
    return f"{name.replace('_', ' '):<24}"


def _text(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
