"""What all commands have in common: options in groups, ``--debug``, errors that are told."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from percdl.cli.errors import told

Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", show_default=False)
]


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command.

    A parameter whose type is a dataclass stands for a group of options, its fields, so that
    several commands share them: ``def report(model: Path, source: DataOptions)``. Field types are
    those of typer, ``Annotated[float | None, typer.Option(help=...)]``.
    """
    groups: dict[str, Any] = {}
    options: list[inspect.Parameter] = []
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            options += _spread(hints[name])
        else:
            options.append(_option(name, hints[name], parameter.default))
    options.append(_option("debug", Debug, False))

    @wraps(function)
    def command(**values: Any) -> None:
        with told(values.pop("debug"), values.get("json", False), tuple(values)):
            for name, group in groups.items():
                own = {field.name: values.pop(field.name) for field in fields(group)}
                values[name] = group(**own)
            function(**values)

    # Arguments come before options; typer keeps the order among each.
    del command.__wrapped__
    command.__signature__ = inspect.Signature(options)  # pyright: ignore[reportAttributeAccessIssue]
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def _spread(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    empty = inspect.Parameter.empty
    return [
        _option(
            field.name, hints[field.name], empty if field.default is MISSING else field.default
        )
        for field in fields(group)
    ]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
