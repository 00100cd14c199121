"""The local half of a round: IPU, CSC and statistics, wherever the data lives (lines 3, 7, 8).

A `Site` holds some subjects and their private state (parameters, codes, statistics); it
answers a broadcast with sums over its subjects, and nothing else leaves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from percdl.algorithm import coding, programs
from percdl.algorithm.chunks import (
    Block,
    Shape,
    fill,
    fill_on_device,
    mask_missing,
    measure_chunk,
    plan_blocks,
    plan_chunks,
)
from percdl.algorithm.coding import Coded
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.magnitude import choose_unit, find_spreads, in_signal_units
from percdl.algorithm.pins import Pinned
from percdl.algorithm.programs import Orders, Prepared, Tally
from percdl.algorithm.results import Results, Shelf, collect_results
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import Forecast, broadcast_shapes, prepare_programs, prior_shape
from percdl.signals import Cohort
from percdl.signals.measured import Measures
from percdl.steps.compilation import n_cores, side_by_side
from percdl.steps.types import Signals, Statistics

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
        room for them) rather than copy the chunks in every round (bounded memory).
    n_masks : int, optional
        Masks per recording, if the site holds only a part of a cohort.
    unit : float, optional
        Unit of the samples, a power of two; by default it suits the recordings.
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
        unit = 1.0 if settings.relative else unit
        self.unit = choose_unit(cohort) if unit is None else unit
        self.divisors = find_spreads(cohort) if settings.relative else self.unit
        self.settings = settings.in_unit(self.unit)
        if n_masks is None and not resident:
            n_masks = cohort.n_masks
        known = Forecast(self.settings, n_masks or 0, resident)
        self.chunks = plan_chunks(
            cohort.lengths, cohort.n_channels, shape, known.is_chunk_compiled
        )
        self._on_device: list[Signals] | None = None
        if resident:
            self._on_device = [
                fill_on_device(cohort, c, settings.dtype, self.divisors) for c in self.chunks
            ]
            self._measure()
        self.n_masks = cohort.n_masks if n_masks is None else n_masks
        if self._on_device is not None and self.n_masks:
            self._on_device = [mask_missing(chunk, self.n_masks) for chunk in self._on_device]
        if self._on_device is not None and not self.settings.overlaps:
            self._on_device = [coding.keep_spectrum(chunk) for chunk in self._on_device]
        self._pinned = Pinned(cohort, self.chunks, self.settings)
        if self._on_device is not None:
            pinned = map(self._pinned.add, range(len(self.chunks)), self._on_device)
            self._on_device = [*map(jax.device_put, pinned)]
        self._energy: list[jax.Array | None] = [None] * len(self.chunks)
        self.coded: Shelf | dict[int, Coded] = {} if resident else Shelf(self.chunks)
        forecast = Forecast(self.settings, self.n_masks, resident)
        rows = shape.choose_block(self.chunks, forecast.is_block_compiled)
        rows = max([rows, *(len(chunk.subjects) for chunk in self.chunks)])
        self.blocks = plan_blocks(self.chunks, rows, n_cores())
        self._shape = shape
        if jax.device_count() == 1:
            self._prepare_programs(forecast)

    def _measure(self) -> None:
        """Measure the recordings on the device, if it holds them unchanged."""
        cohort, chunks = self.cohort, self._on_device
        is_exact = self.unit == 1 and cohort.dtype == self.settings.dtype
        if chunks is None or np.ndim(self.divisors) or not is_exact or cohort.is_measured:
            return
        with jax.enable_x64(True):
            measured = jax.device_get([measure_chunk(chunk) for chunk in chunks])
        order = np.argsort(np.concatenate([chunk.subjects for chunk in self.chunks]))
        columns = zip(*measured, strict=True)
        counts = [len(chunk.subjects) for chunk in self.chunks]
        joined = (
            np.concatenate([part[:n] for part, n in zip(column, counts, strict=True)])[order]
            for column in columns
        )
        cohort.remember(Measures(*joined))

    def _prepare_programs(self, forecast: Forecast) -> None:
        """Begin to compile the programs of the rounds."""
        for rows in dict.fromkeys(block.rows for block in self.blocks):
            prepare_programs(forecast.of_block(rows, self._search_sizes(rows)))
        shapes = [(c.rows, c.n_times, i in self._pinned.chunks) for i, c in enumerate(self.chunks)]
        for shape in dict.fromkeys(shapes):
            prepare_programs(forecast.of_chunk(*shape))

    def _search_sizes(self, rows: int) -> tuple[int, int]:
        """Return how many subjects of a block are searched together, see `Shape.search_sizes`."""
        return self._shape.search_sizes(rows, self.settings.n_params * self.settings.atom_length)

    def population_round(self, broadcast: Broadcast) -> Sums:
        """Code every recording with the common atoms (Alg. 1, line 3) and add up."""
        dictionary = self._array(broadcast.dictionary)
        self._begin(dictionary)
        return self._tell(lambda block: self._population_sums(block, dictionary))

    def personal_round(self, broadcast: Broadcast) -> Sums:
        """Update parameters and codes (Alg. 1, lines 7-8) and add up."""
        return self._tell(
            lambda block: self._personal_sums(
                block, broadcast, self._personalize(block, broadcast)
            )
        )

    def express(self, broadcast: Broadcast) -> Sums:
        """Find codes and parameters from the start, dictionary and prior held fixed, and add up.

        The result depends only on the recording and the broadcast. A fit ends with it, and new
        subjects are personalized by it. The first round finds the noise of each subject, which
        the prior needs; the second searches everyone; the others refine.
        """
        n_rounds, dictionary = self.settings.express_rounds, broadcast.dictionary
        infinite = np.full(len(dictionary), np.inf)  # search no one: no misfit is larger
        if n_rounds == 0:
            return self.population_round(Broadcast(dictionary))
        self._begin(self._array(dictionary))
        search = Broadcast(dictionary, precision=broadcast.precision)
        rounds = [search, *[replace(search, misfit=infinite)] * (n_rounds - 2)]
        if n_rounds > 1:
            rounds = [Broadcast(dictionary, misfit=infinite), *rounds]

        def find(block: Block) -> dict[str, Any]:
            *_, fitted_objectives = [self._personalize(block, each) for each in rounds]
            return self._personal_sums(block, rounds[-1], fitted_objectives)

        return self._tell(find)

    def add_some(self, sums: Sums, kind: str, broadcast: Broadcast, counted: np.ndarray) -> Sums:
        """Add the last round up again, each atom over the subjects in ``counted`` (S, K).

        Objectives and energies over all recordings are kept from ``sums``.
        """
        everyone, dictionary = self.coded, self._array(broadcast.dictionary)
        is_express = kind == "express" and self.settings.express_rounds > 0
        self.coded = {
            index: _keep_some(everyone[index], counted[chunk.subjects])
            for index, chunk in enumerate(self.chunks)
        }
        try:
            some = self._tell(
                lambda block: (
                    self._personal_sums(block, broadcast, [])
                    if is_express or kind == "personal"
                    else self._population_sums(block, dictionary)
                )
            )
        finally:
            self.coded = everyone
        numbers = {name: x for name, x in vars(sums).items() if isinstance(x, float)}
        return replace(some, **numbers)

    def _begin(self, dictionary: Values) -> None:
        """Code every recording with the common atoms, and forget all parameters."""

        def begin(block: Block) -> None:
            for index in block.chunks:
                self.coded[index] = self._code(index, dictionary[None])
            neutral = programs.neutral_params(self.settings.transform, block.rows, dictionary)
            block.params = self._rest(neutral, block.params)
            nothing = np.zeros((block.rows, len(dictionary)), np.int32)
            block.fruitless = self._rest(nothing, block.fruitless)

        for _ in side_by_side(begin, self.blocks):
            pass

    def _personalize(self, block: Block, broadcast: Broadcast) -> list[Any]:
        """Run IPU and CSC on a block; return the objectives between them, by chunk.

        A recording whose codes would get worse keeps its codes and parameters.
        """
        settings, statistics = self.settings, self._statistics(block)
        dictionary = self._array(broadcast.dictionary)
        before = self._prepare(broadcast, dictionary, block, statistics)
        start = self._search(block, broadcast, dictionary, statistics, before)
        precision = self._precision(broadcast)
        fitted = programs.fit(
            settings.transform,
            settings.fit_options,
            dictionary,
            statistics,
            *start,
            None if precision is None else before.noise,
            precision,
        )
        fitted_objectives, params = [], []
        news = block.split(fitted)
        # All programs are begun before the first is waited for.
        proposals = [*map(self._code, block.chunks, (new.atoms for new in news))]
        parts = zip(block.chunks, proposals, block.split(before), news, strict=True)
        for index, proposal, old, new in parts:
            previous = self.coded[index]
            taken, objective = coding.judge(proposal, previous, old, new, settings.overlaps)
            own = new.params
            # Do not ask a device whether all are accepted: that would wait within a round.
            if self._on_device is not None or not np.asarray(taken).all():
                proposal, own = coding.accept(taken, proposal, previous, old, new)
            self.coded[index] = proposal
            params.append(own)
            fitted_objectives.append(objective)
        block.params = self._rest(block.gather(params), block.params)
        return fitted_objectives

    def _search(
        self, block: Block, broadcast: Broadcast, dictionary: Values, statistics, before: Prepared
    ) -> tuple[Values, Values]:
        """Return the parameters and onset shifts from which IPU starts."""
        settings, n_atoms = self.settings, len(dictionary)
        move = np.zeros(n_atoms, np.int32) if broadcast.move is None else broadcast.move
        move = np.asarray(move, np.int32)
        if not settings.shifts:
            return before.params, np.tile(move, (block.rows, 1))
        misfit = broadcast.misfit
        wanted: dict[str, Any] = {
            "move": move,
            "everyone": (move != 0) | (misfit is None),
            "misfit": self._array(np.zeros(n_atoms) if misfit is None else misfit),
        }
        params, shift, fruitless = programs.seek(
            settings.transform,
            settings.multistart,
            self._search_sizes(block.rows)[misfit is not None],
            dictionary,
            statistics,
            before,
            block.fruitless,
            Orders(**wanted),
            np.asarray(settings.shifts, np.int32),
            self._precision(broadcast),
        )
        block.fruitless = self._rest(fruitless, block.fruitless)
        return params, shift

    def _precision(self, broadcast: Broadcast) -> Values | None:
        """Return the precision of the warps; zeros as long as it is not known."""
        settings = self.settings
        if not settings.has_prior:
            return None
        if broadcast.precision is not None:
            return self._array(broadcast.precision)
        return self._array(np.zeros(prior_shape(settings)))

    def _tell(self, work: Callable[[Block], dict[str, Any]]) -> Sums:
        """Work on all blocks, and return the total of their sums."""
        parts = side_by_side(work, self.blocks)
        if self._on_device is not None:
            parts = iter([*parts])  # a device has begun on all of them before one is waited for
        # A device sends all arrays of a block before the first is waited for.
        total = jax.device_get(next(parts))
        for part in parts:
            for name, value in jax.device_get(part).items():
                total[name] = total[name] + value
        sums: Any = {name: float(x) if np.ndim(x) == 0 else x for name, x in total.items()}
        return in_signal_units(Sums(**sums), self.unit, self.settings.by_subject)

    def _prepare(self, broadcast: Broadcast, dictionary, block: Block, statistics) -> Prepared:
        gauges = broadcast_shapes(self.settings.transform, *dictionary.shape)
        gauge, mixing = (
            np.zeros(gauges.get(name, (len(dictionary), 0))) if value is None else value
            for name, value in (
                ("gauge", broadcast.gauge),
                ("mixing_gauge", broadcast.mixing_gauge),
            )
        )
        return programs.prepare(
            self.settings.transform,
            dictionary,
            statistics,
            block.params,
            self._array(gauge),
            self._array(mixing),
            np.asarray(broadcast.gauge is not None),
            np.asarray(broadcast.mixing_gauge is not None),
            self._precision(broadcast),
        )

    def _statistics(self, block: Block) -> Statistics:
        return block.gather([self.coded[index].statistics for index in block.chunks])

    def _tally(self, block: Block, fitted_objectives: list[Any] | None = None) -> Tally:
        """Return the numbers that every round reports about the recordings of a block."""
        coded = [self.coded[index] for index in block.chunks]
        fitted = fitted_objectives or [c.objective for c in coded]
        pairs = zip(coded, fitted, strict=True)
        return block.gather(
            [Tally(c.objective, f, c.unexplained, c.energy, c.statistics.count) for c, f in pairs]
        )

    def _population_sums(self, block: Block, dictionary: Values) -> dict[str, Any]:
        """Return the sums of a block for CDU."""
        with jax.enable_x64(True):
            moment, weight, tally = programs.add_population(
                self._statistics(block), dictionary, self._tally(block), self.settings.by_subject
            )
        sums = {**_counted(tally), "moment": moment, "weight": weight}
        overlaps = [self.coded[index].overlap for index in block.chunks]
        if self.settings.by_subject or any(overlap is None for overlap in overlaps):
            return sums
        ztx, ztz = (
            sum(np.asarray(part).sum(0, dtype=float) for part in parts)
            for parts in zip(*overlaps, strict=True)
        )
        # Exact statistics explain the signals themselves, at the price of all amplitudes.
        amounts = (np.abs(self.coded[index].events.amplitude) for index in block.chunks)
        price = self.settings.penalty * sum(float(np.sum(x, dtype=float)) for x in amounts)
        return sums | {"ztx": ztx, "ztz": ztz, "energy": float(sums["signal"]) + price}

    def _personal_sums(
        self, block: Block, broadcast: Broadcast, fitted_objectives: list[Any]
    ) -> dict[str, Any]:
        """Return the sums of a block for the dictionary update and centering."""
        settings, dictionary = self.settings, self._array(broadcast.dictionary)
        with jax.enable_x64(True):
            summary, tally = programs.add_personal(
                settings.transform,
                settings.sum_options,
                dictionary,
                self._statistics(block),
                block.params,
                self._tally(block, fitted_objectives),
                self._precision(broadcast),
            )
        sums = _counted(tally)
        if not settings.transform.shares_structure:
            objectives = {name: sums[name] for name in ("objective", "objective_fitted")}
            sums = self._population_sums(block, dictionary) | objectives
        own = summary._asdict()
        del own["price"]  # it is in the objective
        if not settings.transform.shares_structure:
            del own["moment"], own["weight"]
        return sums | own

    def results(self) -> Results:
        """Return the results of each subject, in the order of the cohort."""
        found = collect_results(self.chunks, self.blocks, self.coded, self.settings)
        unit = np.broadcast_to(self.divisors, len(self.cohort))[found.subject]
        return replace(found, amplitude=found.amplitude * unit)

    def _code(self, index: int, atoms) -> Coded:
        settings = self.settings
        signals = self._signals(index)
        energy = self._energy[index]
        if energy is None:
            energy = self._energy[index] = coding.measure_energy(signals._replace(pins=None))
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

    def _signals(self, index: int) -> Signals:
        if self._on_device is not None:
            return self._on_device[index]
        chunk, dtype = self.chunks[index], self.settings.dtype
        signals = fill(self.cohort, chunk, self.n_masks, dtype, self.divisors)
        return self._pinned.add(index, signals)

    def _rest(self, values: Values, place: Values | None) -> Values:
        """Return values as they are kept between rounds: on the device, or on the host.

        There they replace those of the last round, as new arrays would fragment the memory.
        """
        if self._on_device is not None:
            return values
        if not isinstance(place, np.ndarray):
            return np.array(values)
        np.copyto(place, values)
        return place

    def _array(self, values) -> Values:
        """Return values in the device's precision, on the host unless they are there already."""
        if isinstance(values, jax.Array):
            return values
        return np.asarray(values, self.settings.dtype)


def _keep_some(coded: Coded, counted: np.ndarray) -> Coded:
    """Return codes in which only the subjects in ``counted`` (S, K) have each atom."""
    counted = np.pad(counted, ((0, len(coded.energy) - len(counted)), (0, 0)))
    moment, weight, count = (np.asarray(x) for x in coded.statistics)
    wide = counted[:, :, None, None].astype(moment.dtype)
    statistics = Statistics(moment * wide, weight * wide, (count * counted).astype(count.dtype))  # pyright: ignore[reportArgumentType]
    overlap = coded.overlap
    if overlap is not None:
        ztx, ztz = (np.asarray(x) for x in overlap)
        overlap = ztx * wide, ztz * wide * wide.transpose(0, 2, 1, 3)  # pyright: ignore[reportAssignmentType]
    return coded._replace(statistics=statistics, overlap=overlap)


def _counted(tally: Tally) -> dict[str, Any]:
    """Return the numbers that every round reports, under the names of `Sums`."""
    return {
        "objective": tally.objective,
        "objective_fitted": tally.objective_fitted,
        "energy": tally.unexplained,
        "signal": tally.energy,
        "counts": tally.count,
    }
