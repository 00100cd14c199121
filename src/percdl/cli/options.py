"""Commands and groups of options, and values of options in TOML files.

Typer has no groups of options. Here, a parameter of a command can be a group: a dataclass with
annotated fields, or a class with a method ``options``, such as `ModelOptions`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from percdl.cli.output import CommandError, fail, reported

# Options that belong to one call and are not read from a file.
NOT_IN_FILES = {"config", "debug", "resume"}
# The largest seed that NumPy takes.
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the random numbers.")]
OpenPage = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)
]


def optional(help: str, *names: str, **more: Any) -> Any:
    """Return an option without a default in the help."""
    return typer.Option(*names, help=help, show_default=False, **more)


def add_command(app: typer.Typer, function: Callable[..., None]) -> None:
    """Add a command to an app, with ``--debug`` and with errors as messages."""

    def command() -> None: ...

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.function = function  # pyright: ignore[reportFunctionMemberAccess]
    app.command(cls=Command)(command)


class Command(TyperCommand):
    """A command that makes its options when they are needed, not for ``percdl --help``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options."""
        if not self.params:
            function = self.callback.function  # pyright: ignore
            app = typer.Typer(add_completion=False)
            app.command()(_spread(function))
            complete: Any = typer.main.get_command(app)
            self.params, self.callback = complete.params, complete.callback
        return super().get_params(ctx)


def _spread(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with the options of its groups as parameters."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if members := options_of(hints[name]):
            groups[name] = hints[name]
            options += members
        else:
            options.append(parameter.replace(kind=_KEYWORD, annotation=hints[name]))
    options.append(inspect.Parameter("debug", _KEYWORD, default=False, annotation=_Debug))

    @wraps(function)
    def command(**values: Any) -> None:
        with reported(values.pop("debug"), values.get("json", False)):
            for name, group in groups.items():
                members = values.keys() & types_of(group).keys()
                values[name] = group(**{member: values.pop(member) for member in members})
            function(**values)

    command.__signature__ = inspect.Signature(options)  # pyright: ignore
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def options_of(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group; none for another type."""
    if hasattr(group, "options"):
        return group.options()
    if not is_dataclass(group):
        return []
    hints = get_type_hints(group, include_extras=True)
    parameters = inspect.signature(group).parameters  # pyright: ignore[reportArgumentType]
    return [one.replace(kind=_KEYWORD, annotation=hints[name]) for name, one in parameters.items()]


def types_of(group: Any) -> dict[str, Any]:
    """Return the annotations of a group of options, by name."""
    return {option.name: option.annotation for option in options_of(group)}


def use_config(context: Any, path: Path, shared: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the options of a TOML file the defaults of the command that is run.

    Keys at the top and in the table of the command (``[fit]``) are its options. Tables in
    ``shared`` hold options for all commands; tables of other commands are skipped.
    """
    own = str(context.info_name)
    commands = list(getattr(getattr(context.parent, "command", None), "commands", {}))
    parameters = inspect.signature(context.command.callback).parameters
    types = {name: one.annotation for name, one in parameters.items()}
    try:
        content = read_toml(path)
        top = {key: value for key, value in content.items() if not isinstance(value, dict)}
        values = check_table(top, types, f"{path}")
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
    """Return the values of a table as the types of these options.

    A number may stand for text, and a string for a list of one.
    """
    from pydantic import ConfigDict, with_config
    from typing_extensions import TypedDict

    known = {name: hint for name, hint in types.items() if name not in NOT_IN_FILES}
    Table = with_config(ConfigDict(extra="forbid", coerce_numbers_to_str=True))(
        TypedDict("Table", known, total=False)  # pyright: ignore[reportArgumentType]
    )
    values = {key.replace("-", "_"): value for key, value in table.items()}
    for name, hint in known.items():
        if "list" in str(get_args(hint)[:1]) and isinstance(values.get(name), str):
            values[name] = [values[name]]
    return dict(validate(Table, values, where, known))


def validate(
    kind: Any, table: Mapping[str, Any], where: str, known: Iterable[str], folder: Any = None
) -> Any:
    """Return a table as a type with these keys, or exit with the first error."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(table, context=folder)
    except ValidationError as error:
        # A misspelled key is both unknown and missing: report the first.
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        name = str(first["loc"][0]).replace("_", "-")
        if first["type"] == "extra_forbidden":
            fail(f"{where}: {_unknown(name, (key.replace('_', '-') for key in known), 'key')}")
        given = "" if first["type"] == "missing" else f" = {repr(first['input'])[:60]}"
        fail(f"{where}: {name}{given}: {first['msg'].removeprefix('Value error, ').rstrip('.')}.")


def _unknown(name: str, known: Iterable[str], what: str) -> str:
    """Return the message for an unknown name, with similar names."""
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(name.strip("[]"), names, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."
    return f"there is no {what} {name!r}. {hint}"
