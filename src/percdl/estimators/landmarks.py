"""Landmarks: times on the common atom, which the warps map to every cycle of every person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from percdl.estimators.cycles import Cycles, Segments
from percdl.estimators.personalization import Personalization, pad_rows
from percdl.exceptions import InvalidParameterError
from percdl.parameters import Nonnegative
from percdl.signals.annotations import check_rate
from percdl.signals.tables import check_columns
from percdl.steps.cycles import local_gains, read_delay, straighten
from percdl.steps.period import NORMAL_MAD

# Half the width of a landmark's neighbourhood, in durations of the atom; at least 4 samples.
NEAR = 0.1
# Half the width of the part of the atom that is looked for in a person's usual cycle, in durations
# of the atom. This is also the largest shift.
MATCH = 0.05
# A shift of `MATCH` has to explain this much more of the energy (a share).
COST = 0.2
# Number of people who are matched at once.
N_MATCHED = 256
# Channels with less energy beside their level, as a share, are constant up to rounding.
LEAST_ENERGY = 1e-12
# Weight of the population in the spread of a person's gains, in cycles.
FEW = 2.0
# Newton steps from a time on the personal atom to a time of a cycle.
N_NEWTON = 6


@dataclass(frozen=True)
class Mark:
    """A landmark on a common atom.

    Attributes
    ----------
    name, atom : str, int
        Its name, and the atom it is on.
    time, spread : float
        Seconds from the start of the atom, and the standard deviation of the annotations that
        placed it; 0 for a landmark placed by hand.
    channel : str or None
        The channel whose warp the landmark follows, if there is one warp per channel. None: the
        median of these warps.
    """

    name: str
    atom: int
    time: float
    spread: Nonnegative = 0.0
    channel: str | None = None


def make_marks(
    model: Any, name: str | None, atom: int, time: Any, channel: str | None, X: Any
) -> list[Mark]:
    """Return landmarks from a time, or from annotations (see `PerCDL.mark`)."""
    if not 0 <= atom < model.n_atoms_:
        raise InvalidParameterError(f"`atom={atom!r}`: the model has {model.n_atoms_} atom(s).")
    _warp_of(channel, model.channels_, model.personalization_)
    if not isinstance(time, pd.DataFrame):
        longest = model.atom_lengths_[atom] / model.sfreq_
        if name is None or not isinstance(time, Real) or not 0 <= float(time) <= longest:
            raise InvalidParameterError(
                f"`mark({name!r}, {atom}, {time!r})` needs a name and a time in seconds between 0 "
                f"and {longest:g}, or a table of annotations."
            )
        return [Mark(name, atom, float(time), 0.0, channel)]
    needed = ["subject", "sample"] + ["label"] * (name is None)
    check_columns("The annotations", time, needed, "See `percdl.read_annotations`.")
    check_rate(time, model.sfreq_)
    cycles = model._find_cycles(X)
    usual = average_cycles(cycles, atom)
    parts = [(name, time)] if name is not None else list(time.groupby("label"))
    return [place_mark(str(own), rows, cycles, usual, atom, channel) for own, rows in parts]


def place_mark(
    name: str,
    annotations: pd.DataFrame,
    cycles: Cycles,
    usual: Float[np.ndarray, "S L P"],
    atom: int,
    channel: str | None,
) -> Mark:
    """Return a landmark at the median of annotations, which the warps map to common time.

    Every person counts once. Annotations outside of all cycles of the atom are not used. The
    place by the warps alone comes first; then people are matched there (`match_mark`).
    """
    mark: Any = None
    clock = float(cycles.clocks[atom])
    for _ in range(2):
        shift = np.zeros(len(usual)) if mark is None else match_mark(mark, cycles, usual)
        subject, time = _to_common(annotations, cycles, atom, channel, shift)
        if not len(time):
            raise InvalidParameterError(
                f"None of the {len(annotations)} annotations of {name!r} lies within a cycle of "
                f"atom {atom}. Compare their `subject` and `sample` with `model.events_`; longer "
                "atoms hold more."
            )
        middle = float(pd.Series(time).groupby(subject).median().median())
        spread = float(np.median(np.abs(time - middle)) / NORMAL_MAD)
        mark = Mark(name, atom, middle / clock, spread / clock, channel)
    return mark


def _to_common(
    annotations: pd.DataFrame, cycles: Cycles, atom: int, channel: str | None, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return subjects and common times, in samples, of the annotations that lie in cycles.

    ``shift`` (S,) is subtracted from the times of each person.
    """
    found = cycles.found
    length = found.dictionary.shape[1]
    subject = pd.Index(found.subjects).get_indexer(annotations["subject"].to_numpy(str))
    sample = annotations["sample"].to_numpy(float)
    known = (subject >= 0) & np.isfinite(sample)
    subject, sample = subject[known], sample[known]
    chosen = np.flatnonzero(cycles.table["atom"] == atom)
    onset = cycles.table["onset_sample"].to_numpy(float)[chosen]
    # Subjects one after the other on one line.
    apart = 1 + max(onset.max(initial=0), sample.max(initial=0))
    line = found.positions[chosen] * apart + onset
    order = np.argsort(line)
    before = np.searchsorted(line[order], subject * apart + sample, side="right") - 1
    event = order[np.maximum(before, 0)] if len(order) else np.zeros(0, int)
    if not len(event):
        return subject[:0], sample[:0]
    mine = (before >= 0) & (found.positions[chosen[event]] == subject)
    event, subject, sample = chosen[event[mine]], subject[mine], sample[mine]
    step = cycles.samples_per_step[event]
    time = (sample - cycles.table["onset_sample"].to_numpy(float)[event]) / step
    inside = time <= length - 1
    event, subject, time = event[inside], subject[inside], time[inside]
    delay = read_delay(cycles.own[event], time, length)[0]
    personal = np.clip(time - delay - shift[subject], 0, length - 1)
    warps, at = _warps(cycles, atom, channel), np.minimum(personal.astype(int), length - 2)
    left, right = warps[subject, at], warps[subject, at + 1]
    return subject, left + (personal - at) * (right - left)


