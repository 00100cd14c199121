"""Corrections as constraints on codes: required and forbidden activations.

A kept event is a sample that an activation must cover, optionally with an earliest onset and a
given atom. No activation may cover the middle half of a removed event. Both are hard constraints
of the dynamic program of `csc.select_disjoint`: some choices of onset, atom and length are not
allowed, and some samples must be covered. So coding is exact over the codes that agree with the
corrections. These do not change from round to round, so each step of a fit still lowers the
objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from percdl.algorithm.chunks import Chunk
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.exceptions import InvalidParameterError
from percdl.signals import AnyCohort
from percdl.signals.corrections import describe_correction
from percdl.signals.recording import Correction
from percdl.steps.coders import L0Coder
from percdl.steps.types import Pins, Signals


@dataclass(frozen=True)
class Rules:
    """The rules of a coder: its options, number and length of atoms, and sampling rate."""

    coder: L0Coder
    n_atoms: int
    atom_length: int
    sfreq: float

    @property
    def choices(self) -> list[tuple[int, int]]:
        """The atom and the length of each choice, in the order of `L0Coder.pairs`."""
        lengths = self.coder.lengths(self.atom_length)
        return [(k, lengths[d]) for k, d in self.coder.pairs(self.n_atoms, self.atom_length)]

    def lengths_of(self, atom: int | None) -> tuple[int, ...]:
        """Return the lengths of activations of an atom, or of any."""
        if atom is None:
            return self.coder.lengths(self.atom_length)
        return self.coder.lengths_of(atom, self.atom_length)


class Pinned:
    """The constraints of the chunks of a cohort.

    ``chunks`` holds the positions of the chunks with constraints; the others, and their programs,
    do not change.
    """

    def __init__(self, cohort: AnyCohort, chunks: Sequence[Chunk], settings: Settings):
        found = cohort.corrections
        self._chunks, self._lengths = chunks, cohort.lengths
        names = cohort.subjects if found else ()
        self._own = {s: found[name] for s, name in enumerate(names) if name in found}
        corrected = np.zeros(len(cohort), bool)
        corrected[[*self._own]] = True
        self.chunks = {i for i, chunk in enumerate(chunks) if corrected[chunk.subjects].any()}
        sizes = settings.n_atoms, settings.atom_length
        self._rules = Rules(settings.disjoint_coder, *sizes, cohort.sfreq)
        for s, own in self._own.items():
            if settings.overlaps:
                raise InvalidParameterError(
                    f"{_name(cohort.subjects[s], own[0])} needs activations that do not overlap. "
                    "Use an L0Coder, or leave the corrections out."
                )
            check_corrections(own, cohort.subjects[s], int(self._lengths[s]), self._rules)

    def add(self, index: int, signals: Signals) -> Signals:
        """Return the signals of a chunk with their constraints, if there are any."""
        if index not in self.chunks:
            return signals
        chunk, rules = self._chunks[index], self._rules
        n_positions = chunk.n_times - rules.lengths_of(None)[0] + 1
        allowed = np.ones((chunk.rows, len(rules.choices), n_positions), bool)
        covered = np.zeros((chunk.rows, chunk.n_times), bool)
        for row, s in enumerate(chunk.subjects.tolist()):
            if own := self._own.get(s):
                here = min(int(self._lengths[s]), n_positions)
                allowed[row, :, :here] = allow(own, int(self._lengths[s]), rules)[:, :here]
                covered[row, [_range(each, rules)[0] for each in _kept(own, rules)]] = True
        pins: Any = Pins(allowed, covered)  # pyright: ignore[reportArgumentType]
        return signals._replace(pins=pins)

    def unmet(self, results: Results) -> dict[int, list[float]]:
        """Return the seconds of kept events that explain nothing, by position of the subject."""
        found = {}
        for s, own in self._own.items():
            at = results.subject == s
            onsets, ends = results.onset[at], results.onset[at] + results.length[at]
            kept = [(each, _range(each, self._rules)[0]) for each in _kept(own, self._rules)]
            missed = [e.onset for e, p in kept if not ((onsets <= p) & (p < ends)).any()]
            if missed:
                found[s] = missed
        return found


def check_corrections(
    corrections: Sequence[Correction], subject: str, n_times: int, rules: Rules
) -> None:
    """Raise if no code agrees with the corrections of a recording. Cost O(E L K)."""
    for each in corrections:
        if each.atom is not None and each.atom >= rules.n_atoms:
            raise InvalidParameterError(
                f"{_name(subject, each)} is about atom {each.atom}, but there are "
                f"{rules.n_atoms} atom(s), counted from 0. Correct the trial_type, or use n/a "
                "for any atom."
            )
    kept = _kept(corrections, rules)
    most = rules.coder.max_activations
    if most is not None and len(kept) > most:
        raise InvalidParameterError(
            f"The corrections of subject {subject!r} keep {len(kept)} events, the last at "
            f"{kept[-1].onset:g} s, but `max_activations={most}`. Raise it, or keep fewer."
        )
    allowed = allow(corrections, n_times, rules)
    free = 0
    for each in kept:
        point, _ = _range(each, rules)
        # The earliest end leaves most room for later events.
        firsts = [max(free, point - length + 1, 0) for _, length in rules.choices]
        ends = [
            first + int(row[first : point + 1].argmax()) + length
            for row, first, (_, length) in zip(allowed, firsts, rules.choices, strict=True)
            if row[first : point + 1].any()
        ]
        if not ends:
            others = [f"{other.onset:g}" for other in kept if other is not each]
            near = min(others, key=lambda onset: abs(float(onset) - each.onset), default=None)
            raise InvalidParameterError(
                f"{_name(subject, each)} leaves no room for an activation"
                + ("" if near is None else f" beside the one kept at {near} s")
                + f": they last {_place(each, rules)[1] / rules.sfreq:g} s, lie within the "
                "recording and do not overlap. Correct an onset, allow a tolerance, or delete one "
                "of the rows."
            )
        free = min(ends) + rules.coder.gap


def allow(
    corrections: Sequence[Correction], n_times: int, rules: Rules
) -> Bool[np.ndarray, "C n_times"]:
    """Return where an activation of each choice of atom and length may begin.

    If a kept event conflicts with a removed one, the kept event takes precedence. Cost
    O(N + E L) for each choice.
    """
    kept, gap = _kept(corrections, rules), rules.coder.gap
    atoms, lengths = (np.array(column)[:, None] for column in zip(*rules.choices, strict=True))
    inside = np.arange(n_times) + lengths <= n_times

    def near(first: int, last: int) -> tuple[slice, np.ndarray]:
        """Return the onsets of activations that can reach some samples."""
        earliest = min(max(first - lengths.max() - gap + 1, 0), n_times)
        start = np.arange(earliest, min(last + 1, n_times))
        return slice(earliest, earliest + len(start)), start

    clear = inside.copy()
    for each in corrections:
        if each.action == "remove":
            onset, length = _place(each, rules)
            first, last = onset + length // 4, onset + length - 1 - length // 4
            here, start = near(first, last)
            clear[:, here] &= (start + lengths <= first) | ~_is_meant(each, atoms)
    allowed = clear & all(each.action != "only" for each in kept)
    n_reached = np.zeros(allowed.shape, np.int8)
    for each in kept:
        point, earliest = _range(each, rules)
        here, start = near(point, point)
        reaches = point < start + lengths + gap
        suits = inside[:, here] & (point < start + lengths) & (start >= earliest)
        suits &= _is_meant(each, atoms)
        free = clear[:, here] | ~(suits & clear[:, here]).any()
        allowed[:, here] = np.where(reaches, suits & free, allowed[:, here])
        n_reached[:, here] += reaches
    return allowed & (n_reached < 2)  # two events are not one activation


def _kept(corrections: Sequence[Correction], rules: Rules) -> list[Correction]:
    """Return the events that must be found, in order; a row that comes twice counts once."""
    kept = dict.fromkeys(each for each in corrections if each.action != "remove")
    return sorted(kept, key=lambda each: _range(each, rules)[0])


def _range(each: Correction, rules: Rules) -> tuple[int, int]:
    """Return the sample to cover, and the earliest onset of the activation that covers it."""
    onset, length = _place(each, rules)
    if each.tolerance is None:
        return onset + length // 2, 0
    shortest = min(rules.lengths_of(each.atom))
    tolerance = min(round(each.tolerance * rules.sfreq), (shortest - 1) // 2)
    return onset + tolerance, onset - tolerance


def _place(each: Correction, rules: Rules) -> tuple[int, int]:
    """Return onset and length of an event in samples."""
    lengths = rules.lengths_of(each.atom)
    length = lengths[len(lengths) // 2]
    if each.duration is not None:
        length = max(round(each.duration * rules.sfreq), 1)
    return round(each.onset * rules.sfreq), length


def _is_meant(each: Correction, atoms: np.ndarray) -> np.ndarray:
    return (atoms == each.atom) | (each.atom is None)


def _name(subject: str, each: Correction) -> str:
    return describe_correction(subject, each.action, each.onset)
