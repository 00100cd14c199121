"""The groups of a report: mean curves, where they differ, and all people in one plane."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from percdl.analysis import Deviation, Effects, compare_groups, separate_effects
from percdl.analysis.groups import summarize_groups
from percdl.exceptions import InvalidParameterError, MissingPackageError
from percdl.plotting.people import embed
from percdl.report.packing import pack
from percdl.report.people import People, write_median

LEVEL = 0.05
# At least this many; more if many tests share the level.
N_PERMUTATIONS = 1000
# Compared are personal atoms of one size, timing, and the observed cycle with timing undone.
PARTS = ("atoms", "timing", "amplitude")


@dataclass(frozen=True, eq=False)
class Groups:
    """The people of a report by group; only groups of two or more people are compared."""

    people: People
    level: float = LEVEL

    @cached_property
    def names(self) -> list[str]:
        """The groups to compare: at least two people have all curves."""
        atoms = range(len(self.people.found.dictionary))
        finite = [np.isfinite(self.curves(part, k)) for part in self.parts for k in atoms]
        known = np.all([curve.all((1, 2)) for curve in finite], axis=0)
        of = [name for name, seen in zip(self.people.cohort.groups, known, strict=True) if seen]
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
        return len(self.parts) * len(self.people.found.dictionary) * max(len(self.names) - 1, 0)

    @cached_property
    def clusters(self) -> list[dict[str, Any]] | str:
        """Significant clusters, with the level shared by all tests, or why there are none."""
        if not self.n_tests:
            return []
        base, *others = self.names  # the reference, or the first, and all others
        level, sfreq = self.level / self.n_tests, self.people.cohort.sfreq
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
                    "base": base, "from": cluster.start / sfreq, "to": cluster.stop / sfreq,
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
    for part in groups.parts:
        by_atom = [summarize_groups(groups.curves(part, k), groups.labels) for k in atoms]
        for group in described:
            own = [atom[group["name"]] for atom in by_atom]
            mean, sd = (np.stack([getattr(x, name).T for x in own]) for name in ("mean", "sd"))
            group[part] = [pack(mean), pack(sd)]  # arrays (K, channels, L)
    clusters = groups.clusters
    return {"groups": described, "clusters": [] if isinstance(clusters, str) else clusters}


def tabulate_groups(groups: Groups) -> tuple[list[str], list[list[str]]]:
    """Return the header and rows of the table of groups: medians over people."""
    people, deviation = groups.people, groups.people.deviation
    columns = {
        "Cycles": (people.found.n_activations.sum(1), ".0f"),
        "Error": (people.errors, ".3f"),
    }
    if len(people.found.dictionary) == 1:
        columns["Per minute"] = (people.regularity["cadence"].to_numpy(float), ".1f")
    if isinstance(deviation, Deviation):
        columns["Deviation"] = (deviation.index, ".2f")
    labels = np.array([str(name) for name in people.cohort.groups])
    rows = []
    for name in people.groups:
        of = labels == name
        cells = [write_median(values[of], style) for values, style in columns.values()]
        rows.append([name, str(int(of.sum())), *cells])
    return ["Group", "People", *(f"{name} (median)" for name in columns)], rows


def place_people(people: People) -> dict[str, Any] | None:
    """Return the first two principal components of the parameters of all people."""
    features = people.found.params.reshape(len(people.cohort), -1)
    known = np.isfinite(features.sum(1))
    if features.shape[1] < 2 or known.sum() < 3 or not features[known].std(0).any():
        return None
    points, labels = embed(features, None, known)
    x, y = ([None if np.isnan(v) else float(f"{v:.5g}") for v in axis] for axis in points.T)
    return {"x": x, "y": y, "labels": list(labels)}
