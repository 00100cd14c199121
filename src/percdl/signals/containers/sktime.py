"""The panels of sktime: frames with an instance and a time level, and what they convert to."""

from collections.abc import Sequence
from typing import Any, SupportsFloat

import pandas as pd

from percdl.exceptions import InvalidParameterError
from percdl.signals.containers.cases import NUMPY_3D, cube_from_recordings
from percdl.signals.containers.refusal import is_nested, refusal
from percdl.signals.extras import hushed, require
from percdl.signals.frames import recordings_from_frame
from percdl.signals.recording import Recording

MULTIINDEX, FRAMES, NESTED = "pd-multiindex", "df-list", "nested_univ"
MTYPES = (NUMPY_3D, MULTIINDEX, FRAMES, NESTED)
NEEDED = (
    "a 3-D array (n_instances, n_channels, n_timepoints), a frame with the index levels instance "
    "and time, a list of frames (one row per time) or a frame of series"
)
_INSTANCE, _TIME = "instances", "timepoints"


def is_panel(X: Any) -> bool:
    """Whether frames are passed, not an array."""
    return isinstance(X, pd.DataFrame | list | tuple)


def recordings_from_panel(X: Any, sfreq: SupportsFloat | None) -> list[Recording]:
    """Return one recording per instance of ``pd-multiindex``, ``df-list`` or ``nested_univ``."""
    panel = _as_multiindex(X)
    names = [str(name) for name in panel.columns]
    clock = panel.index.get_level_values(1)
    if isinstance(clock, pd.PeriodIndex):
        clock = pd.Index(clock.asi8)
    frame = panel.set_axis(names, axis=1).reset_index(drop=True)
    who, when = _unused("instance", names), _unused("time", names)
    frame[who] = panel.index.get_level_values(0)
    if clock.dtype.kind in "iu":  # counts of samples, of which only the rate makes seconds
        sfreq = 1.0 if sfreq is None else float(sfreq)
        frame[when] = clock.to_numpy() / sfreq
    else:
        frame[when] = clock
    return recordings_from_frame(frame, channels=names, subject=who, time=when, sfreq=sfreq)


def panel_from_recordings(recordings: Sequence[Recording], mtype: str) -> Any:
    """Return the recordings as sktime's ``mtype``."""
    if mtype not in MTYPES:
        raise InvalidParameterError(
            f"mtype={mtype!r} must be one of {', '.join(map(repr, MTYPES))}. Others: "
            "`sktime.datatypes.convert` makes them of these."
        )
    if mtype == NUMPY_3D:
        return cube_from_recordings(recordings, f"mtype={MULTIINDEX!r}")
    frames = {
        str(r.subject): pd.DataFrame(r.values, columns=list(r.channels), copy=True)
        for r in recordings
    }
    if mtype == FRAMES:
        return list(frames.values())
    panel = pd.concat(frames, names=[_INSTANCE, _TIME])
    return _convert(panel, MULTIINDEX, NESTED) if mtype == NESTED else panel


def _as_multiindex(X: Any) -> pd.DataFrame:
    if isinstance(X, list | tuple) and X and all(isinstance(x, pd.DataFrame) for x in X):
        _check_same_columns(X)
        return pd.concat(dict(enumerate(X)))
    if isinstance(X, pd.DataFrame) and is_nested(X):
        return _convert(X, NESTED, MULTIINDEX)
    if isinstance(X, pd.DataFrame) and X.index.nlevels == 2:
        return X
    raise refusal(X, "from_sktime", NEEDED)


def _check_same_columns(frames: Sequence[pd.DataFrame]) -> None:
    first = list(frames[0].columns)
    for position, frame in enumerate(frames):
        if list(frame.columns) != first:
            raise InvalidParameterError(
                f"Frame 0 has columns {first} and frame {position} has {list(frame.columns)}. "
                "All must have the same channels, in the same order."
            )
        if frame.index.nlevels != 1:
            raise refusal(list(frames), "from_sktime", NEEDED)


def _convert(X: Any, source: str, target: str) -> Any:
    """Let sktime convert between its own types."""
    datatypes = require("sktime.datatypes", f"Converting {source} to {target}", "interop")
    with hushed():
        return datatypes.convert(X, source, target, as_scitype="Panel")


def _unused(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"_{name}"
    return name