def _warps(cycles: Cycles, atom: int, channel: str | None) -> Float[np.ndarray, "S L"]:
    """Return the warp of each person that landmarks follow, in samples."""
    which = _warp_of(channel, cycles.cohort.channels, cycles.found)
    own = cycles.found.warps[:, atom]
    if not own.shape[1]:  # nothing warps time
        own = np.broadcast_to(np.arange(own.shape[2], dtype=float), (len(own), 1, own.shape[2]))
    return np.median(own, axis=1) if which is None else own[:, which]


def _reach(mark: Mark, cycles: Cycles) -> tuple[np.ndarray, np.ndarray]:
    """Return when each person reaches a landmark, in samples, and the slope of the warp there."""
    warps, time = _warps(cycles, mark.atom, mark.channel), mark.time * cycles.clocks[mark.atom]
    people, at = np.arange(len(warps)), np.clip((warps <= time).sum(1) - 1, 0, warps.shape[1] - 2)
    left = warps[people, at]
    rise = np.maximum(warps[people, at + 1] - left, 1e-6)
    return at + (time - left) / rise, rise


def personal_times(marks: tuple[Mark, ...], cycles: Cycles) -> Float[np.ndarray, "n S"]:
    """Return when each person's usual cycle reaches each landmark, in s; NaN without the atom."""
    times = find_shifts(marks, cycles)
    for row, mark in zip(times, marks, strict=True):
        row[:] = (_reach(mark, cycles)[0] + row) / cycles.clocks[mark.atom]
        row[cycles.found.n_activations[:, mark.atom] == 0] = np.nan
    return times


def _warp_of(channel: str | None, channels: tuple[str, ...], found: Personalization) -> int | None:
    """Return the position of the warp that a landmark follows; None: the median of all."""
    if channel is not None and channel not in channels:
        raise InvalidParameterError(
            f"There is no channel {channel!r}; the model has {', '.join(channels)}."
        )
    if not found.transform.shares_structure:
        raise InvalidParameterError(
            "Landmarks are on common atoms, but in this model every person has their own. Use "
            "PerCDL or PopCDL."
        )
    part = found.transform.warp_part(*found.dictionary.shape[1:])
    if part is None or part[0].n_warps(len(channels)) == 1:
        return 0
    return None if channel is None else channels.index(channel)


