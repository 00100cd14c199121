"""Where patterns occur, as annotations that go back onto the recordings of MNE."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import pandas as pd

from percdl.signals.extras import require
from percdl.signals.labels import Label
from percdl.signals.writers.events import by_subject, check_duration, checked_events


def events_to_annotations(
    events: pd.DataFrame,
    *,
    duration: float,
    subjects: Iterable[Label] | None = None,
) -> dict[str, Any]:
    """Return events as one ``mne.Annotations`` per subject.

    Descriptions are ``atom0``, ``atom1``, ...; the amplitude is among the extras, where the
    installed MNE has them. Onsets count from the first sample of the recording: with
    ``raw.set_annotations(found)`` they stand where they belong, dated or cropped as the Raw may
    be. To keep the annotations it has, add the time at which it begins:
    ``raw.annotations.append(found.onset + raw.first_time, found.duration, found.description)``.
    Needs mne (``pip install 'percdl[interop]'``). Cost O(E log E) for E events.

    Parameters
    ----------
    events : DataFrame
        ``model.events_``, or a frame like it.
    duration : float
        Length of an event in seconds, ``model.atom_length_ / model.sfreq_``.
    subjects : list, optional
        Everyone who was looked at: who has no event gets empty annotations.

    Returns
    -------
    dict of str to mne.Annotations
        By subject, those of ``subjects`` first.

    Examples
    --------
    >>> events = pd.DataFrame({"subject": ["P01"], "atom": 0, "onset_sample": 120})
    >>> events = events.assign(onset_seconds=1.2, amplitude=1.0)
    >>> found = events_to_annotations(events, duration=0.5)["P01"]
    >>> found.onset.tolist(), [str(name) for name in found.description]
    ([1.2], ['atom0'])
    """
    mne = require("mne", "Making MNE annotations", "interop")
    check_duration(duration)
    found = {str(subject): mne.Annotations([], [], []) for subject in subjects or ()}
    has_extras = "extras" in signature(mne.Annotations).parameters
    for subject, rows in by_subject(checked_events(events)):
        amplitudes = [{"amplitude": float(amplitude)} for amplitude in rows["amplitude"]]
        found[subject] = mne.Annotations(
            onset=rows["onset_seconds"].to_numpy(float),
            duration=[float(duration)] * len(rows),
            description=[f"atom{atom}" for atom in rows["atom"]],
            **({"extras": amplitudes} if has_extras else {}),
        )
    return found
