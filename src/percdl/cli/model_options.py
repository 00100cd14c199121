"""Options of the model, generated from its declared hyper-parameters (`percdl.parameters`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from percdl.cli.errors import fail
from percdl.cli.options import check_table

if TYPE_CHECKING:
    import numpy as np

    from percdl.estimators import PerCDL
    from percdl.parameters import Parameter
    from percdl.transforms import Transform

_STAGES, _ALONE = ("warp", "rotation", "gain"), ("identity", "free")
# Options of version 0.1 and what replaces them.
RENAMED = {
    "transform": "--transformation",
    "penalty_ratio": "--penalty with a share, such as --penalty 10%",
    "n_init": "--population-rounds",
    "n_perso": "--personal-rounds",
    "restarts": "--n-restarts",
}


class _Declared(NamedTuple):
    """A hyper-parameter and the argument of the model it belongs to; "" is the model itself."""

    parameter: Parameter
    owner: str

    def read(self, value: Any) -> Any:
        """Return the value of an option as the hyper-parameter; raise if it is not allowed."""
        readings = [value] if isinstance(value, bool) else [str(value), *_numbers(str(value))]
        for reading in readings:
            if self.parameter.accepts(reading):
                return reading
        raise typer.BadParameter(f"{value!r} must be {self.parameter.needed}.")


def _numbers(text: str) -> list[int | float]:
    found: list[int | float] = []
    for kind in (int, float):
        try:
            found.append(kind(text))
        except ValueError:
            continue
    return found


@cache
def declared() -> dict[str, _Declared]:
    """Return the hyper-parameters by option name."""
    from annotated_types import Ge, Lt

    from percdl.algorithm.settings import Algorithm, Huber
    from percdl.estimators import PerCDL
    from percdl.parameters import parameters_of
    from percdl.steps.coders import L0Coder

    parts = {"": PerCDL, "coder": L0Coder, "loss": Huber, "algorithm": Algorithm}
    found = {
        parameter.name: _Declared(parameter, owner)
        for owner, part in parts.items()
        for parameter in parameters_of(part)
        if parameter.name not in ("coder", "algorithm", "progress")
    }
    found |= _as_text({name: found[name].parameter for name in ("transformation", "loss", "init")})
    seed = found.pop("random_state").parameter
    found["seed"] = _Declared(seed._replace(kind=Annotated[int, Ge(0), Lt(2**32)], default=0), "")
    found["huber_delta"] = found.pop("delta")
    return found | _of_warps()


def _as_text(parameters: dict[str, Parameter]) -> dict[str, _Declared]:
    """Return hyper-parameters that are objects in Python as options that are text."""
    from annotated_types import Predicate

    from percdl.parameters import Noun

    names = f"{', '.join(_STAGES)}, several of these joined by +, {' or '.join(_ALONE)}"
    forms = {
        "transformation": {
            "kind": Annotated[str, Predicate(_is_transformation), Noun("name", names)],
            "default": "warp",
            "meaning": "How subjects differ: warp, rotation and gain, joined by +; identity (not "
            "at all) or free (in every sample).",
        },
        "loss": {
            "kind": Literal["squared", "huber"],
            "meaning": "Squared residuals, or Huber's loss, which is robust to artefacts.",
        },
        "init": {
            "kind": Annotated[str, Noun("file", "a file")],
            "meaning": "First dictionary: an .npy file (atoms, samples, channels) or a model "
            'file; "auto" chooses it from the data.',
        },
    }
    return {
        name: _Declared(parameter._replace(**forms[name]), "")
        for name, parameter in parameters.items()
    }


def _of_warps() -> dict[str, _Declared]:
    from percdl.parameters import Count, Parameter

    warps: dict[str, tuple[Any, Any, str]] = {
        "depth": (Count, None, "Layers of a warp: how far time can be stretched."),
        "width": (Count, None, "Sines per layer of a warp: how local the stretching can be."),
        "per_channel": (bool, False, "Estimate one warp per channel."),
    }
    return {
        name: _Declared(Parameter(name, kind, default, meaning, "Model"), "transformation")
        for name, (kind, default, meaning) in warps.items()
    }


def _is_transformation(text: str) -> bool:
    parts = text.split("+")
    alone = len(parts) == 1 and text in _ALONE
    return alone or (set(parts) <= set(_STAGES) and len(set(parts)) == len(parts))


def check_atom_length(text: str) -> Any:
    """Return an atom length: samples, a duration or "auto"."""
    return declared()["atom_length"].read(text)


@dataclass(frozen=True)
class ModelOptions:
    """The options of the model, by name; for `as_command`."""

    values: Mapping[str, Any]

    @classmethod
    def options(cls) -> list[Any]:
        """Return one option per hyper-parameter, and those that refuse old names."""
        options = [*(_option(name, one) for name, one in declared().items()), *map(_old, RENAMED)]

        def command(**values: Any) -> None: ...

        command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportFunctionMemberAccess]
        command.__annotations__ = {option.name: option.annotation for option in options}
        app = typer.Typer(add_completion=False)
        app.command()(command)
        return typer.main.get_command(app).params

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Return the types of the options in TOML files; values are checked by the options."""
        flags = {name: bool for name, one in declared().items() if _is_flag(one.parameter)}
        return dict.fromkeys([*declared(), *RENAMED], Any) | flags

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> ModelOptions:
        """Return the options of a table of a TOML file; those not given have their defaults."""
        given = check_table(table, cls.types(), where)
        values = {name: one.parameter.default for name, one in declared().items()}
        for name, value in given.items():
            try:
                values[name] = _old_name(name) if name in RENAMED else declared()[name].read(value)
            except typer.BadParameter as error:
                fail(f"{where}, {_spell(name)}: {error}")
        return cls(values)

    def build(self) -> PerCDL:
        """Return the model, not fitted."""
        from percdl.algorithm.settings import Algorithm, Huber
        from percdl.estimators import PerCDL
        from percdl.steps.coders import L0Coder

        parts: dict[str, dict[str, Any]] = {"loss": {}, "transformation": {}}
        for name, (parameter, owner) in declared().items():
            if self.values[name] is not None:
                parts.setdefault(owner, {})[parameter.name] = self.values[name]
        own = parts[""]
        if own["loss"] == "huber":
            own["loss"] = Huber(**parts["loss"])
        elif parts["loss"]:
            fail("--huber-delta requires --loss huber.")
        own["transformation"] = _transformation(own["transformation"], parts["transformation"])
        if own["init"] != "auto":
            own["init"] = read_dictionary(Path(own["init"]))
        return PerCDL(
            **own,
            coder=L0Coder(**parts["coder"]),
            algorithm=Algorithm(**parts["algorithm"]),
            progress=False,
        )


