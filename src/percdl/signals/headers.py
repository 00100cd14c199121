"""Schemas of the JSON headers in NPZ archives of cohorts and in folders of shards.

Imported on first use, since pydantic is not needed to import the package.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from percdl.exceptions import UnreadableFileError

H = TypeVar("H", bound="Header")
Positive = Annotated[int, Field(ge=1)]
Checksum = Annotated[int, Field(ge=0, lt=2**32)]


class Header(BaseModel):
    """Fields of the declared types only."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


# The fields of `Correction`.
Corrected = Annotated[
    tuple[float, float | None, int | None, Literal["keep", "remove", "only"], float | None],
    Field(strict=False),
]


class RecordingLabels(Header):
    """The labels of one recording."""

    sfreq: float
    channels: list[str]
    units: list[str]
    subject: str | None
    group: str | None
    person: str | None = None
    visit: str | None = None
    processing: list[str]
    corrections: list[Corrected] | None = None


class CohortHeader(Header):
    """The header of an NPZ archive written by `Cohort.to_npz`."""

    layout: Literal[1] = Field(alias="schema")
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
    person: list[str | None] | None = None
    visit: list[str | None] | None = None
    corrections: list[list[Corrected]] | None = None
    length: list[Positive]
    power: list[float]
    masks: list[Annotated[int, Field(ge=0)]]
    empty: list[bool]
    flat: list[bool]
    checksum: list[Checksum] | None = None  # from layout 2 on


class ShardIndex(Header):
    """The index of a folder of shards written by `write_shards`."""

    layout: Literal[1, 2] = Field(alias="schema")
    channels: list[str] = Field(min_length=1)
    units: list[str]
    sfreq: float = Field(gt=0, allow_inf_nan=False)
    processing: list[str]
    shards: list[ShardHeader] = Field(min_length=1)
    recordings: RecordingTable
    checksum: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "ShardIndex":
        columns = [column for _, column in self.recordings if column is not None]
        if {len(column) for column in columns} != {sum(shard.count for shard in self.shards)}:
            raise ValueError("shards and recordings do not match")
        return self


def read_header(model: type[H], text: str, path: Path) -> H:
    """Parse a header; the error names the file and the field."""
    try:
        return model.model_validate(read_json(text))
    except ValueError as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UnreadableFileError(
            f"{path} is damaged, or was written by a newer version of PerCDL ({reason}). Write "
            "the cohort again, or update percdl."
        ) from error


def read_json(text: str) -> Any:
    """Parse JSON; raise `ValueError` for repeated names and for nesting that is too deep."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in its JSON")
    return found
