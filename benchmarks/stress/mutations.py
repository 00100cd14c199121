"""Ways to damage and to forge a file: each a function of the file and of a random generator."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from percdl.estimators.container import Arrays, checksum

Rng = np.random.Generator
LONG, DEEP = "9" * 5000, "[" * 100_000
# What a number, a name or a list in a file may turn into.
NASTY: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 3, 10**9, 10**18, -(10**18), 2**70, 0.5, -0.5, 1e308, -1e308,
    float("nan"), float("inf"), "", "auto", "os.system", "__class__", "../../etc/passwd",
    "x" * 5000, "\0", [], [[]], [None], {}, {"transform": "os.system"}, {"array": "dictionary_"},
    {"array": "/etc/passwd"}, {"coder": "eval"}, {"motif": {"subject": 1, "onset": -1}},
    {"compose": []}, {"compose": [{"transform": "TimeWarp", "depth": 10**9}]},
    {"transform": "TimeWarp", "depth": 10**9, "width": 10**9}, {"transform": "Custom"},
)  # fmt: skip


class Mutant(NamedTuple):
    """A changed file: the change, its bytes, and whether its checksum is valid."""

    name: str
    content: bytes
    signed: bool


def damaged(whole: bytes, rng: Rng, count: int) -> Iterator[Mutant]:
    """Yield files as bad luck makes them: bits, ends and sizes, the checksum as it was."""
    for name, content in (*_cuts(whole), *_headers(whole)):
        yield Mutant(name, content, False)
    for i in range(count):
        content = bytearray(whole)
        for position in rng.integers(0, 8 * len(whole), 1 + i % 3):
            content[position // 8] ^= 1 << (position % 8)
        yield Mutant(f"bits flipped, {i}", bytes(content), False)


def forged(whole: bytes, rng: Rng, count: int) -> Iterator[Mutant]:
    """Yield forged files: changed as a whole, with a valid checksum."""
    metadata, arrays = split(whole)
    changes = (*_TEXTS.items(), *((f"array {f.__name__}", f) for f in _ARRAY_CHANGES))
    for name, change in changes:
        told, tensors = dict(metadata), dict(arrays)
        change(told, tensors, rng)
        yield Mutant(name, sign(told, tensors), True)
    for i in range(count):
        told, tensors = dict(metadata), dict(arrays)
        name = "array"
        if i % 2:
            content = json.loads(told["content"])
            name = change_json(content, rng)
            told["content"] = json.dumps(content)
        else:
            change = _ARRAY_CHANGES[int(rng.integers(len(_ARRAY_CHANGES)))]
            change(told, tensors, rng)
            name = f"array {change.__name__}"
        yield Mutant(f"{name}, {i}", sign(told, tensors), True)


def split(whole: bytes) -> tuple[dict[str, str], Arrays]:
    """Return the metadata and the arrays of a file."""
    return json.loads(whole[8 : 8 + _header_size(whole)])["__metadata__"], load(whole)


def sign(metadata: dict[str, Any], arrays: Arrays) -> bytes:
    """Write a file with the checksum that it ought to have."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    signed = {**metadata, "checksum": checksum(whole, metadata.get("content", ""))}
    return save(whole, metadata=signed)


def change_json(content: Any, rng: Rng) -> str:
    """Change one place of a JSON value, by luck; return what was done."""
    places = list(_places(content))
    holder, key = places[int(rng.integers(len(places)))]
    action = int(rng.integers(6))
    if action == 0:
        del holder[key]
        return f"{key} deleted"
    if action == 1 and isinstance(holder, dict):
        holder[f"{key}_"] = holder[key]
        return f"{key} doubled"
    if action == 2 and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] * 1.5 + 1
        return f"{key} other number"
    holder[key] = NASTY[int(rng.integers(len(NASTY)))]
    return f"{key} is {str(holder[key])[:20]}"


def others() -> dict[str, bytes]:
    """Return files of other kinds."""
    return {
        "empty": b"",
        "text": b"subject,atom,onset\nP01,0,12\n",
        "pickle": pickle.dumps({"dictionary_": [1.0]}),
        # A pickle that would run a command, were it loaded.
        "pickle of code": b"cos\nsystem\n(S'touch percdl-was-here'\ntR.",
        "zip": b"PK\x03\x04" + bytes(60),
        "npy of objects": b"\x93NUMPY\x01\x00F\x00{'descr': '|O', 'fortran_order': False, "
        b"'shape': (1,), }" + b" " * 8 + b"\n" + pickle.dumps([print]),
        "zeros": bytes(4096),
        "script": b"#!/bin/sh\ntouch percdl-was-here\n",
        "deep header": struct.pack("<Q", len(DEEP)) + DEEP.encode(),
    }


def _header_size(whole: bytes) -> int:
    return struct.unpack("<Q", whole[:8])[0]