def read_dictionary(path: Path) -> np.ndarray:
    """Return the atoms of an .npy file or of a model file."""
    import numpy as np

    from percdl.estimators.modelfile import load

    if path.suffix != ".npy":
        return load(path).dictionary_
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as error:
        fail(f"{path} is not an .npy file of numbers: {error}.")


def _transformation(names: str, of_warp: dict[str, Any]) -> Transform:
    from percdl.transforms import Compose, Free, Gain, Identity, Rotation, TimeWarp

    stages: dict[str, Any] = {
        "warp": lambda: TimeWarp(**of_warp),
        "rotation": Rotation,
        "gain": Gain,
        "identity": Identity,
        "free": Free,
    }
    chosen = [stages[name]() for name in names.split("+")]
    return chosen[0] if len(chosen) == 1 else Compose(*chosen)


def _option(name: str, one: _Declared) -> inspect.Parameter:
    parameter, flag = one.parameter, f"--{_spell(name)}"
    is_flag, default = _is_flag(parameter), parameter.default
    option = typer.Option(
        f"{flag}/--no-{_spell(name)}" if is_flag else flag,
        metavar=None if is_flag else f"[{_metavar(parameter)}]",
        help=parameter.meaning.replace("``", "").replace("`", ""),
        show_default=default is not None,
        callback=lambda value: None if value is None else one.read(value),
        rich_help_panel=parameter.group,
    )
    if is_flag:
        return _parameter(name, bool, option, default)
    return _parameter(name, str | None, option, None if default is None else str(default))


def _parameter(name: str, kind: Any, option: Any, default: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=Annotated[kind, option])


def _metavar(parameter: Parameter) -> str:
    words = parameter.type_name.removesuffix(", optional").strip("{}")
    return words.replace('"', "").replace(", ", "|").replace(" or ", "|")


def _is_flag(parameter: Parameter) -> bool:
    return isinstance(parameter.default, bool)


def _old(name: str) -> inspect.Parameter:
    """Return a hidden option that states the new name."""
    option = typer.Option(
        f"--{_spell(name)}",
        hidden=True,
        expose_value=False,
        callback=lambda value: None if value is None else _old_name(name),
    )
    return _parameter(name, str | None, option, None)


def _old_name(name: str) -> Any:
    raise typer.BadParameter(f"version 0.2 calls this option {RENAMED[name]}.")


def _spell(name: str) -> str:
    return name.replace("_", "-")
