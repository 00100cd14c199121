"""The shapes of the messages and programs of a fit, known before it begins.

They follow from the settings and from the shapes of chunks and blocks. So the shapes of sums and
broadcasts received from others can be checked, and programs are compiled side by side in the
background.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax

from percdl.algorithm import coding, programs, server
from percdl.algorithm.coding import Coded
from percdl.algorithm.programs import Fitted, Orders, Prepared, Tally
from percdl.algorithm.settings import Settings
from percdl.steps.compilation import Program
from percdl.steps.csc import count_slots
from percdl.steps.prior import n_coordinates
from percdl.steps.types import Events, Pins, Signals, Statistics
from percdl.transforms.base import Transform

Shapes = dict[str, tuple[int, ...]]


def population_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the sums of a population round, by field, without empty ones.

    ``n_masks`` is that of all recordings together, see `Measured.n_masks`.
    """
    n_atoms, length = settings.n_atoms, settings.atom_length
    statistics = Forecast(settings, n_masks).statistics(1)
    names = ("moment", "weight")
    shapes = _counted(settings) | {x: getattr(statistics, x).shape[1:] for x in names}
    if settings.overlaps and n_masks == 0 and not settings.by_subject:
        shapes |= {"ztx": shapes["moment"], "ztz": (n_atoms, n_atoms, 2 * length - 1)}
    return shapes


