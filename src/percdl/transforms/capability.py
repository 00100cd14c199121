"""Check that a transform implements the interface that a step needs."""

from __future__ import annotations

from percdl.exceptions import InvalidParameterError
from percdl.transforms.base import Transform


def require(transform: Transform, interface: type[Transform], step: str, advice: str) -> None:
    """Raise an error if ``transform`` lacks the ``interface`` that ``step`` needs.

    Parameters
    ----------
    transform : Transform
        The transform to check.
    interface : type
        The required base class.
    step : str
        Name of the step, for the message.
    advice : str
        What to do instead, for the message.

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
