"""TOML files of a federation: one for the person who invites, one for each site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, InstanceOf

from percdl.cli.data_options import DataOptions
from percdl.cli.model_options import ModelOptions
from percdl.cli.options import check_table, read_toml, types_of, validate
from percdl.cli.output import fail

if TYPE_CHECKING:
    from percdl.federated.manifest import Invitation


def _beside(path: Path, info: Any) -> Path:
    """Return a path relative to the folder of the file that names it."""
    try:
        return info.context / path.expanduser()
    except RuntimeError as error:  # the home of an unknown user
        raise ValueError(str(error)) from error


Beside = Annotated[Path, Field(strict=False), AfterValidator(_beside)]
Amount = Annotated[float, Field(gt=0)]
Budget = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=lambda x: x.replace("_", "-")
    )


class FederationPlan(_Table):
    """The tables ``[federation]``, ``[members]`` (public keys) and ``[model]``."""

    run: str
    server: str
    authority: Beside
    min_subjects: Annotated[int, Field(ge=1)] = 5
    dataset: str = ""
    secure: bool | Literal["auto"] = "auto"
    aggregate: Literal["sites", "server"] = "sites"
    init: Beside | None = None
    epsilon: Amount | None = None
    delta: Amount = 1e-5
    clip: Amount = 1.5
    members: Annotated[dict[str, Beside], Field(min_length=2)]
    model: InstanceOf[ModelOptions]


class SitePlan(_Table):
    """The tables ``[site]``, with the conditions of `Consent`, and ``[data]``.

    ``person`` is the column of the metadata that identifies people with several recordings.
    """

    identity: Beside
    folder: Beside
    min_subjects: Annotated[int, Field(ge=1)] = 5
    min_sites: Annotated[int, Field(ge=2)] = 2
    allow_plain: bool = False
    trust_server: bool = False
    other_members: bool = False
    max_epsilon: Budget | None = None
    max_delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    dataset: str = ""
    manifest: str | None = None
    person: str | None = None
    report: bool = True
    patience: Amount = 3600.0
    data: InstanceOf[DataOptions]


def read_federation_file(path: Path) -> FederationPlan:
    """Read the file of the person who invites; exits with a message if it is not valid."""
    content = _read(path, {"federation", "members", "model"})
    model = ModelOptions.from_table(content.get("model", {}), f"{path} [model]")
    table = content.get("federation", {}) | {"members": content.get("members", {}), "model": model}
    fields, title = FederationPlan.model_fields, f"{path} [federation]"
    return validate(FederationPlan, table, title, fields, path.parent)


def read_site_file(path: Path) -> SitePlan:
    """Read the file of a site; exits with a message if it is not valid."""
    content = _read(path, {"site", "data"})
    table = check_table(content.get("data", {}), types_of(DataOptions), f"{path} [data]")
    given = {"data": table.get("data") or [], "metadata": [table.get("metadata")]}
    files = validate(dict[str, list[Beside | None]], given, f"{path} [data]", (), path.parent)
    names = list(map(str, files["data"]))
    data = replace(DataOptions(**table), data=names, metadata=files["metadata"][0])
    table = content.get("site", {}) | {"data": data}
    return validate(SitePlan, table, f"{path} [site]", SitePlan.model_fields, path.parent)


def read_invitation_file(path: Path) -> Invitation:
    """Read an invitation; raises an error with a message if it is not valid."""
    from percdl.federated.manifest import Invitation

    return Invitation.read(read_toml(path), path)


def _read(path: Path, tables: set[str]) -> dict[str, Any]:
    content = read_toml(path)
    for name, table in content.items():
        if name not in tables or not isinstance(table, dict):
            fail(f"{path} has {name!r}; only the tables {', '.join(sorted(tables))} are known.")
    return content
