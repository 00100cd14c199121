"""Recordings from and to the containers of MNE: Raw, Epochs and Evoked, in SI units."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals.containers import in_words, refusal
from percdl.signals.extras import require
from percdl.signals.recording import Label, Recording, as_names, entries

Units = str | dict[str, str] | None

NEEDED = "a Raw, Epochs or Evoked, or a list of them"
# Units by their FIFF codes. MNE holds samples in these, never in multiples.
_SI = {
    1: "m", 3: "s", 6: "M", 7: "rad", 107: "V", 110: "S", 112: "T", 114: "°C", 117: "V/m²",
    201: "T/m", 202: "Am",
}  # fmt: skip
# Micro is written with three characters: u, the micro sign, and the Greek letter.
_PREFIXES = {
    "": 1, "m": 1e-3, "u": 1e-6, "\u00b5": 1e-6, "\u03bc": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15
}  # fmt: skip


def recordings_from_mne(
    data: Any,
    subjects: Iterable[Label] | None,
    groups: Iterable[Label | None] | None,
    picks: Any,
    units: Units,
    bad_as_nan: bool,
) -> list[Recording]:
    """Return one recording per Raw, per Evoked and per epoch; see `Cohort.from_mne`."""
    mne = require("mne", "Reading MNE containers", "interop")
    kinds = (mne.io.BaseRaw, mne.BaseEpochs, mne.Evoked)
    containers = [data] if isinstance(data, kinds) else data
    if not isinstance(containers, list | tuple) or not all(
        isinstance(item, kinds) for item in containers
    ):
        raise refusal(data, "from_mne", NEEDED)
    n_items = len(containers)
    ids = [(container.info["subject_info"] or {}).get("his_id") for container in containers]
    labels: Iterable[Any] = map(str, ids) if all(ids) else range(n_items)
    if subjects is not None:
        labels = entries("subjects", as_names(subjects), n_items)
    given = None if groups is None else entries("groups", as_names(groups), n_items)
    recordings = []
    for position, (container, label) in enumerate(zip(containers, labels, strict=True)):
        # The chosen channels, without samples.
        empty = np.zeros((len(container.ch_names), 1))
        part = mne.EvokedArray(empty, container.info, verbose="ERROR")
        if picks is not None:
            part.pick(picks, verbose="ERROR")
        options = {"picks": part.ch_names, "units": units}
        for subject, condition, values in _signals(mne, container, label, options, bad_as_nan):
            recordings.append(
                Recording(
                    values.T,
                    sfreq=container.info["sfreq"],
                    channels=part.ch_names,
                    units=_units(part, units),
                    subject=subject,
                    group=condition if given is None else given[position],
                )
            )
    return recordings


def raws_from_recordings(
    recordings: Sequence[Recording], ch_types: str | Iterable[str]
) -> list[Any]:
    """Return one RawArray per recording; see `Cohort.to_mne`."""
    mne = require("mne", "Making MNE containers", "interop")
    n_channels = recordings[0].n_channels
    types = [ch_types] * n_channels if isinstance(ch_types, str) else list(ch_types)
    if len(types) != n_channels:
        raise InvalidParameterError(
            f"ch_types={types} gives {len(types)} type(s) for {n_channels} channel(s). "
            "Give one per channel, or one for all."
        )
    return [_raw(mne, recording, types) for recording in recordings]


def _raw(mne: Any, recording: Recording, types: list[str]) -> Any:
    info = mne.create_info(list(recording.channels), recording.sfreq, types, verbose="ERROR")
    info["subject_info"] = {"his_id": str(recording.subject)}
    factors = [
        _factor(name, unit, kind, _SI.get(int(channel["unit"]), ""))
        for name, unit, kind, channel in zip(
            recording.channels, recording.units, types, info["chs"], strict=True
        )
    ]
    raw = mne.io.RawArray((recording.values * factors).T, info, verbose="ERROR")
    if recording.has_missing:
        raw.set_annotations(mne.preprocessing.annotate_nan(raw, verbose="ERROR"))
    return raw


def _factor(name: str, unit: str, kind: str, si: str) -> float:
    """Return the factor that converts samples to the unit MNE uses for this channel type."""
    if si == "" or kind == "stim":
        return 1.0
    known = {prefix + si: size for prefix, size in _PREFIXES.items()}
    if unit not in known:
        raise InvalidParameterError(
            f"MNE holds channels of type {kind!r} in {si}, but the unit of channel {name!r} is "
            f"{unit!r}. Give its unit when you make the cohort, e.g. units='m{si}', or pass "
            "ch_types='misc', which has no unit."
        )
    return known[unit]


def _units(part: Any, asked: Units) -> list[str]:
    """Return the unit of each channel: MNE's own, or the one asked for."""
    units = []
    for channel, kind in zip(part.info["chs"], part.get_channel_types(), strict=True):
        own = "" if kind == "stim" else _SI.get(int(channel["unit"]), "")
        converted = asked.get(kind, own) if isinstance(asked, dict) else asked or own
        units.append(converted if own else "")
    return units


def _signals(
    mne: Any, container: Any, label: Label, options: dict[str, Any], bad_as_nan: bool
) -> Iterator[tuple[Label, str | None, np.ndarray]]:
    """Yield id, condition and samples (n_channels, n_times) of each recording in a container."""
    if isinstance(container, mne.io.BaseRaw):
        rejected = "NaN" if bad_as_nan else None
        values = container.get_data(**options, reject_by_annotation=rejected, verbose="ERROR")
        yield label, None, values
        return
    if bad_as_nan:
        raise InvalidParameterError(
            "bad_as_nan=True reads the annotations of a Raw, but got "
            f"{in_words(container)}. Leave it out: MNE drops bad epochs by itself."
        )
    if not isinstance(container, mne.BaseEpochs):
        yield label, None, container.get_data(**options)
        return
    if not container.preload:  # bad epochs are known only after reading
        container = container.copy().drop_bad(verbose="ERROR")
    names = {code: name for name, code in container.event_id.items()}
    samples = container.get_data(**options, verbose="ERROR")
    codes = container.events[:, 2]
    for number, code, values in zip(container.selection, codes, samples, strict=True):
        yield f"{label}-{number}", names[code], values
