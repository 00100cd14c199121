"""Options from a TOML file; what is said on the command line wins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

# What callbacks are given is not a `typer.Context`, but of the class that one derives from.
if TYPE_CHECKING:
    Context = typer.Context
else:
    Context = typer.Context.__base__

DATA_TABLE = "data"


def use_config(context: Context, path: Path | None) -> Path | None:
    """Make the options of a TOML file the defaults of this command.

    Options are keys, spelled as on the command line (``atom-length``) or with underscores. Keys
    on top are for the command that is run, as are those of a table called like it (``[fit]``);
    the table ``[data]`` is for all commands that read recordings.
    """
    if path is not None and not context.resilient_parsing:
        values = _chosen(context, _read(path), path)
        _check_kinds(context, values, path)
        set_defaults(context, values)
    return path


def set_defaults(context: Context, values: dict[str, Any]) -> None:
    """Make values, by name, the defaults of options; those that were set first stay."""
    context.default_map = {**values, **(context.default_map or {})}


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read ({error.strerror}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{path} is not a TOML file: {error}.") from error


def _chosen(context: Context, content: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the values meant for this command; raise where one is for nobody."""
    from percdl.cli.data_options import DataOptions

    own, parent = str(context.info_name), context.parent
    commands = getattr(parent.command, "commands", {}) if parent is not None else {}
    values: dict[str, Any] = {}
    known = {str(parameter.name) for parameter in context.command.params}
    of_data = set(DataOptions.__dataclass_fields__)
    for key, value in content.items():
        if not isinstance(value, dict):
            values |= _checked({key: value}, known, path, own)
        elif key == DATA_TABLE:
            values |= _checked(value, of_data, path, f"[{DATA_TABLE}]")
        elif key == own:
            values |= _checked(value, known, path, own)
        elif key not in commands:
            raise typer.BadParameter(
                f"{path} has a table [{key}], which is no command. "
                f"Tables: {', '.join([DATA_TABLE, *commands])}."
            )
    return values


def _check_kinds(context: Context, values: dict[str, Any], path: Path) -> None:
    """Refuse a value of a kind that its option cannot be made of."""
    for parameter in context.command.params:
        if parameter.name not in values:
            continue
        value = values[parameter.name]
        try:
            parameter.type_cast_value(context, value)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            name = parameter.name.replace("_", "-")
            raise typer.BadParameter(
                f"{path} says {name} = {value!r}, which is no {parameter.type.name}."
            ) from error


def _checked(values: dict[str, Any], known: set[str], path: Path, where: str) -> dict[str, Any]:
    options = known - {"config", "help", "debug", "resume"}
    checked = {key.replace("-", "_"): value for key, value in values.items()}
    for key in checked:
        if key not in options:
            raise typer.BadParameter(
                f"{path} sets {key.replace('_', '-')!r}, which {where} does not know. Known: "
                f"{', '.join(sorted(name.replace('_', '-') for name in options))}."
            )
    return checked
