"""How many kinds: copies of an atom are joined, an atom with two groups of cycles is divided."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from percdl.exceptions import AlikeAtomsWarning
from percdl.signals import AnyCohort
from percdl.signals.reconstruction import read_dilated
from percdl.steps.kinds import FEWEST, count_kinds, find_alike

if TYPE_CHECKING:
    from percdl.algorithm.results import Results
    from percdl.algorithm.settings import Settings

# Joins and divisions after a fit, at most; each is followed by a fit.
MOST_CHANGES = 4
# Cycles of an atom that are examined, the fewest of a person, and the least of their amplitude.
MOST_CYCLES, FEWEST_OF_PERSON, LEAST_SHARE = 1024, 4, 0.2


def settle_kinds(
    end: Any, cohort: AnyCohort, settings: Settings, rerun: Callable[[np.ndarray], Any]
) -> tuple[Any, pd.DataFrame]:
    """Join and divide atoms until nothing changes; return the last end and the path.

    ``end`` has a dictionary, results and an objective; ``rerun(atoms)`` fits from given atoms. A
    division is kept if the objective falls, no atom is a copy of another, and each has cycles.
    """
    path = [_row("start", end)]
    for _ in range(MOST_CHANGES):
        if (change := _propose(end.dictionary, end.results, cohort, settings)) is None:
            break
        step, atoms = change
        new = rerun(atoms)
        kept = len(atoms) < len(end.dictionary) or (
            new.objective < end.objective
            and not find_alike(new.dictionary, bool(settings.disjoint_coder.signed))
            and new.results.counts.sum(0).min() >= FEWEST
        )
        path.append(_row(step if kept else f"{step}: taken back", new))
        if not kept:
            break
        end = new
    return end, pd.DataFrame(path)


def _row(step: str, end: Any) -> dict[str, Any]:
    counts = end.results.counts.sum(0)
    about = {"step": step, "n_atoms": len(end.dictionary), "objective": float(end.objective)}
    return about | {"activations": ", ".join(map(str, counts))}


def _propose(
    dictionary: np.ndarray, results: Results, cohort: AnyCohort, settings: Settings
) -> tuple[str, np.ndarray] | None:
    """Return the first change that atoms and cycles suggest: in words, and the new atoms."""
    counts = results.counts.sum(0)
    for j, k, cosine in find_alike(dictionary, bool(settings.disjoint_coder.signed))[:1]:
        gone, kept = (j, k) if counts[j] < counts[k] else (k, j)
        step = f"atom {gone} joins {kept} (cosine {cosine:.2f})"
        return step, np.delete(dictionary, gone, axis=0)
    for atom in np.argsort(-counts, kind="stable"):
        second = _find_second_kind(results, cohort, settings, int(atom))
        if len(second) >= FEWEST:
            step = f"atom {atom} is divided ({len(second)} cycles of another kind)"
            return step, np.append(dictionary, second.mean(0)[None], axis=0)
    return None


def _find_second_kind(
    results: Results, cohort: AnyCohort, settings: Settings, atom: int
) -> np.ndarray:
    """Return the cycles of an atom that are of a second kind (n, L, P).

    Cycles are compared with the median cycle of the same person, so differences between people
    do not create kinds. At most `MOST_CYCLES` are examined.
    """
    rows = list(_cut_cycles(results, cohort, settings, atom))
    if not rows:
        return np.empty(0)
    cycles, usual = (np.concatenate(part) for part in zip(*rows, strict=True))
    found = count_kinds(cycles - usual, settings.atom_length, np.random.default_rng(0))
    return cycles[found.kind == 1]


def _cut_cycles(
    results: Results, cohort: AnyCohort, settings: Settings, atom: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the cycles of each person, over the usual amplitude, and the person's median."""
    chosen = np.flatnonzero(results.atom == atom)
    people, counts = np.unique(results.subject[chosen], return_counts=True)
    # Whole people, spread over the cohort, since cycles are compared within a person.
    n_people = np.searchsorted(np.cumsum(counts), MOST_CYCLES) + 1
    picked = people[np.linspace(0, len(people) - 1, min(n_people, len(people))).astype(int)]
    length = settings.atom_length
    for person in np.unique(picked):
        own = chosen[results.subject[chosen] == person][:MOST_CYCLES]
        size = np.abs(results.amplitude[own])
        usual = np.median(size)
        own = own[size >= LEAST_SHARE * usual]
        if len(own) < FEWEST_OF_PERSON:
            continue
        values = np.asarray(cohort[int(person)].values, float)
        cuts = [
            read_dilated(int(n), length) @ values[t : t + n] * (np.sign(a) / usual)
            for t, n, a in zip(
                results.onset[own], results.length[own], results.amplitude[own], strict=True
            )
            if t + n <= len(values)
        ]
        cycles = np.stack(cuts) if cuts else np.zeros((0, length, values.shape[1]))
        cycles = cycles[np.isfinite(cycles).all((1, 2))]
        if len(cycles) >= FEWEST_OF_PERSON:
            yield cycles, np.broadcast_to(np.median(cycles, axis=0), cycles.shape)


def warn_alike(dictionary: np.ndarray, counts: np.ndarray, signed: bool) -> None:
    """Warn of atoms in use that are copies of each other."""
    used = np.flatnonzero(counts.sum(0) > 0)
    pairs = find_alike(dictionary[used], signed)
    if pairs:
        named = ", ".join(f"{used[j]} and {used[k]} (cosine {c:.2f})" for j, k, c in pairs[:3])
        warnings.warn(
            f"Atoms are alike after a shift and a bend of time: {named}. Events of one kind are "
            f"then divided between them by chance. The recordings hold fewer than "
            f'{len(dictionary)} kinds: lower `n_atoms`, or use "auto", which joins copies.',
            AlikeAtomsWarning,
            stacklevel=4,
        )