def personal_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the sums of a personal round, or of `Site.express`."""
    shared = settings.transform.shares_structure
    counted = _counted(settings) if shared else population_shapes(settings, n_masks)
    return counted | _summary_shapes(settings, n_masks)


def _counted(settings: Settings) -> Shapes:
    """Return the shapes of the sums of every round."""
    numbers = dict.fromkeys(("objective", "objective_fitted", "energy", "signal"), ())
    return {**numbers, "counts": (settings.n_atoms,)}


@lru_cache(maxsize=32)
def _summary_shapes(settings: Settings, n_masks: int) -> Shapes:
    """Return the shapes of the results of `programs.summarize`, by tracing it."""
    forecast = Forecast(settings, n_masks)
    # Sums have the same shapes over any number of subjects.
    args = forecast.dictionary, forecast.statistics(1), forecast.params(1), forecast.precision
    summarize = partial(programs.summarize, settings.transform, settings.sum_options)
    with jax.enable_x64(settings.dtype == "float64"):
        summary = jax.eval_shape(summarize, *args)
    return {name: x.shape for name, x in summary._asdict().items() if name != "price" and x.size}


def prior_shape(settings: Settings) -> tuple[int, ...]:
    """Return the shape of the precision of the warps."""
    sizes = settings.n_atoms, settings.atom_length, settings.n_channels
    return broadcast_shapes(settings.transform, *sizes)["precision"]


def broadcast_shapes(
    transform: Transform, n_atoms: int, atom_length: int, n_channels: int
) -> Shapes:
    """Return the shapes of all fields of a broadcast, by name."""
    shapes: Shapes = {"dictionary": (n_atoms, atom_length, n_channels)}
    shapes |= {"move": (n_atoms,), "misfit": (n_atoms,)}
    if (part := transform.warp_part(atom_length, n_channels)) is not None:
        n_warps = part[0].n_warps(n_channels)
        m = n_coordinates(atom_length, part[0].n_params(atom_length, n_channels) // n_warps)
        shapes["gauge"] = (n_atoms, n_warps, atom_length)
        shapes["precision"] = (n_atoms, n_warps, m, m)
    if (mixing := transform.channel_part(atom_length, n_channels)) is not None:
        shapes["mixing_gauge"] = (n_atoms, mixing[0].n_params(atom_length, n_channels))
    return shapes


class Call(NamedTuple):
    """A program, its arguments with arrays as shapes, and whether it runs in double precision."""

    program: Program
    args: tuple[Any, ...]
    is_double: bool

    @property
    def is_compiled(self) -> bool:
        """Whether the program of the call is compiled."""
        with jax.enable_x64(self.is_double):
            return self.program.is_compiled(*self.args)


def prepare_programs(calls: Iterable[Call]) -> None:
    """Begin to compile programs in the background, in the order given."""
    for program, args, is_double in calls:
        with jax.enable_x64(is_double):
            program.prepare(*args)


class Forecast:
    """The calls of a fit with these settings.

    Parameters
    ----------
    settings : Settings
        What to solve and how.
    n_masks : int
        Masks per recording, see `Measured.n_masks`.
    keeps_spectrum : bool
        Whether the Fourier transforms of the recordings are kept between rounds.
    """

    def __init__(self, settings: Settings, n_masks: int, keeps_spectrum: bool = False):
        self._settings = settings
        self._n_masks = n_masks
        self._keeps_spectrum = keeps_spectrum
        self._is_double = settings.dtype == "float64"
        self._atoms = settings.n_atoms, settings.atom_length, settings.n_channels
        self.dictionary = self._real(*self._atoms)
        self.precision = self._real(*prior_shape(settings)) if settings.has_prior else None

    def of_chunk(self, rows: int, n_times: int, is_pinned: bool = False) -> Iterator[Call]:
        """Yield the calls that code a chunk; none if activations may overlap."""
        settings = self._settings
        if settings.overlaps:
            return
        values = self._real(rows, n_times, settings.n_channels)
        observed = self._real(rows, n_times, self._n_masks) if self._n_masks else None
        signals = Signals(values, _whole(rows), observed)
        if self._keeps_spectrum:
            yield self._call(coding.keep_spectrum, signals)
            kind = "complex128" if self._is_double else "complex64"
            size = (settings.n_channels, rows, n_times // 2 + 1)
            signals = signals._replace(spectrum=jax.ShapeDtypeStruct(size, kind))
        yield self._call(coding.measure_energy, signals)
        if is_pinned:
            signals = signals._replace(pins=self._pins(rows, n_times))
        delta = None if settings.delta is None else self._real()
        rest = (self._real(), delta, None, settings.coder, settings.margin)
        is_personal = settings.schedule[1] > 0
        for n_dictionaries in (1, rows) if is_personal else (1,):
            atoms = self._real(n_dictionaries, *self._atoms)
            yield self._call(coding.code, signals, self._real(rows), atoms, *rest)
        if is_personal:
            coded = self._coded(rows, n_times)
            each = self._by_atom(rows)
            fitted = Fitted(self.params(rows), each, each, each, self._real(rows, *self._atoms))
            old_and_new = coded, coded, self._prepared(rows), fitted
            yield self._call(coding.judge, *old_and_new, False)
            yield self._call(coding.accept, _flags(rows), *old_and_new)

    def is_chunk_compiled(self, rows: int, n_times: int) -> bool:
        """Whether the programs that code such a chunk are compiled."""
        calls = self.of_chunk(rows, n_times)
        return not self._settings.overlaps and all(call.is_compiled for call in calls)

    def of_block(self, rows: int, search_sizes: Iterable[int]) -> Iterator[Call]:
        """Yield the calls that personalize a block and add it up, the longest to compile first."""
        settings, dictionary, precision = self._settings, self.dictionary, self.precision
        transform, statistics, params = (
            settings.transform,
            self.statistics(rows),
            self.params(rows),
        )
        number = self._real(rows)
        tally: Any = Tally(number, number, number, number, _whole(rows, settings.n_atoms))
        if settings.schedule[1]:
            if settings.shifts:
                yield from (self._seek(rows, size) for size in dict.fromkeys(search_sizes))
            added = (transform, settings.sum_options, dictionary, statistics, params, tally)
            yield Call(programs.add_personal, (*added, precision), True)
            yield self._fit(rows)
            gauges = broadcast_shapes(transform, *self._atoms)
            none = (settings.n_atoms, 0)
            gauge, mixing = (self._real(*gauges.get(x, none)) for x in ("gauge", "mixing_gauge"))
            carried = (transform, dictionary, statistics, params, gauge, mixing)
            yield self._call(programs.prepare, *carried, _flags(), _flags(), precision)
            if settings.warp_part is not None and settings.centering != "off":
                doubles = (jax.ShapeDtypeStruct(s, "float64") for s in (self._atoms, gauge.shape))
                yield Call(server.resample, (settings.warp_part[0], *doubles), True)
        added = (statistics, dictionary, tally, settings.by_subject)
        yield Call(programs.add_population, added, True)
        yield self._call(programs.neutral_params, transform, rows, dictionary)

    def is_block_compiled(self, rows: int) -> bool:
        """Whether the longest program of such a block is compiled."""
        return self._fit(rows).is_compiled

    def params(self, rows: int) -> Any:
        """Return the shape of parameters (S, K, M)."""
        return self._real(rows, self._settings.n_atoms, self._settings.n_params)

    def statistics(self, rows: int) -> Any:
        """Return the shapes of the statistics of some recordings."""
        settings = self._settings
        window = (rows, settings.n_atoms, settings.atom_length + 2 * settings.margin)
        # Huber's loss weighs every sample of every channel.
        n_weights = max(1, self._n_masks) if settings.delta is None else settings.n_channels
        moment, weight = self._real(*window, settings.n_channels), self._real(*window, n_weights)
        return Statistics(moment, weight, _whole(*window[:2]))

    def _fit(self, rows: int) -> Call:
        """Return the call of IPU on a block."""
        settings, shift = self._settings, _whole(rows, self._settings.n_atoms)
        known = (settings.transform, settings.fit_options, self.dictionary, self.statistics(rows))
        noise = self._by_atom(rows) if settings.has_prior else None
        return self._call(programs.fit, *known, self.params(rows), shift, noise, self.precision)

    def _seek(self, rows: int, n_together: int) -> Call:
        """Return the call of the search of a block."""
        settings, n_atoms = self._settings, self._settings.n_atoms
        orders = Orders(_whole(n_atoms), _flags(n_atoms), self._real(n_atoms))
        flags = (settings.transform, settings.multistart, n_together)
        before = (self.dictionary, self.statistics(rows), self._prepared(rows))
        shifts = _whole(n_atoms, len(settings.shifts[0]))
        rest = (_whole(rows, n_atoms), orders, shifts, self.precision)
        return self._call(programs.seek, *flags, *before, *rest)

    def _call(self, program: Program, *args: Any) -> Call:
        """Return the call of a program that runs in the precision of the fit."""
        return Call(program, args, self._is_double)

    def _real(self, *shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, self._settings.dtype)

    def _by_atom(self, rows: int) -> Any:
        return self._real(rows, self._settings.n_atoms)

    def _pins(self, rows: int, n_times: int) -> Any:
        coder, shape = self._settings.disjoint_coder, self._atoms[:2]
        n_positions = n_times - coder.lengths(shape[1])[0] + 1
        allowed = _flags(rows, len(coder.pairs(*shape)), n_positions)
        return Pins(allowed, _flags(rows, n_times))

    def _coded(self, rows: int, n_times: int) -> Coded:
        length, coder = self._settings.atom_length, self._settings.disjoint_coder
        shortest, *others = coder.lengths(length)
        slots = count_slots(n_times - shortest + 1, shortest + coder.gap, coder.max_activations)
        place: Any = jax.ShapeDtypeStruct((rows, slots), "int64" if self._is_double else "int32")
        events = Events(place, place, self._real(rows, slots), place if others else None)
        return Coded(events, self.statistics(rows), *[self._real(rows)] * 3)

    def _prepared(self, rows: int) -> Any:
        each, misplaced = self._by_atom(rows), _flags(rows, self._settings.n_atoms)
        return Prepared(self.params(rows), each, each, each, each, misplaced, each)


def _whole(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, "int32")


def _flags(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, bool)
