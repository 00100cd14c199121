"""The people of a report and their groups: tables, mean curves, and where groups differ."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.analysis import (
    Deviation,
    Effects,
    Uncertainty,
    compare_groups,
    estimate_uncertainty,
    measure_deviation,
    measure_regularity,
    separate_effects,
)
from percdl.analysis.checks import check_fitted_on
from percdl.analysis.effects import log_speed
from percdl.analysis.groups import average_persons, summarize_groups
from percdl.estimators.base import BaseCDL
from percdl.estimators.cycles import FALSE_ALARMS, Cycles, find_cycles
from percdl.estimators.landmarks import Mark, personal_times
from percdl.estimators.people import check_names
from percdl.estimators.personalization import Personalization, errors_of, explained_share
from percdl.estimators.start import make_settings
from percdl.estimators.summary import ERROR, RATE, count
from percdl.estimators.suspects import find_suspects
from percdl.exceptions import InvalidParameterError, MissingPackageError
from percdl.plotting.people import embed
from percdl.report.packing import pack
from percdl.signals import Cohort, as_cohort
from percdl.signals.events import event_lengths
from percdl.signals.recording import abbreviate
from percdl.transforms import TimeWarp

# Usual names of reference groups; the first that a cohort has is used.
USUAL_REFERENCES = ("healthy", "control", "controls", "normal", "norm", "reference")
VARIATION = "Coefficient of variation of the intervals, pauses left out: 0 is perfectly regular."
# Most columns of the metadata in the table.
MOST_COLUMNS = 8
LEVEL = 0.05
# Most operations of standard errors: about a minute.
MOST_OPERATIONS = 1e11
# At least this many; more if many tests share the level.
N_PERMUTATIONS = 1000
# Compared are personal atoms of one size, timing, and the observed cycle with timing undone.
PARTS = ("atoms", "timing", "amplitude")


@dataclass(frozen=True, eq=False)
class People:
    """The recordings of a report and the results of the model."""

    model: BaseCDL
    cohort: Cohort
    found: Personalization
    reference: str | None  # the group that others are compared with; None for everyone
    metadata: pd.DataFrame | None  # one row per recording, in order
    persons: list[str]  # of each recording

    @property
    def is_of_fit(self) -> bool:
        """Whether these are the people of the fit."""
        return self.found is self.model.personalization_

    @property
    def norm(self) -> str:
        """Name of the reference in a sentence."""
        return self.reference or "everyone else"

    @cached_property
    def groups(self) -> list[str]:
        """Names of the groups, the reference first, then in order of appearance."""
        names = dict.fromkeys(str(name) for name in self.cohort.groups if name is not None)
        return sorted(names, key=lambda name: name != self.reference)

    @cached_property
    def group_sizes(self) -> dict[str, str]:
        """The size of each group, in words."""
        labels = np.array([str(name) for name in self.cohort.groups])
        return {name: self.say_size(np.flatnonzero(labels == name)) for name in self.groups}

    def say_size(self, rows: Any) -> str:
        """Return the number of people of some recordings, and of the recordings if it differs."""
        n_people = len({self.persons[s] for s in rows})
        said = count(n_people, "person").replace("persons", "people")
        return said if n_people == len(rows) else f"{said}, {count(len(rows), 'recording')}"

    @cached_property
    def atom_names(self) -> list[str]:
        """Names of the atoms in sentences and charts."""
        names = enumerate(check_names(self.model.atom_names_, len(self.found.dictionary)))
        return [f"atom {k}" if name == f"atom{k}" else name for k, name in names]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Median amplitude of each atom, which turns it into signal units."""
        amplitudes = self.found.events.groupby("atom")["amplitude"].median()
        return amplitudes.reindex(range(len(self.found.dictionary))).fillna(1.0).to_numpy()

    @cached_property
    def errors(self) -> np.ndarray:
        """Normalized reconstruction error of each recording; NaN if it is all zero."""
        return errors_of(self.cohort, self.found)

    @property
    def clocks(self) -> np.ndarray:
        """The samples of each common atom per second."""
        return self.found.clocks(self.cohort.sfreq)

    @cached_property
    def log_speeds(self) -> Float[np.ndarray, "S K C L"]:
        """Logarithm of the local speed of each person at each sample of the common atom."""
        return log_speed(self.found.own_times)

    @cached_property
    def cycles(self) -> pd.DataFrame:
        """Every cycle with its quality, in the order of the events."""
        return self.measured.table

    @cached_property
    def measured(self) -> Cycles:
        """Every cycle with its delay."""
        return find_cycles(self.found, self.cohort)

    @cached_property
    def _known_times(self) -> dict[Mark, np.ndarray]:
        return {}

    def mark_times(self, marks: tuple[Mark, ...]) -> Float[np.ndarray, "n S"]:
        """Return when each person reaches each landmark, in seconds from the start of the atom."""
        known = self._known_times
        new = tuple(mark for mark in marks if mark not in known)
        known |= dict(zip(new, personal_times(new, self.measured), strict=True))
        return np.array([known[mark] for mark in marks]).reshape(len(marks), len(self.cohort))

    @cached_property
    def suspects(self) -> pd.DataFrame:
        """Doubtful recordings and reasons; model files do not store them."""
        events, model = self.found.events, self.model
        onsets, lengths = events["onset_sample"], event_lengths(events, model.atom_length_)
        atoms = events["atom"].to_numpy(int)
        cycles = self.found.positions, atoms, onsets.to_numpy(int), lengths
        settings, fitted = make_settings(model, self.cohort), self.is_of_fit
        return find_suspects(self.cohort, settings, *cycles, self.errors, fitted=fitted)

    @cached_property
    def regularity(self) -> pd.DataFrame:
        """Rate and regularity of each atom, one row per person and atom."""
        n_atoms, length, _ = self.found.dictionary.shape
        about = {"atom_length": length, "n_atoms": n_atoms}
        return measure_regularity(self.found.events, self.cohort, **about)

    @cached_property
    def uncertainty(self) -> Uncertainty | str:
        """The standard errors of the fit, or the reason why they are missing."""
        model, atoms = self.model, self.found.dictionary
        if not self.is_of_fit:
            return "the people here are not those of the fit."
        if len(self.cohort) * len(atoms) * atoms[0].size ** 3 > MOST_OPERATIONS:
            return "it would take too long for this many recordings and channels."
        try:
            return estimate_uncertainty(model, self.cohort)
        except InvalidParameterError as reason:
            return str(reason)

    @cached_property
    def deviation(self) -> Deviation | str:
        """The deviation index of all people, or the reason why it is missing."""
        groups = None if self.reference is None else list(self.cohort.groups)
        errors = self.uncertainty
        if isinstance(errors, str) or not isinstance(self.found.transform, TimeWarp):
            errors = None
        try:
            options = {"persons": self.persons, "uncertainty": errors}
            return measure_deviation(self.found, groups, self.reference, **options)
        except InvalidParameterError as reason:
            return str(reason)


