"""A site that gets its state back goes on as before."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_allclose, assert_array_equal

from percdl import L1Coder
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.results import restore_site, site_arrays
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.dictionary import normalize

ATOMS = normalize(toy.first_guess(0))
CHOSEN = toy.settings()


def site_runtime(lengths=(90, 100, 110)):
    return InProcess(Cohort.from_arrays(toy.recordings(0, lengths)), CHOSEN)


@pytest.fixture(scope="module")
def told():
    """Return the state after a round of each phase, and the sums of the round after."""
    runtime = site_runtime()
    runtime.population_round(Broadcast(ATOMS))
    runtime.personal_round(Broadcast(ATOMS))
    state = {name: np.array(x) for name, x in site_arrays(runtime.site).items()}
    return state, runtime.personal_round(Broadcast(ATOMS))


def test_the_next_round_is_the_same_to_the_bit(told):
    state, sums = told
    again = site_runtime()
    restore_site(again.site, state)
    assert {name: x.shape for name, x in site_arrays(again.site).items()} == {
        name: x.shape for name, x in state.items()
    }
    after = again.personal_round(Broadcast(ATOMS))
    assert after.objective == sums.objective
    assert_array_equal(after.gram, sums.gram)
    assert_array_equal(after.warp, sums.warp)


@pytest.mark.parametrize("n_cores", [1, 2, 3])
def test_the_state_fits_a_machine_with_another_number_of_cores(told, monkeypatch, n_cores):
    state, sums = told
    monkeypatch.setattr("percdl.algorithm.local.n_cores", lambda: n_cores)
    again = site_runtime()
    assert len(again.site.blocks) == min(n_cores, len(again.site.chunks))
    restore_site(again.site, state)
    assert_allclose(again.personal_round(Broadcast(ATOMS)).gram, sums.gram, rtol=1e-12)


def test_the_state_of_others_is_refused(told):
    state, _ = told
    with pytest.raises(InvalidParameterError, match="in other chunks"):
        restore_site(site_runtime((90,) * 40).site, state)
    for damaged in (np.zeros(3), state["people0/params"].astype(bool)):
        with pytest.raises(ModelFileError, match="damaged, or of another fit"):
            restore_site(site_runtime().site, {**state, "people0/params": damaged})


@pytest.mark.parametrize("gap", [False, True])
def test_codes_that_overlap_are_told_as_well(gap):
    chosen = toy.settings(coder=L1Coder(n_steps=2))
    arrays = toy.recordings(0, (90, 100))
    if gap:
        arrays[0][3] = np.nan
    before, after = (InProcess(Cohort.from_arrays(arrays), chosen) for _ in range(2))
    before.population_round(Broadcast(ATOMS))
    state = {name: np.array(x) for name, x in site_arrays(before.site).items()}
    restore_site(after.site, state)
    assert (after.site.coded[0].overlap is None) is gap
    for name, array in site_arrays(after.site).items():
        assert_array_equal(array, state[name])
    # A coding starts where the last one ended; the first starts from nothing.
    assert_array_equal(after.site._last_activations(0), state["chunk0/2"])
    assert InProcess(Cohort.from_arrays(arrays), chosen).site._last_activations(0) is None


def test_codes_without_overlap_start_from_nothing(told):
    again = site_runtime()
    restore_site(again.site, told[0])
    assert again.site._last_activations(0) is None