def find_landmarks(marks: tuple[Mark, ...], cycles: Cycles, level: float) -> pd.DataFrame:
    """Return each landmark at each cycle, see `PerCDL.landmarks`."""
    pairs, sfreq = zip(marks, find_shifts(marks, cycles), strict=True), cycles.cohort.sfreq
    carried = [_carry(mark, cycles, shift) for mark, shift in pairs]
    gains, frames = _find_gains(marks, cycles, [time for _, time, _ in carried]), []
    for mark, (events, time, deviation), own in zip(marks, carried, gains, strict=True):
        gain, error = own[:, events]
        rows = cycles.table.iloc[events][["subject", "atom", "onset_sample"]]
        scale = cycles.samples_per_step[events]
        sample = rows["onset_sample"].to_numpy() + time * scale
        present = _is_present(gain, error, cycles.found.positions[events], level)
        rows = rows.assign(
            landmark=mark.name,
            sample=np.where(present, sample, np.nan),
            seconds=np.where(present, sample / sfreq, np.nan),
            se=np.where(present, deviation * scale / sfreq, np.nan),
            gain=gain,
            present=present,
        )
        frames.append(rows)
    table = pd.concat(frames).sort_index(kind="stable")
    return table.rename_axis("cycle").reset_index()


def _is_present(
    gain: np.ndarray, error: np.ndarray, subject: np.ndarray, level: float
) -> np.ndarray:
    """Return whether gains are above zero.

    Noise is rarely white, so the error of a gain is at least its standard deviation between the
    cycles of the person, shrunk towards that of the population, which counts as `FEW` cycles.
    """
    by_person: Any = pd.Series(gain).groupby(subject)
    away: Any = gain - by_person.transform("median")
    square: Any = (away**2).groupby(subject).transform("sum")
    n = by_person.transform("count")
    usual = away.abs().median() / NORMAL_MAD
    spread = (n * square / np.maximum(n - 1, 1) + FEW * usual**2) / (n + FEW)
    with np.errstate(divide="ignore", invalid="ignore"):
        return norm.sf(gain / np.sqrt(np.maximum(spread, error**2))) < level


def find_shifts(marks: tuple[Mark, ...], cycles: Cycles) -> Float[np.ndarray, "n S"]:
    """Return the shift of each landmark for each person, see `match_mark`."""
    shifts = np.zeros((len(marks), len(cycles.found.subjects)))
    for atom in {mark.atom for mark in marks}:
        usual = average_cycles(cycles, atom)
        for row, mark in zip(shifts, marks, strict=True):
            if mark.atom == atom:
                row[:] = match_mark(mark, cycles, usual)
    return shifts


def average_cycles(cycles: Cycles, atom: int) -> Float[np.ndarray, "S L P"]:
    """Return each person's mean cycle, delays undone; NaN if unobserved. Cost O(E L P)."""
    found = cycles.found
    segments = Segments(found, cycles.cohort)
    total = np.zeros((len(found.subjects), *found.dictionary.shape[1:]))
    weight = np.zeros_like(total)
    for events, cut in segments.batches(np.flatnonzero(segments.atom == atom)):
        with jax.enable_x64(found.dtype == "float64"):
            own = pad_rows(cycles.own[events], len(cut.atom)).astype(found.dtype)
            parts = straighten(cut, segments.table, own)
        values, seen = (np.asarray(x)[: len(events)] for x in parts)
        values = values / segments.usual[events, None, None]
        np.add.at(total, found.positions[events], values)
        np.add.at(weight, found.positions[events], seen)
    return np.divide(total, weight, out=np.full_like(total, np.nan), where=weight > 0)


