"""Generate the page of the command line from the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from sphinx.application import Sphinx

PAGE = Path("api", "generated", "commands.md")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_page(app: Sphinx) -> None:
    """Write the page if it has changed."""
    from percdl.cli import app as commands

    group: Any = typer.main.get_command(commands)
    parts = [
        "# Command line",
        group.help.strip(),
        "`percdl COMMAND --help` prints the same; `percdl --install-completion` enables tab "
        "completion.",
    ]
    for name, command in _leaves(group, "percdl"):
        options = command.get_params(typer.Context(command))
        parts += [f"## {name}", _paragraphs(command.help), _table(options)]
    text = "\n\n".join(parts) + "\n"
    path = Path(app.srcdir) / PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _leaves(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group and its subgroups with their full names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _paragraphs(help: str) -> str:
    """Return the help of a command; a paragraph with a command line becomes a code block."""
    paragraphs = [" ".join(part.split()) for part in help.strip().split("\n\n")]
    return "\n\n".join(
        f"```sh\n{part}\n```" if part.startswith("percdl ") else part for part in paragraphs
    )


def _table(options: list[Any]) -> str:
    rows = ["| option | meaning | default |", "|---|---|---|"]
    for option in options:
        if option.name == "help" or getattr(option, "hidden", False):
            continue
        is_argument = option.param_type_name == "argument"
        names = [option.metavar or option.name.upper()] if is_argument else option.opts
        names = [*names, *getattr(option, "secondary_opts", [])]
        shown = ", ".join(f"`{name}`" for name in names)
        default = option.default if getattr(option, "show_default", False) else None
        default = "" if default is None or default is False or callable(default) else default
        needed = "required" if option.required else f"`{default}`" if default != "" else ""
        help = " ".join((getattr(option, "help", None) or "").split()).replace("|", "\\|")
        rows.append(f"| {shown} | {help} | {needed} |")
    return "\n".join(rows)
