"""Schemas of the JSON headers in NPZ archives of cohorts and in folders of shards.

Imported on first use, since pydantic is not needed to import the package.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from percdl.exceptions import UnreadableFileError

H = TypeVar("H", bound="Strict")
Positive = Annotated[int, Field(ge=1)]
Checksum = Annotated[int, Field(ge=0, lt=2**32)]


class Strict(BaseModel):
    """Declared names and types only, without conversions; finite numbers; immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


# The fields of `Correction`.
Corrected = Annotated[
    tuple[float, float | None, int | None, Literal["keep", "remove", "only"], float | None],
    Field(strict=False),
]


class RecordingLabels(Strict):
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


class CohortHeader(Strict):
    """The header of an NPZ archive written by `Cohort.to_npz`."""

    layout: Literal[1] = Field(alias="schema")
    recordings: list[RecordingLabels]


class ShardHeader(Strict):
    """One shard: a file in the folder, its number of recordings and its size."""

    file: str = Field(pattern=r"^shard-\d{6,}\.(npy|npz)$")
    count: Positive
    bytes: Positive
    checksum: Checksum | None = None  # layout 1


class RecordingTable(Strict):
    """One entry per recording in each column."""

    subject: list[str] = Field(min_length=1)
    group: list[str | None]
    person: list[str | None] | None = None
    visit: list[str | None] | None = None
    corrections: list[list[Corrected]] | None = None
    length: list[Positive]
    power: list[Annotated[float, Field(allow_inf_nan=True)]]
    masks: list[Annotated[int, Field(ge=0)]]
    empty: list[bool]
    flat: list[bool]
    checksum: list[Checksum] | None = None  # from layout 2 on


class ShardIndex(Strict):
    """The index of a folder of shards written by `write_shards`."""

    layout: Literal[1, 2] = Field(alias="schema")
    channels: list[str] = Field(min_length=1)
    units: list[str]
    sfreq: float = Field(gt=0)
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
        raise UnreadableFileError(
            f"{path} is damaged, or was written by a newer version of PerCDL ({explain(error)}). "
            "Write the cohort again, or update percdl."
        ) from error


def explain(error: Exception) -> str:
    """Name the fields that a model refused, and why."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = [(".".join(map(str, e["loc"])), e["msg"]) for e in errors(include_url=False)]
    return "; ".join(f"{place}: {why}" if place else why for place, why in found[:3])


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
