"""TOML files of a federation: one for the server, one for each site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf

from percdl.cli.data_options import DataOptions
from percdl.cli.model_options import ModelOptions
from percdl.cli.options import check_table, read_toml, types_of, validate
from percdl.cli.output import fail


def _beside(path: Path, info: Any) -> Path:
    """Return a path relative to the folder of the file that names it."""
    try:
        return info.context / path.expanduser()
    except RuntimeError as error:  # the home of an unknown user
        raise ValueError(str(error)) from error


Beside = Annotated[Path, Field(strict=False), AfterValidator(_beside)]
Seconds = Annotated[float, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]


class _Table(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=lambda x: x.replace("_", "-")
    )


class ServerPlan(_Table):
    """The tables ``[server]``, ``[sites]`` (node keys) and ``[model]``; times in seconds."""

    run: str
    folder: Beside
    authority: Beside
    certificate: Beside
    key: Beside
    host: str = "127.0.0.1"
    port: Port = 8000
    min_sites: int = 2
    min_subjects: int = 1
    secure: bool | Literal["auto"] = "auto"
    init: Beside | None = None
    timeout: Seconds = 600.0
    wait: Seconds = 3600.0
    sites: Annotated[dict[str, Beside], Field(min_length=1)]
    model: InstanceOf[ModelOptions]


class SitePlan(_Table):
    """The tables ``[site]``, with the conditions of `Consent`, and ``[data]``."""

    name: str
    server: str
    folder: Beside
    authority: Beside
    node: Beside
    identity: Beside | None = None
    registered: Beside | None = None
    min_subjects: Annotated[int, Field(ge=1)] = 1
    min_sites: Annotated[int, Field(ge=2)] = 2
    require_secure: bool | None = None
    all_members: bool = False
    agreement: str | None = None
    report: bool = True
    port: Port | None = None
    retry: Seconds = 20.0
    stay: bool = False
    data: InstanceOf[DataOptions]


def read_server_file(path: Path) -> ServerPlan:
    """Read the file of a server; exits with a message where it is not valid."""
    content = _read(path, {"server", "sites", "model"})
    model = ModelOptions.from_table(content.get("model", {}), f"{path} [model]")
    more = {"sites": content.get("sites", {}), "model": model}
    table = content.get("server", {}) | more
    return validate(ServerPlan, table, f"{path} [server]", ServerPlan.model_fields, path.parent)


def read_site_file(path: Path) -> SitePlan:
    """Read the file of a site; exits with a message where it is not valid."""
    content = _read(path, {"site", "data"})
    table = check_table(content.get("data", {}), types_of(DataOptions), f"{path} [data]")
    given = {"data": table.get("data") or [], "metadata": [table.get("metadata")]}
    files = validate(dict[str, list[Beside | None]], given, f"{path} [data]", (), path.parent)
    names = list(map(str, files["data"]))
    data = replace(DataOptions(**table), data=names, metadata=files["metadata"][0])
    table = content.get("site", {}) | {"data": data}
    return validate(SitePlan, table, f"{path} [site]", SitePlan.model_fields, path.parent)


def _read(path: Path, tables: set[str]) -> dict[str, Any]:
    content = read_toml(path)
    for name, table in content.items():
        if name not in tables or not isinstance(table, dict):
            fail(f"{path} has {name!r}; only the tables {', '.join(sorted(tables))} are known.")
    return content