def match_mark(
    mark: Mark, cycles: Cycles, usual: Float[np.ndarray, "S L P"]
) -> Float[np.ndarray, " S"]:
    """Return how many samples after the place given by the warp each person's landmark lies.

    Warps are smooth and small, and cannot follow each wave. So the common atom near the landmark
    is looked for in the person's usual cycle, near the time that the warp gives. The best shift
    explains the largest share of the energy there, beside a level, as a mean over the channels
    that are observed and not constant.
    """
    found, length = cycles.found, usual.shape[1]
    one = slice(None) if mark.channel is None else [cycles.cohort.channels.index(mark.channel)]
    reach = max(round(MATCH * length), 1)
    shifts, tau = np.arange(-reach, reach + 1), mark.time * cycles.clocks[mark.atom]
    start = np.nan_to_num(_reach(mark, cycles)[0])
    wave = _read_samples(found.dictionary[[mark.atom]][..., one], shifts[None] + tau)[0]
    times = start[:, None] + np.arange(-2 * reach, 2 * reach + 1)
    height = np.zeros((len(usual), len(shifts)))
    for first in range(0, len(usual), N_MATCHED):
        some = slice(first, first + N_MATCHED)
        height[some] = _compare(_read_samples(usual[some][..., one], times[some]), wave)
    return _find_peak(height - COST * (shifts / reach) ** 2) - reach


def _compare(
    wide: Float[np.ndarray, "S m P"], wave: Float[np.ndarray, "w P"]
) -> Float[np.ndarray, "S n"]:
    """Return the share of the energy of cycles that a wave explains, at each of n places."""
    usable = _varies(wide) & _varies(wave)
    wave = wave - wave.mean(0)
    near = np.lib.stride_tricks.sliding_window_view(wide, len(wave), axis=1)
    near = near - near.mean(-1, keepdims=True)
    product = np.maximum(np.einsum("sdpw,wp->sdp", near, wave), 0)
    energy = (near**2).sum(-1) * (wave**2).sum(0)
    share = np.divide(product**2, energy, out=np.zeros_like(energy), where=energy > 0)
    total = np.where(usable[:, None], share, 0).sum(-1)
    return total / np.maximum(usable.sum(-1, keepdims=True), 1)


def _varies(x: Float[np.ndarray, "*S n P"]) -> np.ndarray:
    """Return which channels are observed everywhere and not constant."""
    return x.var(-2) > LEAST_ENERGY * (x**2).mean(-2)


def _find_peak(height: Float[np.ndarray, "S n"]) -> Float[np.ndarray, " S"]:
    """Return the position of the maximum of each row: that of a parabola through three points."""
    rows, best = np.arange(len(height)), np.clip(height.argmax(1), 1, height.shape[1] - 2)
    left, middle, right = (height[rows, np.add(best, i)] for i in (-1, 0, 1))
    bend = np.minimum(left - 2 * middle + right, -1e-12)
    return best + np.clip((left - right) / (2 * bend), -1, 1)


def _read_samples(
    x: Float[np.ndarray, "#S L P"], time: Float[np.ndarray, "S n"]
) -> Float[np.ndarray, "S n P"]:
    """Read rows at times, linearly; the ends are repeated."""
    time = np.clip(time, 0, x.shape[1] - 1)
    at = np.minimum(time.astype(int), x.shape[1] - 2)
    rows = np.arange(len(x))[:, None]
    return x[rows, at] + (time - at)[..., None] * (x[rows, at + 1] - x[rows, at])


