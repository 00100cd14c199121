"""People in words: the sentences that a reader needs before the pictures.

Phases are compared on the clock of the population, so those of different people are the same part
of the movement. A person is called slower or faster in a phase only if the z-score of the local
speed there exceeds the largest z-score along the cycle of nearly all members of the reference;
each member is left out of the norm in turn. If no speed stands out, the height of the personal
atom is judged in the same way. Together, 5 % of the reference would be called different.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from percdl.analysis import Deviation, measure_reliability
from percdl.analysis.deviation import score_curves, share_votes
from percdl.analysis.groups import average_persons
from percdl.exceptions import InvalidParameterError
from percdl.report.people import People, write_interval

# Share of the reference that is not called different anywhere in the cycle.
LEVEL = 0.95
# A phase extends while the z-score exceeds this.
EDGE = 2.0
# Fewest people of a reference whose range is described.
FEWEST = 5
MOST_PHASES = 2


class Phase(NamedTuple):
    """A part of the cycle in which a person differs: samples of the cycle, and how."""

    kind: str  # "pace" on the common clock, or "height" on the person's own
    atom: int
    row: int  # the warp, or the channel of the personal atom
    start: int
    stop: int  # the last sample
    above: bool


def rank(
    value: float, others: Any, more: str = "higher", less: str = "lower", persons: Any = None
) -> str:
    """Return where a value lies among those of others, in words; empty if they are too few.

    ``persons`` are those of the values, if people have several: each person counts once.

    >>> rank(9.0, [1, 2, 3, 4, 5])
    'higher than all 5'
    >>> rank(1.5, range(100), "longer", "shorter")
    'shorter than 98 %'
    >>> rank(50.0, range(100))
    'as usual'
    >>> rank(9.0, [1, 2])
    ''
    """
    known = np.asarray(list(others), float)
    who = np.arange(len(known)) if persons is None else np.asarray(persons)
    votes = share_votes(who, np.isfinite(known))
    # Sums of shares are whole up to rounding.
    below, above = (round(float(votes[x].sum()), 9) for x in (known < value, known > value))
    n = round(votes.sum())
    if n < FEWEST:
        return ""
    if max(below, above) < LEVEL * n:
        return "as usual"
    word, beyond = (more, below) if below >= above else (less, above)
    share = min(round(100 * beyond / n), 99)  # not 100: some are not beyond
    return f"{word} than all {n}" if beyond == n else f"{word} than {share} %"


def _compare(taken: float, usual: float) -> str:
    """Return a duration beside that of others, in words; empty if that is unknown."""
    if not np.isfinite(usual):
        return ""
    ratio = taken / usual
    if ratio > 2:
        return f", {ratio:.1f} times the median"
    side = "longer" if ratio > 1 else "shorter"
    return f", {100 * abs(ratio - 1):.0f} % {side} than the median"


@dataclass(frozen=True, eq=False)
class Words:
    """All people of a report in words."""

    people: People

    @cached_property
    def members(self) -> Bool[np.ndarray, " S"]:
        """Who belongs to the reference."""
        groups, reference = self.people.cohort.groups, self.people.reference
        return np.array([reference is None or group == reference for group in groups])

    @cached_property
    def who(self) -> np.ndarray:
        """The person of each recording."""
        return np.array(self.people.persons, str)

    def others(self, s: int) -> np.ndarray:
        """Return the recordings of the reference that are not of the same person."""
        return np.flatnonzero(self.members & (self.who != self.who[s]))

    @cached_property
    def n_members(self) -> int:
        """Number of people in the reference."""
        return len({*self.who[self.members]})

    def _rank(self, s: int, values: Float[np.ndarray, " S"], more: str, less: str) -> str:
        others = self.others(s)
        return rank(values[s], values[others], more, less, self.who[others])

    def _find_median(self, s: int, values: Float[np.ndarray, " S"]) -> float:
        """Return the median of the others: people, not recordings; NaN if there are none."""
        others = self.others(s)[np.isfinite(values[self.others(s)])]
        known = average_persons(values[others], self.who[others])[0] if len(others) else np.nan
        return float(np.median(known))

    @cached_property
    def scores(self) -> dict[str, Float[np.ndarray, "S K R L"]]:
        """z-scores along the cycle: above 0 where slower ("pace"), and where higher ("height")."""
        curves = {"height": np.moveaxis(self.people.found.personal_dictionary, -1, -2)}
        if self.people.found.warps.shape[2]:
            curves = {"pace": -self.people.log_speeds, **curves}
        return {kind: score_curves(x, self.who, self.members) for kind, x in curves.items()}

    @cached_property
    def limits(self) -> dict[str, float]:
        """The largest z-scores that nearly all of the reference reach somewhere in the cycle."""
        level = 1 - (1 - LEVEL) / len(self.scores)
        found = {}
        for kind, scores in self.scores.items():
            most = np.abs(np.nan_to_num(scores)).max((1, 2, 3))[self.members]
            by_person = average_persons(most, self.who[self.members])[0]
            found[kind] = max(float(np.quantile(by_person, level)), EDGE)
        return found

    def phases(self, s: int) -> list[Phase]:
        """Return the parts of the cycle in which a person differs, the largest change first."""
        if self.n_members < FEWEST:
            return []
        for kind in self.scores:
            if found := self._find_phases(s, kind):
                return sorted(found, key=lambda phase: -self._size(s, phase))[:MOST_PHASES]
        return []

    def _find_phases(self, s: int, kind: str) -> list[Phase]:
        found, limit = [], self.limits[kind]
        for k, r in np.ndindex(self.scores[kind].shape[1:3]):
            z = np.nan_to_num(self.scores[kind][s, k, r])
            side = np.sign(z) * (np.abs(z) > EDGE)
            cuts = np.flatnonzero(np.diff(side, prepend=0, append=0))
            for start, stop in pairwise(cuts):
                # A phase of one sample has no duration.
                if side[start] and stop > start + 1 and np.abs(z[start:stop]).max() > limit:
                    above = bool(side[start] > 0)
                    found.append(Phase(kind, k, r, int(start), int(stop) - 1, above))
        return found

    def durations(self, phase: Phase) -> Float[np.ndarray, " S"]:
        """Return how long everyone takes for a phase, in seconds."""
        clock = self.people.clocks[phase.atom]
        times = self.people.found.own_times[:, phase.atom, phase.row] / clock
        return times[:, phase.stop] - times[:, phase.start]

    def _size(self, s: int, phase: Phase) -> float:
        """Return how much a phase differs: in seconds, or by the largest z-score of a height."""
        if phase.kind == "height":
            own = self.scores["height"][s, phase.atom, phase.row, phase.start : phase.stop + 1]
            return float(np.abs(own).max())
        taken = self.durations(phase)
        return float(abs(taken[s] - self._find_median(s, taken)))

    def describe(self, s: int) -> list[str]:
        """Return the sentences about a person: rate, distance, phases, intervals, certainty."""
        if not (self.people.found.n_activations[s] > 0).any():
            return ["No cycle was found in this recording."]
        said = [self._say_rate(s), self._say_distance(s)]
        phases = self.phases(s)
        said += [self._say_phase(s, phase) for phase in phases]
        if not phases and self.n_members >= FEWEST:
            said.append(f"No single part of the cycle stands out from {self.people.norm}.")
        said += [text for text, unusual in self.intervals(s) if unusual]
        return [text for text in [*said, self._say_certainty(s)] if text]

    def _say_rate(self, s: int) -> str:
        if len(self.people.found.dictionary) > 1:
            return ""
        cadence = self.people.regularity["cadence"].to_numpy(float)
        if not np.isfinite(cadence[s]):
            return ""
        among = self._rank(s, cadence, "faster", "slower")
        return f"{cadence[s]:.0f} cycles per minute{self._among(among)}."

    def _among(self, place: str) -> str:
        """Return a place among others, with the name of the reference, to end a sentence."""
        if place == "as usual":
            return f", within the usual range of {self.people.norm}"
        return f", {place} of {self.people.norm}" if place else ""

    def _say_distance(self, s: int) -> str:
        deviation = self.people.deviation
        if not isinstance(deviation, Deviation) or not np.isfinite(deviation.index[s]):
            return ""
        among = self._rank(s, deviation.index, "farther", "nearer")
        sure = write_interval(deviation.interval[s])
        about = "1 is typical of them" + (f"; {sure}" if sure else "")
        return (
            f"Distance of the cycle from {self.people.norm}: {deviation.index[s]:.1f} ({about})"
            f"{self._among(among)}."
        )

    def _say_phase(self, s: int, phase: Phase) -> str:
        length = self.people.found.dictionary.shape[1]
        ends = [100 * u / (length - 1) for u in (phase.start, phase.stop)]
        seconds = [u / self.people.clocks[phase.atom] for u in (phase.start, phase.stop)]
        names = self.people.atom_names
        which = names[phase.atom] if len(names) > 1 else "the cycle"
        where = f"From {ends[0]:.0f} to {ends[1]:.0f} % of {which}"
        where += f" ({seconds[0]:.2f} to {seconds[1]:.2f} s in the picture)"
        channels = self.people.cohort.channels
        named = (
            f" in channel {channels[phase.row]}" if self.scores[phase.kind].shape[2] > 1 else ""
        )
        if phase.kind == "height":
            side = "higher" if phase.above else "lower"
            return (
                f"{where}, the person's atom is {side} than in {self.people.norm}{named}, by up "
                f"to {self._size(s, phase):.1f} standard deviations."
            )
        taken = self.durations(phase)
        among = self._rank(s, taken, "longer", "shorter")
        return (
            f"{where}{named}, this person is {'slower' if phase.above else 'faster'}: "
            f"{taken[s]:.2f} s{_compare(taken[s], self._find_median(s, taken))}"
            f"{self._among(among)}."
        )

    def intervals(self, s: int) -> list[tuple[str, bool]]:
        """Return a sentence about the time between landmarks, and whether it is unusual."""
        marks = self.people.model.marks_
        if not marks or not self.people.found.transform.shares_structure:
            return []
        times = self.people.mark_times(marks)
        order = sorted(range(len(marks)), key=lambda i: (marks[i].atom, marks[i].time))
        said = []
        for first, last in pairwise(order):
            if marks[first].atom != marks[last].atom or not np.isfinite(times[last, s]):
                continue
            taken = times[last] - times[first]
            among = self._rank(s, taken, "longer", "shorter")
            name = f"{marks[first].name} to {marks[last].name}"
            text = (
                f"{name}: {1e3 * taken[s]:.0f} ms"
                f"{_compare(taken[s], self._find_median(s, taken))}{self._among(among)}."
            )
            said.append((text, among not in ("", "as usual")))
        return said

    @cached_property
    def retest(self) -> str:
        """How much the numbers of an unchanged person differ between two recordings."""
        measured: dict[str, Any] = {}
        if len(self.people.found.dictionary) == 1:
            measured["cycles per minute"] = self.people.regularity["cadence"].to_numpy(float)
        if isinstance(self.people.deviation, Deviation):
            measured["times the typical distance"] = self.people.deviation.index
        said = []
        for unit, values in measured.items():
            try:
                found = measure_reliability(values, self.people.persons)
            except InvalidParameterError:
                continue
            said.append(f"{found['sdc'].iloc[0]:.2g} {unit}")
        return " and ".join(said)

    def _say_certainty(self, s: int) -> str:
        own = self.people.cycles["flagged"].to_numpy()[self.people.found.rows_of[s]]
        n_norm = self.n_members - int(np.any(self.members & (self.who == self.who[s])))
        said = (
            f"How sure: {len(own)} cycles ({int(own.sum())} flagged as unlike the others), "
            f"compared with {n_norm} people"
        )
        if self.n_members >= FEWEST:
            said += "; about 1 in 20 of these people would also be called different somewhere"
        if self.retest:
            return f"{said}. Recorded again, an unchanged person differs by up to {self.retest}."
        return f"{said}. How well the numbers repeat is unknown: no one was recorded twice."

    def introduce(self) -> tuple[str, list[tuple[str, str]]]:
        """Return the first sentence of the page, and the people who deviate most."""
        people, deviation = self.people, self.people.deviation
        n_cycles, n = len(people.found.events), len(people.cohort)
        said = f"{n_cycles:,} cycles were found in {n} recording{'s' * (n != 1)}"
        if len(people.found.dictionary) == 1:
            cadence = np.nanmedian(people.regularity["cadence"]) if n_cycles else np.nan
            said += f", {cadence:.0f} per minute (median)" if np.isfinite(cadence) else ""
        if not isinstance(deviation, Deviation):
            return said, []
        judged = np.flatnonzero(~self.members if people.reference else self.members)
        judged = judged[np.isfinite(deviation.index[judged])]
        if len(judged) and people.reference:
            n_far = int(np.sum(deviation.percentile[judged] >= 100 * LEVEL))
            said += (
                f". Of {len(judged)} recordings outside {people.reference}, {n_far} are farther "
                f"from it than {100 * LEVEL:.0f} % of its own members"
            )
        order = judged[np.argsort(-deviation.index[judged], kind="stable")][:3]
        named = [(people.cohort.subjects[s], f"{deviation.index[s]:.1f}") for s in order]
        return f"{said}. Most unlike {people.norm}", named