def find_recordings(model: BaseCDL, given: Any) -> Cohort:
    """Return the recordings given, or those of the fit."""
    recordings = model.recordings_ if given is None else as_cohort(given)
    if recordings is None:
        raise InvalidParameterError(
            "The model does not hold the recordings it was fitted on: model files and pickles "
            "leave them out. Pass them, as in `model.report(path, cohort)`."
        )
    return recordings


def gather_people(
    model: BaseCDL,
    cohort: Cohort,
    reference: str | None = None,
    metadata: pd.DataFrame | Mapping[str, Any] | None = None,
    person: str | None = None,
) -> People:
    """Collect the people of the fit, or personalize the model to others."""
    table = None if metadata is None else _in_order(pd.DataFrame(metadata), cohort.subjects)
    persons = _name_persons(cohort.persons, table, person)
    asked = _find_reference(cohort, reference)
    found = model.personalization_ if _is_of_fit(cohort, model) else model.personalize(cohort)
    return People(model, cohort, found, asked, table, persons)


def _is_of_fit(cohort: Cohort, model: BaseCDL) -> bool:
    """Return whether these are the recordings of the fit, not others with the same names.

    A model from a file does not hold its recordings; then its events must explain part of these.
    It does not hold its corrections either, so corrected recordings are personalized.
    """
    about = (cohort.subjects, cohort.n_channels, cohort.sfreq)
    if about != (tuple(model.subjects_), model.n_channels_, model.sfreq_):
        return False
    if (kept := model.recordings_) is not None:
        pairs = zip(cohort, kept, strict=True)
        return cohort.corrections == kept.corrections and all(
            np.array_equal(a.values, b.values, equal_nan=True) for a, b in pairs
        )
    if cohort.corrections:
        return False
    try:
        check_fitted_on(model, cohort)
    except InvalidParameterError:
        return False
    return model.events_.empty or explained_share(cohort, model.personalization_) > 0