def _carry(
    mark: Mark, cycles: Cycles, shift: Float[np.ndarray, " S"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cycles of a landmark, its time in each and its standard error, in samples.

    Solves ``t - delay_e(t) = psi_s^-1(tau) + shift_s``; the error is that of the delay (delta
    method) and of the annotations.
    """
    length, clock = cycles.found.dictionary.shape[1], cycles.clocks[mark.atom]
    events = np.flatnonzero(cycles.table["atom"] == mark.atom)
    subject = cycles.found.positions[events]
    reached, rise = _reach(mark, cycles)
    goal = (reached + shift)[subject]
    own, time = cycles.own[events], goal
    for _ in range(N_NEWTON):
        delay, slope, _ = read_delay(own, time, length)
        time = time - (time - delay - goal) / (1 - slope)
    _, slope, basis = read_delay(own, time, length)
    moved = np.einsum("er,ers,es->e", basis, cycles.covariance[events][:, 1:, 1:], basis)
    placed = (mark.spread * clock / rise[subject]) ** 2
    return events, time, np.sqrt(moved + placed) / (1 - slope)


def _find_gains(
    marks: tuple[Mark, ...], cycles: Cycles, carried: list[np.ndarray]
) -> Float[np.ndarray, "n 2 E"]:
    """Return the local gain and its error for each landmark at the cycles of its atom."""
    found, atoms = cycles.found, cycles.table["atom"].to_numpy()
    length, dtype = found.dictionary.shape[1], found.dtype
    segments, times = Segments(found, cycles.cohort), np.zeros((len(marks), len(atoms)))
    for row, mark, time in zip(times, marks, carried, strict=True):
        row[atoms == mark.atom] = time
    gains, width = np.zeros((len(marks), 2, len(atoms))), np.asarray(max(NEAR * length, 4), dtype)
    for atom in sorted({mark.atom for mark in marks}):
        here = [i for i, mark in enumerate(marks) if mark.atom == atom]
        for events, cut in segments.batches(np.flatnonzero(atoms == atom)):
            own = pad_rows(cycles.own[events], len(cut.atom)).astype(dtype)
            for i in here:
                at = pad_rows(times[i, events], len(cut.atom)).astype(dtype)
                with jax.enable_x64(dtype == "float64"):
                    local = local_gains(cut, segments.table, own, at, width)
                gains[i][:, events] = np.stack(local)[:, : len(events)]
    return gains


def intervals(
    landmarks: pd.DataFrame, pairs: Mapping[str, tuple[str, str]] | None = None
) -> pd.DataFrame:
    """Return the intervals between landmarks of the same cycle, in ms.

    Cost O(E log E) for E rows.

    Parameters
    ----------
    landmarks : DataFrame
        Such as ``model.landmarks(X)``.
    pairs : dict of str to (str, str), optional
        Names of intervals and of the landmarks they lie between, e.g.
        ``{"QT": ("QRS onset", "T end")}``. By default all neighbours on an atom.

    Returns
    -------
    DataFrame
        One row per cycle and interval in which both landmarks are present: cycle, subject,
        onset_sample, interval, ``ms`` and its standard error ``se`` (ms), with the errors of both
        landmarks taken as independent.

    Examples
    --------
    >>> rows = [(0, "Ada", 7, "P", 0.1, 0.01), (0, "Ada", 7, "R", 0.25, 0.01)]
    >>> names = ["cycle", "subject", "onset_sample", "landmark", "seconds", "se"]
    >>> table = intervals(pd.DataFrame(rows, columns=names), {"PR": ("P", "R")})
    >>> table[["interval", "ms"]].values.tolist()
    [['PR', 150.0]]
    """
    keys = ["cycle", "subject", "onset_sample"]
    wide = landmarks.pivot(index=keys, columns="landmark", values=["seconds", "se"])
    if pairs is None:
        later = landmarks["sample"] - landmarks["onset_sample"]
        usual: Any = later.groupby([landmarks["atom"], landmarks["landmark"]]).median()
        in_order = [list(own.sort_values().index) for _, own in usual.groupby("atom")]
        steps = [(a[1], b[1]) for names in in_order for a, b in pairwise(names)]
        pairs = {f"{first} to {last}": (first, last) for first, last in steps}
    known = {*landmarks["landmark"]}
    frames = []
    for name, (first, last) in pairs.items():
        if not {first, last} <= known:
            raise InvalidParameterError(
                f"The interval {name!r} lies between {first!r} and {last!r}, but the landmarks "
                f"are {', '.join(sorted(known))}."
            )
        length = 1e3 * (wide["seconds", last] - wide["seconds", first])
        error = 1e3 * np.hypot(wide["se", last], wide["se", first])
        one = pd.DataFrame({"interval": name, "ms": length.round(6), "se": error})
        frames.append(one.dropna(subset="ms").reset_index())
    empty = pd.DataFrame(columns=[*keys, "interval", "ms", "se"])
    table = pd.concat(frames) if frames else empty
    return table.sort_values("cycle", kind="stable", ignore_index=True)
