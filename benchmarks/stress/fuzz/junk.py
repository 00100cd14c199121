"""Values that no one would expect, and some that one would."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.stress.fuzz.choices import happens

NAMES = ("x", "y", "t", "id", "subject", "group", "RRX", "ch0")
TEXTS = (
    "", " ", "\t", "\n", "a\nb", "\r", "\x00", "'", '"', ",", ";", "é", "\u0663", "\U0001d7d9",
    "\ud800",
    "\ufeff", "\u202e", "NaN", "nan", "inf", "-inf", "1e999", "0x10", "1_000", "+1", "-0", "1,5",
    "None", "NA", "n/a", "../x", "/", "~", "~root", "{}", "%s", "x" * 300, "00:00:01",
    "2024-03-04T10:00:00", "2024-03-04T10:00:00+01:00", "2262-04-12", "NaT", "1e-400", "9" * 25,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 3, 7, 100, -0.0, 0.5, 0.1, 1e-3, 255, 256, 2**15, 2**31, 2**32, 2**53 + 1, 2**63,
    2**64, -(2**63), 10**30, 10**400, 1e-320, 5e-324, 1e-12, 1e12, 1e300, 1.7976931348623157e308,
    float("inf"), -float("inf"), float("nan"), True, False,
)  # fmt: skip
DTYPES = (
    "f8", "f8", "f8", "f4", "f2", "g", ">f8", "i8", "u8", "i1", "?", "c16", "O", "U3", "S3",
    "M8[ns]", "m8[s]", "M8[D]", "V4",
)  # fmt: skip


def text(draws: random.Random) -> str:
    """Return a name, or an invalid one."""
    kind = draws.randrange(3)
    if kind == 0:
        return draws.choice(NAMES)
    if kind == 1:
        return draws.choice(TEXTS)
    return "".join(chr(draws.randrange(32, 127)) for _ in range(draws.randrange(6)))


def number(draws: random.Random) -> Any:
    """Return a number of any size and kind."""
    kind = draws.randrange(4)
    if kind == 0:
        return draws.randrange(-3, 12)
    if kind == 1:
        return draws.uniform(-10, 200)
    value = draws.choice(NUMBERS)
    if kind == 2 or abs(value) > 1e30:
        return value
    return draws.choice((np.float64, np.float32, decimal.Decimal))(value)


def json_value(draws: random.Random, depth: int = 2) -> Any:
    """Return what JSON or TOML may hold."""
    kind = draws.randrange(7 if depth else 4)
    if kind == 0:
        return text(draws)
    if kind == 1:
        return draws.choice(NUMBERS)
    if kind == 2:
        return draws.choice((None, True, False))
    if kind == 3:
        return draws.randrange(-2, 9)
    if kind < 6:
        return [json_value(draws, depth - 1) for _ in range(draws.randrange(4))]
    return {text(draws): json_value(draws, depth - 1) for _ in range(draws.randrange(4))}


def anything(draws: random.Random) -> Any:
    """Return a value of any kind."""
    if happens(draws, 0.5):
        return json_value(draws)
    makers: tuple[Callable[[], Any], ...] = (
        lambda: number(draws),
        lambda: text(draws).encode("utf-8", "surrogatepass"),
        lambda: {text(draws)},
        lambda: (number(draws), text(draws)),
        lambda: iter([text(draws)]),
        object,
        lambda: int,
        lambda: pd.NA,
        lambda: pd.NaT,
        lambda: datetime.date(2024, 3, 4),
        lambda: np.str_(text(draws)),
        lambda: np.int32(draws.randrange(9)),
        lambda: complex(1, 2),
        lambda: array(draws),
        lambda: range(draws.randrange(4)),
    )
    return draws.choice(makers)()


def array(draws: random.Random, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return an array of any kind; of any small shape where none is given."""
    if shape is None:
        shape = tuple(draws.randrange(5) for _ in range(draws.randrange(5)))
    dtype = np.dtype(draws.choice(DTYPES))
    values = np.zeros(shape, dtype)
    with np.errstate(all="ignore"):
        for _ in range(draws.randrange(4) if values.size else 0):
            at = tuple(draws.randrange(n) for n in shape)
            value = draws.choice(NUMBERS)
            try:
                values[at] = value
            except (ValueError, TypeError, OverflowError):
                values[at] = values.dtype.type(1) if dtype.kind in "biufc" else values[at]
    kind = draws.randrange(12)
    if kind == 0:
        return np.ma.masked_array(values, np.full(shape, happens(draws, 0.5)))
    if kind == 1:
        return np.asfortranarray(values)
    if kind == 2 and values.ndim == 2 and dtype.kind in "biuf":
        return values[::-1].T
    return values
