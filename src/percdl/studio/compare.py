"""Compare people, visits and groups in pairs: numbers, curves, and sentences."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu, wilcoxon

from percdl.analysis import average_persons, measure_reliability
from percdl.estimators.summary import RATE
from percdl.exceptions import InvalidParameterError
from percdl.report.people import VARIATION, People
from percdl.report.words import FEWEST, LEVEL, rank
from percdl.signals.recording import abbreviate
from percdl.studio.project import RefusedError

EVERYONE = "everyone"
# Explanations of the columns of numbers.
SIDE = "Group: median over its people. Person with several recordings: their mean."
DIFFERENCE = "First less second. Of pairs: the median of their differences."
RETEST = (
    "95 % of the differences between two recordings of an unchanged person are smaller. Known if "
    "people were recorded twice."
)
# Parts of the cycle whose durations are compared.
N_PHASES = 5


class Side(NamedTuple):
    """One side of a comparison: its name, its recordings, and the person of each."""

    name: str
    rows: np.ndarray
    persons: np.ndarray

    @property
    def people(self) -> set[str]:
        """The people, each once."""
        return {*self.persons.tolist()}

    @property
    def is_one(self) -> bool:
        """Whether it is a single person."""
        return len(self.people) == 1

    def keep(self, kept: np.ndarray, name: str = "") -> Side:
        """Return the side with some of its recordings."""
        return Side(name or self.name, self.rows[kept], self.persons[kept])

    def average(self, values: np.ndarray) -> np.ndarray:
        """Return one value or curve per person, their mean, in the order of their names."""
        if not len(self.rows):
            return values[:0]
        means, names = average_persons(values[self.rows], self.persons)
        return means[np.argsort(names)]


def list_sides(people: People) -> list[list[str]]:
    """Return what can be compared: names, and what to ask `find_side` for."""
    counts = Counter(people.persons)
    several = [name for name, n in counts.items() if n > 1]
    return [
        [EVERYONE, EVERYONE],
        *([f"group: {name}", f"group:{name}"] for name in people.groups),
        *([f"all recordings of {name}", f"person:{name}"] for name in several),
        *([name, f"recording:{name}"] for name in people.cohort.subjects),
    ]


def find_side(people: People, asked: str) -> Side:
    """Return ``recording:ID``, ``person:NAME`` (all recordings), ``group:NAME`` or everyone."""
    kind, _, name = asked.partition(":")
    cohort, persons = people.cohort, np.array(people.persons, object)
    labels = {"recording": cohort.subjects, "person": people.persons, "group": cohort.groups}
    if asked == EVERYONE:
        return Side(EVERYONE, np.arange(len(cohort)), persons)
    own = np.array([str(label) for label in labels.get(kind, ())], object)
    rows = np.flatnonzero(own == name)
    if not len(rows):
        raise RefusedError(f"There is no {asked!r} to compare.")
    return Side(name, rows, persons[rows])


def set_apart(first: Side, second: Side) -> list[Side]:
    """Return both sides without common people, or as pairs.

    A person is left out of the group that they are compared with, and a group out of everyone. Of
    two groups with people in common, only these are kept.
    """
    sides = [_leave_out(first, second), _leave_out(second, first)]
    common = sides[0].people & sides[1].people
    if (first.is_one and second.is_one) or not common or np.array_equal(first.rows, second.rows):
        return sides
    if len(common) < FEWEST:
        raise RefusedError(
            f"In both {first.name} and {second.name}: {abbreviate(sorted(common))}. Give every "
            f"person one group. Pairs are compared from {FEWEST} people in both groups on."
        )
    return [side.keep(np.isin(side.persons, [*common])) for side in sides]


def _leave_out(side: Side, other: Side) -> Side:
    """Return a side without the other, if it may contain it."""
    if side.is_one and other.is_one and len(side.rows) > len(other.rows):
        return side.keep(~np.isin(side.rows, other.rows))
    if (other.is_one and not side.is_one) or side.name == EVERYONE != other.name:
        name = "everyone else" if side.name == EVERYONE else side.name
        return side.keep(~np.isin(side.persons, [*other.people]), name)
    return side


def is_paired(sides: list[Side]) -> bool:
    """Return whether both sides are groups of the same people."""
    first, second = sides
    return len(first.people) > 1 and first.people == second.people


def compare(people: People, first: str, second: str, atom: int, channel: int) -> dict[str, Any]:
    """Return the two sides of a comparison: sentences, a table of numbers, and curves."""
    sides = set_apart(*(find_side(people, asked) for asked in (first, second)))
    table = measure_people(people, atom)
    errors = find_retest_errors(people, table)
    names = [_label(people, side) for side in sides]
    about = ["" if len(side.rows) == 1 else SIDE for side in sides]
    return {
        "words": list(describe_differences(table, sides, errors)),
        "header": [
            *zip(
                ["", *names, "difference", "retest error"],
                ["", *about, DIFFERENCE, RETEST],
                strict=True,
            )
        ],
        "rows": [_row(str(name), x, sides, errors) for name, x in table.items()],
        "curves": [
            {"name": name, **_curves(people, side, atom, channel)}
            for name, side in zip(names, sides, strict=True)
        ],
    }


def _label(people: People, side: Side) -> str:
    """Return the name of a side, with its number of people and recordings."""
    if len(side.rows) == 1:
        return side.name
    if side.people == {side.name}:
        return f"{side.name}, {len(side.rows)} recordings"
    return f"{side.name}, {people.say_size(side.rows)}"


def measure_people(people: People, atom: int) -> pd.DataFrame:
    """Return numbers with units of every recording: rate, phases of the cycle, intervals."""
    found, cohort = people.found, people.cohort
    rhythm: Any = people.regularity[people.regularity["atom"] == atom]
    columns: dict[str, Any] = {
        "rate (per minute)": rhythm["cadence"].to_numpy(float),
        "variation of intervals (%)": 100 * rhythm["interval_cv"].to_numpy(float),
    }
    if found.warps.shape[2]:
        own_time = np.median(found.own_times[:, atom], axis=1)
        ends = np.round(np.linspace(0, own_time.shape[1] - 1, N_PHASES + 1)).astype(int)
        for i, (start, stop) in enumerate(pairwise(ends)):
            part = f"{100 * i // N_PHASES} to {100 * (i + 1) // N_PHASES} %"
            duration = own_time[:, stop] - own_time[:, start]
            columns[f"duration of {part} of the cycle (ms)"] = 1e3 * duration / people.clocks[atom]
    marks = tuple(mark for mark in people.model.marks_ if mark.atom == atom)
    times = people.mark_times(marks)
    order = np.argsort([mark.time for mark in marks])
    for a, b in pairwise(order):
        name = f"{marks[a].name} to {marks[b].name} (ms)"
        columns[name] = 1e3 * (times[b] - times[a])
    return pd.DataFrame(columns, index=pd.Index(cohort.subjects))


def find_retest_errors(people: People, table: pd.DataFrame) -> dict[str, float] | None:
    """Return the smallest detectable change of each number; None without repeated visits."""
    if len({*people.persons}) == len(people.persons):
        return None
    try:
        found: Any = measure_reliability(table.dropna(axis=1, how="all"), people.persons)["sdc"]
        return found.to_dict()
    except InvalidParameterError:
        return None


def describe_differences(
    table: pd.DataFrame, sides: list[Side], errors: dict[str, float] | None
) -> Iterator[str]:
    """Yield sentences about what differs between the sides."""
    first, second = sides
    if is_paired(sides):
        yield f"Only the {len(first.people)} people in both groups are compared, as pairs."
    sentences = [
        _sentence(str(name), x.to_numpy(float), sides, errors) for name, x in table.items()
    ]
    said = [sentence for sentence in sentences if sentence]
    yield from said
    if said and not (first.is_one or second.is_one):
        yield f"No p value is corrected for the {table.shape[1]} numbers that were tested."
    small = min(sides, key=lambda side: np.inf if side.is_one else len(side.people))
    if first.is_one and second.is_one and errors is None:
        yield (
            "No one was recorded twice, so the retest error is unknown: the differences in the "
            "table may be chance."
        )
    elif first.is_one and second.is_one and not said:
        yield f"No number of {first.name} and {second.name} differs beyond the retest error."
    elif not small.is_one and len(small.people) < FEWEST:
        yield (
            f"{small.name} has {len(small.people)} people; with fewer than {FEWEST}, nothing is "
            "said about what is usual there."
        )
    elif not said:
        yield f"{first.name} and {second.name} do not differ beyond what is usual."


def _sentence(
    name: str, values: np.ndarray, sides: list[Side], errors: dict[str, float] | None
) -> str:
    """Return a sentence about a number of two sides; empty if they do not differ."""
    first, second = sides
    quantity, _, unit = name.rpartition(" (")
    quantity, unit = quantity.capitalize(), unit.rstrip(")")
    more, less = ("longer", "shorter") if unit == "ms" else ("higher", "lower")
    if first.is_one and second.is_one:
        error = np.nan if errors is None else errors.get(name, np.nan)
        change = float(first.average(values)[0] - second.average(values)[0])
        if not abs(change) > error:
            return ""
        how = more if change > 0 else less
        return (
            f"{quantity}: {abs(change):.3g} {unit} {how} in {first.name} than in "
            f"{second.name}, beyond the retest error of {error:.3g} {unit}."
        )
    if first.is_one or second.is_one:
        one, crowd = (first, second) if first.is_one else (second, first)
        own, means = one.average(values)[0], crowd.average(values)
        # The mean of several recordings varies less than one recording.
        others = (means, None) if len(one.rows) > 1 else (values[crowd.rows], crowd.persons)
        place = rank(own, others[0], more, less, others[1])
        if place in ("", "as usual"):
            return ""
        return (
            f"{quantity}: {own:.3g} {unit} in {one.name}, {place} of {crowd.name} "
            f"(median {np.nanmedian(means):.3g})."
        )
    return _compare_groups(quantity, unit, values, sides)


def _compare_groups(quantity: str, unit: str, values: np.ndarray, sides: list[Side]) -> str:
    first, second = sides
    a, b = (side.average(values) for side in sides)
    if is_paired(sides):
        a, b = a[np.isfinite(a + b)], b[np.isfinite(a + b)]
        test, number = "Wilcoxon signed-rank", f"{len(a)} pairs"
    else:
        a, b = a[np.isfinite(a)], b[np.isfinite(b)]
        test, number = "Mann-Whitney", f"{len(a)} and {len(b)} people"
    if min(len(a), len(b)) < FEWEST or (is_paired(sides) and np.array_equal(a, b)):
        return ""
    done: Any = wilcoxon(a - b) if is_paired(sides) else mannwhitneyu(a, b)
    if done.pvalue >= 1 - LEVEL:
        return ""
    return (
        f"{quantity}: median {np.median(a):.3g} {unit} in {first.name}, {np.median(b):.3g} in "
        f"{second.name} ({_change(a, b, sides):+.3g}; {test} p = {done.pvalue:.2g}, {number})."
    )


def _change(a: np.ndarray, b: np.ndarray, sides: list[Side]) -> float:
    """Return the difference of two medians, or the median difference of pairs."""
    return float(np.nanmedian(a - b) if is_paired(sides) else np.nanmedian(a) - np.nanmedian(b))


def _row(
    name: str, column: pd.Series, sides: list[Side], errors: dict[str, float] | None
) -> list[tuple[str, str]]:
    """Return the cells of a number, each with its explanation."""
    a, b = (side.average(column.to_numpy(float)) for side in sides)
    error = np.nan if errors is None else errors.get(name, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a side without the atom
        numbers = [float(np.nanmedian(a)), float(np.nanmedian(b)), _change(a, b, sides), error]
    cells = [f"{x:.3g}" if np.isfinite(x) else "unknown" for x in numbers]
    return [(name, _explain(name)), *((cell, "") for cell in cells)]


def _explain(name: str) -> str:
    known = {"rate (per minute)": RATE, "variation of intervals (%)": VARIATION}
    if name.startswith("duration of "):
        return "Time that a person takes for this part of the cycle of the population."
    return known.get(name, "Time between two landmarks in the usual cycle of a person.")


def _curves(people: People, side: Side, atom: int, channel: int) -> dict[str, Any]:
    """Return means of the cycle and of the local speed, and their bands.

    The band of a group is one standard deviation between people, that of a person the 95 %
    confidence band, if it is known.
    """
    found = people.found
    warp = channel if found.warps.shape[2] > 1 else 0
    curves = {"atoms": people.sizes[atom] * found.personal_dictionary[:, atom, :, channel]}
    if found.warps.shape[2]:
        curves["speeds"] = people.log_speeds[:, atom, warp]
    sure = _half_widths(people, side, atom)
    described: dict[str, Any] = {}
    for name, values in curves.items():
        means = side.average(values)
        known = means[np.isfinite(means).all(1)]
        if not len(known):
            continue
        back, mean, half = np.exp if name == "speeds" else np.asarray, known.mean(0), None
        if len(known) > 1:
            half = known.std(0, ddof=1)
        elif sure:
            half = sure[1][warp] if name == "speeds" else people.sizes[atom] * sure[0][:, channel]
        described[name] = {"mean": _numbers(back(mean))}
        if half is not None:
            described[name] |= {
                "low": _numbers(back(mean - half)),
                "high": _numbers(back(mean + half)),
            }
    return described


def _half_widths(people: People, side: Side, atom: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the half widths of the bands of one person, None for groups and without errors.

    Errors of several recordings may all have one sign, so that of their mean is their mean.
    """
    if not side.is_one or isinstance(people.uncertainty, str):
        return None
    known = side.rows[people.found.n_activations[side.rows, atom] > 0]
    if not len(known):
        return None
    halves = [people.uncertainty.half_widths(int(s), atom) for s in known]
    atoms, speeds = (np.mean(part, axis=0) for part in zip(*halves, strict=True))
    return atoms, speeds


def _numbers(values: np.ndarray) -> list[float]:
    return [float(f"{x:.5g}") for x in values]
