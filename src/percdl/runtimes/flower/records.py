"""Requests and replies as records of Flower: arrays as arrays, all else as one JSON text."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from percdl.exceptions import FederationError
from percdl.runtimes.messages import Kind, Reply, Request
from percdl.signals.contents import read_json

KINDS: tuple[str, ...] = get_args(Kind)
_ARRAYS, _SAID, _TEXT = "arrays", "said", "json"
_HEADER = {"kind": str, "run": str, "round": int, "attempt": int, "facts": dict}
# A site that refuses says so in the place of a reply.
_REFUSED = "refused"


def to_records(message: Request | Reply) -> RecordDict:
    """Return a message as records; arrays keep their types and shapes."""
    said = {name: getattr(message, name) for name in _HEADER}
    if isinstance(message, Reply):
        said["site"] = message.site
    arrays = {name: Array(np.asarray(array)) for name, array in message.arrays.items()}
    return RecordDict({_ARRAYS: ArrayRecord(arrays), _SAID: _spoken(said)})


def refusal_records(why: str) -> RecordDict:
    """Return the records of a site that does not answer, and says why."""
    return RecordDict({_SAID: _spoken({_REFUSED: why})})


def read_request(records: RecordDict) -> Request:
    """Read a request back; raise where the records hold something else."""
    return Request(**_fields(_heard(records)), arrays=_arrays(records))


def read_reply(records: RecordDict) -> Reply | str:
    """Read a reply back, or why the site refused; raise where the records hold something else."""
    said = _heard(records)
    if isinstance(said.get(_REFUSED), str):
        return said[_REFUSED]
    return Reply(**_fields(said), site=str(said.get("site")), arrays=_arrays(records))


def _fields(said: dict[str, Any]) -> dict[str, Any]:
    """Return what all messages say; none of it is taken on trust."""
    wrong = [name for name, kind in _HEADER.items() if not isinstance(said.get(name), kind)]
    if wrong or said["kind"] not in KINDS:
        raise FederationError(
            f"what came is no message of a federation ({', '.join(wrong) or 'kind'})."
        )
    return {name: said[name] for name in _HEADER}


def _spoken(said: dict[str, Any]) -> ConfigRecord:
    return ConfigRecord({_TEXT: json.dumps(said)})


def _heard(records: RecordDict) -> dict[str, Any]:
    try:
        said = read_json(str(records.config_records[_SAID][_TEXT]))
    except (KeyError, ValueError) as error:
        raise FederationError("what came holds no readable text.") from error
    if not isinstance(said, dict):
        raise FederationError("what came holds no readable text.")
    return said


def _arrays(records: RecordDict) -> dict[str, np.ndarray]:
    try:
        return {name: array.numpy() for name, array in records.array_records[_ARRAYS].items()}
    except Exception as error:  # NumPy raises whatever a malformed header leads to
        raise FederationError("the arrays that came cannot be read.") from error
