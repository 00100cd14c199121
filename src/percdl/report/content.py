"""The data of a report: curves, events, recordings, group means, and notes beside them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

from percdl.analysis import Deviation, estimate_uncertainty
from percdl.analysis.effects import exact_speed
from percdl.estimators.suspects import KINDS
from percdl.exceptions import InvalidParameterError
from percdl.report.comparison import LEVEL, Groups, describe_groups, place_people
from percdl.report.packing import Drawn, Packed, draw_recordings, pack
from percdl.report.people import People, tabulate_people

# A phase is fast or slow beyond this ratio to the speed of the population. Set by hand.
TOLERANCE = 1.1
# Speeds are limited to this ratio: the picture ends at 4.3.
FASTEST = 20.0
# Warps and z-scores need fewer levels than atoms.
N_WARP_LEVELS, N_SCORE_LEVELS = 1023, 255
# Most operations of a confidence band: about a minute.
MOST_OPERATIONS = 1e11
# z-scores are limited to this: the picture ends at 10.
FARTHEST = 15.0
# Quantiles of the band of personal atoms.
CROWD = (0.025, 0.975)


def collect(people: People, groups: Groups) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the content of the page, and the notes beside the pictures."""
    found, cohort, model = people.found, people.cohort, people.model
    band, band_note = _confidence_band(people)
    drawn = draw_recordings([record.values for record in cohort])
    comparison = describe_groups(groups)
    history = model.history_
    content = {
        "sfreq": cohort.sfreq,
        "length": int(found.dictionary.shape[1]),
        "n_atoms": len(found.dictionary),
        "n_subjects": len(cohort),
        "n_warps": int(found.warps.shape[2]),
        "channels": list(cohort.channels),
        "units": list(cohort.units),
        "tolerance": TOLERANCE,
        "sizes": people.sizes.tolist(),
        "common": pack(_by_channel(found.dictionary)),
        "crowd": [pack(_by_channel(end)) for end in _crowd(people)],
        "band": band,
        "columns": tabulate_people(people),
        "suspects": _mark_suspects(people),
        "groups": {
            "names": people.groups,
            "reference": people.norm,
            "of": [people.groups.index(g) if g is not None else -1 for g in cohort.groups],
        },
        "events": _events(people),
        "run": drawn.run,
        "recordings": drawn.recordings,
        "lengths": cohort.lengths.tolist(),
        "personal": [pack(_by_channel(own)) for own in found.personal_dictionary],
        "warps": [pack(own, N_WARP_LEVELS) for own in found.warps],
        "speeds": [pack(own) for own in _log_speeds(people)],
        "departures": _departures(people),
        "comparison": comparison,
        "plane": place_people(people),
        "history": {
            "phase": history["phase"].tolist(),
            "objective": [float(x) for x in history["objective"]],
        },
    }
    notes = {
        "band_note": band_note,
        "signal_note": _signal_note(drawn),
        "deviation_note": _deviation_note(people),
        "test_note": _test_note(groups) if comparison else "",
    }
    return content, notes


def _by_channel(atoms: Float[np.ndarray, "*batch L P"]) -> np.ndarray:
    """Return atoms with time along the last axis."""
    return np.moveaxis(atoms, -1, -2)


def _crowd(people: People) -> Float[np.ndarray, "2 K L P"]:
    """Return the range of 95% of the personal atoms, sample by sample."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an atom without activations
        return np.nanquantile(people.found.personal_dictionary, CROWD, axis=0)


def _log_speeds(people: People) -> Float[np.ndarray, "S K C L"]:
    """Return the logarithm of the local speed: the ratio of speeds has the same error anywhere."""
    return np.log(np.clip(exact_speed(people.found), 1 / FASTEST, FASTEST))


def _confidence_band(people: People) -> tuple[list[Packed] | None, str]:
    """Return the two ends of the band of the common atoms, and a note about it."""
    model = people.model
    size = model.dictionary_[0].size
    if people.found is not model.personalization_:
        return None, "The people here are not those of the fit, so there is no confidence band."
    if len(people.cohort) * len(model.dictionary_) * size**3 > MOST_OPERATIONS:
        return None, "A confidence band would take too long for this many recordings and channels."
    try:
        ends = estimate_uncertainty(model, people.cohort).atom_band()
    except InvalidParameterError as reason:
        return None, f"There is no confidence band: {reason}"
    return [pack(_by_channel(end)) for end in ends], (
        "The dark band holds the atom of the population with 95% confidence, sample by sample; "
        "the light one holds 95% of the personal atoms."
    )


def _events(people: People) -> dict[str, Any]:
    """Return the events of all people in order, and where those of each person begin."""
    events = people.found.events
    position = {subject: s for s, subject in enumerate(people.cohort.subjects)}
    of = np.array([position[subject] for subject in events["subject"]], int)
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of, minlength=len(position))
    return {
        "offsets": [0, *np.cumsum(counts).tolist()],
        "atom": events["atom"].to_numpy()[order].tolist(),
        "onset": events["onset_sample"].to_numpy()[order].tolist(),
        "amplitude": events["amplitude"].to_numpy(float)[order].tolist(),
    }


def _mark_suspects(people: People) -> list[str]:
    """Return the doubts about each recording, empty if there are none."""
    marks = dict.fromkeys(people.cohort.subjects, "")
    for subject, kind, message in people.suspects.itertuples(index=False):
        if subject in marks:  # other doubts concern all recordings
            marks[subject] += f"{KINDS[kind].found}: {message}. "
    return [text.strip() for text in marks.values()]


def _departures(people: People) -> list[Packed] | None:
    """Return the z-scores of each person along the cycle: local speed, then the personal atom."""
    deviation = people.deviation
    if not isinstance(deviation, Deviation):
        return None
    scores = np.concatenate([deviation.timing_profile, _by_channel(deviation.profile)], axis=2)
    # A single huge z-score would leave few levels to all others.
    return [pack(np.clip(own, -FARTHEST, FARTHEST), N_SCORE_LEVELS) for own in scores]


def _signal_note(drawn: Drawn) -> str:
    if drawn.run == 1:
        return "All samples are shown."
    return (
        f"To keep the file small, recordings are drawn as the range of every {drawn.run} samples; "
        "events and atoms are exact."
    )


def _deviation_note(people: People) -> str:
    if not isinstance(people.deviation, Deviation):
        return ""
    return (
        f"Distance from the mean of {people.norm} without the person: 1 is as far as a typical "
        "member, 2 twice as far. Unusual does not mean ill."
    )


def _test_note(groups: Groups) -> str:
    if isinstance(groups.clusters, str):
        return f"Differences were not tested: {groups.clusters}"
    people = groups.people
    n_persons = len(set(people.persons))
    who = (
        "Every recording counts as a different person: several of one person would make "
        "differences look more certain than they are."
        if n_persons == len(people.cohort)
        else f"The {len(people.cohort)} recordings are of {n_persons} people, each counted once."
    )
    return (
        f"Bars and the table below: cluster permutation tests along the whole cycle at a level of "
        f"{LEVEL:.0%} shared by {groups.n_tests} tests. A cluster is significant as a whole; its "
        f"ends are not sharp. {who} Groups may also differ in age, speed or sensor."
    )
