"""Channels before time: the arrays of aeon, and of sktime's ``numpy3D``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.containers.refusal import check_names, has_axes, refusal
from percdl.signals.recording import Recording

NUMPY_3D, NUMPY_LIST = "numpy3D", "np-list"
_CUBE = "a 3-D array (n_cases, n_channels, n_timepoints)"
_LIST = "a list of 2-D arrays (n_channels, n_timepoints)"


def arrays_from_cases(X: Any, channels: Any) -> np.ndarray | list[np.ndarray]:
    """Put time before channels: an array (S, N, P), or a list of arrays (N_s, P)."""
    if isinstance(X, list | tuple) and X:
        cases = [_two_axes(X, case) for case in X]
        check_names(channels, cases)
        return [case.T for case in cases]
    return arrays_from_cube(X, channels, "from_aeon", f"{_CUBE} or {_LIST}")


def arrays_from_cube(X: Any, channels: Any, converter: str, needed: str = _CUBE) -> np.ndarray:
    """Swap the last two axes of a 3-D array; anything else is refused."""
    if not has_axes(X, 3):
        raise _refusal(X, converter, needed)
    cube = np.asanyarray(X)  # keeps masked arrays as they are: their mask means "missing"
    if len(cube):
        check_names(channels, [cube[0]])
    return cube.transpose(0, 2, 1)


def cases_from_recordings(
    recordings: Sequence[Recording], output_type: str | None
) -> np.ndarray | list[np.ndarray]:
    """Return ``numpy3D``, ``np-list``, or the first that can hold the lengths."""
    lengths = {recording.n_times for recording in recordings}
    if output_type is None:
        output_type = NUMPY_3D if len(lengths) == 1 else NUMPY_LIST
    if output_type == NUMPY_LIST:
        return [recording.values.T.copy() for recording in recordings]
    if output_type == NUMPY_3D:
        return cube_from_recordings(recordings, f"output_type={NUMPY_LIST!r}")
    raise InvalidParameterError(
        f"output_type={output_type!r} must be {NUMPY_3D!r}, {NUMPY_LIST!r} or None."
    )


def cube_from_recordings(recordings: Sequence[Recording], otherwise: str) -> np.ndarray:
    """Return an array (n_cases, n_channels, n_timepoints); lengths must be equal."""
    first = recordings[0]
    other = next((r for r in recordings if r.n_times != first.n_times), None)
    if other is not None:
        raise InvalidParameterError(
            f"{NUMPY_3D!r} holds recordings of one length, but subject {first.subject!r} has "
            f"{first.n_times} samples and subject {other.subject!r} has {other.n_times}. "
            f"Pass {otherwise}."
        )
    return np.stack([recording.values.T for recording in recordings])


def _two_axes(X: Sequence[Any], case: Any) -> np.ndarray:
    if not has_axes(case, 2):
        raise _refusal(X, "from_aeon", f"{_CUBE} or {_LIST}")
    return np.asanyarray(case)


def _refusal(X: Any, converter: str, needed: str) -> InvalidRecordingError:
    """Say also how arrays that lack an axis are passed."""
    advice = ""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        advice = "Pass `X[:, None, :]` if its rows are univariate series."
    elif isinstance(X, list | tuple) and converter == "from_aeon":
        advice = "Pass `[x[None, :] for x in X]` if they are univariate series."
    return refusal(X, converter, needed, advice)
