"""Durations as people write them: 1.0s, 250ms, or a number of samples."""

from __future__ import annotations

import typer

from percdl import parameters
from percdl.parameters import LONGEST

AUTO = "auto"


def check_duration(text: str) -> str:
    """Refuse what is no duration, before anything is read."""
    if not (parameters.is_duration(text) or (text.isdecimal() and int(text) <= LONGEST)):
        raise typer.BadParameter(
            f"{text!r} is not a duration. Write seconds (1.0s), milliseconds (250ms), or a whole "
            "number of samples (100)."
        )
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
    check_duration(text)
    return parameters.in_samples(int(text) if text.isdecimal() else text, sfreq)
