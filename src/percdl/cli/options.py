"""Groups of options that several commands share, and values of options in TOML files.

Typer has no groups of options. `as_command` spreads a dataclass over the signature of a command,
so that each option is declared once and not once per command. Options of the model are generated
from its hyper-parameters, see `percdl.cli.model_options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from percdl.cli.errors import CommandError, fail, reported

# Options that belong to one call and are not read from a file.
NOT_IN_FILES = {"config", "debug", "resume"}
# The largest seed that NumPy takes.
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the random numbers.")]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)
]


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer, with ``--debug`` and with errors as messages.

    A parameter that is a dataclass stands for one option per field, as in
    ``def report(model: Path, source: DataOptions)``. The fields are annotated as typer's
    parameters: ``Annotated[float | None, typer.Option(help=...)]``. A parameter that is a class
    with a method ``options`` stands for these options, as values by name.
    """
    hints = get_type_hints(function, include_extras=True)
    generated: dict[str, Any] = {name: one for name, one in hints.items() if _generates(one)}
    groups: dict[str, Any] = {
        name: one for name, one in hints.items() if is_dataclass(one) and name not in generated
    }
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in generated:
            continue
        if name in groups:
            types = types_of(groups[name])
            options += [_option(one.name, types[one.name], one) for one in fields(groups[name])]
        else:
            options.append(_option(name, hints[name], parameter))
    options.append(inspect.Parameter("debug", _KEYWORD, default=False, annotation=_Debug))

    chosen: dict[str, Any] = {}

    @wraps(function)
    def command(**values: Any) -> None:
        with reported(values.pop("debug"), values.get("json", False)):
            for name, group in groups.items():
                values[name] = group(**{one.name: values.pop(one.name) for one in fields(group)})
            for name, group in generated.items():
                names = [option.name for option in group.options() if option.expose_value]
                values[name] = group({option: chosen.pop(option) for option in names})
            function(**values)

    command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportAttributeAccessIssue]
    command.__annotations__ = {option.name: option.annotation for option in options}
    command.generated = list(generated.values())  # pyright: ignore[reportAttributeAccessIssue]
    command.chosen = chosen  # pyright: ignore[reportAttributeAccessIssue]
    return command


def _generates(hint: Any) -> bool:
    return hasattr(hint, "options") and hasattr(hint, "types")


class Command(TyperCommand):
    """A command that generates options when they are needed, not for ``percdl --help``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options, the generated ones included."""
        known = {option.name for option in self.params}
        self.params += [one for one in self._generate() if one.name not in known]
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Typer refuses options it did not make, so `chosen` holds them."""
        for option in self._generate():
            if option.expose_value:
                self.callback.chosen[option.name] = ctx.params.pop(option.name)  # pyright: ignore
        return super().invoke(ctx)

    def _generate(self) -> list[Any]:
        groups = getattr(self.callback, "generated", [])
        return [option for group in groups for option in group.options()]


def _option(name: str, annotation: Any, declared: Any) -> inspect.Parameter:
    missing = declared.default in (MISSING, inspect.Parameter.empty)
    default = inspect.Parameter.empty if missing else declared.default
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


class OneOrMore:
    """Marks a list that a file may give as a single string."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Tell pydantic to make a list of a string."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            lambda value: [value] if isinstance(value, str) else value, handler(source)
        )


def types_of(group: type[Any]) -> dict[str, Any]:
    """Return the annotations of a group of options, by name."""
    return get_type_hints(group, include_extras=True)


def use_config(context: Any, path: Path, shared: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the options of a TOML file the defaults of the command that is run.

    Keys are options, spelled as on the command line (``atom-length``) or with underscores. Keys
    at the top and in the table of the command (``[fit]``) are options of this command. The tables
    in ``shared`` hold options, by type, for all commands; tables of other commands are skipped.
    """
    own = str(context.info_name)
    commands = list(getattr(getattr(context.parent, "command", None), "commands", {}))
    types = _types_here(context)
    values: dict[str, Any] = {}
    try:
        content = read_toml(path)
        top = {key: value for key, value in content.items() if not isinstance(value, dict)}
        values |= check_table(top, types, f"{path}")
        for name in content.keys() - top.keys():
            if name in shared or name == own:
                values |= check_table(content[name], shared.get(name, types), f"{path} [{name}]")
            elif name not in commands:
                fail(f"{path}: {_unknown(f'[{name}]', [*shared, *commands], 'table')}")
    except CommandError as error:
        raise typer.BadParameter(str(error)) from error
    set_defaults(context, values)


def set_defaults(context: Any, values: Mapping[str, Any]) -> None:
    """Make values the defaults of options; defaults that were set before win."""
    context.default_map = {**values, **(context.default_map or {})}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"{path} cannot be read ({error.strerror}).")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        fail(f"{path} is not a TOML file: {error}.")


def check_table(table: Mapping[str, Any], types: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the values of a table, converted to the types of these options.

    An unknown key or a value of the wrong type is refused. A number may stand for its text.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
    from typing_extensions import TypedDict

    known = {name: hint for name, hint in types.items() if name not in NOT_IN_FILES}
    Table = with_config(ConfigDict(extra="forbid", coerce_numbers_to_str=True))(
        TypedDict("Table", known, total=False)  # pyright: ignore[reportArgumentType]
    )
    values = {key.replace("-", "_"): value for key, value in table.items()}
    try:
        return dict(TypeAdapter(Table).validate_python(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = _spell(str(first["loc"][0]))
        if first["type"] == "extra_forbidden":
            fail(f"{where}: {_unknown(name, map(_spell, known), 'key')}")
        fail(f"{where}: {name} = {first['input']!r}: {first['msg']}.")


def _types_here(context: Any) -> dict[str, Any]:
    command = context.command.callback
    types = {name: one.annotation for name, one in inspect.signature(command).parameters.items()}
    for group in command.generated:
        types |= group.types()
    return types


def _unknown(name: str, known: Iterable[str], what: str) -> str:
    """Say that a name is unknown, and which one is meant."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name.strip("[]"), names, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
    return f"there is no {what} {name!r}. {hint}"


def _spell(name: str) -> str:
    return name.replace("_", "-")