def _cuts(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Cut at each boundary, one byte before and after, and append."""
    start = 8 + _header_size(whole)
    header = json.loads(whole[8:start])
    ends = {start + entry["data_offsets"][1] for n, entry in header.items() if n[:2] != "__"}
    for boundary in sorted({0, 8, start, *ends}):
        for length in {boundary - 1, boundary, boundary + 1}:
            if 0 <= length < len(whole):
                yield f"cut to {length}", whole[:length]
    yield "a byte more", whole + b"\0"
    yield "twice", whole + whole


def _headers(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """State wrong sizes, shapes, offsets and types."""
    start = 8 + _header_size(whole)
    for size in (0, 1, 2**31, 2**53, 2**63, 2**64 - 1):
        yield f"header of {size}", struct.pack("<Q", size) + whole[8:]
    header = json.loads(whole[8:start])
    names = [name for name in header if name[:2] != "__"]
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "huge shape": lambda entry: entry.update(shape=[2**40]),
        "overflowing shape": lambda entry: entry.update(shape=[2**32, 2**32, 2**32]),
        "empty huge shape": lambda entry: entry.update(shape=[0, 2**62]),
        "negative shape": lambda entry: entry.update(shape=[-1]),
        "many axes": lambda entry: entry.update(shape=[1] * 100),
        "far offsets": lambda entry: entry.update(data_offsets=[2**40, 2**41]),
        "reversed offsets": lambda entry: entry.update(data_offsets=entry["data_offsets"][::-1]),
        "bfloat": lambda entry: entry.update(dtype="BF16"),
        "quarter": lambda entry: entry.update(dtype="F8_E4M3"),
        "no type": lambda entry: entry.update(dtype="OBJECT"),
        "complex": lambda entry: entry.update(dtype="C64"),
    }
    for i, (name, change) in enumerate(changes.items()):
        other = json.loads(whole[8:start])
        change(other[names[i % len(names)]])
        text = json.dumps(other).encode()
        yield name, struct.pack("<Q", len(text)) + text + whole[start:]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON value, as its holder and its key or index."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)) and value[key]:
            yield from _places(value[key])


def _told(**changes: Any) -> Callable[..., None]:
    def change(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
        for name, value in changes.items():
            if value is None:
                metadata.pop(name)
            else:
                metadata[name] = value

    return change


def _text(replace: Callable[[str], str]) -> Callable[..., None]:
    def change(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
        metadata["content"] = replace(metadata["content"])

    return change


_TEXTS: dict[str, Callable[..., None]] = {
    **{
        f"schema {schema[:9]}": _told(schema=schema)
        for schema in ("2", "99999", "-1", "0", "1.5", "one", "", LONG)
    },
    "no schema": _told(schema=None),
    "no content": _told(content=None),
    "no format": _told(format=None),
    "another format": _told(format="pt"),
    "another of ours": _told(format="percdl-other"),
    "no JSON": _text(lambda text: text[:-1]),
    "a list": _text(lambda text: "[]"),
    "a number": _text(lambda text: "1"),
    "deep": _text(lambda text: DEEP),
    "deep objects": _text(lambda text: '{"model":' * 50_000),
    "deep settings": _text(
        lambda text: text[:-1] + ', "settings": ' + "[" * 800 + "]" * 800 + "}"
    ),
    "many digits": _text(lambda text: text[:-1] + f', "more": {LONG}}}'),
    "a name twice": _text(lambda text: text[:-1] + ', "model": "PerCDL"}'),
    "not finite": _text(lambda text: text.replace(": 0.3", ": NaN")),
    "infinite": _text(lambda text: text.replace(": 0.3", ": 1e999")),
    "twice": _text(lambda text: text + text),
}


def _pick(arrays: Arrays, rng: Rng) -> str:
    return sorted(arrays)[int(rng.integers(len(arrays)))]


def swapped(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Give two arrays each other's name."""
    one, two = _pick(arrays, rng), _pick(arrays, rng)
    arrays[one], arrays[two] = arrays[two], arrays[one]


def renamed(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Give an array another name."""
    name = _pick(arrays, rng)
    arrays[str(rng.choice([f"{name}_", "__class__", "../x", name.upper()]))] = arrays.pop(name)


def missing(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Leave an array out."""
    del arrays[_pick(arrays, rng)]


def more(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Add an array."""
    arrays[str(rng.choice(["more", "best/dictionary", "site/chunk9/0"]))] = rng.normal(size=(2, 2))


def retyped(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Write an array as numbers of another type."""
    types = ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"]
    name = _pick(arrays, rng)
    with np.errstate(invalid="ignore", over="ignore"):
        arrays[name] = arrays[name].astype(str(rng.choice(types)))


def reshaped(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Write an array in another shape: flat, with an axis more, or its axes turned."""
    name = _pick(arrays, rng)
    array = arrays[name]
    arrays[name] = [array.ravel(), array[None], array.T, array[..., None]][int(rng.integers(4))]


def resized(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Make an axis shorter, longer or empty."""
    name = _pick(arrays, rng)
    array = np.atleast_1d(arrays[name])
    axis = int(rng.integers(array.ndim))
    count = [0, max(array.shape[axis] - 1, 0), array.shape[axis] + 1][int(rng.integers(3))]
    arrays[name] = np.resize(array, (*array.shape[:axis], count, *array.shape[axis + 1 :]))


def poisoned(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Put a number into an array that does not belong there."""
    name = _pick(arrays, rng)
    array = np.array(arrays[name])
    if array.size:
        real = [np.nan, np.inf, -np.inf, 1e300, -1e300, -1.0, 0.0, 1e-300, 1.0]
        whole = [-1, 2**31 - 1, 0, 1, 120, 100]
        values = real if array.dtype.kind == "f" else whole
        value = values[int(rng.integers(len(values)))]
        with np.errstate(over="ignore", invalid="ignore"):
            array.flat[int(rng.integers(array.size))] = np.array(value).astype(array.dtype)
    arrays[name] = array


def flipped(metadata: dict[str, str], arrays: Arrays, rng: Rng) -> None:
    """Flip a bit of an array."""
    name = _pick(arrays, rng)
    content = bytearray(arrays[name].tobytes())
    if content:
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    arrays[name] = np.frombuffer(bytes(content), arrays[name].dtype).reshape(arrays[name].shape)


_ARRAY_CHANGES = (
    swapped, renamed, missing, more, retyped, reshaped, resized, poisoned, poisoned, flipped,
)  # fmt: skip
