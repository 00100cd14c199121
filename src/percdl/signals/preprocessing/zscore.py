"""Z-scores: every recording at mean zero and unit spread."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.signals.recording import Recording

Per = Literal["channel", "recording"]
_STEPS = {
    "channel": "z-scored per channel",
    "recording": "z-scored per recording (one scale for all channels)",
}


def zscore(recording: Recording, per: str = "channel") -> Recording:
    """Return a recording at mean zero and unit standard deviation; see `Cohort.zscore`."""
    if per not in get_args(Per):
        raise InvalidParameterError(
            f"`zscore(per={per!r})` must be one of {', '.join(map(repr, get_args(Per)))}."
        )
    values = recording.values.astype(np.float64)
    _check_observed(recording)
    centred = values - np.nanmean(values, axis=0)
    power = np.nanmean(centred**2, axis=0)
    _check_not_flat(recording, np.sqrt(power), per)
    scale = np.sqrt(power if per == "channel" else np.nanmean(centred**2))
    return replace(
        recording,
        values=(centred / scale).astype(recording.values.dtype),
        units="SD",
        processing=(*recording.processing, _STEPS[per]),
    )


def _check_observed(recording: Recording) -> None:
    for name, observed in zip(recording.channels, recording.mask.T, strict=True):
        if not observed.any():
            raise InvalidRecordingError(
                f"Subject {recording.subject!r}: every sample of channel {name!r} is missing "
                "(NaN), so it has no z-score. Drop the channel or the subject."
            )


def _check_not_flat(recording: Recording, spread: Float[np.ndarray, " P"], per: str) -> None:
    precision = 8 * np.finfo(recording.values.dtype).eps
    flat = spread <= precision * np.nanmax(np.abs(recording.values), axis=0)
    if flat.any() if per == "channel" else flat.all():
        first = recording.channels[int(flat.argmax())]
        raise InvalidRecordingError(
            f"Subject {recording.subject!r}: channel {first!r} is constant, so it has no z-score. "
            "Check the sensor, drop the channel or the subject"
            + (", or use `per='recording'`." if not flat.all() else ".")
        )
