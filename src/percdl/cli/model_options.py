"""Options of the model, generated from its declared hyper-parameters (`percdl.parameters`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

import percdl
from percdl.cli.options import as_flag, check_table, types_of
from percdl.cli.output import fail

if TYPE_CHECKING:
    import numpy as np

    from percdl.parameters import Parameter
    from percdl.signals import AnyCohort

_STAGES, _ALONE = ("warp", "rotation", "gain"), ("identity", "free")


class _Declared(NamedTuple):
    """A hyper-parameter and the argument of the model it belongs to; "" is the model itself."""

    parameter: Parameter
    owner: str

    def read(self, value: Any) -> Any:
        """Return the value of an option as the hyper-parameter; raise if it is not allowed."""
        readings = _readings(value)
        if isinstance(value, str) and "," in value:
            readings.append([_readings(part)[-1] for part in value.split(",")])
        for reading in readings:
            if self.parameter.accepts(reading):
                return reading
        raise typer.BadParameter(f"{value!r} must be {self.parameter.needed}.")


def _readings(value: Any) -> list[Any]:
    """Return the possible meanings of an option value: itself, and as a number."""
    readings = [value]
    for kind in (float, int) if isinstance(value, str) else ():
        try:
            readings.append(kind(value))
        except ValueError:
            continue
    return readings


@cache
def declared() -> dict[str, _Declared]:
    """Return the hyper-parameters by option name."""
    from percdl.parameters import Parameter, parameters_of

    parts = {"": percdl.PerCDL, "coder": percdl.L0Coder, "loss": percdl.Huber}
    parts["algorithm"] = percdl.Algorithm
    found = {
        parameter.name: _Declared(parameter, owner)
        for owner, part in parts.items()
        for parameter in parameters_of(part)
        if parameter.name not in ("coder", "algorithm", "progress")
    }
    found["seed"], found["huber_delta"] = found.pop("random_state"), found.pop("delta")
    for name, change in _in_the_shell().items():
        found[name] = _Declared(found[name].parameter._replace(**change), "")
    for owner, name, kind, default, meaning in _more_options():
        found[name] = _Declared(Parameter(name, kind, default, meaning, "Model"), owner)
    return found


def _in_the_shell() -> dict[str, dict[str, Any]]:
    """Return the differences in the shell, by option: Python objects are written as text."""
    from annotated_types import Ge, Lt, Predicate

    from percdl.parameters import Noun

    names = f"{', '.join(_STAGES)}, several of these joined by +, {' or '.join(_ALONE)}"

    def is_known(text: str) -> bool:
        parts = text.split("+")
        return text in _ALONE or (set(parts) <= set(_STAGES) and len(set(parts)) == len(parts))

    return {
        "transformation": {
            "kind": Annotated[str, Predicate(is_known), Noun("name", names)],
            "default": "warp",
            "meaning": "How subjects differ: warp, rotation and gain, joined by +; identity (not "
            "at all) or free (in every sample).",
        },
        "loss": {
            "kind": Literal["squared", "relative", "huber"],
            "meaning": "Squared residuals, squared ones relative to each recording's standard "
            "deviation, or Huber's loss, which is robust to artefacts.",
        },
        "init": {
            "kind": Annotated[str, Noun("file", "a file")],
            "meaning": "First dictionary: a model file, an .npy file (atoms, samples, channels), "
            "or annotations (.atr, events.tsv, .csv; files or a quoted pattern), whose mean "
            'segment is the first atom; "auto" chooses it from the data. --no-realign keeps its '
            "window.",
        },
        "seed": {"kind": Annotated[int, Ge(0), Lt(2**32)], "default": 0},
    }


def _more_options() -> list[tuple[str, str, Any, Any, str]]:
    """Return argument of the model, name, kind, default and meaning of parts that are objects."""
    from percdl.parameters import Count, Duration, Noun

    time, text = Count | Duration, Annotated[str, Noun("text", "a text")]
    warp, start = "transformation", "init"
    sines = "Sines per layer of a warp: how local the stretching can be."
    return [
        (warp, "depth", Count, None, "Layers of a warp: how far time can be stretched."),
        (warp, "width", Count, None, sines),
        (warp, "per_channel", bool, False, "Estimate one warp per channel."),
        (start, "window", time, None, "Annotations as --init: length of the window, 0.6s."),
        (start, "pre", time, None, "Annotations as --init: time before the marked sample, 200ms."),
        (start, "label", text, None, "Annotations as --init: label or symbol to use, N."),
    ]


def check_atom_length(text: str) -> Any:
    """Return an atom length: samples, a duration or "auto"."""
    return declared()["atom_length"].read(text)


class ModelOptions:
    """The options of the model; ``values`` are the hyper-parameters by name."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """Return one option per hyper-parameter."""
        return [_option(name, one) for name, one in declared().items()]

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> ModelOptions:
        """Return the options of a table of a TOML file; those not given have their defaults."""
        values = {name: one.parameter.default for name, one in declared().items()}
        for name, value in check_table(table, types_of(cls), where).items():
            try:
                values[name] = declared()[name].read(value)
            except typer.BadParameter as error:
                fail(f"{where}, {name.replace('_', '-')}: {error}")
        return cls(**values)

    def build(self, cohort: AnyCohort | None = None) -> percdl.PerCDL:
        """Return the model, not fitted; ``cohort`` is cut where --init names annotations."""
        parts: dict[str, dict[str, Any]] = {"loss": {}, "transformation": {}}
        for name, (parameter, owner) in declared().items():
            if self.values[name] is not None:
                parts.setdefault(owner, {})[parameter.name] = self.values[name]
        own = parts[""]
        if own["loss"] == "huber":
            own["loss"] = percdl.Huber(**parts["loss"])
        elif parts["loss"]:
            fail("--huber-delta requires --loss huber.")
        stages: dict[str, Any] = {
            "warp": partial(percdl.TimeWarp, **parts["transformation"]),
            "rotation": percdl.Rotation,
            "gain": percdl.Gain,
            "identity": percdl.Identity,
            "free": percdl.Free,
        }
        chosen = [stages[name]() for name in own["transformation"].split("+")]
        own["transformation"] = chosen[0] if len(chosen) == 1 else percdl.Compose(*chosen)
        if own["init"] != "auto":
            own["init"] = read_dictionary(own["init"], cohort, parts.get("init", {}))
            if self.values["window"] is not None:
                own["atom_length"] = own["init"].shape[1]
        elif "init" in parts:
            fail(f"--{next(iter(parts['init']))} requires --init, with annotations.")
        own["coder"] = percdl.L0Coder(**parts["coder"])
        own["algorithm"] = percdl.Algorithm(**parts["algorithm"])
        return percdl.PerCDL(**own, progress=False)


def holds_atoms(path: Path) -> bool:
    """Return whether a file holds atoms: an .npy file or a model."""
    from percdl.estimators.container import is_container

    return path.suffix in (".npy", ".percdl") or (path.is_file() and is_container(path))


def files_of(init: str) -> list[Path]:
    """Return the files that --init names."""
    from percdl.signals.annotations import find_annotations

    if init == "auto":
        return []
    return [Path(init)] if holds_atoms(Path(init)) else find_annotations(init)


def read_model(name: str) -> Any:
    """Return the model in a file, or None if the file is something else."""
    path = Path(name)
    return percdl.load(path) if path.suffix != ".npy" and holds_atoms(path) else None


def read_dictionary(
    name: str, cohort: AnyCohort | None = None, cut: Mapping[str, Any] = MappingProxyType({})
) -> np.ndarray:
    """Return the atoms of an .npy file or a model file, or the mean segment at annotations."""
    import numpy as np

    if holds_atoms(Path(name)):
        if cut:
            flag = as_flag(next(iter(cut)))
            fail(f"{flag} requires annotations as --init; {name} has a window already.")
        if (model := read_model(name)) is not None:
            if cohort is not None:
                check_pattern(name, model.n_atoms_, model.channels_, model.sfreq_, cohort)
            return model.dictionary_
        try:
            return np.load(name, allow_pickle=False)
        except ValueError as error:
            fail(f"{name} is not an .npy file of numbers: {error}.")
    if cohort is None or "window" not in cut:
        fail(
            f"--init {name} is neither a model nor an .npy file. To use it as annotations, pass "
            "--window, the length of the atom (0.6s), and --pre, the time before the annotated "
            "sample (200ms)."
        )
    marks = percdl.read_annotations(name, sfreq=cohort.sfreq, labels=cut.get("label"))
    return percdl.average_segments(cohort, marks, cut["window"], cut.get("pre", 0))


def check_pattern(
    name: object, n_atoms: int, channels: tuple[str, ...], sfreq: float, cohort: AnyCohort
) -> None:
    """Exit unless the patterns of a file have the channels and the rate of the recordings."""
    if tuple(channels) != tuple(cohort.channels) or sfreq != cohort.sfreq:
        fail(
            f"{name} holds {n_atoms} pattern(s) with channels {', '.join(channels)} at "
            f"{sfreq:g} Hz, but the recordings have {', '.join(cohort.channels)} at "
            f"{cohort.sfreq:g} Hz. Choose these with --channels and --resample."
        )


def _option(name: str, one: _Declared) -> inspect.Parameter:
    parameter, flag = one.parameter, as_flag(name)
    default, is_flag = parameter.default, isinstance(parameter.default, bool)
    words = parameter.type_name.removesuffix(", optional").strip("{}")
    words = words.replace('"', "").replace(", ", "|").replace(" or ", "|")
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if is_flag else flag,
        metavar=None if is_flag else f"[{words}]",
        help=parameter.meaning.replace("`", ""),
        show_default=default is not None,
        callback=lambda value: None if value is None else one.read(value),
        rich_help_panel=parameter.group,
    )
    kind = bool if is_flag else str | None
    shown = default if is_flag or default is None else str(default)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=shown, annotation=Annotated[kind, option])
