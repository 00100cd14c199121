"""The same seed gives the same result, whatever surrounds a fit."""

import numpy as np
import pytest

from benchmarks.stress import torture
from benchmarks.stress.determinism import SURROUNDINGS, fingerprint, fingerprints_in, make
from percdl import Cohort
from percdl.estimators.checkpoint import fit_with_checkpoints


@pytest.fixture(scope="module")
def reference():
    """A fit to compare with."""
    return make().fit(torture.recordings())


def test_a_second_fit_gives_the_same_file(reference):
    assert fingerprint(make().fit(torture.recordings())) == fingerprint(reference)


def test_a_fingerprint_tells_models_apart(reference):
    other = make(random_state=0, algorithm__personal_rounds=1).fit(torture.recordings())
    assert fingerprint(other) != fingerprint(reference)


def test_checkpoints_change_nothing(reference, tmp_path):
    cohort = Cohort.from_arrays(torture.recordings())
    kept = fit_with_checkpoints(make(), cohort, tmp_path / "checkpoint")
    assert fingerprint(kept) == fingerprint(reference)


def test_the_order_of_subjects_permutes_the_result():
    x = torture.recordings()
    order = np.random.default_rng(3).permutation(len(x))
    here, there = (make(dtype="float64").fit(values) for values in (x, x[order]))
    np.testing.assert_allclose(there.dictionary_, here.dictionary_, atol=1e-12)
    np.testing.assert_allclose(there.params_, here.params_[order], atol=1e-10)
    np.testing.assert_array_equal(there.n_activations_, here.n_activations_[order])


def test_chunks_change_rounding_at_most():
    x = torture.recordings()
    here, there = (make(dtype="float64", algorithm__chunk_rows=n).fit(x) for n in (None, 3))
    np.testing.assert_allclose(there.dictionary_, here.dictionary_, atol=1e-12)


@pytest.mark.slow
def test_processes_with_other_hash_seeds_write_the_same_files():
    found = {fingerprints_in(SURROUNDINGS[name]) for name in ("hash seed 1", "hash seed random")}
    assert len(found) == 1
