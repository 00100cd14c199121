"""The deviation index separates patients from healthy walkers, and what else could explain it.

One trial of every available participant, z-scored, right foot, sagittal plane. The model is that
of the paper's comparisons between people: PerCDL from PopCDL's atom, with fixed windows. It does
not use the groups. The index is `measure_deviation` with its defaults; alternatives are measured
for comparison. Groups were recorded with different sensors and differ in age, so the index is
also measured within one brand, for pairs of equal age, and with age removed by regression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

from benchmarks.claims._auc import Separation, separate
from benchmarks.claims._claim import Claim, at_least, beside, is_quick
from benchmarks.cohorts import present
from percdl import load_gait
from percdl.analysis import judge_events, measure_deviation, measure_regularity
from percdl.analysis.deviation import LEAST_PERSONS, describe_people, distances
from percdl.datasets.gait import GROUPS
from percdl.estimators.personalization import Personalization
from percdl.experiments.gait import HEALTHY, LENGTH, build
from percdl.signals import Cohort

# What a coin reaches: the interval of a separation has to be above it.
CHANCE = 0.5
PATIENTS = GROUPS[1:]
BOTH = " and ".join(PATIENTS)
# Years between two people of the same age.
CALIPER = 5.0
N_SPLITS = 200
ENOUGH = 10
Described = Callable[[Personalization], tuple[np.ndarray, np.ndarray | None]]
RHYTHM = ["cadence", "interval_robust_cv", "interval_cv", "time_share"]


def _by_index(people: Personalization) -> tuple[np.ndarray, np.ndarray]:
    values, kinds = describe_people(people)
    return values[:, 0], kinds


def _by_atoms(people: Personalization) -> tuple[np.ndarray, None]:
    return people.personal_dictionary[:, 0, :, 0][:, 1:-1], None  # warps keep both ends


def _by_speed(people: Personalization) -> tuple[np.ndarray, None]:
    return np.log(np.gradient(people.warps, axis=-1))[:, 0, 0], None


def _by_parameters(people: Personalization) -> tuple[np.ndarray, None]:
    return people.params[:, 0], None


SPACES: dict[str, Described] = {
    "displacement, as the index": _by_index,
    "personal atoms": _by_atoms,
    "local speed": _by_speed,
    "parameters of all layers": _by_parameters,
}


@dataclass(frozen=True, eq=False)
class Walkers:
    """Participants, one trial each, and what is known about them."""

    cohort: Cohort
    about: pd.DataFrame
    people: Personalization
    halves: tuple[Personalization, Personalization]

    @property
    def group(self) -> np.ndarray:
        """Group of each participant."""
        return self.about["PathologyGroup"].to_numpy()

    @property
    def is_healthy(self) -> np.ndarray:
        """Who belongs to the reference."""
        return self.group == HEALTHY

    def index(self, reference: np.ndarray | None = None) -> np.ndarray:
        """Return the deviation index of everyone, from the healthy or from some of them."""
        members = self.is_healthy if reference is None else reference
        return measure_deviation(self.people, np.where(members, "norm", "other"), "norm").index

    def distance(self, described: Described) -> np.ndarray:
        """Return distances from the healthy by other features than those of the index."""
        return self.distance_of(self.people, described)

    def distance_of(self, people: Personalization, described: Described) -> np.ndarray:
        """Return distances of other recordings of the same people, each left out of the norm."""
        (norm, kinds), (values, _) = described(self.people), described(people)
        who = np.array(self.people.subjects)
        healthy = self.is_healthy & np.isfinite(norm).all(1)
        known = np.isfinite(values).all(1)
        found = np.full(len(values), np.nan)
        found[known] = distances(norm[healthy], who[healthy], values[known], who[known], kinds)[0]
        return found

    def compare(
        self, score: np.ndarray, name: str, among: np.ndarray | None = None
    ) -> Separation | None:
        """Return how a score separates a group of patients from the healthy, among some."""
        among = np.ones(len(score), bool) if among is None else among
        ill = ~self.is_healthy if name == BOTH else self.group == name
        pair = score[ill & among], score[self.is_healthy & among]
        return _separate(pair) if min(map(len, pair)) >= LEAST_PERSONS else None


def claims() -> Iterator[Claim]:
    """Claim that the index separates, then look for other explanations."""
    walkers = _fit()
    index = walkers.index()
    for name in (*PATIENTS, BOTH):
        yield _claim(f"{name} against {HEALTHY}: AUC of the index", walkers.compare(index, name))
    yield from _other_scores(walkers)
    yield from _other_references(walkers)
    moved = build("PerCDL", "auto").fit(walkers.cohort)
    score = measure_deviation(moved, np.where(walkers.is_healthy, "norm", "other"), "norm").index
    yield _report(walkers, "index of a fit that moves everyone's windows (the default)", score)
    yield from _sensors(walkers, index)
    yield from _age_and_speed(walkers, index)


def _fit() -> Walkers:
    data = present(load_gait)
    about = data.metadata.drop_duplicates("Subject")
    if is_quick():
        about = about.groupby("PathologyGroup").head(12)
    cohort = data.cohort.select([str(code) for code in about.index]).zscore()
    first = build("PopCDL", "auto").fit(cohort).dictionary_
    model = build("PerCDL", first, algorithm__realign=False).fit(cohort)
    halves = (_half(cohort, part) for part in (0, 1))
    first_half, second_half = (model.personalize(half) for half in halves)
    return Walkers(cohort, about, model.personalization_, (first_half, second_half))


def _half(cohort: Cohort, part: int) -> Cohort:
    """Return the first or the second half of each walk."""
    return Cohort(replace(walk, values=np.array_split(walk.values, 2)[part]) for walk in cohort)


def _claim(name: str, found: Separation | None) -> Claim:
    """Claim that the interval is above chance."""
    if found is None:
        return beside(name, "too few people")
    return at_least(f"{name}, lower end of the 95% interval", found.low, CHANCE, str(found))


def _report(walkers: Walkers, label: str, score: np.ndarray) -> Claim:
    parts = [f"{name} {walkers.compare(score, name)}" for name in (*PATIENTS, BOTH)]
    return beside(label, "; ".join(parts))


def _other_scores(walkers: Walkers) -> Iterator[Claim]:
    """Report what else people could have been compared by, and how well each repeats itself.

    The latter needs no group: both halves of a walk, each against the norm of whole walks.
    """
    for label, described in SPACES.items():
        yield _report(walkers, f"distance by {label}", walkers.distance(described))
        halves = np.array([walkers.distance_of(half, described) for half in walkers.halves])
        known = np.isfinite(halves).all(0)
        rank = [spearmanr(*halves[:, known & who])[0] for who in (known, walkers.is_healthy)]
        yield beside(
            f"distance by {label}: rank correlation of both halves of the walks",
            f"{rank[0]:.2f}, {rank[1]:.2f} among the healthy",
        )
    rhythm = _rhythm(walkers)
    own_units = np.arange(len(RHYTHM))
    yield _report(
        walkers, "rhythm, as one distance", walkers.distance(lambda _: (rhythm, own_units))
    )
    for name, column in zip(RHYTHM, rhythm.T, strict=True):
        yield _report(walkers, f"rhythm, {name} alone (below 0.5: lower in patients)", column)


def _rhythm(walkers: Walkers) -> np.ndarray:
    judged = judge_events(walkers.people.events)
    steps = judged.loc[judged["probability"] > 0.5]
    table = measure_regularity(steps, walkers.cohort, atom_length=LENGTH)
    return table[RHYTHM].to_numpy(float)


def _other_references(walkers: Walkers) -> Iterator[Claim]:
    """Report the separation when the norm is one half of the healthy, measured on the other."""
    values, kinds = _by_index(walkers.people)
    known, who = np.isfinite(values).all(1), np.array(walkers.people.subjects)
    healthy, ill = (np.flatnonzero(x & known) for x in (walkers.is_healthy, ~walkers.is_healthy))
    rng, found = np.random.default_rng(0), []
    for _ in range(N_SPLITS):
        norm, rest = np.array_split(rng.permutation(healthy), 2)
        patients, others = (
            distances(values[norm], who[norm], values[x], who[x], kinds)[0] for x in (ill, rest)
        )
        found.append(np.heaviside(patients[:, None] - others, 0.5).mean())
    yield beside(
        f"{BOTH}: AUC when half of the healthy are the norm, measured on the others",
        f"mean {np.mean(found):.3f}, {np.min(found):.3f} to {np.max(found):.3f} "
        f"in {N_SPLITS} splits",
    )


def _sensors(walkers: Walkers, index: np.ndarray) -> Iterator[Claim]:
    """Report how far the brand of the sensor could explain the separation."""
    brand = walkers.about["Sensor"].to_numpy(str)
    counts = pd.crosstab(walkers.group, brand).reindex(GROUPS, fill_value=0)
    yield beside(
        "participants by group and sensor",
        "; ".join(f"{name}: {row.to_dict()}" for name, row in counts.iterrows()),
    )
    for group in PATIENTS:
        for name in counts.columns:
            label, same = f"{group} against {HEALTHY}, all with {name}", brand == name
            if counts.loc[[group, HEALTHY], name].min() >= ENOUGH:
                found = walkers.compare(walkers.index(walkers.is_healthy & same), group, same)
                yield _claim(f"{label}, norm too: AUC", found)
            elif found := walkers.compare(index, group, same):
                yield beside(label, f"AUC {found}")
    brands = counts.loc[HEALTHY].sort_values().index
    rare, common = brands[0], brands[-1]
    if rare != common and counts.loc[HEALTHY, rare] > LEAST_PERSONS:
        pair = (index[walkers.is_healthy & (brand == name)] for name in (rare, common))
        yield beside(f"{rare} against {common} among the healthy", f"AUC {_separate(pair)}")
        adjusted = _adjusted_index(walkers, (brand == rare).astype(float))
        label = (
            f"index with the sensor taken out ({counts.loc[HEALTHY, rare]} healthy with {rare})"
        )
        yield _report(walkers, label, adjusted)


def _age_and_speed(walkers: Walkers, index: np.ndarray) -> Iterator[Claim]:
    """Report how far age and walking speed could explain the separation."""
    healthy = walkers.is_healthy
    for column, sign in (("Age", 1), ("WalkingSpeed", -1)):
        values = walkers.about[column].to_numpy(float)
        means = (f"{name} {np.nanmean(values[walkers.group == name]):.3g}" for name in GROUPS)
        yield beside(f"{column}: mean of each group", "; ".join(means))
        yield _report(walkers, f"{column} alone{' (low)' if sign < 0 else ''}", sign * values)
        known = healthy & np.isfinite(values)
        rank = spearmanr(values[known], index[known])[0]
        yield beside(f"{column}: rank correlation with the index among the healthy", f"{rank:.2f}")
        adjusted = _adjusted_index(walkers, values)
        yield _report(walkers, f"index with {column} taken out by regression", adjusted)
    for same_sensor in (False, True):
        label = f"pairs within {CALIPER:g} years{', of one sensor' if same_sensor else ''}: AUC"
        parts = (f"{name} {_match(walkers, index, name, same_sensor)}" for name in PATIENTS)
        yield beside(label, "; ".join(parts))


def _adjusted_index(walkers: Walkers, covariate: np.ndarray) -> np.ndarray:
    """Return distances of what a line in the covariate, fitted to the other healthy, leaves."""
    features, _ = _by_index(walkers.people)
    known = np.isfinite(covariate) & np.isfinite(features).all(1)
    design = np.column_stack([np.ones(len(covariate)), covariate])
    rest = np.full(features.shape, np.nan)
    for s in np.flatnonzero(known):
        others = walkers.is_healthy & known
        others[s] = False
        line = np.linalg.lstsq(design[others], features[others], rcond=None)[0]
        rest[s] = features[s] - design[s] @ line
    who, norm = np.array(walkers.people.subjects), walkers.is_healthy & known
    found = np.full(len(rest), np.nan)
    found[known] = distances(rest[norm], who[norm], rest[known], who[known])[0]
    return found


def _match(walkers: Walkers, index: np.ndarray, name: str, same_sensor: bool) -> str:
    """Return the separation of as many pairs of one age as there are, the closest ones."""
    age, brand = walkers.about["Age"].to_numpy(float), walkers.about["Sensor"].to_numpy(str)
    ill, healthy = np.flatnonzero(walkers.group == name), np.flatnonzero(walkers.is_healthy)
    gap = np.abs(age[ill][:, None] - age[healthy])
    close = gap <= CALIPER
    if same_sensor:
        close &= brand[ill][:, None] == brand[healthy]
    rows, columns = linear_sum_assignment(np.where(close, gap, 1e6))
    kept = close[rows, columns]
    if kept.sum() < LEAST_PERSONS:
        return f"{kept.sum()} pairs, too few"
    pair = ill[rows[kept]], healthy[columns[kept]]
    ages = " and ".join(f"{age[side].mean():.0f}" for side in pair)
    return f"{_separate(index[side] for side in pair)}, mean ages {ages}"


def _separate(pair: Iterable[np.ndarray]) -> Separation:
    patients, healthy = pair
    return separate(patients, healthy)
