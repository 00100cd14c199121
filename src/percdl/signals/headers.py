"""Schemas of the JSON headers in NPZ archives of cohorts and in folders of shards.

Imported on first use, since pydantic is not needed to import the package.
"""

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from percdl.exceptions import UnreadableFileError

H = TypeVar("H", bound="Header")
Positive = Annotated[int, Field(ge=1)]
Checksum = Annotated[int, Field(ge=0, lt=2**32)]


class Header(BaseModel):
    """Fields of the declared types only."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class RecordingLabels(Header):
    """The labels of one recording."""

    sfreq: float
    channels: list[str]
    units: list[str]
    subject: str | None
    group: str | None
    processing: list[str]


class CohortHeader(Header):
    """The header of an NPZ archive written by `Cohort.to_npz`."""

    layout: Positive = Field(alias="schema")
    recordings: list[RecordingLabels]


class ShardHeader(Header):
    """One shard: a file in the folder, its number of recordings and its size."""

    file: str = Field(pattern=r"^shard-\d{6,}\.(npy|npz)$")
    count: Positive
    bytes: Positive
    checksum: Checksum | None = None  # layout 1


class RecordingTable(Header):
    """One entry per recording in each column."""

    subject: list[str] = Field(min_length=1)
    group: list[str | None]
    length: list[Positive]
    power: list[float]
    masks: list[Annotated[int, Field(ge=0)]]
    empty: list[bool]
    flat: list[bool]
    checksum: list[Checksum] | None = None  # from layout 2 on

    @model_validator(mode="after")
    def _check(self) -> "RecordingTable":
        columns = [column for _, column in self if column is not None]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("columns have different lengths")
        if len(set(self.subject)) != len(self.subject):
            raise ValueError("a subject is listed twice")
        if any(power < 0 for power in self.power):
            raise ValueError("a power is negative")
        return self


class ShardIndex(Header):
    """The index of a folder of shards written by `write_shards`."""

    layout: Positive = Field(alias="schema")
    channels: list[str] = Field(min_length=1)
    units: list[str]
    sfreq: float = Field(gt=0, allow_inf_nan=False)
    processing: list[str]
    shards: list[ShardHeader] = Field(min_length=1)
    recordings: RecordingTable
    checksum: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "ShardIndex":
        if sum(shard.count for shard in self.shards) != len(self.recordings.subject):
            raise ValueError("shards and recordings do not match")
        if len({shard.file for shard in self.shards}) != len(self.shards):
            raise ValueError("a shard is listed twice")
        n_channels = len(self.channels)
        if len(self.units) != n_channels or not set(self.recordings.masks) <= {0, 1, n_channels}:
            raise ValueError("units or masks do not match the channels")
        return self


def parse_json(text: str) -> Any:
    """Parse JSON; raise `ValueError` for any damage."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


def validate(model: type[H], content: Any, newest: int, path: Path) -> H:
    """Return the header; raise `ValueError` where it does not match its schema."""
    layout = content.get("schema") if isinstance(content, dict) else None
    if isinstance(layout, int) and layout > newest:
        raise UnreadableFileError(
            f"{path} was written by a newer version of PerCDL (layout {layout}, known up to "
            f"{newest}). Update percdl."
        )
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
