"""The files of models and of checkpoints: safetensors with JSON metadata, checksummed, atomic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from percdl import __version__
from percdl.exceptions import ModelFileError
from percdl.signals.files import COMMON, PRIVATE, replace_file
from percdl.signals.headers import read_json

SCHEMA = 2
MODEL, CHECKPOINT, FEDERATION = "percdl", "percdl-checkpoint", "percdl-federation"
# The name of a kind of file in messages, what to do if it was needed, and if it was not.
NAMES = {
    MODEL: (
        "a PerCDL model file",
        "Pass a file written by `model.save`.",
        "Its fit is finished. Start another one from it: `percdl fit --init FILE`.",
    ),
    CHECKPOINT: (
        "a checkpoint of a fit",
        "Start that fit again.",
        "Finish that fit: `percdl fit --resume FILE`.",
    ),
    FEDERATION: (
        "the state of a federated fit",
        "Start that fit again.",
        "Continue that fit: `percdl federate join`.",
    ),
}

Arrays = dict[str, np.ndarray]


def write(path: Any, kind: str, content: dict[str, Any], arrays: Arrays) -> None:
    """Write content (JSON) and arrays, atomically; files of a federation for this account only."""
    text = json.dumps(content)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": kind,
        "schema": str(SCHEMA),
        "version": __version__,
        "content": text,
        "checksum": checksum(arrays, text),
    }
    mode = PRIVATE if kind == FEDERATION else COMMON
    replace_file(Path(path), _in_order(to_bytes(arrays, metadata=metadata)), mode)


def _in_order(file: bytes) -> bytes:
    """Return the file with its metadata sorted by name: safetensors writes it in random order.

    A file begins with the length of its header, in eight bytes; the header is JSON, padded to a
    multiple of eight.
    """
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, memoryview(file)[end:]))


def read(path: Any, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return content and arrays; a checksum detects damage, not forgery: check the content."""
    with _opened(path, kind) as file:
        metadata = file.metadata() or {}
        _check(path, kind, metadata)
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        if checksum(arrays, metadata["content"]) != metadata["checksum"]:
            raise ModelFileError(f"{path} is damaged: its checksum does not match its content.")
        content = read_json(metadata["content"])
        if not isinstance(content, dict):
            raise ValueError("its content is not an object")
        return content, arrays


def origin_of(path: Any) -> tuple[str | None, str | None]:
    """Return the kind of a file, None if PerCDL did not write it, and the version that did."""
    with _opened(path, MODEL) as file:
        metadata = file.metadata() or {}
    return metadata.get("format"), metadata.get("version")


def is_container(path: Path) -> bool:
    """Return whether a file looks like a model or a checkpoint; damaged ones do as well."""
    with open(path, "rb") as file:
        return file.read(9)[8:] == b"{"


def prefixed(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return arrays, or other values, with a prefix in front of their names."""
    return {f"{prefix}{name}": value for name, value in values.items()}


def under(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): x for name, x in values.items() if name.startswith(prefix)}


@contextmanager
def naming(path: Any, kind: str) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except ModelFileError:
        raise
    # Types of numbers that NumPy does not know are missing attributes of it.
    except (SafetensorError, AttributeError, LookupError, TypeError, ValueError) as error:
        name, advice, _ = NAMES[kind]
        raise ModelFileError(
            f"{path} is not {name}, or it is damaged ({error}). {advice}"
        ) from error


@contextmanager
def _opened(path: Any, kind: str) -> Iterator[Any]:
    # Opening a pipe would wait for its writer.
    if not Path(path).is_file():
        what = "model file" if kind == MODEL else "checkpoint"
        raise FileNotFoundError(f"There is no {what} at {path}.")
    with naming(path, kind), safe_open(path, framework="numpy") as file:
        yield file


def checksum(arrays: Arrays, content: str) -> str:
    """Return the SHA-256 sum of the content and the arrays of a file."""
    digest = hashlib.sha256(content.encode())
    for name in sorted(arrays):
        array = arrays[name]
        # Empty arrays of different shapes have the same bytes.
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _check(path: Any, kind: str, metadata: dict[str, str]) -> None:
    found, (name, needed, _) = metadata.get("format"), NAMES[kind]
    version = metadata.get("version")
    if found != kind:
        what, _, advice = NAMES.get(found or "", (None, None, needed))
        raise ModelFileError(f"{path} is {f'{what}, not' if what else 'not'} {name}. {advice}")
    schema = int(metadata["schema"])
    if schema == 1 and kind != MODEL:
        raise ModelFileError(
            f"{path} was written by PerCDL {version}. This version reads models of 0.1, not its "
            "checkpoints. Finish that fit with that version, or start it again."
        )
    if not 1 <= schema <= SCHEMA:
        raise ModelFileError(
            f"{path} was written by PerCDL {version} in a newer format (schema {schema}, this "
            f"version reads up to {SCHEMA}). Upgrade percdl."
        )
