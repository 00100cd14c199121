"""Compare people, visits and groups in pairs: numbers, curves, and sentences."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

from percdl.analysis import measure_reliability
from percdl.analysis.effects import invert_warps
from percdl.exceptions import InvalidParameterError
from percdl.report.people import People
from percdl.report.words import FEWEST, LEVEL, rank
from percdl.studio.project import RefusedError

# Parts of the cycle whose durations are compared.
N_PHASES = 5


class Side(NamedTuple):
    """One side of a comparison: its name, and the positions of its recordings."""

    name: str
    rows: np.ndarray

    @property
    def is_one(self) -> bool:
        """Whether it is a single recording."""
        return len(self.rows) == 1


def find_side(people: People, asked: str) -> Side:
    """Return the recordings of ``person:ID``, ``group:NAME`` or ``everyone``."""
    kind, _, name = asked.partition(":")
    if kind == "everyone":
        return Side("everyone", np.arange(len(people.cohort)))
    labels = {"person": people.cohort.subjects, "group": people.cohort.groups}.get(kind, ())
    rows = np.flatnonzero(np.array([str(label) for label in labels], object) == name)
    if not len(rows):
        raise RefusedError(f"There is no {asked!r} to compare.")
    return Side(name, rows)


def set_apart(first: Side, second: Side) -> list[Side]:
    """Return both sides, a single recording left out of the group that it is compared with."""
    if first.is_one and not second.is_one:
        second = Side(second.name, np.setdiff1d(second.rows, first.rows))
    elif second.is_one and not first.is_one:
        first = Side(first.name, np.setdiff1d(first.rows, second.rows))
    return [first, second]


def compare(people: People, first: str, second: str, atom: int, channel: int) -> dict[str, Any]:
    """Return the two sides of a comparison: sentences, a table of numbers, and curves."""
    sides = set_apart(*(find_side(people, asked) for asked in (first, second)))
    table = measure_people(people, atom)
    errors = find_retest_errors(people, table)
    return {
        "words": list(describe_differences(table, sides, errors)),
        "header": ["", *(side.name for side in sides), "difference", "retest error"],
        "rows": [_row(str(name), x, sides, errors) for name, x in table.items()],
        "curves": [_curves(people, side, atom, channel) for side in sides],
    }


def measure_people(people: People, atom: int) -> pd.DataFrame:
    """Return numbers with units of every recording: rate, phases of the cycle, intervals."""
    found, sfreq, cohort = people.found, people.cohort.sfreq, people.cohort
    rhythm: Any = people.regularity[people.regularity["atom"] == atom]
    columns: dict[str, Any] = {
        "rate (per minute)": rhythm["cadence"].to_numpy(float),
        "variation of intervals (%)": 100 * rhythm["interval_cv"].to_numpy(float),
    }
    if found.warps.shape[2]:
        own_time = np.median(invert_warps(found.warps[:, [atom]])[:, 0], axis=1)
        ends = np.round(np.linspace(0, own_time.shape[1] - 1, N_PHASES + 1)).astype(int)
        for i, (start, stop) in enumerate(pairwise(ends)):
            part = f"{100 * i // N_PHASES} to {100 * (i + 1) // N_PHASES} %"
            duration = own_time[:, stop] - own_time[:, start]
            columns[f"duration of {part} of the cycle (ms)"] = 1e3 * duration / sfreq
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
) -> Any:
    """Yield sentences about what differs between the sides."""
    first, second = sides
    said = 0
    for name in table:
        values = table[name].to_numpy(float)
        a, b = (values[side.rows] for side in sides)
        sentence = _sentence(str(name), a, b, first, second, errors)
        if sentence:
            said += 1
            yield sentence
    small = min(sides, key=lambda side: len(side.rows) if not side.is_one else np.inf)
    if first.is_one and second.is_one and errors is None:
        yield (
            "No one was recorded twice, so the retest error is unknown: the differences in the "
            "table may be chance."
        )
    elif first.is_one and second.is_one and not said:
        yield f"No number of {first.name} and {second.name} differs beyond the retest error."
    elif not small.is_one and len(small.rows) < FEWEST:
        yield (
            f"{small.name} has {len(small.rows)} recordings; with fewer than {FEWEST}, nothing is "
            "said about what is usual there."
        )
    elif not said:
        yield f"{first.name} and {second.name} do not differ beyond what is usual."


def _sentence(
    name: str,
    a: np.ndarray,
    b: np.ndarray,
    first: Side,
    second: Side,
    errors: dict[str, float] | None,
) -> str:
    """Return a sentence about a number of two sides; empty if they do not differ."""
    quantity, _, unit = name.rpartition(" (")
    unit = unit.rstrip(")")
    more, less = ("longer", "shorter") if unit == "ms" else ("higher", "lower")
    if first.is_one and second.is_one:
        error = np.nan if errors is None else errors.get(name, np.nan)
        change = float(a[0] - b[0])
        if not abs(change) > error:
            return ""
        how = more if change > 0 else less
        return (
            f"{quantity.capitalize()}: {abs(change):.3g} {unit} {how} in {first.name} than in "
            f"{second.name}, beyond the retest error of {error:.3g} {unit}."
        )
    if first.is_one or second.is_one:
        (one,), many, who, crowd = (a, b, first, second) if first.is_one else (b, a, second, first)
        place = rank(one, many, more, less)
        if place in ("", "as usual"):
            return ""
        return (
            f"{quantity.capitalize()}: {one:.3g} {unit} in {who.name}, {place} of {crowd.name} "
            f"(median {np.nanmedian(many):.3g})."
        )
    return _compare_groups(quantity, unit, a, b, first, second)


def _compare_groups(
    quantity: str, unit: str, a: np.ndarray, b: np.ndarray, first: Side, second: Side
) -> str:
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if min(len(a), len(b)) < FEWEST:
        return ""
    p = float(mannwhitneyu(a, b).pvalue)
    if p >= 1 - LEVEL:
        return ""
    change = np.median(a) - np.median(b)
    return (
        f"{quantity.capitalize()}: median {np.median(a):.3g} {unit} in {first.name}, "
        f"{np.median(b):.3g} in {second.name} ({change:+.3g}; Mann-Whitney p = {p:.2g}, not "
        "corrected for the number of comparisons)."
    )


def _row(
    name: str, column: pd.Series, sides: list[Side], errors: dict[str, float] | None
) -> list[str]:
    values = column.to_numpy(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a side without the atom
        a, b = (float(np.nanmedian(values[side.rows])) for side in sides)
    error = np.nan if errors is None else errors.get(name, np.nan)
    return [name, *(f"{x:.3g}" if np.isfinite(x) else "unknown" for x in (a, b, a - b, error))]


def _curves(people: People, side: Side, atom: int, channel: int) -> dict[str, Any]:
    """Return means of the cycle and of the local speed, and bands of one standard deviation."""
    found = people.found
    atoms = people.sizes[atom] * found.personal_dictionary[side.rows, atom, :, channel]
    warp = channel if found.warps.shape[2] > 1 else 0
    curves = {"atoms": atoms}
    if found.warps.shape[2]:
        curves["speeds"] = np.exp(people.log_speeds[side.rows, atom, warp])
    described: dict[str, Any] = {"name": side.name}
    for name, values in curves.items():
        known = values[np.isfinite(values).all(1)]
        if len(known):
            to, back = (np.log, np.exp) if name == "speeds" else (np.asarray, np.asarray)
            mean, sd = to(known).mean(0), to(known).std(0, ddof=min(1, len(known) - 1))
            described[name] = {"mean": _numbers(back(mean))}
            if len(known) > 1:
                ends = {"low": back(mean - sd), "high": back(mean + sd)}
                described[name] |= {side: _numbers(values) for side, values in ends.items()}
    return described


def _numbers(values: np.ndarray) -> list[float]:
    return [float(f"{x:.5g}") for x in values]