def _find_reference(cohort: Cohort, asked: str | None) -> str | None:
    names = [str(name) for name in dict.fromkeys(cohort.groups) if name is not None]
    if asked is None:
        usual = {name.lower(): name for name in reversed(names)}
        return next((usual[name] for name in USUAL_REFERENCES if name in usual), None)
    if asked not in names:
        known = ", ".join(map(repr, names)) or "none"
        raise InvalidParameterError(
            f"`reference={asked!r}` is not a group of the recordings. Groups: {known}."
        )
    return asked


def _in_order(metadata: pd.DataFrame, subjects: tuple[str, ...]) -> pd.DataFrame:
    """Return the rows of the metadata in the order of the recordings."""
    table = metadata.set_index("subject") if "subject" in metadata else metadata
    table = table.set_axis(table.index.map(str))
    missing = [subject for subject in subjects if subject not in table.index]
    if missing or not table.index.is_unique:
        raise InvalidParameterError(
            f"`metadata` needs one row for each of the {len(subjects)} subjects, in a column "
            "'subject' or as its index; "
            + (f"{missing[0]!r} has none." if missing else "some have several.")
        )
    return table.loc[list(subjects)]


def _name_persons(
    default: tuple[str, ...], metadata: pd.DataFrame | None, column: str | None
) -> list[str]:
    """Return the person of each recording: a column of the metadata, or those of the cohort."""
    if column is None:
        return list(default)
    if metadata is None or column not in metadata:
        known = "there are none" if metadata is None else abbreviate(metadata.columns, 10)
        raise InvalidParameterError(
            f"`person={column!r}` must be a column of the metadata; {known}."
        )
    persons: Any = metadata[column]
    if persons.isna().any():
        raise InvalidParameterError(
            f"`person={column!r}`: the metadata have no person for {persons.isna().idxmax()!r}."
        )
    return [str(value) for value in persons]


def write_median(values: Any, style: str) -> str:
    """Return the median of the known values as text."""
    median = pd.Series(values, dtype=float).median()
    return "unknown" if np.isnan(median) else format(median, style)


def write_interval(ends: Float[np.ndarray, " 2"]) -> str:
    """Return a 95 % interval in words; empty if it is unknown."""
    return "" if np.isnan(ends).any() else f"95 % interval {ends[0]:.1f} to {ends[1]:.1f}"


