"""Durations as people write them: 1.0s, 250ms, or a number of samples."""

from __future__ import annotations

import re

import typer

AUTO = "auto"
# Of whatever unit: a billion seconds are thirty years.
LONGEST = 1e9
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|)")


def check_duration(text: str) -> str:
    """Refuse what is no duration, before anything is read."""
    _split(text)
    return text


def check_duration_or_auto(text: str) -> str:
    """Refuse what is neither a duration nor "auto"."""
    return text if text == AUTO else check_duration(text)


def in_samples(text: str, sfreq: float) -> int | str:
    """Return a duration in samples; "auto" stays what it is.

    >>> in_samples("1.0s", 100), in_samples("250ms", 100), in_samples("64", 100)
    (100, 25, 64)
    """
    if text == AUTO:
        return text
    number, unit = _split(text)
    return int(number) if not unit else round(number * sfreq / (1000 if unit == "ms" else 1))


def _split(text: str) -> tuple[float, str]:
    found = _DURATION.fullmatch(text.strip())
    if found is None or (not found[2] and "." in found[1]) or float(found[1]) > LONGEST:
        raise typer.BadParameter(
            f"{text!r} is not a duration. Write seconds (1.0s), milliseconds (250ms), or a whole "
            "number of samples (100)."
        )
    return float(found[1]), found[2]
