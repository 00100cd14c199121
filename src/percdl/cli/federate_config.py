"""The TOML files of a federation: what a server does, what a site does."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer

from percdl.cli.data_options import DataOptions
from percdl.cli.errors import fail
from percdl.cli.model_options import ModelOptions


@dataclass(frozen=True)
class ServerTable:
    """The table ``[server]``, and ``[sites]`` and ``[model]`` beside it.

    Paths are relative to the file, times are in seconds. ``init`` is a model whose atoms are the
    first ones; without it, the sites find them together.
    """

    run: str
    folder: Path
    authority: Path
    certificate: Path
    key: Path
    host: str = "127.0.0.1"
    port: int = 8000
    min_sites: int = 2
    min_subjects: int = 1
    secure: bool | str = "auto"
    init: Path | None = None
    timeout: float = 600.0
    wait: float = 3600.0
    sites: dict[str, Path] = field(default_factory=dict)
    model: ModelOptions = field(default_factory=lambda: ModelOptions.from_table({}, "[model]"))


@dataclass(frozen=True)
class SiteTable:
    """The table ``[site]``, and ``[data]`` beside it.

    What the site consents to is as in `Consent`; ``require_secure`` is the opposite of
    ``allow_plain``.
    """

    name: str
    server: str
    folder: Path
    authority: Path
    node: Path
    identity: Path | None = None
    registered: Path | None = None
    min_subjects: int = 1
    min_sites: int = 2
    require_secure: bool | None = None
    all_members: bool = False
    agreement: str | None = None
    report: bool = True
    port: int | None = None
    retry: float = 20.0
    stay: bool = False
    data: DataOptions = field(default_factory=DataOptions)


def read_server_file(path: Path) -> ServerTable:
    """Read what a server is to do; leave with a message where the file does not say it."""
    content = _read(path, {"server", "sites", "model"})
    sites = {
        str(name): _convert(file, Path, path, f"sites.{name}")
        for name, file in content.get("sites", {}).items()
    }
    if not sites:
        fail(f'{path} has no table [sites], with a line SITE = "SITE.nodepub" for each.')
    model = ModelOptions.from_table(content.get("model", {}), f"{path} [model]")
    more = {"sites": sites, "model": model}
    return fill(ServerTable, content.get("server", {}), path, "server", more)


def read_site_file(path: Path) -> SiteTable:
    """Read what a site is to do; leave with a message where the file does not say it."""
    content = _read(path, {"site", "data"})
    table = dict(content.get("data", {}))
    named = _convert(table.get("data", []), list[str], path, "data.data")
    table["data"] = [str(_convert(one, Path, path, "data.data")) for one in named]
    data = fill(DataOptions, table, path, "data")
    return fill(SiteTable, content.get("site", {}), path, "site", {"data": data})


def fill(
    group: type[Any],
    table: Mapping[str, Any],
    path: Path,
    where: str,
    more: Mapping[str, Any] | None = None,
) -> Any:
    """Return a dataclass filled from a table; unknown, missing and wrong values are refused."""
    hints = get_type_hints(group, include_extras=True)
    given: dict[str, Any] = dict(more or {})
    known = [one for one in fields(group) if one.name not in given and one.name != "config"]
    said = {key.replace("-", "_"): value for key, value in table.items()}
    for key in said:
        if key not in {one.name for one in known}:
            names = ", ".join(sorted(one.name.replace("_", "-") for one in known))
            fail(
                f"{path} sets {key.replace('_', '-')!r} in [{where}], which has no such key. "
                f"Known: {names}."
            )
    for one in known:
        if one.name in said:
            name = f"{where}.{one.name.replace('_', '-')}"
            given[one.name] = _convert(said[one.name], hints[one.name], path, name)
        elif one.default is MISSING and one.default_factory is MISSING:
            fail(f"{path} does not say {one.name.replace('_', '-')} in [{where}].")
    return group(**given)


def _read(path: Path, tables: set[str]) -> dict[str, Any]:
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        fail(f"{path} cannot be read ({error.strerror}).")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        fail(f"{path} is not a TOML file: {error}.")
    for name, table in content.items():
        if name not in tables or not isinstance(table, dict):
            fail(f"{path} says {name!r}; it has tables {', '.join(sorted(tables))} and no more.")
    return content


def _convert(value: Any, hint: Any, path: Path, name: str) -> Any:
    """Return a value as its field has it; options of other commands are checked as there."""
    notes = getattr(hint, "__metadata__", ())
    kinds = _kinds(get_args(hint)[0] if notes else hint)
    converted = next(
        (found for kind in kinds if (found := _as(value, kind, path)) is not None), None
    )
    if converted is None:
        wanted = " or ".join(getattr(kind, "__name__", str(kind)).lower() for kind in kinds)
        fail(f"{path} says {name} = {value!r}, where a {wanted} belongs.")
    for note in notes:
        _check(note, converted, path, name)
    return converted


def _kinds(hint: Any) -> list[Any]:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [kind for kind in parts if kind is not type(None)]


def _as(value: Any, kind: Any, path: Path) -> Any:
    """Return a value as one kind, or None where it is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is Path:
        return _as_path(value, path)
    if kind is str:
        return str(value) if isinstance(value, str) or number else None
    if kind is float:
        return _as_float(value) if number else None
    if kind is int:
        return value if number and isinstance(value, int) else None
    if kind is bool:
        return value if isinstance(value, bool) else None
    return _as_list(value, kind, path)


def _as_path(value: Any, path: Path) -> Path | None:
    """Return a path, seen from the file that names it."""
    if not isinstance(value, str) or "\x00" in value:
        return None
    try:
        return path.parent / Path(value).expanduser()
    except RuntimeError:  # the home of somebody unknown
        return None


def _as_float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats
        return None


def _as_list(value: Any, kind: Any, path: Path) -> Any:
    """Return a list of texts, or numbers as many as a tuple has; None for anything else."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        return None
    if get_origin(kind) is not tuple:
        texts = [_as(one, str, path) for one in listed]
        return None if None in texts else texts
    numbers = tuple(_as(one, float, path) for one in listed)
    return None if None in numbers or len(numbers) != len(get_args(kind)) else numbers


def _check(note: Any, value: Any, path: Path, name: str) -> None:
    """Apply the check and the bound of an option."""
    least = getattr(note, "min", None)
    if least is not None and value < least:
        fail(f"{path} says {name} = {value!r}, which must be at least {least}.")
    check = getattr(note, "callback", None)
    if check is None or name.startswith("data."):  # there, callbacks look at the command line
        return
    try:
        check(value)
    except typer.BadParameter as error:
        fail(f"{path}, {name}: {error}")
