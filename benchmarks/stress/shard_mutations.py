"""Ways to damage and to forge a folder of shards."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stress.mutations import change_json
from percdl.signals.shards import CHECKSUM, INDEX, digest_of


def damage(folder: Path, rng: np.random.Generator) -> str:
    """Cut a file, or flip a bit of it; return what was done."""
    path = sorted(folder.iterdir())[int(rng.integers(3))]
    content = bytearray(path.read_bytes())
    if rng.integers(3) == 0:
        path.write_bytes(content[: int(rng.integers(len(content)))])
        return f"{path.name} cut"
    content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    return f"{path.name} flipped"


def forge_index(folder: Path, rng: np.random.Generator) -> str:
    """Change one place of the index and update its checksum; return a description."""
    content = json.loads((folder / INDEX).read_text())
    done = change_json(content, rng)
    _sign(folder, content)
    return f"index {done}"


def forge_shard(folder: Path, rng: np.random.Generator) -> str:
    """Change a shard, and the index so that size and checksums are those of the new one."""
    path = folder / "shard-000000.npy"
    values = np.load(path)
    forms = (values[1:], values.T, values.astype("f4"), values.astype(int), values * np.inf)
    changed = forms[int(rng.integers(5))]
    payload = io.BytesIO()
    np.save(payload, changed)
    content = payload.getvalue()
    if rng.integers(3) == 0:  # a shape that asks for more memory than there is
        content = content.replace(b"(240, 1)", b"(9**9,1)").replace(b"(120, 1)", b"(1<<40,)")
    path.write_bytes(content)
    index = json.loads((folder / INDEX).read_text())
    index["shards"][0]["bytes"] = len(content)
    lengths = index["recordings"]["length"][: index["shards"][0]["count"]]
    parts = np.split(changed, np.cumsum(lengths)[:-1])
    index["recordings"]["checksum"][: len(parts)] = [zlib.crc32(part.tobytes()) for part in parts]
    _sign(folder, index)
    return f"shard {changed.dtype} {changed.shape}"


def _sign(folder: Path, content: Any) -> None:
    signed = {**content, CHECKSUM: digest_of(content)}
    (folder / INDEX).write_text(json.dumps(signed))
