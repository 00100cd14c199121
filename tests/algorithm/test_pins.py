"""Corrections are obeyed: codes are the best ones among those that agree with them."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import toy
from double import in_double
from numpy.testing import assert_allclose

from percdl.algorithm import coding
from percdl.algorithm.chunks import Chunk, Shape
from percdl.algorithm.local import Site
from percdl.algorithm.pins import Pinned, Rules, allow, check_corrections
from percdl.algorithm.shapes import Forecast
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort, Recording
from percdl.signals.recording import Correction
from percdl.steps.coders import L0Coder, L1Coder, SizedCoder
from percdl.steps.csc import encode, explain
from percdl.steps.types import Signals

S, N, L, K, PENALTY = 24, 11, 4, 2, 0.3
CODERS = {
    "plain": (L0Coder(), 0),
    "signed, gap": (L0Coder(signed=True, min_gap=1), 0),
    "few": (L0Coder(max_activations=2), 1),
    "several lengths": (L0Coder(stretch=1.3), 0),
    "two sizes": (SizedCoder(sizes=(4, 3)), 0),
    "baseline, gaps": (L0Coder(baseline="offset"), 1),
}
fast_encode = jax.jit(encode, static_argnames="rules")
fast_explain = jax.jit(explain, static_argnames="rules")


def draw(rng, n):
    """Return up to three corrections of a recording of n samples, at one sample per second."""
    for _ in range(rng.integers(1, 4)):
        duration = None if rng.random() < 0.3 else float(rng.integers(3, 6))
        yield Correction(
            float(rng.integers(0, n - int(duration or L) + 1)),
            duration,
            None if rng.random() < 0.5 else int(rng.integers(K)),
            str(rng.choice(["keep", "keep", "remove", "only"])),
            None if rng.random() < 0.5 else float(rng.integers(0, 2)),
        )


def problem(mask, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(8, N + 1, S)
    inside = (np.arange(N) < lengths[:, None])[..., None]
    observed = (inside & (rng.random((S, N, mask)) < 0.8)).astype(float) if mask else None
    x = rng.standard_normal((S, N, 1)) * (inside if observed is None else observed)
    atoms = rng.uniform(0.3, 1, (S, K, L, 1)) * rng.choice([-1, 1], (S, K, L, 1))
    corrections = [[*draw(rng, n)] for n in lengths]
    return Signals(x, lengths.astype(np.int32), observed), atoms, corrections


def keeps(event, each, nominal, shortest):
    """Whether an event (onset, atom, length) is the one that a correction keeps."""
    onset, atom, length = event
    middle = each.onset + int(each.duration or nominal) // 2
    if each.tolerance is None:
        there = onset <= middle < onset + length
    else:
        there = abs(onset - each.onset) <= min(each.tolerance, (shortest - 1) // 2)
    return there and each.atom in (None, atom)


def agrees(events, corrections, coder):
    """Whether a code does what all corrections say, one by one."""
    kept = {each for each in corrections if each.action != "remove"}
    found = set()
    for each in corrections:
        sizes = coder.lengths(L) if each.atom is None else coder.lengths_of(each.atom, L)
        nominal, shortest = sizes[len(sizes) // 2], sizes[0]
        size = int(each.duration or nominal)
        if each.action == "remove":
            half = set(range(int(each.onset) + size // 4, int(each.onset) + size - size // 4))
            if any(half & set(range(t, t + n)) for t, k, n in events if each.atom in (None, k)):
                return False
        else:
            own = {event for event in events if keeps(event, each, nominal, shortest)}
            if not own:
                return False
            found |= own
    if any(each.action == "only" for each in kept) and found != set(events):
        return False
    # Each kept event is a separate activation.
    return len(found) >= len(kept)


def all_codes(gain, coder, n):
    """Yield the total gain and the events of every code without overlap."""
    sizes = coder.lengths(L)
    choices = [(k, sizes[d]) for k, d in coder.pairs(K, L)]

    def from_(start, left):
        yield 0.0, ()
        for t in range(start, n if left else start):
            for c, (k, length) in enumerate(choices):
                if t + length <= n:
                    for total, some in from_(t + length + coder.gap, left - 1):
                        yield total + gain[c, t], ((t, k, length), *some)

    yield from from_(0, coder.max_activations or n)


def pinned(corrections, signals, coder):
    """Return signals with the constraints of all recordings that can obey theirs."""
    rules, feasible = Rules(coder, K, L, 1.0), []
    for own, n in zip(corrections, signals.lengths, strict=True):
        try:
            check_corrections(own, "A", int(n), rules)
            feasible.append(True)
        except InvalidParameterError:
            feasible.append(False)
    usable = [own if ok else [] for own, ok in zip(corrections, feasible, strict=True)]
    cohort = Cohort(
        Recording(np.ones(n), subject=str(s), corrections=own)
        for s, (n, own) in enumerate(zip(signals.lengths, usable, strict=True))
    )
    settings = replace(toy.settings(coder=coder), atom_length=L)
    return Pinned(cohort, [Chunk(np.arange(S), S, N)], settings).add(0, signals), feasible


@pytest.mark.parametrize("name", CODERS)
def test_code_equals_exhaustive_search_among_codes_that_agree(name):
    coder, mask = CODERS[name]
    signals, atoms, corrections = problem(mask)
    code = partial(in_double, fast_encode, rules=coder)
    constrained, feasible = pinned(corrections, signals, coder)
    events, gain = code(constrained, atoms, np.float64(PENALTY))
    projection, norm = in_double(fast_explain, signals, atoms, rules=coder)
    norm = np.asarray(norm)
    amplitude = np.divide(projection, norm, out=np.zeros_like(norm), where=norm > 0)
    amplitude = amplitude if coder.signed else np.maximum(amplitude, 0)
    gains = amplitude**2 * norm - PENALTY
    n_compared = 0
    for s, (n, own) in enumerate(zip(signals.lengths, corrections, strict=True)):
        fine = [total for total, some in all_codes(gains[s], coder, n) if agrees(some, own, coder)]
        removed = any(each.action == "remove" for each in own)
        # Where nothing agrees, what is kept counts, or it is an error.
        assert feasible[s] or not fine
        assert fine or removed or not feasible[s]
        if fine:
            n_compared += 1
            assert_allclose(gain[s], max(fine), atol=1e-9)
            onset, atom, _, *which = (np.asarray(part)[s] for part in events if part is not None)
            sizes = np.array(coder.lengths(L))[which[0] if which else np.zeros_like(onset)]
            rows = zip(onset.tolist(), atom.tolist(), sizes.tolist(), strict=True)
            assert agrees([row for row in rows if row[0] < N], own, coder)
    assert n_compared > S // 3


def site_of(rows, **options):
    cohort = Cohort.from_arrays(np.ones((2, 100)), sfreq=10, subjects=["A", "B"])
    return Pinned(cohort.correct(toy.corrections(*rows)), (), toy.settings(**options))


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([("B", 2.0, "keep", 0), ("B", 3.5, "keep", 0)], {}, ("'B'", "3.5 s", "2 s", "1.6 s")),
        ([("B", 2.0, "keep", 0), ("B", 2.0, "keep", 0.1)], {}, ("'B'", "2 s", "overlap")),
        ([("A", 9.0, "keep", 0)], {}, ("'A'", "9 s", "within the recording")),
        ([("A", 1, "keep", 0), ("A", 4, "keep", 0)], {"coder": L0Coder(max_activations=1)},
         ("'A'", "4 s", "max_activations=1")),
        ([("A", 1, "keep", 0)], {"coder": L1Coder()}, ("'A'", "1 s", "L0Coder")),
    ],
)  # fmt: skip
def test_corrections_that_no_code_can_obey_are_named(rows, options, words):
    with pytest.raises(InvalidParameterError) as error:
        site_of(rows, **options)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_unknown_atoms_are_named():
    cohort = Cohort.from_arrays(np.ones((1, 100)), subjects=["A"])
    rows = toy.corrections(("A", 1.0, "keep", None)).assign(trial_type="atom2")
    with pytest.raises(InvalidParameterError, match=r"'A' at 1 s is about atom 2.*2 atom\(s\)"):
        Pinned(cohort.correct(rows), (), toy.settings())


def test_kept_events_that_touch_are_fine():
    site_of([("B", 2.0, "keep", 0), ("B", 3.6, "keep", 0), ("B", 8.4, "keep", 0)])


def test_what_is_kept_counts_where_it_was_removed():
    own = [Correction(3.0, 4.0, None, "keep", 0.0), Correction(2.0, 4.0, None, "remove", None)]
    allowed = allow(own, N, Rules(L0Coder(), 1, L, 1.0))
    assert np.flatnonzero(allowed[0]).tolist() == [3, 5, 6, 7]


def test_programs_are_known_ahead_and_stay_as_they_are_without_corrections():
    """Those of corrected chunks are their own; no other chunk needs them."""
    settings = toy.settings()
    forecast = Forecast(settings, 0)
    arrays = toy.recordings(0, (97, 110, 40))
    cohort = Cohort.from_arrays(arrays)
    corrected = cohort.correct(toy.corrections(("1", 30.0, "keep", None)))
    shape = Shape(16, 2**20, 16)
    sites = [Site(each, settings, shape, resident=False) for each in (cohort, corrected)]
    with jax.enable_x64(True):
        for site, expected in zip(sites, ([False, False], [False, True]), strict=True):
            signals = [site._signals(i) for i in range(len(site.chunks))]
            assert [x.pins is not None for x in signals] == expected
            for chunk, own, is_pinned in zip(site.chunks, signals, expected, strict=True):
                calls = [*forecast.of_chunk(chunk.rows, chunk.n_times, is_pinned)]
                wanted = next(call.args[0] for call in calls if call.program is coding.code)
                assert jax.tree.map(np.shape, own) == jax.tree.map(lambda x: x.shape, wanted)
