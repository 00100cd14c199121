"""Cases as bytes: every decision of a case is read off them, so that cases can be changed."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any


class Choices(random.Random):
    """Random draws that are decided by bytes, and by numbers drawn from these where they end.

    Targets use the methods of `random.Random`. The same bytes give the same case; a few bytes
    changed, a case that differs in a few decisions.

    Parameters
    ----------
    content : bytes
        The first decisions.

    Attributes
    ----------
    taken : bytearray
        All decisions so far: as ``content``, they give the same case again.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(zlib.crc32(content))
        self._content = content
        self.taken = bytearray()

    def getrandbits(self, k: int, /) -> int:
        """Return k bits."""
        size = (k + 7) // 8
        part = self._content[len(self.taken) : len(self.taken) + size]
        if len(part) < size:
            part = super().getrandbits(8 * size).to_bytes(size, "little")
        self.taken += part
        return int.from_bytes(part, "little") >> (8 * size - k)

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self.getrandbits(16) / 2**16


def happens(draws: random.Random, share: float) -> bool:
    """Whether something comes to pass that does in this share of all cases."""
    return draws.random() < share


def mutate(content: bytes, draws: random.Random, tokens: Sequence[bytes] = ()) -> bytes:
    """Return bytes with one thing changed: a bit, a byte, a run, a number, the end.

    Parameters
    ----------
    content : bytes
    draws : random.Random
        What decides.
    tokens : sequence of bytes
        What may be written over or between; of a file format, say.
    """
    if not content:
        return draws.randbytes(draws.randrange(9))
    at = draws.randrange(len(content))
    end = min(len(content), at + draws.choice((1, 2, 4, 8, 32)))
    part: Any = content[at:end]
    kind = draws.randrange(8)
    if kind == 0:
        part = bytes([content[at] ^ 1 << draws.randrange(8)]) + part[1:]
    elif kind == 1:
        part = bytes([draws.randrange(256)]) + part[1:]
    elif kind == 2:
        part = b""
    elif kind == 3:
        part = part * draws.choice((2, 3, 40))
    elif kind == 4:
        part = draws.randbytes(len(part))
    elif kind == 5:
        return content[:at]
    elif tokens:
        part = draws.choice(tokens) + (part if kind == 6 else b"")
    else:
        other = draws.randrange(len(content))
        part = content[other : other + len(part)]
    return content[:at] + part + content[end:]
