"""Settings in TOML files: of commands, of servers, of sites."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import typer

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens, mutate
from benchmarks.stress.fuzz.engine import WrongResultError
from percdl.cli import app
from percdl.cli.data_options import DataOptions
from percdl.cli.federate_config import SitePlan, read_federation_file, read_site_file
from percdl.cli.model_options import ModelOptions
from percdl.cli.options import types_of
from percdl.cli.output import CommandError
from percdl.exceptions import PerCDLError

# A command prints the message of each, that of the operating system too (a name that is too long).
REFUSALS = (CommandError, PerCDLError, typer.BadParameter, OSError)
MODEL = {
    "n-atoms": 2,
    "atom-length": "320ms",
    "penalty": 0.3,
    "depth": 1,
    "transformation": "warp",
}
DATA = {"channels": ["x"], "sfreq": 50, "data": ["walks"], "bandpass": [1.0, 9.0]}
TOKENS = (
    b"[",
    b"]",
    b"=",
    b"{",
    b'"""',
    b"\n",
    b"[[data]]",
    b"inf",
    b"1979-05-27",
    b"0x",
    b"\xff",
)


class Command:
    """``percdl fit --config FILE``, up to the point where recordings would be read."""

    name = "TOML of a command"
    documented = REFUSALS

    def __init__(self, folder: Path) -> None:
        self._file = folder / "fit.toml"
        group: Any = typer.main.get_command(app)
        self._group, self._command = group, group.commands["fit"]

    def case(self, draws: random.Random) -> None:
        """Let a command take its options from a file."""
        content = {**MODEL, "data": DATA, "fit": {"population-rounds": 2}, "suggest": {"seed": 3}}
        self._file.write_bytes(_written(draws, content, [*types_of(ModelOptions), *DATA]))
        parent = self._command.context_class(self._group, info_name="percdl")
        arguments = ["walks", "--config", str(self._file)]
        with self._command.make_context("fit", arguments, parent=parent) as context:
            names = types_of(ModelOptions).keys() & context.params.keys()
            options = ModelOptions(**{name: context.params[name] for name in names})
        _check_model(options)


class Federation:
    """The file of ``percdl federate invite``."""

    name = "TOML of a federation"
    documented = REFUSALS

    def __init__(self, folder: Path) -> None:
        self._file = folder / "federation.toml"

    def case(self, draws: random.Random) -> None:
        """Read the file of a federation."""
        table = {"run": "one", "server": "a:1", "authority": "ca.crt", "min-subjects": 3}
        members = {"lyon": "lyon.pub", "nice": "nice.pub"}
        content = {"federation": table, "members": members, "model": MODEL}
        self._file.write_bytes(_written(draws, content, ["epsilon", "secure", "init", "delta"]))
        plan = read_federation_file(self._file)
        good = isinstance(plan.authority, Path) and type(plan.min_subjects) is int
        if not plan.members or not good:
            raise WrongResultError(repr(plan))
        _check_model(plan.model)


class Site:
    """The file of a site of ``percdl federate join``."""

    name = "TOML of a site"
    documented = REFUSALS

    def __init__(self, folder: Path) -> None:
        self._file = folder / "site.toml"

    def case(self, draws: random.Random) -> None:
        """Read the file of a site."""
        site = {"identity": "lyon.key", "folder": "out", "min-subjects": 3}
        names = ["allow-plain", "max-epsilon"]
        self._file.write_bytes(_written(draws, {"site": site, "data": DATA}, names))
        table = read_site_file(self._file)
        good = isinstance(table, SitePlan) and isinstance(table.data, DataOptions)
        if not good or not all(isinstance(one, str) for one in table.data.data or []):
            raise WrongResultError(repr(table))


def _check_model(options: ModelOptions) -> None:
    """Build the model; what it cannot be is refused here or by a fit."""
    if not options.build().get_params():
        raise WrongResultError(repr(options))


def _written(draws: random.Random, content: dict[str, Any], names: list[str]) -> bytes:
    """Return a file in which some values and keys, and perhaps bytes, are odd."""
    tables = {key: dict(x) if isinstance(x, dict) else x for key, x in content.items()}
    for _ in range(draws.randrange(4)):
        table: Any = draws.choice([tables, *(x for x in tables.values() if isinstance(x, dict))])
        known = [*table, *names, junk.text(draws)]
        table[draws.choice(known)] = junk.json_value(draws)
    if happens(draws, 0.1):
        tables.pop(draws.choice(list(tables)))
    text = "".join(
        f"{_literal(key)} = {_literal(value)}\n"
        for key, value in tables.items()
        if not isinstance(value, dict)
    )
    for key, value in tables.items():
        if isinstance(value, dict):
            lines = "".join(f"{_literal(k)} = {_literal(v)}\n" for k, v in value.items())
            text += f"[{_literal(key)}]\n{lines}"
    raw = text.encode("utf-8", "replace")
    for _ in range(draws.randrange(3) if happens(draws, 0.3) else 0):
        raw = mutate(raw, draws, TOKENS)
    return raw


def _literal(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k)} = {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
