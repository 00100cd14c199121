"""What a step needs of a transform, said where it is missing."""

from __future__ import annotations

from percdl.exceptions import InvalidParameterError
from percdl.transforms.base import Transform


def require(transform: Transform, interface: type[Transform], step: str, advice: str) -> None:
    """Raise an error that says what ``step`` misses in ``transform``.

    Parameters
    ----------
    transform : Transform
        What was given.
    interface : type
        What it should be.
    step : str
        What needs it, for the message.
    advice : str
        What to do instead.

    Examples
    --------
    >>> from percdl.transforms import LinearTransform, TimeWarp
    >>> require(TimeWarp(), LinearTransform, "PerCDU", "")
    """
    if isinstance(transform, interface):
        return
    needed = interface.__abstractmethods__ - Transform.__abstractmethods__
    missing = sorted(name for name in needed if not callable(getattr(transform, name, None)))
    raise InvalidParameterError(
        f"`{step}` cannot use `{type(transform).__name__}`: it must subclass "
        f"`{interface.__name__}`. Missing {', '.join(f'`{name}`' for name in missing)}. {advice}"
    )
