"""Convert signals in any accepted form to a cohort."""

from typing import Any, Protocol, TypeAlias, runtime_checkable

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.cohort import Cohort
from percdl.signals.interop import better_door, in_words
from percdl.signals.recording import LAYOUTS, Recording
from percdl.signals.shards import ShardedCohort

# Recordings in memory or on disk.
AnyCohort: TypeAlias = Cohort | ShardedCohort


@runtime_checkable
class SupportsArray(Protocol):
    """NumPy arrays and objects that convert to one (JAX, PyTorch, xarray)."""

    def __array__(self) -> Any: ...


def as_any_cohort(X: object) -> AnyCohort:
    """Return signals as `as_cohort` does; a cohort on disk is checked and returned unchanged."""
    if not isinstance(X, ShardedCohort):
        return as_cohort(X)
    X.check()
    return X


def as_cohort(X: object, **description: Any) -> Cohort:
    """Return signals in any accepted form as a `Cohort`.

    ``description`` (``sfreq``, ``subjects``, ...) is passed to `Cohort.from_arrays`; it is not
    allowed if ``X`` is a Cohort or a list of recordings.

    >>> import numpy as np
    >>> as_cohort(np.zeros((3, 50, 2)), sfreq=100)
    Cohort(3 recordings, 2 channels (ch0, ch1), 100 Hz, 50 samples)
    """
    if isinstance(X, list | tuple) and X and isinstance(X[0], Recording):
        return as_cohort(Cohort(X), **description)
    if isinstance(X, Cohort):
        if description:
            raise InvalidParameterError(
                f"as_cohort got {', '.join(f'{key}=' for key in description)} for signals that "
                "already carry their description. Leave it out, or pass plain arrays."
            )
        return X
    if isinstance(X, ShardedCohort):
        raise InvalidRecordingError(
            f"Got {X!r}, which is on disk, where recordings in memory are needed. Pass a part "
            "of it, e.g. `X[:1000]`."
        )
    door = better_door(X)
    if door is None and isinstance(X, list | tuple | SupportsArray):
        return Cohort.from_arrays(X, **description)
    advice = f"Use {door}" if door else f"Pass a Cohort, {LAYOUTS}"
    raise InvalidRecordingError(f"Got {in_words(X)} where signals are needed. {advice}.")
