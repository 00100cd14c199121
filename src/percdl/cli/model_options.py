"""Which model is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.durations import AUTO, LONGEST, check_duration, check_duration_or_auto, in_samples

if TYPE_CHECKING:
    from percdl.estimators import PerCDL
    from percdl.transforms import Transform

_MODEL, _ALGORITHM = "Model", "Algorithm"
STAGES = ("warp", "rotation", "gain")
ALONE = ("identity", "free")
LARGEST_SEED = 2**32 - 1  # that NumPy takes


def _check_atoms(text: str) -> str:
    if text != AUTO and not (text.isdecimal() and 1 <= float(text) <= LONGEST):
        raise typer.BadParameter(f"{text!r} must be a whole number of at least 1, or auto.")
    return text


def _check_penalty(text: str) -> str:
    try:
        good = text == AUTO or 0 <= float(text) < float("inf")
    except ValueError:
        good = False
    if not good:
        raise typer.BadParameter(f"{text!r} must be a number of at least 0, or auto.")
    return text


def _check_transform(text: str) -> str:
    parts = text.split("+")
    wrong = [part for part in parts if part not in (*STAGES, *ALONE)]
    if wrong or len(set(parts)) < len(parts) or (len(parts) > 1 and set(parts) & set(ALONE)):
        raise typer.BadParameter(
            f"{text!r} must be {', '.join(STAGES)}, several of these joined by + "
            f"(warp+rotation), {' or '.join(ALONE)}."
        )
    return text


def _check_loss(text: str) -> str:
    if text not in ("squared", "huber"):
        raise typer.BadParameter(f"{text!r} must be squared or huber.")
    return text


def _check_update(text: str) -> str:
    if text not in ("closed-form", "robust"):
        raise typer.BadParameter(f"{text!r} must be closed-form or robust.")
    return text


def _check_dtype(text: str) -> str:
    if text not in ("float32", "float64"):
        raise typer.BadParameter(f"{text!r} must be float32 or float64.")
    return text


def _option(help: str, panel: str = _MODEL, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


@dataclass(frozen=True)
class ModelOptions:
    """The model and its algorithm: a group of options, see `as_command`."""

    n_atoms: Annotated[
        str, _option("How many patterns, or auto.", callback=_check_atoms, metavar="NUMBER")
    ] = AUTO
    atom_length: Annotated[
        str,
        _option(
            "Length of a pattern: 1.0s, 250ms, 100 (samples), or auto.",
            callback=check_duration_or_auto,
            metavar="DURATION",
        ),
    ] = AUTO
    penalty: Annotated[
        str,
        _option(
            "What one occurrence costs, in squared signal units, or auto.",
            callback=_check_penalty,
            metavar="NUMBER",
        ),
    ] = AUTO
    penalty_ratio: Annotated[
        float | None,
        _option("Instead: a share of the largest useful penalty.", show_default=False),
    ] = None
    transform: Annotated[
        str,
        _option(
            "How people differ: warp, rotation, gain, joined by +; identity (not at all) or "
            "free (in every sample).",
            callback=_check_transform,
            metavar="NAME",
        ),
    ] = "warp"
    depth: Annotated[int, _option("Layers of a warp: how far time is stretched.", min=1)] = 3
    width: Annotated[int, _option("Sines of a layer: how locally.", min=1)] = 10
    per_channel: Annotated[
        bool, _option("A warp for each channel.", _MODEL, "--per-channel", show_default=False)
    ] = False
    signed: Annotated[
        bool, _option("Patterns may come upside down.", _MODEL, "--signed", show_default=False)
    ] = False
    min_gap: Annotated[
        str,
        _option("Least time between two patterns.", callback=check_duration, metavar="DURATION"),
    ] = "0"
    max_activations: Annotated[
        int | None, _option("Most patterns in a recording.", min=1, show_default=False)
    ] = None
    loss: Annotated[
        str, _option("squared, or huber against artefacts.", callback=_check_loss, metavar="NAME")
    ] = "squared"
    n_init: Annotated[int, _option("Rounds with common atoms.", _ALGORITHM, min=0)] = 5
    n_perso: Annotated[int, _option("Rounds with personal atoms.", _ALGORITHM, min=0)] = 5
    restarts: Annotated[int, _option("First dictionaries to try.", _ALGORITHM, min=1)] = 1
    realign: Annotated[bool, _option("Let atoms move to where their energy is.", _ALGORITHM)] = (
        True
    )
    multistart: Annotated[bool, _option("Start warps from an alignment as well.", _ALGORITHM)] = (
        True
    )
    update: Annotated[
        str,
        _option(
            "How atoms follow from people: closed-form, or robust against much noise.",
            _ALGORITHM,
            callback=_check_update,
            metavar="NAME",
        ),
    ] = "closed-form"
    tol: Annotated[
        float,
        _option("End a phase at a relative change below this.", _ALGORITHM, min=0),
    ] = 0.0
    seed: Annotated[
        int, _option("Decides all that is drawn.", _ALGORITHM, min=0, max=LARGEST_SEED)
    ] = 0
    dtype: Annotated[
        str,
        _option("float32 or float64.", _ALGORITHM, callback=_check_dtype, metavar="NAME"),
    ] = "float32"

    def build(self, sfreq: float) -> PerCDL:
        """Return the model, not fitted, for recordings of this sampling rate."""
        from percdl.algorithm.settings import Algorithm, Huber
        from percdl.estimators import PerCDL
        from percdl.steps.coders import L0Coder

        penalty = AUTO if self.penalty == AUTO else float(self.penalty)
        if self.penalty == AUTO and self.penalty_ratio is not None:
            penalty = f"{100 * self.penalty_ratio:.12g}%"
        return PerCDL(
            n_atoms=AUTO if self.n_atoms == AUTO else int(self.n_atoms),
            atom_length=in_samples(self.atom_length, sfreq),
            transformation=self._transform(),
            penalty=penalty,
            coder=L0Coder(self.signed, int(in_samples(self.min_gap, sfreq)), self.max_activations),
            loss=Huber() if self.loss == "huber" else "squared",
            n_restarts=self.restarts,
            algorithm=Algorithm(
                population_rounds=self.n_init,
                personal_rounds=self.n_perso,
                realign=self.realign,
                multistart=self.multistart,
                update=self.update,  # pyright: ignore[reportArgumentType]
                tol=self.tol,
            ),
            dtype=self.dtype,  # pyright: ignore[reportArgumentType]
            random_state=self.seed,
            progress=False,
        )

    def _transform(self) -> Transform:
        from percdl.transforms import Compose, Free, Gain, Identity, Rotation, TimeWarp

        makers = {
            "warp": lambda: TimeWarp(self.depth, self.width, per_channel=self.per_channel),
            "rotation": Rotation,
            "gain": Gain,
            "identity": Identity,
            "free": Free,
        }
        stages = [makers[name]() for name in self.transform.split("+")]
        return stages[0] if len(stages) == 1 else Compose(*stages)
