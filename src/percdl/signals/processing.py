"""What was done to recordings, in words: how steps are written, compared and summed up."""

from collections.abc import Iterable, Sequence

from percdl.exceptions import InvalidRecordingError
from percdl.signals.recording import Recording

_RESAMPLED = "resampled from "


def resampling_step(before: float, after: float) -> str:
    """Return the words for a change of sampling rate.

    >>> resampling_step(200, 100)
    'resampled from 200 to 100 Hz'
    """
    return f"{_RESAMPLED}{before:g} to {after:g} Hz"


def lasting_steps(steps: Iterable[str]) -> tuple[str, ...]:
    """Return the steps that must agree for values to compare: all but resampling.

    The rate itself is always checked; which rate a device had before does not matter.
    """
    return tuple(step for step in steps if not step.startswith(_RESAMPLED))


def check_same_processing(recordings: Sequence[Recording]) -> None:
    """Refuse recordings of which some were processed and some were not, naming two."""
    first = recordings[0]
    for other in recordings[1:]:
        if other.processing == first.processing:
            continue
        if lasting_steps(other.processing) != lasting_steps(first.processing):
            raise InvalidRecordingError(
                f"Subject {first.subject!r} was {in_words(first.processing)} and subject "
                f"{other.subject!r} was {in_words(other.processing)}. All recordings of a Cohort "
                "need the same processing; join them first, then process the Cohort."
            )


def merged_steps(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Return the steps of all recordings, in order.

    They differ in resampling only, so the resamplings between two other steps are listed
    one after the other.
    """
    lasting = lasting_steps(recordings[0].processing)
    between: list[dict[str, None]] = [{} for _ in range(len(lasting) + 1)]
    for recording in recordings:
        place = 0
        for step in recording.processing:
            if step.startswith(_RESAMPLED):
                between[place][step] = None
            else:
                place += 1
    steps = list(between[0])
    for step, resamplings in zip(lasting, between[1:], strict=True):
        steps += [step, *resamplings]
    return tuple(steps)


def in_words(steps: Sequence[str]) -> str:
    """Return the steps as the end of a sentence.

    >>> in_words(["z-scored per channel"])
    'processed (z-scored per channel)'
    """
    return f"processed ({'; '.join(steps)})" if steps else "not processed"
