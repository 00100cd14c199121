"""What the result may not depend on: order, chunks, units, and where the sums are taken."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose

from percdl.algorithm.exchange import Sums
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.state import History
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.transforms import Identity

# Two chunks of four rows, one of them only to fill.
LENGTHS = (97, 102, 107, 113, 119, 124, 128)
SUMMED = (
    "gram",
    "transported",
    "warp",
    "squared_displacement",
    "inverse_warp",
    "warp_sines",
    "squared_sines",
    "warp_moment",
    "n_warps",
    "moment",
    "weight",
    "misfit",
)
SETTINGS = toy.settings(personal_rounds=4)
ROWS = 4


@pytest.fixture(scope="module")
def arrays():
    return toy.recordings(0, LENGTHS)


@pytest.fixture(scope="module")
def reference(arrays):
    outcome, _ = toy.fit(arrays, SETTINGS, toy.first_guess(0), ROWS)
    return outcome


class TwoSites(Runtime):
    """A runtime over two halves of a cohort: it adds sums, and does nothing else."""

    def __init__(self, arrays, settings, chunk_rows):
        halves = arrays[::2], arrays[1::2]
        self.sites = [InProcess(Cohort.from_arrays(h), settings, chunk_rows) for h in halves]

    def run_round(self, kind, broadcast):
        return Sums.total([site.run_round(kind, broadcast) for site in self.sites])


def assert_same(outcome, reference):
    assert_allclose(outcome.dictionary, reference.dictionary, atol=1e-9)
    assert_allclose(outcome.sums.objective, reference.sums.objective, rtol=1e-9)
    assert_allclose(outcome.sums.counts, reference.sums.counts)


def test_the_reference_has_learned_something(reference):
    assert reference.sums.objective < 0.5 * reference.sums.signal
    assert (reference.sums.counts > 10).all()


def test_order_of_subjects(arrays, reference):
    order = np.random.default_rng(1).permutation(len(arrays))
    shuffled = [arrays[s] for s in order]
    outcome, _ = toy.fit(shuffled, SETTINGS, toy.first_guess(0), ROWS)
    assert_same(outcome, reference)


def test_size_of_chunks(arrays, reference):
    outcome, _ = toy.fit(arrays, SETTINGS, toy.first_guess(0), 2)
    assert_same(outcome, reference)


def test_sums_of_two_sites_are_the_sums_of_one(arrays, reference):
    runtime = TwoSites(arrays, SETTINGS, ROWS)
    outcome = run_percdl(runtime, SETTINGS, toy.first_guess(0), History(), toy.ignore)
    assert_same(outcome, reference)
    for name in SUMMED:
        ours, theirs = getattr(outcome.sums, name), getattr(reference.sums, name)
        assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def test_unit_of_amplitude(arrays, reference):
    unit = 3.7
    chosen = toy.settings(penalty=SETTINGS.penalty * unit**2, personal_rounds=4)
    outcome, _ = toy.fit([unit * x for x in arrays], chosen, toy.first_guess(0), ROWS)
    assert_allclose(outcome.dictionary, reference.dictionary, atol=1e-9)
    assert_allclose(outcome.sums.objective, unit**2 * reference.sums.objective, rtol=1e-9)


def test_scale_of_the_first_dictionary(arrays, reference):
    outcome, _ = toy.fit(arrays, SETTINGS, 5 * toy.first_guess(0), ROWS)
    assert_same(outcome, reference)


@pytest.mark.parametrize("gap", [False, True])
def test_chunks_that_share_a_block(gap):
    """Recordings of two buckets, together or apart, with a gap in one channel of one of them."""
    arrays = toy.recordings(2, (100, 104, 108, 140, 150), n_channels=2)
    if gap:
        arrays[3][20:25, 1] = np.nan
    chosen = toy.settings(Identity(), 2, realign=False)
    start = toy.first_guess(2, 2)
    apart, together = (toy.fit(arrays, chosen, start, rows)[0] for rows in (4, 16))
    assert_same(apart, together)
