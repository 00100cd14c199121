"""A growing recording is coded as if it were complete, and what is settled stays."""

from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from percdl.steps.csc_live import Survivors

N, NEVER = 12, 10**3
SPANS = {"one": ((3,), 0), "several": ((2, 3, 5), 0), "gap": ((2, 4), 2)}
# Few different gains, so that ties are frequent.
GAINS = st.integers(-2, 6).map(lambda k: k / 2)
CUTS = st.sets(st.integers(1, N - 1)).map(lambda cuts: [0, *sorted(cuts), N])


def gains_of(kind):
    """Draw the gain of an event of each length by its end, which a later check cuts to size."""
    return hnp.arrays(float, (len(SPANS[kind][0]), N), elements=GAINS)


def run(gain, cuts, kind, most_lag=NEVER, finish=True):
    """Return the events of a stream that is cut at some ends, and the stream."""
    stream = Survivors(*SPANS[kind], most_lag, N)
    found = []
    for start, stop in pairwise(cuts):
        some = gain[:, start:stop]
        stream.advance(some, np.zeros_like(some, dtype=int), some)
        found += stream.settle()
    return found + (stream.finish() if finish else []), stream


def places(found):
    return [(event.onset, event.length, event.amplitude) for event in found]


def by_onset(gain, kind):
    """Return gains by onset, minus infinity where an event would begin before the recording."""
    lengths, gap = SPANS[kind]
    moved = np.full((len(lengths), N + gap), -np.inf)
    for row, own, length in zip(moved, gain, lengths, strict=True):
        row[: N - length + 1] = own[length - 1 :]
    return moved


@pytest.mark.parametrize("kind", SPANS)
@given(st.data())
def test_total_is_the_best_of_all_codes(kind, data):
    gain, cuts = data.draw(gains_of(kind)), data.draw(CUTS)
    found, _ = run(gain, cuts, kind)
    lengths, gap = SPANS[kind]
    spans = tuple(length + gap for length in lengths)
    best = naive.best_activations(by_onset(gain, kind), spans)
    assert sum(event.amplitude for event in found) == best
    assert all(a.onset + a.length + gap <= b.onset for a, b in pairwise(found))
    assert all(event.onset >= 0 and not event.forced for event in found)


@pytest.mark.parametrize("kind", SPANS)
@given(st.data())
def test_cuts_do_not_matter(kind, data):
    gain, cuts = data.draw(gains_of(kind)), data.draw(CUTS)
    assert places(run(gain, cuts, kind)[0]) == places(run(gain, [0, N], kind)[0])


@pytest.mark.parametrize("kind", SPANS)
@given(st.data())
def test_no_future_takes_back_what_is_settled(kind, data):
    gain, other, now = data.draw(gains_of(kind)), data.draw(gains_of(kind)), N // 2
    settled = places(run(gain[:, :now], [0, now], kind, finish=False)[0])
    other[:, :now] = gain[:, :now]
    for future in (gain, other):
        assert places(run(future, [0, N], kind)[0])[: len(settled)] == settled


@pytest.mark.parametrize("end", range(3, 9))
def test_an_event_that_stands_alone_is_settled_a_length_after_its_end(end):
    gain = np.where(np.arange(1, N + 1) == end, 3.0, -1.0)[None]
    (event,), _ = run(gain, [*range(N + 1)], "one", finish=False)
    assert event.seen == end + SPANS["one"][0][0] - 1


@given(gains_of("several"), st.integers(5, 8))
def test_forced_decisions_come_in_time_and_are_marked(gain, most_lag):
    found, stream = run(gain, [*range(N + 1)], "several", most_lag)
    exact, _ = run(gain, [0, N], "several")
    assert all(e.seen - e.onset - e.length <= most_lag for e in found if e.seen < N)
    assert all(a.onset + a.length <= b.onset for a, b in pairwise(found))
    if not stream.forced_until:
        assert places(found) == places(exact)
    best, total = (sum(event.amplitude for event in events) for events in (exact, found))
    assert total <= best


def test_races_that_never_end_are_settled_by_force():
    """Every later start is slightly better, so all survivors stay different."""
    gain, lengths = 1 + np.arange(400)[None] / 1000, SPANS["one"][0]
    stream = Survivors(lengths, 0, 30, 1)
    found = []
    for end in range(400):
        stream.advance(gain[:, end : end + 1], np.zeros((1, 1), int), gain[:, end : end + 1])
        found += stream.settle()
        assert len(stream.pending) <= 30 / lengths[0] + 1
    assert len(found) > 100
    assert found[0].forced
    assert all(a.onset + a.length <= b.onset for a, b in pairwise(found))
