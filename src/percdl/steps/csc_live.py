"""CSC of a growing recording: the decisions of `encode`, as soon as they are certain.

The dynamic program of `select_disjoint` runs forward in time, so all its totals up to now are
known. The future can only continue from the last few of them (*survivors*), because an event that
ends later begins at most its own length earlier. Each survivor has one best past. Events that all
these pasts share are in the best code of the whole recording, for any future; they are *settled*.
The pasts of survivors usually agree within the longest event. If they do not within ``most_lag``
samples, the best past is chosen, and the decision is marked as forced.

Memory and cost per sample do not depend on the length of the recording.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from percdl.steps.coders import L0Coder
from percdl.steps.compilation import program
from percdl.steps.csc import by_length, choose_atoms, explain
from percdl.steps.types import Signals
from percdl.transforms.base import divide


class Candidates(NamedTuple):
    """The best activation of each of D lengths that ends after each of B samples, in S blocks."""

    gain: Float[Array, "S D B"]
    atom: Int[Array, "S D B"]
    amplitude: Float[Array, "S D B"]


class LiveEvent(NamedTuple):
    """A decision: an event, the number of samples seen when it was made, whether it was forced."""

    onset: int
    length: int
    atom: int
    amplitude: float
    seen: int
    forced: bool


@partial(program, static_argnames=("rules", "sign"))
def weigh_blocks(
    signals: Signals,
    atoms: Float[Array, "1 K L P"],
    penalty: Float[Array, ""],
    rules: L0Coder,
    sign: int,
) -> Candidates:
    """Return all activations that end in the last samples of windows (S, W - 1 + B, P).

    W is the longest length. ``sign`` is that of all amplitudes, unless they are signed.
    """
    lengths, pairs = rules.lengths(atoms.shape[2]), rules.pairs(*atoms.shape[1:3])
    projection, norm = explain(signals, atoms, rules)
    amplitude = divide(projection, norm)
    if not rules.signed:
        amplitude = sign * jnp.maximum(sign * amplitude, 0)
    choices = by_length(pairs, len(lengths))
    gain, best = choose_atoms(amplitude, norm, penalty, choices)
    n_ends = signals.values.shape[1] - lengths[-1] + 1
    onset = (lengths[-1] - np.array(lengths))[:, None] + np.arange(n_ends)
    each = np.arange(len(lengths))[:, None]
    choice = jnp.asarray(choices)[each, best[:, each, onset]]
    rows = np.arange(len(gain))[:, None, None]
    atom = jnp.asarray([k for k, _ in pairs])[choice]
    return Candidates(gain[:, each, onset], atom, amplitude[rows, choice, onset])


class Survivors:
    """The totals of the dynamic program over the last samples, and the events behind them.

    Arrays hold one entry per *end*, the number of samples after which an event has ended; the last
    entry is for all samples seen. ``last`` is the end of the last event of the best code so far (0
    without events), and ``parent`` that of the event before the one that ends here. Decisions are
    forced after ``most_lag`` samples, and a call of `advance` has at most ``block`` ends.
    """

    def __init__(self, lengths: tuple[int, ...], gap: int, most_lag: int, block: int):
        self.lengths, self.most_lag = np.array(lengths), most_lag
        self.spans = self.lengths + gap
        self.seen = self.settled = self.forced_until = 0
        size = most_lag + int(self.spans[-1]) + block
        self.total, self.amplitude = np.zeros(size), np.zeros(size)
        self.last, self.parent, self.which, self.atom = np.zeros((4, size), int)

    def advance(self, gain: np.ndarray, atom: np.ndarray, amplitude: np.ndarray) -> None:
        """Advance by the number of ends of the candidates (D, B)."""
        step = int(self.spans[0])  # shorter than any event: earlier totals are all known
        for start in range(0, gain.shape[1], step):
            some = slice(start, start + step)
            self._advance(gain[:, some], atom[:, some], amplitude[:, some])

    def _advance(self, gain: np.ndarray, atom: np.ndarray, amplitude: np.ndarray) -> None:
        n = gain.shape[1]
        ends = self.seen + 1 + np.arange(n)
        column = np.arange(n)
        before = len(self.total) - self.spans[:, None] + column
        totals = np.where(ends < self.lengths[:, None], -np.inf, self.total[before] + gain)
        which = totals.argmax(0)
        after = np.maximum(np.maximum.accumulate(totals[which, column]), self.total[-1])
        is_new = after > np.append(self.total[-1], after[:-1])
        news = {
            "total": after,
            "last": np.maximum.accumulate(np.where(is_new, ends, self.last[-1])),
            "parent": self.last[before[which, column]],
            "which": which,
            "atom": atom[which, column],
            "amplitude": amplitude[which, column],
        }
        for name, new in news.items():
            kept = getattr(self, name)
            kept[:-n] = kept[n:]
            kept[-n:] = new
        self.seen += n

    def settle(self) -> list[LiveEvent]:
        """Return the events that all survivors share and that were not returned before."""
        common, oldest = self._meet()
        if oldest is not None and oldest <= self.seen - self.most_lag:
            self._force()
            common, _ = self._meet()
        return self._take(common)

    def finish(self) -> list[LiveEvent]:
        """Return all further events of the best code, at the end of the recording."""
        return self._take(int(self.last[-1]))

    @property
    def pending(self) -> list[LiveEvent]:
        """The further events of the best code so far, which may change."""
        return self._trace(int(self.last[-1]))

    def _meet(self) -> tuple[int, int | None]:
        """Return the last event that all survivors share, and the oldest that some do not."""
        ends = _distinct(self.last[-self.spans[-1] :])
        met = [ends]
        while len(ends) > 1:
            ends = _distinct(np.append(ends[0], self.parent[self._index(ends[1:])]))
            met.append(ends)
        common = int(ends[0])
        apart = [int(x[x > common][0]) for x in met if x[-1] > common]
        return common, min(apart, default=None)

    def _force(self) -> None:
        """Drop the survivors that differ from the best one beyond the largest lag."""
        live = slice(-int(self.spans[-1]), None)
        horizon, ends = self.seen - self.most_lag, self.last[live].copy()
        while (late := ends > horizon).any():
            ends[late] = self.parent[self._index(ends[late])]
        lost = ends != ends[-1]
        self.total[live][lost], self.last[live][lost] = -np.inf, ends[-1]
        self.forced_until = horizon

    def _take(self, end: int) -> list[LiveEvent]:
        found = self._trace(end)
        self.settled = max(self.settled, end)
        return found

    def _trace(self, end: int) -> list[LiveEvent]:
        """Return the events of a path, starting with the first that is not settled."""
        found = []
        while end > self.settled:
            i = self._index(end)
            length = int(self.lengths[self.which[i]])
            forced = end - length < self.forced_until
            event = (int(self.atom[i]), float(self.amplitude[i]), self.seen, forced)
            found.append(LiveEvent(end - length, length, *event))
            end = int(self.parent[i])
        return found[::-1]

    def _index(self, end):
        return end - self.seen + len(self.last) - 1


def _distinct(ends: np.ndarray) -> np.ndarray:
    """Return the distinct values of an array, increasing (as `np.unique`, without its checks)."""
    ordered = np.sort(ends)
    return ordered[np.append(True, ordered[1:] > ordered[:-1])]
