"""Executables on disk: later processes load the programs that one process has compiled.

An executable is machine code, so it is loaded only from a folder and a file that belong to the
user and that no one else can write to, and only if its checksum is right. The name of a file is
a digest of everything that the code depends on: the program, its shapes and constants, the sources
of percdl, the versions of JAX and XLA, their flags, the device and its instruction set. If
anything is unexpected, the program is compiled as if nothing were stored.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import platform
import stat
import tempfile
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

logger = logging.getLogger(__name__)

# The folder holds at most this many bytes; the least recently used files are deleted first.
MOST_BYTES = 2**29
_SOURCES = ("steps", "transforms", "algorithm", "analysis", "federated")
_SUFFIX = ".executable"


def describe(name: str, static: tuple[Any, ...], *rest: Any) -> str | None:
    """Return the key of an executable; None if a static value has no stable description."""
    texts = [_describe_value(value) for value in static]
    if any(text is None for text in texts):
        return None
    return repr((name, texts, rest))


def load(description: str | None) -> Any:
    """Return the stored executable, ready to be called; None if no trusted one is stored."""
    folder = _folder()
    if folder is None or description is None:
        return None
    path = folder / _file_name(description)
    try:
        payload = _read_own_file(path)
        if payload is None:
            return None
        from jax.experimental import serialize_executable

        return serialize_executable.deserialize_and_load(*pickle.loads(payload))
    except FileNotFoundError:
        return None
    except Exception:
        logger.debug("%s could not be loaded; the program is compiled", path, exc_info=True)
        path.unlink(missing_ok=True)
        return None


def save(description: str, executable: Any) -> None:
    """Store an executable, if there is a trusted folder; a failure is not an error."""
    folder = _folder()
    if folder is None:
        return
    try:
        from jax.experimental import serialize_executable

        payload = pickle.dumps(serialize_executable.serialize(executable))
        digest = hashlib.sha256(payload).digest()
        with tempfile.TemporaryDirectory(dir=folder) as work:
            path = Path(work, _file_name(description))
            path.write_bytes(digest + payload)
            os.replace(path, folder / path.name)
        _make_room(folder)
    except Exception:
        logger.debug("the executable of %s could not be stored", description, exc_info=True)


def _folder() -> Path | None:
    """Return the folder of this user's executables; None if it cannot be trusted."""
    if os.environ.get("PERCDL_NO_CACHE") == "1":
        return None
    chosen = os.environ.get("PERCDL_CACHE_DIR")
    if chosen is None:
        import platformdirs

        chosen = platformdirs.user_cache_dir("percdl")
    folder = Path(chosen) / "executables"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(folder.lstat()):
            return folder
    except OSError:  # a read-only home is not an error
        return None
    _warn_untrusted(folder)
    return None


@functools.cache
def _warn_untrusted(folder: Path) -> None:
    logger.warning(
        "Compiled programs are not stored in %s: it belongs to another user, or others can write "
        "to it. Take their permission away, or set PERCDL_CACHE_DIR to your own folder.",
        folder,
    )


def _read_own_file(path: Path) -> bytes | None:
    """Return the content of a file after its checksum, if both are valid."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        if not _is_ours(os.fstat(descriptor)):
            return None
        content = file.read()
    digest, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != digest:
        path.unlink(missing_ok=True)
        return None
    os.utime(path)
    return payload


def _is_ours(status: os.stat_result) -> bool:
    """Whether a folder or file belongs to this user, and no one else can write to it."""
    if os.name != "posix":
        return True
    can_others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return (
        status.st_uid == os.geteuid() and not can_others_write and not stat.S_ISLNK(status.st_mode)
    )


def _make_room(folder: Path) -> None:
    """Delete the least recently used files beyond `MOST_BYTES`."""
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: -path.stat().st_mtime)
    total = 0
    for path in files:
        total += path.stat().st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)


def _file_name(description: str) -> str:
    return hashlib.sha256(f"{_surroundings()}{description}".encode()).hexdigest() + _SUFFIX


@functools.cache
def _surroundings() -> str:
    """Return a text of everything that all executables of this process depend on."""
    devices = jax.devices()
    machine = _processor() if devices[0].platform == "cpu" else devices[0].device_kind
    flags = [os.environ.get(name) for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    precision = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    versions = jax.__version__, version("jaxlib"), devices[0].client.platform_version
    return repr((versions, machine, len(devices), flags, precision, _sources()))


def _processor() -> str:
    """Return the architecture of the machine and its instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
    features = {
        line for line in lines if line.startswith(("flags", "Features", "model name", "CPU part"))
    }
    return f"{platform.machine()} {sorted(features)}"


def _sources() -> str:
    """Return a digest of the sources that programs are made of."""
    package = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for part in _SOURCES:
        for path in sorted((package / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _describe_value(value: Any) -> str | None:
    """Return a text that identifies a static value in any process, or None."""
    if value is None or isinstance(value, str | int | float | bool):
        return repr(value)
    if isinstance(value, tuple):
        inner: list[str | None] = [_describe_value(item) for item in value]
    elif is_dataclass(value) and type(value).__module__.startswith("percdl."):
        inner = [_describe_value(getattr(value, field.name)) for field in fields(value)]
    else:  # a function of the user, say
        return None
    return None if None in inner else f"{type(value).__qualname__}({', '.join(map(str, inner))})"