def tabulate_people(people: People) -> list[dict[str, Any]]:
    """Return the columns of the table of people: name, label, title, kind, digits, values."""
    cohort, deviation, table = people.cohort, people.deviation, people.regularity
    columns = [_column("subject", "Subject", "", cohort.subjects)]
    if people.groups:
        title = "Group that was given with the recording, such as a diagnosis"
        columns.append(_column("group", "Group", title, cohort.groups))
    if isinstance(deviation, Deviation):
        title = (
            f"Distance of the cycle from the mean of {people.norm}: 1 is as far as a typical "
            "member, 2 twice as far"
        )
        columns.append(_column("deviation", "Deviation", title, deviation.index, 2))
        columns[-1]["intervals"] = [write_interval(ends) for ends in deviation.interval]
        title = f"Percentile: percentage of {people.norm} with a smaller deviation"
        columns.append(_column("percentile", "Percentile", title, deviation.percentile, 0))
    if len(people.atom_names) == 1:
        columns += [
            _column("cadence", "Per min", f"Cycles per minute: {RATE[:-1]}", table["cadence"], 1),
            _column("variability", "Variation (%)", VARIATION[:-1], 100 * table["interval_cv"], 1),
            _column("cycles", "Cycles", "Number of cycles found", table["n_activations"], 0),
        ]
    for k, name in enumerate(people.atom_names) if len(people.atom_names) > 1 else ():
        counts = table.loc[table["atom"] == k, "n_activations"]
        title = f"Times that {name} was found; an atom is a shape that repeats"
        columns.append(_column(f"cycles{k}", name[0].upper() + name[1:], title, counts, 0))
    flags: Any = 100.0 * people.cycles["flagged"]
    flagged = flags.groupby(people.found.positions).mean().reindex(range(len(cohort)))
    title = f"Share of the cycles that fit worse than usual; by chance about {FALSE_ALARMS:.0%}"
    columns.append(_column("flagged", "Flagged (%)", title, flagged, 1))
    columns.append(_column("error", "Error", ERROR, people.errors, 3))
    shown = [] if people.metadata is None else list(people.metadata.items())[:MOST_COLUMNS]
    for index, (name, values) in enumerate(shown):
        digits = None
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            digits = 0 if (values.dropna() % 1 == 0).all() else 2
        columns.append(_column(f"meta{index}", str(name), "", values, digits))
    return columns


def _column(
    name: str, label: str, title: str, values: Any, digits: int | None = None
) -> dict[str, Any]:
    """Return a column of numbers with some digits, or of text."""
    column: dict[str, Any] = {"name": name, "label": label, "title": title, "kind": "text"}
    if digits is None:
        return column | {"values": [None if pd.isna(x) else str(x) for x in values]}
    numbers = pd.Series(values).to_numpy(float, na_value=np.nan)
    kept = [float(f"{x:.6g}") if np.isfinite(x) else None for x in numbers]
    return column | {"kind": "number", "digits": digits, "values": kept}


@dataclass(frozen=True, eq=False)
class Groups:
    """The people of a report by group; only groups of two or more people are compared."""

    people: People
    level: float = LEVEL

    @cached_property
    def names(self) -> list[str]:
        """The groups to compare: at least two people have all curves."""
        if len(self.people.groups) < 2:
            return []  # curves take a while
        atoms = range(len(self.people.found.dictionary))
        finite = [np.isfinite(self.curves(part, k)) for part in self.parts for k in atoms]
        known = np.all([curve.all((1, 2)) for curve in finite], axis=0)
        pairs = {*zip(self.people.cohort.groups, self.people.persons, known, strict=True)}
        of = [name for name, _, seen in pairs if seen]
        return [name for name in self.people.groups if of.count(name) > 1]

    @property
    def labels(self) -> list[str | None]:
        """Group of each recording, None for those that are not compared."""
        return [name if name in self.names else None for name in self.people.cohort.groups]

    @cached_property
    def effects(self) -> Effects:
        """Timing and amplitude of all people."""
        return separate_effects(self.people.found, self.people.cohort)

    def curves(self, part: str, k: int) -> np.ndarray:
        """Return the curves (S, L, channels) of one atom."""
        if part == "atoms":
            return self.people.sizes[k] * self.people.found.personal_dictionary[:, k]
        if part == "timing":
            return np.moveaxis(self.effects.timing[:, k], 1, 2)
        return self.effects.amplitude[:, k]

    @property
    def parts(self) -> list[str]:
        """The parts to compare; without a warp there is no timing."""
        return [part for part in PARTS if part != "timing" or self.effects.timing.shape[2]]

    @property
    def n_tests(self) -> int:
        """Number of tests that share the level: of each part, atom and group but the first."""
        n_others = max(len(self.names) - 1, 0)
        return n_others and n_others * len(self.parts) * len(self.people.found.dictionary)

    @cached_property
    def clusters(self) -> list[dict[str, Any]] | str:
        """Significant clusters, with the level shared by all tests, or why there was no test."""
        if not self.n_tests:
            return []
        base, *others = self.names  # the reference, or the first, and all others
        level, clocks = self.level / self.n_tests, self.people.clocks
        # The smallest p value, 1 / n_permutations, must lie well below the level.
        options = {"n_permutations": max(N_PERMUTATIONS, math.ceil(2 / level))}
        found = []
        for part, k, name in product(self.parts, range(len(self.people.found.dictionary)), others):
            curves = self.curves(part, k)
            try:
                done = compare_groups(
                    curves, self.labels, name, base, persons=self.people.persons, **options
                )
            except (MissingPackageError, InvalidParameterError) as reason:
                return str(reason)
            found += [
                {
                    "part": part, "atom": k, "channel": cluster.channel, "group": name,
                    "base": base,
                    "from": cluster.start / clocks[k], "to": cluster.stop / clocks[k],
                    "above": cluster.mass > 0, "p": cluster.p_value,
                }
                for cluster in done.significant(level)
            ]  # fmt: skip
        return found


