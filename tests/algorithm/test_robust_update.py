"""The robust variant of Appendix B: copies are summed, and the server averages them."""

import jax.numpy as jnp
import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Algorithm, PerCDL, make_synthetic
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.server import personal_update
from percdl.algorithm.state import History
from percdl.datasets import atom_distance
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.dictionary import normalize
from percdl.transforms import Compose, Custom, Gain, Rotation, TimeWarp

LENGTHS = (97, 102, 107, 113, 119, 124, 128)
SETTINGS = toy.settings(personal_rounds=4, update="robust")
ROWS = 4


@pytest.fixture(scope="module")
def arrays():
    return toy.recordings(0, LENGTHS)


@pytest.fixture(scope="module")
def reference(arrays):
    return toy.fit(arrays, SETTINGS, toy.first_guess(0), ROWS)


class Sites(Runtime):
    """A runtime over parts of a cohort: it adds sums, and does nothing else."""

    def __init__(self, parts, settings):
        self.sites = [InProcess(Cohort.from_arrays(part), settings, ROWS) for part in parts]

    def run_round(self, kind, broadcast):
        return Sums.total([site.run_round(kind, broadcast) for site in self.sites])


def test_it_learns_something_else_than_the_closed_form(arrays, reference):
    outcome, _ = reference
    assert outcome.sums.objective < 0.5 * outcome.sums.signal
    assert (outcome.sums.counts > 10).all()
    closed, _ = toy.fit(arrays, toy.settings(personal_rounds=4), toy.first_guess(0), ROWS)
    assert 1e-3 < atom_distance(outcome.dictionary, closed.dictionary) < 0.5


def test_atoms_are_recovered():
    data = make_synthetic(32, 180, n_repetitions=1, random_state=20)
    start = data.personal_dictionary[0]
    model = PerCDL(
        2,
        50,
        data.transform,
        penalty=0.01,
        init=start,
        algorithm=Algorithm(update="robust"),
        progress=False,
    )
    found = data.distance_to_truth(model.fit(data.cohort).dictionary_)
    assert found < 1.5 * data.gauge_floor() < 0.5 * data.distance_to_truth(start)


def test_order_of_subjects_and_size_of_chunks(arrays, reference):
    order = np.random.default_rng(1).permutation(len(arrays))
    outcome, _ = toy.fit([arrays[s] for s in order], SETTINGS, toy.first_guess(0), 2)
    assert_allclose(outcome.dictionary, reference[0].dictionary, atol=1e-9)


@pytest.mark.parametrize("cuts", [(3,), (1, 2, 6)], ids=["two sites", "four unequal sites"])
def test_sites_learn_what_one_place_learns(arrays, reference, cuts):
    parts = [list(part) for part in np.split(np.array(arrays, object), cuts)]
    runtime = Sites(parts, SETTINGS)
    outcome = run_percdl(runtime, SETTINGS, toy.first_guess(0), History(), toy.ignore)
    assert_allclose(outcome.dictionary, reference[0].dictionary, atol=1e-9)
    assert_allclose(outcome.sums.copies, reference[0].sums.copies, atol=1e-9)
    assert_array_equal(outcome.sums.n_warps, [len(arrays)] * 2)


def test_the_message_holds_copies_and_no_system(reference):
    sums = reference[0].sums
    n_atoms, length, n_channels = reference[0].dictionary.shape
    assert sums.copies.shape == (n_atoms, length, n_channels)
    assert sums.gram.size == sums.transported.size == 0


def test_history_does_not_claim_what_is_not_known(reference):
    """Sums of copies do not determine the objective after averaging, so the old one is kept."""
    records = [r for r in reference[1].records if r.phase == "personal"]
    assert [r.step for r in records] == ["IPU", "CSC", "PerCDU"] * 4
    assert [r.objective for r in records[2::3]] == [r.objective for r in records[1::3]]


def test_server_averages_and_keeps_atoms_that_nobody_has():
    chosen = toy.settings(update="robust", centering="off", realign=False, multistart=False)
    atoms = normalize(toy.first_guess(1))
    sums = Sums(
        objective=3.0,
        objective_fitted=3.0,
        energy=5.0,
        signal=5.0,
        counts=np.array([4.0, 0.0]),
        copies=np.stack([5 * atoms[1], 0 * atoms[0]]),
        n_warps=np.array([4.0, 0.0]),
    )
    answer, objective = personal_update(sums, Broadcast(atoms), chosen, 1)
    assert_allclose(answer.dictionary, [atoms[1], atoms[1]], atol=1e-15)
    assert objective == 3.0


@pytest.mark.parametrize(
    "transform",
    [
        TimeWarp(1, 4, per_channel=True),
        Compose(Gain(), Rotation()),
        Custom(lambda phi, a: phi + a * jnp.abs(phi), 1),
    ],
    ids=["per channel", "composed", "not linear"],
)
def test_transforms_and_missing_samples(transform):
    rng = np.random.default_rng(0)
    arrays = toy.recordings(3, LENGTHS[:4], 2)
    arrays = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in arrays]
    plain = {"population_rounds": 1, "personal_rounds": 2, "realign": False, "multistart": False}
    chosen = toy.settings(transform, 2, update="robust", **plain)
    outcome, history = toy.fit(arrays, chosen, toy.first_guess(3, 2), ROWS)
    assert history.records[-1].objective < history.records[0].objective < outcome.sums.signal
    assert_allclose((outcome.dictionary**2).sum((1, 2)), 1)
