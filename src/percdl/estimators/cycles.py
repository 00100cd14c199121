"""The gain, delay, warp, residual and quality of every cycle of every person."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import norm

from percdl.algorithm.chunks import CPU_SHAPE, accelerator_shape, fill, plan_chunks
from percdl.algorithm.magnitude import choose_unit
from percdl.estimators.personalization import Personalization, pad_rows
from percdl.signals import AnyCohort
from percdl.signals.events import SUCH_AS, event_lengths
from percdl.signals.tables import check_columns
from percdl.steps.compilation import is_on_cpu
from percdl.steps.cycles import (
    Cut,
    cut_cycles,
    delay_table,
    estimate_price,
    fit_cycles,
    level_cycles,
)
from percdl.steps.period import NORMAL_MAD

# Number of sines in the delay of a cycle.
N_SINES = 4
# Number of cycles that are processed together, on a CPU and on an accelerator: always the same, so
# that other people compile nothing. The price is estimated from that many on a CPU.
BATCH, LARGE_BATCH = 512, 2**14
# The share of ordinary cycles that `flagged` marks.
FALSE_ALARMS = 0.01
# Weight of the population in a person's usual residual, in cycles.
FEW_CYCLES = 5.0


@dataclass(frozen=True)
class Cycles:
    """The cycles of some recordings, one for each event of the persons ``found``.

    The numbers of a cycle are its log gain, and shift and sines of its delay in samples of the
    atom.
    """

    table: pd.DataFrame  # one row per cycle, see `PerCDL.cycles`
    own: Float[np.ndarray, "E q"]
    covariance: Float[np.ndarray, "E q q"]  # a posteriori
    found: Personalization
    cohort: AnyCohort

    @property
    def clocks(self) -> np.ndarray:
        """The samples of each atom per second, see `Personalization.clocks`."""
        return self.found.clocks(self.cohort.sfreq)

    @property
    def samples_per_step(self) -> np.ndarray:
        """Samples of the recording for each sample of the atom; 1 for cycles as long as it."""
        n_steps = self.found.dictionary.shape[1] - 1
        return (self.table["duration_seconds"].to_numpy() * self.cohort.sfreq - 1) / n_steps


def find_cycles(
    found: Personalization,
    cohort: AnyCohort,
    events: pd.DataFrame | None = None,
    *,
    false_alarms: float = FALSE_ALARMS,
) -> Cycles:
    """Fit each event of persons who were expressed with a model (see `percdl.steps.cycles`).

    ``events`` are the cycles to fit in place of those found (`pin_events`). The price is
    estimated from at most 512 cycles per atom. Two passes over the recordings, which need not
    fit in memory; cost O(E L (P + q^2)) for E events.
    """
    if events is not None:
        found = pin_events(found, events, cohort.sfreq)
    work = Segments(found, cohort)
    with jax.enable_x64(found.dtype == "float64"):
        price = np.stack([work.estimate(k) for k in range(len(found.dictionary))])
        numbers = work.fit(price)
    table: Any = work.tabulate(numbers)
    table["quality"] = judge_cycles(table, numbers["left"] / np.maximum(numbers["n_seen"], 1))
    table["flagged"] = ~(table["quality"] >= false_alarms)
    names = ["subject", "atom", "onset_sample", "onset_seconds", "duration_seconds", "amplitude"]
    names += ["residual", "quality", "flagged", "missing"]
    table = table[names + [name for name in table if name not in names]]
    return Cycles(table, numbers["own"], numbers["covariance"], found, cohort)


def pin_events(found: Personalization, events: pd.DataFrame, sfreq: float) -> Personalization:
    """Return persons whose cycles are at given onsets, with their usual amplitude.

    Cycles without a duration get the usual one of the person and atom. Subjects that are not
    among them, or have no cycle of the atom, are left out.
    """
    check_columns("The events", events, ("subject", "onset_sample"), SUCH_AS)
    table: Any = events.assign(
        subject=events["subject"].astype(str),
        atom=events["atom"] if "atom" in events else 0,
        onset_sample=events["onset_sample"].round().astype(int),
    )
    usual: Any = found.events.groupby(["subject", "atom"])["amplitude"].median()
    table = table.drop(columns="amplitude", errors="ignore").join(usual, on=["subject", "atom"])
    table = table[table["amplitude"].notna()].assign(
        onset_seconds=lambda x: x["onset_sample"] / sfreq
    )
    if "duration_samples" in found.events and "duration_samples" not in table:
        lasting: Any = found.events.groupby(["subject", "atom"])["duration_samples"].median()
        table = table.join(lasting.round().astype(int), on=["subject", "atom"])
        table["duration_seconds"] = table["duration_samples"] / sfreq
    position = pd.Index(found.subjects).get_indexer(table["subject"])
    table = table.iloc[np.lexsort((table["onset_sample"], position))].reset_index(drop=True)
    return replace(found, events=table)


class Segments:
    """The events of a cohort, cut in batches of constant shape."""

    def __init__(self, found: Personalization, cohort: AnyCohort):
        self.found, self.cohort, self.events = found, cohort, found.events
        self.length, n_channels = found.dictionary.shape[1:]
        warps = found.transform.warp_part(self.length, n_channels) is not None
        self.table = delay_table(self.length, N_SINES * warps).astype(found.dtype)
        self.subject = found.positions
        self.atom = self.events["atom"].to_numpy(int)
        self.onset = self.events["onset_sample"].to_numpy(np.int32)
        self.duration = event_lengths(self.events, self.length).astype(float)
        self.unit = choose_unit(cohort)
        self.batch = BATCH if is_on_cpu() else LARGE_BATCH
        amplitude: Any = self.events["amplitude"] / self.unit
        usual = amplitude.abs().groupby([self.subject, self.atom]).transform("median")
        self.usual = (usual * np.sign(amplitude)).to_numpy(float)
        self.gain = np.log((amplitude / self.usual).to_numpy(float))

    def batches(self, chosen: np.ndarray) -> Iterator[tuple[np.ndarray, Cut]]:
        """Yield chosen events (positions, ascending) and their segments, padded to a batch."""
        lengths, n_masks = np.asarray(self.cohort.lengths), self.cohort.n_masks
        shape = CPU_SHAPE if is_on_cpu() else accelerator_shape(1)
        first = np.searchsorted(self.subject[chosen], np.arange(len(lengths) + 1))
        for chunk in plan_chunks(lengths, self.cohort.n_channels, shape):
            counts = np.diff(first)[chunk.subjects]
            if not counts.any():
                continue
            # All positions first[s], ..., first[s + 1] - 1 of the subjects of the chunk.
            before = np.cumsum(counts) - counts
            here = np.repeat(first[chunk.subjects] - before, counts) + np.arange(counts.sum())
            row = np.repeat(np.arange(len(counts)), counts)
            signals = fill(self.cohort, chunk, n_masks, self.found.dtype, self.unit)
            signals = jax.device_put(signals)
            atoms = self.found.atoms_of(chunk.subjects).astype(self.found.dtype)
            atoms = jax.device_put(pad_rows(atoms, chunk.rows))
            for start in range(0, len(here), self.batch):
                some = slice(start, start + self.batch)
                events = chosen[here[some]]
                yield events, self._cut(signals, atoms, events, row[some])

    def _cut(self, signals, atoms, events, row) -> Cut:
        size = self.batch
        whole = (row, self.atom[events], self.onset[events])
        real = (self.duration[events], self.usual[events])
        columns = [pad_rows(x, size).astype(np.int32) for x in whole]
        columns += [pad_rows(x, size).astype(self.found.dtype) for x in real]
        cut = cut_cycles(signals, atoms, *columns)
        return level_cycles(cut, self.found.n_terms) if self.found.n_terms else cut

    def estimate(self, atom: int) -> np.ndarray:
        """Return the price of the cycles of an atom."""
        chosen = np.flatnonzero(self.atom == atom)
        chosen = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), BATCH)).astype(int)]
        q = 1 + len(self.table)
        if not len(chosen):
            return np.eye(q)
        parts: Any = [
            [np.asarray(x)[: len(events)] for x in cut] for events, cut in self.batches(chosen)
        ]
        cut = Cut(*(pad_rows(np.concatenate(x), BATCH) for x in zip(*parts, strict=True)))
        counts = pad_rows(np.ones(len(chosen), self.found.dtype), BATCH)
        start = np.zeros((BATCH, q), self.found.dtype)
        return np.asarray(estimate_price(cut, self.table, start, counts), float)

    def fit(self, price: np.ndarray) -> dict[str, np.ndarray]:
        """Return the numbers of all cycles."""
        n_events, q = len(self.events), price.shape[-1]
        result = {
            "own": np.zeros((n_events, q)),
            "covariance": np.zeros((n_events, q, q)),
            **{name: np.zeros(n_events) for name in ("left", "energy", "n_seen", "missing")},
        }
        for atom, price_of_atom in enumerate(price.astype(self.found.dtype)):
            for events, cut in self.batches(np.flatnonzero(self.atom == atom)):
                start = np.zeros((len(cut.atom), q), self.found.dtype)
                start[: len(events), 0] = self.gain[events]
                fitted = fit_cycles(cut, self.table, price_of_atom, start)
                for name in ("own", "covariance", "left", "energy"):
                    result[name][events] = np.asarray(getattr(fitted, name))[: len(events)]
                share = np.asarray(cut.seen, float).mean((1, 2))[: len(events)]
                result["missing"][events] = 1 - share
                result["n_seen"][events] = share * self.length * cut.segment.shape[2]
        return result

    def tabulate(self, numbers: dict[str, np.ndarray]) -> pd.DataFrame:
        """Return one row per event, without its quality."""
        second = self.cohort.sfreq
        table = self.events.copy()
        table["duration_seconds"] = self.duration / second
        table["amplitude"] = self.usual * self.unit * np.exp(numbers["own"][:, 0])
        with np.errstate(invalid="ignore", divide="ignore"):
            table["residual"] = numbers["left"] / numbers["energy"]
        table["missing"] = numbers["missing"]
        names = ["shift", *(f"warp{j}" for j in range(1, len(self.table)))]
        for name, values in zip(names, numbers["own"][:, 1:].T, strict=False):
            table[name] = values * ((self.duration - 1) / (self.length - 1)) / second
        return table


def judge_cycles(table: pd.DataFrame, left: np.ndarray) -> np.ndarray:
    """Return the p-value of each cycle's residual among the person's cycles.

    ``left`` (E,) is the residual energy per sample. Its logarithm is compared with the median and
    the scaled median absolute deviation of the cycles of the same person and atom. The spread of
    the population counts as `FEW_CYCLES` more cycles of each person. Cycles without samples have
    no quality (NaN).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        level = pd.Series(np.log(left), table.index)
    level = level.where(np.isfinite(level) & (table["missing"] < 1))
    keys = [table["subject"], table["atom"]]
    by_person: Any = level.groupby(keys)
    away: Any = level - by_person.transform("median")
    n = by_person.transform("count")
    # Deviations from a median that was fitted to the same cycles are too small.
    spread = away.abs().groupby(keys).transform("median") / NORMAL_MAD * n / (n - 0.8)
    crowd = away[n > FEW_CYCLES]
    usual = (crowd if len(crowd) else away).abs().median() / NORMAL_MAD
    return p_values(away, n, spread.fillna(0), usual)


def p_values(away: Any, n: Any, spread: Any, usual: Any) -> Any:
    """Return the p-values of deviations from the median of n cycles.

    ``spread`` is the standard deviation of the person's cycles, and ``usual`` that of everyone's.
    """
    mixed = (n * spread**2 + FEW_CYCLES * usual**2) / (n + FEW_CYCLES)
    # The median itself varies: by pi / 2 n of the variance.
    scale = np.sqrt(mixed * (1 + np.pi / 2 / n))
    return norm.sf(away / np.where(scale > 0, scale, np.inf))
