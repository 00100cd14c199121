"""A site that is given its state again goes on as the one that told it."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_array_equal

from percdl import L1Coder
from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.standing import Standing, begin, restore_site, site_arrays
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.steps.cdu import normalize

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


def test_the_state_of_others_is_refused(told):
    state, _ = told
    with pytest.raises(InvalidParameterError, match="in other chunks"):
        restore_site(site_runtime((90,) * 40).site, state)
    with pytest.raises(ModelFileError, match="damaged, or of another fit"):
        restore_site(site_runtime().site, {**state, "block0/params": np.zeros(3)})


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("chunk0/0", 0, 96),  # onsets, in recordings of 96 samples at most
        ("chunk0/1", 0, 1),  # atoms
        ("chunk0/5", 0, None),  # counts
        ("block0/fruitless", 0, None),
    ],
)
def test_numbers_out_of_range_are_refused(told, name, least, most):
    state, _ = told
    for bound, beyond in ((least, least - 1), (most, most and most + 1)):
        if bound is None:
            continue
        restore_site(site_runtime().site, {**state, name: np.full_like(state[name], bound)})
        with pytest.raises(ModelFileError, match="damaged"):
            restore_site(site_runtime().site, {**state, name: np.full_like(state[name], beyond)})


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
    for name in [name for name in state if name.startswith("chunk0/")]:
        with pytest.raises((ModelFileError, InvalidParameterError)):
            restore_site(after.site, {**state, name: state[name][..., :-1]})


def test_codes_without_overlap_start_from_nothing(told):
    again = site_runtime()
    restore_site(again.site, told[0])
    assert again.site._last_activations(0) is None


def test_the_first_standing_is_before_all_rounds():
    assert begin(toy.first_guess(0)).is_first
    assert_array_equal(begin(toy.first_guess(0)).broadcast.dictionary, ATOMS)
    for rounds in ((1, 0), (0, 1), (2, 3)):
        assert not Standing(Broadcast(ATOMS), *rounds).is_first
