"""Recordings from and to the containers of MNE: Raw, Epochs and Evoked, in SI units."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals.containers import in_words, refusal
from percdl.signals.extras import require
from percdl.signals.recording import Label, Recording, as_names

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
    labels = _one_each("subjects", subjects, containers) or _own_ids(containers)
    given = _one_each("groups", groups, containers)
    recordings = []
    for position, (container, label) in enumerate(zip(containers, labels, strict=True)):
        part = _pick(mne, container, picks)
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
    types = as_names(ch_types)
    n_channels = recordings[0].n_channels
    if isinstance(ch_types, str):
        types *= n_channels
    if len(types) != n_channels:
        raise InvalidParameterError(
            f"ch_types={list(types)} gives {len(types)} type(s) for {n_channels} channel(s). "
            "Give one per channel, or one for all."
        )
    return [_raw(mne, recording, list(types)) for recording in recordings]


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


def _pick(mne: Any, container: Any, picks: Any) -> Any:
    """Return the chosen channels of a container, without its samples."""
    part = mne.EvokedArray(np.zeros((len(container.ch_names), 1)), container.info, verbose="ERROR")
    return part if picks is None else part.pick(picks, verbose="ERROR")


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
    if isinstance(container, mne.BaseEpochs):
        yield from _epochs(container, label, options)
    else:
        yield label, None, container.get_data(**options)


def _epochs(
    epochs: Any, label: Label, options: dict[str, Any]
) -> Iterator[tuple[Label, str | None, np.ndarray]]:
    if not epochs.preload:  # bad epochs are known only after reading
        epochs = epochs.copy().drop_bad(verbose="ERROR")
    names = {code: name for name, code in epochs.event_id.items()}
    samples = epochs.get_data(**options, verbose="ERROR")
    for number, code, values in zip(epochs.selection, epochs.events[:, 2], samples, strict=True):
        yield f"{label}-{number}", names[code], values


def _own_ids(containers: Sequence[Any]) -> list[Label]:
    """Return the ids in the containers, or their positions if one has no id."""
    ids = [(container.info["subject_info"] or {}).get("his_id") for container in containers]
    return [str(name) for name in ids] if all(ids) else list(range(len(containers)))


def _one_each(name: str, values: Iterable[Any] | None, containers: Sequence[Any]) -> Any:
    if values is None:
        return None
    entries = [values] if isinstance(values, str) else list(values)
    if len(entries) != len(containers):
        raise InvalidParameterError(
            f"{name} has {len(entries)} entries, but data has {len(containers)} item(s). "
            "Pass one entry for each, in the same order."
        )
    return entries
