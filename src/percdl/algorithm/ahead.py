"""The programs of a fit, known before it begins: they are compiled side by side in the background.

The shapes of all arguments follow from the settings and from the shapes of chunks and blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax

from percdl.algorithm import coding, programs, server
from percdl.algorithm.coding import Coded
from percdl.algorithm.programs import Fitted, Orders, Prepared, Tally
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import broadcast_shapes, prior_shape
from percdl.steps.compilation import Program
from percdl.steps.csc import count_slots
from percdl.steps.types import Events, Pins, Signals, Statistics


class Call(NamedTuple):
    """A program, its arguments with arrays as shapes, and whether it runs in double precision."""

    program: Program
    args: tuple[Any, ...]
    is_double: bool


def prepare_programs(calls: Iterable[Call]) -> None:
    """Begin to compile programs in the background, in the order given."""
    for program, args, is_double in calls:
        with jax.enable_x64(is_double):
            program.prepare(*args)


def is_compiled(call: Call) -> bool:
    """Whether the program of a call is compiled."""
    with jax.enable_x64(call.is_double):
        return call.program.is_compiled(*call.args)


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

    def of_chunk(self, rows: int, n_times: int, is_pinned: bool = False) -> Iterator[Call]:
        """Yield the calls that code a chunk; none if activations may overlap."""
        settings = self._settings
        if settings.overlaps:
            return
        common, personal = self._real(1, *self._atoms), self._real(rows, *self._atoms)
        masks = (rows, n_times, self._n_masks)
        values = self._real(rows, n_times, settings.n_channels)
        observed = self._real(*masks) if self._n_masks else None
        signals = Signals(values, _whole(rows), observed)
        if self._keeps_spectrum:
            yield Call(coding.keep_spectrum, (signals,), self._is_double)
            kind = "complex128" if self._is_double else "complex64"
            size = (rows, settings.n_channels, n_times // 2 + 1)
            signals = signals._replace(spectrum=jax.ShapeDtypeStruct(size, kind))
        delta = None if settings.delta is None else self._real()
        yield Call(coding.measure_energy, (signals,), self._is_double)
        if is_pinned:
            signals = signals._replace(pins=self._pins(rows, n_times))
        for atoms in (common, personal) if settings.schedule[1] else (common,):
            rest = (self._real(), delta, None, settings.coder, settings.margin)
            args = (signals, self._real(rows), atoms, *rest)
            yield Call(coding.code, args, self._is_double)
        if not settings.schedule[1]:
            return
        coded = self._coded(rows, n_times)
        prepared, fitted = self._prepared(rows), self._fitted(rows)
        yield Call(coding.judge, (coded, coded, prepared, fitted, False), self._is_double)
        taken = jax.ShapeDtypeStruct((rows,), bool)
        yield Call(coding.accept, (taken, coded, coded, prepared, fitted), self._is_double)

    def is_chunk_compiled(self, rows: int, n_times: int) -> bool:
        """Whether the programs that code such a chunk are compiled."""
        return all(map(is_compiled, self.of_chunk(rows, n_times))) and not self._settings.overlaps

    def of_block(self, rows: int, n_together: int) -> Iterator[Call]:
        """Yield the calls that personalize a block and add it up, the longest to compile first."""
        settings, dictionary = self._settings, self._real(*self._atoms)
        statistics, tally, transform = (
            self._statistics(rows),
            self._tally(rows),
            settings.transform,
        )
        if settings.schedule[1]:
            if settings.shifts:
                yield self._seek(rows, n_together)
            params = self._real(rows, settings.n_atoms, settings.n_params)
            added = (transform, settings.sum_options, dictionary, statistics, params, tally)
            yield Call(programs.add_personal, (*added, self._precision), True)
            yield self.fit(rows)
            gauges = broadcast_shapes(transform, *self._atoms)
            none = (settings.n_atoms, 0)
            gauge, mixing = (self._real(*gauges.get(x, none)) for x in ("gauge", "mixing_gauge"))
            flag = jax.ShapeDtypeStruct((), bool)
            carried = (transform, dictionary, statistics, params, gauge, mixing, flag, flag)
            yield Call(programs.prepare, (*carried, self._precision), self._is_double)
            if settings.warp_part is not None and settings.centering != "off":
                doubles = (jax.ShapeDtypeStruct(s, "float64") for s in (self._atoms, gauge.shape))
                yield Call(server.resample, (settings.warp_part[0], *doubles), True)
        added = (statistics, dictionary, tally, settings.by_subject)
        yield Call(programs.add_population, added, True)
        yield Call(programs.neutral_params, (transform, rows, dictionary), self._is_double)

    def is_block_compiled(self, rows: int) -> bool:
        """Whether the longest program of such a block is compiled."""
        return is_compiled(self.fit(rows))

    def fit(self, rows: int) -> Call:
        """Return the call of IPU on a block."""
        settings, shift = self._settings, _whole(rows, self._settings.n_atoms)
        params = self._real(rows, settings.n_atoms, settings.n_params)
        args = (self._real(*self._atoms), self._statistics(rows), params, shift)
        noise = self._real(rows, settings.n_atoms) if settings.has_prior else None
        args += (noise, self._precision)
        return Call(
            programs.fit, (settings.transform, settings.fit_options, *args), self._is_double
        )

    def _seek(self, rows: int, n_together: int) -> Call:
        settings, n_atoms = self._settings, self._settings.n_atoms
        everyone: Any = jax.ShapeDtypeStruct((n_atoms,), bool)
        orders = Orders(_whole(n_atoms), everyone, self._real(n_atoms))
        args = (
            self._real(*self._atoms),
            self._statistics(rows),
            self._prepared(rows),
            _whole(rows, n_atoms),
            orders,
            _whole(len(settings.shifts)),
            self._precision,
        )
        flags = (settings.transform, settings.multistart, n_together)
        return Call(programs.seek, (*flags, *args), self._is_double)

    @property
    def _precision(self) -> Any:
        return self._real(*prior_shape(self._settings)) if self._settings.has_prior else None

    @property
    def _atoms(self) -> tuple[int, int, int]:
        settings = self._settings
        return settings.n_atoms, settings.atom_length, settings.n_channels

    def _real(self, *shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, self._settings.dtype)

    def _pins(self, rows: int, n_times: int) -> Any:
        coder, shape = self._settings.disjoint_coder, self._atoms[:2]
        n_positions = n_times - coder.lengths(shape[1])[0] + 1
        sizes = (rows, len(coder.pairs(*shape)), n_positions), (rows, n_times)
        return Pins(*(jax.ShapeDtypeStruct(size, bool) for size in sizes))  # pyright: ignore[reportArgumentType]

    def _coded(self, rows: int, n_times: int) -> Coded:
        length, coder = self._settings.atom_length, self._settings.disjoint_coder
        shortest, *others = coder.lengths(length)
        slots = count_slots(n_times - shortest + 1, shortest + coder.gap, coder.max_activations)
        place: Any = jax.ShapeDtypeStruct((rows, slots), "int64" if self._is_double else "int32")
        events = Events(place, place, self._real(rows, slots), place if others else None)
        numbers = [self._real(rows)] * 3
        return Coded(events, self._statistics(rows), *numbers)

    def _statistics(self, rows: int) -> Any:
        settings = self._settings
        window = settings.atom_length + 2 * settings.margin
        by_atom = (rows, settings.n_atoms)
        # Huber's loss weighs every sample of every channel.
        n_weights = max(1, self._n_masks) if settings.delta is None else settings.n_channels
        return Statistics(
            self._real(*by_atom, window, settings.n_channels),
            self._real(*by_atom, window, n_weights),
            _whole(*by_atom),
        )

    def _prepared(self, rows: int) -> Any:
        by_atom = self._real(rows, self._settings.n_atoms)
        params = self._real(*by_atom.shape, self._settings.n_params)
        misplaced: Any = jax.ShapeDtypeStruct(by_atom.shape, bool)
        return Prepared(params, by_atom, by_atom, by_atom, by_atom, misplaced, by_atom)

    def _fitted(self, rows: int) -> Any:
        by_atom = self._real(rows, self._settings.n_atoms)
        params = self._real(*by_atom.shape, self._settings.n_params)
        return Fitted(params, by_atom, by_atom, by_atom, self._real(rows, *self._atoms))

    def _tally(self, rows: int) -> Any:
        number = self._real(rows)
        return Tally(number, number, number, number, _whole(rows, self._settings.n_atoms))


def _whole(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, "int32")
