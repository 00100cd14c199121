"""The local half of a round: IPU, CSC and statistics, wherever the data lives (lines 3, 7, 8).

A `Site` holds some subjects and their private state (parameters, codes, statistics); it
answers a broadcast with sums over its subjects, and nothing else leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from percdl.algorithm import coding, programs
from percdl.algorithm.blocks import Block, plan_blocks
from percdl.algorithm.chunks import Shape, fill, fill_on_device, plan_chunks
from percdl.algorithm.coding import Coded
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.magnitude import choose_unit, in_signal_units
from percdl.algorithm.programs import Fitted, Prepared
from percdl.algorithm.results import Results, collect_results
from percdl.algorithm.searching import search_starts
from percdl.algorithm.settings import Settings
from percdl.algorithm.shelf import Shelf
from percdl.algorithm.totals import add_personal, add_population
from percdl.signals import Cohort
from percdl.steps.types import Signals, Statistics

# Subjects that are searched together, about: few enough to bound the memory, many enough to
# fill the programs of the search.
SEARCHED_ROWS = 512
# Compiled programs take host arrays as they take device arrays.
Values = jax.Array | np.ndarray


class Site:
    """The recordings and the private state of some subjects.

    Parameters
    ----------
    cohort : Cohort
        The recordings.
    settings : Settings
        What to solve and how.
    shape : Shape
        Size of the chunks.
    resident : bool
        Keep the padded chunks and the codes on the device between rounds (an accelerator with
        room for them) rather than make the chunks anew each time (bounded memory).
    n_masks : int, optional
        Masks per recording, where the site holds only some of a cohort.
    unit : float, optional
        What samples are counted in, a power of two; by default it suits the recordings.
    """

    def __init__(
        self,
        cohort: Cohort,
        settings: Settings,
        shape: Shape,
        resident: bool,
        n_masks: int | None = None,
        unit: float | None = None,
    ):
        self.cohort = cohort
        self.unit = choose_unit(cohort) if unit is None else unit
        self.settings = settings.in_unit(self.unit)
        self.chunks = plan_chunks(cohort.lengths, cohort.n_channels, shape)
        self.blocks = plan_blocks(self.chunks, shape.block_rows)
        self.n_masks = cohort.n_masks if n_masks is None else n_masks
        self.coded: Shelf | dict[int, Coded] = {} if resident else Shelf(self.chunks)
        # One chunk of each shape: they see to it that `choose` is compiled by the first fit.
        shapes = {(chunk.rows, chunk.n_times): i for i, chunk in enumerate(self.chunks)}
        self._of_each_shape = frozenset(shapes.values())
        self._energy: list[jax.Array | None] = [None] * len(self.chunks)
        self._on_device: list[Signals] | None = None
        if resident:
            self._on_device = [
                fill_on_device(cohort, chunk, self.n_masks, settings.dtype, self.unit)
                for chunk in self.chunks
            ]

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Code every recording with the common atoms (Alg. 1, line 3) and add up."""
        dictionary = self._array(broadcast.dictionary)
        for index in range(len(self.chunks)):
            self.coded[index] = self._code(index, dictionary[None])
        for block in self.blocks:
            block.params = self._rest(self._neutral(dictionary, block.rows))
            block.fruitless = np.zeros((block.rows, len(dictionary)), int)
        return self._tell(self._population_sums(block, dictionary) for block in self.blocks)

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Update parameters and codes (Alg. 1, lines 7-8) and add up."""
        dictionary = self._array(broadcast.dictionary)
        size = max(1, SEARCHED_ROWS // self.blocks[0].rows)
        return self._tell(
            sums
            for start in range(0, len(self.blocks), size)
            for sums in self._personalize(self.blocks[start : start + size], broadcast, dictionary)
        )

    def _personalize(
        self, blocks: Sequence[Block], broadcast: Broadcast, dictionary: Values
    ) -> Iterator[Sums]:
        """Update blocks whose subjects are searched together; yield the sums of each."""
        statistics = [self._statistics(block) for block in blocks]
        prepare = partial(self._prepare, broadcast, dictionary)
        prepared = [*map(prepare, blocks, statistics)]
        fruitless = [block.fruitless for block in blocks]
        starts = search_starts(
            self.settings, broadcast, dictionary, statistics, prepared, fruitless
        )
        for block, stats, before, start in zip(blocks, statistics, prepared, starts, strict=True):
            fitted = programs.fit(
                self.settings.transform, self.settings.fit_options, dictionary, stats, *start
            )
            objective = self._recode(block, before, fitted)
            yield replace(self._personal_sums(block, dictionary), objective_fitted=objective)

    def recenter(self, broadcast: Broadcast) -> Sums:
        """Express parameters and codes by the centred dictionary, fit once more, and add up."""
        dictionary = self._array(broadcast.dictionary)
        options, transform = self.settings.fit_options, self.settings.transform
        for block in self.blocks:
            statistics = self._statistics(block)
            moved = self._prepare(broadcast, dictionary, block, statistics)
            still = np.zeros(moved.misfit.shape, np.int32)
            fitted = programs.fit(transform, options, dictionary, statistics, moved.params, still)
            block.params = self._rest(fitted.params)
            centred = replace(broadcast, gauge=None, mixing_gauge=None)
            moved = self._prepare(centred, dictionary, block, statistics)
            parts = zip(block.chunks, block.split(moved), block.split(fitted), strict=True)
            for index, part, new in parts:
                if self.settings.overlaps:  # their price depends on amplitudes: code anew
                    self.coded[index] = self._code(index, new.atoms)
                    continue
                self.coded[index] = coding.keep(self.coded[index], part.amplitude, part.explained)
        return self._tell(self._personal_sums(block, dictionary) for block in self.blocks)

    def _tell(self, parts: Iterator[Sums]) -> Sums:
        return in_signal_units(Sums.total(parts), self.unit, self.settings.by_subject)

    def _prepare(self, broadcast: Broadcast, dictionary, block: Block, statistics) -> Prepared:
        recenters = broadcast.gauge is not None
        not_used = np.zeros((len(dictionary), 1, self.settings.atom_length))
        gauge = broadcast.gauge if recenters else not_used
        mixing = broadcast.mixing_gauge
        return programs.prepare(
            self.settings.transform,
            dictionary,
            statistics,
            block.params,
            self._array(gauge),
            self._array(self._no_mixing(dictionary) if mixing is None else mixing),
            recenters,
        )

    def _no_mixing(self, dictionary: Values) -> np.ndarray:
        """Return the mixture of channels (K, M) that mixes nothing."""
        part = self.settings.transform.channel_part(*dictionary.shape[1:])
        if part is None:
            return np.zeros((len(dictionary), 0))
        return np.stack([part[0].neutral(jnp.asarray(atom)) for atom in dictionary])

    def _recode(self, block: Block, before: Prepared, fitted: Fitted) -> float:
        """Run CSC with the personal atoms; a recording that would get worse keeps what it had.

        Returns the objective after IPU, that is, with the codes of the round before.
        """
        accepted = []
        previous = [self.coded[index] for index in block.chunks]
        # All programs are begun before the first is waited for.
        news = block.split(fitted)
        proposals = [*map(self._code, block.chunks, (new.atoms for new in news))]
        objective = sum(_total(c.unexplained) for c in previous) - _total(fitted.explained)
        parts = zip(block.chunks, previous, proposals, block.split(before), news, strict=True)
        for index, coded, proposal, old, new in parts:
            accept = coding.no_worse(proposal, coded, old.explained, new.price)
            accept |= self.settings.overlaps  # then codes are always better
            if not accept.all() or index in self._of_each_shape:
                proposal = coding.choose(accept, proposal, coded, old.amplitude, old.explained)
            self.coded[index] = proposal
            accepted.append(accept)
        taken = block.gather(accepted)[:, None, None]
        block.params = self._rest(jnp.where(taken, fitted.params, before.params))
        return objective

    def _statistics(self, block: Block) -> Statistics:
        return block.gather([self.coded[index].statistics for index in block.chunks])

    def _population_sums(self, block: Block, dictionary: Values) -> Sums:
        """Add up what CDU needs of a block."""
        moment, weight = add_population(self.settings, self._statistics(block), dictionary)
        sums = replace(self._counted(block), moment=moment, weight=weight)
        overlaps = [self.coded[index].overlap for index in block.chunks]
        if self.settings.by_subject or any(overlap is None for overlap in overlaps):
            return sums
        ztx, ztz = (
            sum(np.asarray(part).sum(0, dtype=float) for part in parts)
            for parts in zip(*overlaps, strict=True)
        )
        # Exact statistics explain the signals themselves, at the price of all amplitudes.
        amounts = (np.abs(self.coded[index].events.amplitude) for index in block.chunks)
        price = self.settings.penalty * sum(map(_total, amounts))
        return replace(sums, ztx=ztx, ztz=ztz, energy=sums.signal + price)

    def _counted(self, block: Block) -> Sums:
        """Add up what every round reports of a block."""
        coded = [self.coded[index] for index in block.chunks]
        objective = sum(_total(c.objective) for c in coded)
        signal = sum(_total(c.energy) for c in coded)
        counts = [np.asarray(c.statistics.count).sum(0, dtype=float) for c in coded]
        return Sums(
            objective=objective,
            objective_fitted=objective,
            energy=sum(_total(c.unexplained) for c in coded),
            signal=signal,
            counts=np.sum(counts, axis=0),
        )

    def _personal_sums(self, block: Block, dictionary: Values) -> Sums:
        """Add up what the dictionary update and centering need of a block."""
        settings = self.settings
        sums = add_personal(settings, self._statistics(block), dictionary, block.params)
        shared = settings.transform.shares_structure
        rest = self._counted(block) if shared else self._population_sums(block, dictionary)
        price = float(sums.pop("price").sum())
        return replace(rest, objective=rest.objective + price, energy=rest.energy + price, **sums)

    def results(self) -> Results:
        """Return what was learned of each subject, in the order of the cohort."""
        found = collect_results(self.chunks, self.blocks, self.coded)
        return replace(found, amplitude=found.amplitude * self.unit)

    def _code(self, index: int, atoms) -> Coded:
        settings = self.settings
        signals = self._signals(index)
        energy = self._energy[index]
        if energy is None:
            energy = self._energy[index] = coding.measure_energy(signals)
        return coding.code(
            signals,
            energy,
            self._array(atoms),
            self._array(settings.penalty),
            None if settings.delta is None else self._array(settings.delta),
            self._last_activations(index),
            settings.coder,
            settings.margin,
        )

    def _last_activations(self, index: int) -> Values | None:
        """Return the activations that a coding with overlap starts from, if there are any."""
        if not self.settings.overlaps or index not in self.coded:
            return None
        return self.coded[index].events.amplitude

    def _neutral(self, dictionary: Values, rows: int) -> jax.Array:
        neutral = self.settings.transform.neutral
        start = jnp.stack([neutral(jnp.asarray(atom)) for atom in dictionary])
        return jnp.broadcast_to(start, (rows, *start.shape))

    def _signals(self, index: int) -> Signals:
        if self._on_device is not None:
            return self._on_device[index]
        chunk, dtype = self.chunks[index], self.settings.dtype
        return fill(self.cohort, chunk, self.n_masks, dtype, self.unit)

    def _rest(self, values: jax.Array) -> Values:
        """Return values as they are kept between rounds: on the device, or copied to the host."""
        return values if self._on_device is not None else np.array(values)

    def _array(self, values) -> Values:
        """Return values in the device's precision, on the host unless they are there already."""
        if isinstance(values, jax.Array):
            return values
        return np.asarray(values, self.settings.dtype)


def _total(values) -> float:
    """Add up numbers of subjects, in double precision."""
    return float(np.sum(np.asarray(values), dtype=float))
