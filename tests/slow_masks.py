"""Secure sums as RFC 7748, 5869 and 8439 print them, in Python's integers: the slow twin."""

import hashlib
import hmac

P = 2**255 - 19
CHACHA = b"expand 32-byte k"
ROUNDS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
ROUNDS += [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def x25519(private: bytes, public: bytes) -> bytes:
    """Multiply a point of Curve25519, as a Montgomery ladder."""
    k = int.from_bytes(private, "little") & ~7 & (2**255 - 1) | 2**254
    x1 = int.from_bytes(public, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, x1, 1
    for t in reversed(range(255)):
        bit = k >> t & 1
        if bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        e = a * a - b * b
        x2, z2 = a * a * b * b % P, e * (a * a + 121665 * e) % P
        if bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def hkdf(secret: bytes, info: bytes) -> bytes:
    """Derive 32 bytes, with SHA-256 and without salt."""
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def rotate(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & 0xFFFFFFFF


def chacha20_block(key: bytes, counter: int) -> bytes:
    """Return 64 bytes of the stream whose nonce is zero."""
    words = [int.from_bytes((CHACHA + key)[i : i + 4], "little") for i in range(0, 48, 4)]
    start = [*words, counter, 0, 0, 0]
    x = list(start)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            for first, by in ((True, 16), (False, 12), (True, 8), (False, 7)):
                if first:
                    x[a] = (x[a] + x[b]) & 0xFFFFFFFF
                    x[d] = rotate(x[d] ^ x[a], by)
                else:
                    x[c] = (x[c] + x[d]) & 0xFFFFFFFF
                    x[b] = rotate(x[b] ^ x[c], by)
    ends = [(u + v) & 0xFFFFFFFF for u, v in zip(x, start, strict=True)]
    return b"".join(word.to_bytes(4, "little") for word in ends)


def keystream(secret: bytes, info: bytes, size: int) -> list[int]:
    key = hkdf(secret, info)
    stream = b"".join(chacha20_block(key, i) for i in range((8 * size + 63) // 64))
    return [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(size)]


def frame(*parts: object) -> bytes:
    framed = b""
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        framed += len(raw).to_bytes(8, "big") + raw
    return framed


def mask(values, private, site, publics, occasion) -> list[int]:
    """Mask the integers of a site; ``publics`` are the keys of all sites."""
    terms = [list(values)]
    for other, public in publics.items():
        if other != site:
            first, second = min(site, other), max(site, other)
            info = frame("percdl secure sum, version 2", occasion, first, second)
            sign = 1 if site < other else -1
            numbers = keystream(x25519(private, public), info, len(values))
            terms.append([sign * number for number in numbers])
    return [sum(column) % 2**64 for column in zip(*terms, strict=True)]
