"""What the recordings of a cohort must share."""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from percdl.exceptions import InvalidRecordingError
from percdl.signals.clock import is_thousandfold
from percdl.signals.processing import check_same_processing
from percdl.signals.recording import Recording, abbreviate


def check_consistent(recordings: Sequence[Any]) -> None:
    """Refuse recordings that cannot form a cohort, naming the subjects at fault."""
    if not recordings:
        raise InvalidRecordingError(
            "A Cohort needs at least one recording (n_samples=0 given). "
            "Check the files read or the selection made."
        )
    for position, recording in enumerate(recordings):
        if not isinstance(recording, Recording):
            raise InvalidRecordingError(
                f"Item {position} is of type {qualified_name(recording)}, but a Cohort is made "
                "of Recordings. Build it from arrays with Cohort.from_arrays."
            )
        if recording.subject is None:
            raise InvalidRecordingError(
                f"Recording {position} has no subject, but every recording of a Cohort needs one. "
                "Pass Recording(..., subject='P01')."
            )
    _check_unique_subjects(recordings)
    # First, since processing may change units: it says why they differ.
    check_same_processing(recordings)
    for other in recordings[1:]:
        _check_same_channels(recordings[0], other)


def common_sfreq(recordings: Sequence[Recording]) -> float:
    """Return the sampling rate all recordings share."""
    first = recordings[0]
    for other in recordings[1:]:
        if other.sfreq != first.sfreq:
            raise InvalidRecordingError(
                f"Subject {first.subject!r} was sampled at {first.sfreq:g} Hz and subject "
                f"{other.subject!r} at {other.sfreq:g} Hz, but one rate is needed. "
                + _way_to_one_rate(*sorted((first, other), key=lambda r: r.sfreq))
            )
    return first.sfreq


def _way_to_one_rate(slow: Recording, fast: Recording) -> str:
    if is_thousandfold(fast.sfreq, slow.sfreq):
        return (
            f"Times are taken as seconds; those of {slow.subject!r} may be milliseconds. Divide "
            f"them by 1000, or leave the time column out and pass sfreq={fast.sfreq:g}."
        )
    return f"Resample first, e.g. `cohort.resample({slow.sfreq:g})`."


def unknown_subject(subject: str, known: Sequence[str]) -> str:
    """Say that a subject is absent, with the ids that look like it."""
    near = get_close_matches(subject, known, n=3)
    hint = f"Near matches: {', '.join(near)}." if near else f"Subjects: {abbreviate(known)}."
    return f"No subject {subject!r} among {len(known)} recording(s). {hint}"


def qualified_name(value: object) -> str:
    """Return the full name of a value's type, e.g. ``scipy.sparse._csr.csr_matrix``."""
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _check_unique_subjects(recordings: Sequence[Recording]) -> None:
    counts = Counter(recording.subject for recording in recordings)
    repeated = [subject for subject, count in counts.items() if count > 1]
    if repeated:
        raise InvalidRecordingError(
            f"Subject id(s) used more than once: {abbreviate(repeated)}. A Cohort has one "
            f"recording per id; tell trials apart, e.g. '{repeated[0]}-trial2'."
        )


def _check_same_channels(first: Recording, other: Recording) -> None:
    for what, mine, theirs in (
        ("channels", first.channels, other.channels),
        ("units", first.units, other.units),
    ):
        if mine != theirs:
            named = [abbreviate(map(repr, names)) for names in (mine, theirs)]
            raise InvalidRecordingError(
                f"Subject {first.subject!r} has {len(mine)} {what} ({named[0]}) and "
                f"subject {other.subject!r} has {len(theirs)} ({named[1]}). All "
                f"recordings of a Cohort need the same {what}, in the same order; in an array, "
                "time comes before channels."
            )