def describe_groups(groups: Groups) -> dict[str, Any] | None:
    """Return the curves and clusters of the groups; None for fewer than two groups."""
    if len(groups.names) < 2:
        return None
    atoms = range(len(groups.people.found.dictionary))
    described: list[dict[str, Any]] = [{"name": name} for name in groups.names]
    # A person can be in several groups, such as before and after a treatment.
    members = [*zip(groups.labels, groups.people.persons, strict=True)]
    for part in groups.parts:
        by_atom = [summarize_groups(groups.curves(part, k), groups.labels, members) for k in atoms]
        for group in described:
            own = [atom[group["name"]] for atom in by_atom]
            mean, sd = (np.stack([getattr(x, name).T for x in own]) for name in ("mean", "sd"))
            group[part] = [pack(mean), pack(sd)]  # arrays (K, channels, L)
    clusters = groups.clusters
    return {"groups": described, "clusters": [] if isinstance(clusters, str) else clusters}


def tabulate_groups(groups: Groups) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of groups: medians over people, recordings averaged."""
    people, deviation = groups.people, groups.people.deviation
    columns = {}
    if isinstance(deviation, Deviation):
        columns["Deviation"] = (deviation.index, ".2f")
    if len(people.found.dictionary) == 1:
        columns["Per min"] = (people.regularity["cadence"].to_numpy(float), ".1f")
    columns["Cycles"] = (people.found.n_activations.sum(1).astype(float), ".0f")
    columns["Error"] = (people.errors, ".3f")
    labels = np.array([str(name) for name in people.cohort.groups])
    rows = []
    for name in people.groups:
        of = np.flatnonzero(labels == name)
        who = [people.persons[s] for s in of]
        own = [(average_persons(values[of], who)[0], style) for values, style in columns.values()]
        cells = [write_median(values, style) for values, style in own]
        rows.append([name, str(len({*who})), str(len(of)), *cells])
    return ["Group", "People", "Recordings", *(f"{name} (median)" for name in columns)], rows


def place_people(people: People) -> dict[str, Any] | None:
    """Return the first two principal components of the parameters of all people."""
    features = people.found.params.reshape(len(people.cohort), -1)
    known = np.isfinite(features.sum(1))
    if features.shape[1] < 2 or known.sum() < 3 or not features[known].std(0).any():
        return None
    points, labels = embed(features, None, known)
    x, y = ([None if np.isnan(v) else float(f"{v:.5g}") for v in axis] for axis in points.T)
    return {"x": x, "y": y, "labels": list(labels)}
