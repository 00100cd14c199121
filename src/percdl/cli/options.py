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

from percdl.cli.output import CommandError, Output, fail, reported


def option(help: str, *names: str, **more: Any) -> Any:
    """Declare an option; its name is that of the parameter, unless names are given."""
    return typer.Option(*names, help=help, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help, **more)


def as_flag(name: str) -> str:
    """Return the option of a parameter, as it is written in the shell."""
    return f"--{name.replace('_', '-')}"


# Options that belong to one call and are not read from a file.
NOT_IN_FILES = {"config", "debug", "resume"}
Model = Annotated[Path, argument("MODEL", "Model file of `percdl fit`.")]
InvitationFile = Annotated[Path, argument("INVITATION", "The invitation.")]
LogFile = Annotated[Path | None, option("Log file, rotated at 10 MB.")]
# The largest seed is that of NumPy.
Seed = Annotated[int, option("Seed of the random numbers.", min=0, max=2**32 - 1)]
OpenPage = Annotated[bool, option("Open the page in a browser.", "--open/--no-open")]
_Debug = Annotated[bool, option("Show the traceback of an error.", "--debug", show_default=False)]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


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
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    for parameter in _parameters(function):
        if members := options_of(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            options += members
        else:
            options.append(parameter)
    options.append(inspect.Parameter("debug", _KEYWORD, default=False, annotation=_Debug))

    @wraps(function)
    def command(**values: Any) -> None:
        with reported(values.pop("debug"), values.get("json", False)):
            for name, group in groups.items():
                members = values.keys() & types_of(group).keys()
                values[name] = group(**{member: values.pop(member) for member in members})
            with values.get("output", Output()).showing_warnings():
                function(**values)

    command.__signature__ = inspect.Signature(options)  # pyright: ignore
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def options_of(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group; none for another type."""
    if hasattr(group, "options"):
        return group.options()
    return _parameters(group) if is_dataclass(group) else []


def _parameters(function: Any) -> list[inspect.Parameter]:
    """Return the parameters of a function or class, with evaluated annotations."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.items()
    return [one.replace(kind=_KEYWORD, annotation=hints[name]) for name, one in parameters]


def types_of(group: Any) -> dict[str, Any]:
    """Return the annotations of a group of options, by name."""
    return {option.name: option.annotation for option in options_of(group)}


def use_config(context: Any, path: Path, shared: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the options of a TOML file the defaults of the command that is run.

    Keys at the top and in the table of the command (``[fit]``) are its options. Tables in
    ``shared`` hold options for all commands; tables of other commands are skipped.
    """
    own, commands = str(context.info_name), [*context.parent.command.commands]
    types = {one.name: one.annotation for one in _parameters(context.command.callback)}
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
