"""The compiled programs of a block equal loops over subjects and atoms."""

import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose, assert_array_equal

from percdl.algorithm import programs
from percdl.algorithm.settings import FitOptions, SumOptions
from percdl.steps.types import Statistics
from percdl.steps.windows import MOVES, prefer_windows
from percdl.transforms import Gain

S, K, L, R, P = 5, 2, 6, 1, 2
W = L + 2 * R
WITHIN = slice(R, R + L)


def block(unit=1.0):
    """Return atoms, statistics and gains of subjects; one has no atom at all, some have gaps.

    Some segments fade out at their ends, so that another window would suit them better.
    """
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((K, L, P))
    weight = rng.uniform(1, 2, (S, K, W, P))
    moment = weight * rng.standard_normal((S, K, W, P))
    moment[:2, :, -3:-1] *= 3
    moment[:2, :, :2] *= 0.01
    moment[1, 0, 0, 0] = weight[1, 0, 0, 0] = 0  # not seen, which is not silence
    moment[2, 0], weight[2, 0] = 0, 0
    moment[3, 1, 3, 1] = weight[3, 1, 3, 1] = 0
    params = rng.uniform(-0.5, 0.5, (S, K, P))
    statistics = Statistics(unit * moment, unit * weight, np.ones((S, K), np.int32))
    return dictionary, statistics, params - params.mean(-1, keepdims=True)


def explained(atom, moment, weight):
    """Return what the best amplitude explains of one subject, and the amplitude."""
    match, power = max(np.sum(moment * atom), 0), np.sum(weight * atom**2)
    return (match**2 / power, match / power) if power else (0.0, 0.0)


def energies(statistics, s, k):
    moment, weight = statistics.moment[s, k], statistics.weight[s, k]
    return np.divide(moment**2, weight, out=np.zeros_like(moment), where=weight > 0).sum(-1)


def wishes(statistics):
    """Return the votes of all subjects, by atom, from their energies and what they have seen."""
    return [
        in_double(
            prefer_windows,
            np.array([energies(statistics, s, k) for s in range(S)]),
            (statistics.weight[:, k] > 0).all(-1),
            L,
        )
        for k in range(K)
    ]


@pytest.mark.parametrize("unit", [1.0, 2.0**-40])
def test_parameters_are_carried_over_and_judged(unit):
    dictionary, statistics, params = block(unit)
    gauge = np.array([[0.2, -0.2], [-0.1, 0.1]])
    found = in_double(
        programs.prepare,
        Gain(), dictionary, statistics, params, np.zeros((K, 1, L)), gauge, np.array(False),
        np.array(True),
    )  # fmt: skip
    assert_allclose(found.params, params - gauge)
    votes = wishes(statistics)
    for s in range(S):
        for k in range(K):
            personal = dictionary[k] * np.exp(found.params[s, k])
            own = statistics.moment[s, k, WITHIN], statistics.weight[s, k, WITHIN]
            most, amplitude = explained(personal, *own)
            assert_allclose(found.explained[s, k], most, rtol=1e-12)
            assert_allclose(found.amplitude[s, k], amplitude, rtol=1e-12)
            energy = energies(statistics, s, k)[WITHIN].sum()
            assert_allclose(found.misfit[s, k], 1 - most / energy if energy else 1, rtol=1e-9)
            assert found.misplaced[s, k] == (votes[k][s, MOVES.index(0)] == 0)
    assert 0 < found.misplaced.sum() < S * K


@pytest.mark.parametrize("unit", [1.0, 2.0**-40])
def test_sums_are_over_those_who_have_the_atom(unit):
    dictionary, statistics, params = block(unit)
    sums = in_double(
        programs.summarize,
        Gain(),
        SumOptions(by_subject=False, centres=True, searches=True, copy_steps=0),
        *(dictionary, statistics, params),
    )
    active = statistics.weight.any((2, 3))
    assert_array_equal(sums.n_warps, [4, 5])
    assert_allclose(sums.mixing, (params * active[..., None]).sum(0), atol=1e-15)
    assert_array_equal(sums.price, 0)
    assert sums.copies.size == sums.warp.size == 0
    assert_allclose(sums.moment, statistics.moment.sum(0), rtol=1e-12)
    assert_allclose(sums.weight, statistics.weight.sum(0), rtol=1e-12)
    for k in range(K):
        gram, right, most, energy = np.zeros((P, L)), np.zeros((L, P)), 0.0, 0.0
        for s in range(S):
            moment, weight = statistics.moment[s, k, WITHIN], statistics.weight[s, k, WITHIN]
            gains = np.exp(params[s, k])
            gram += (weight * gains**2).T
            right += moment * gains
            most += explained(dictionary[k] * gains, moment, weight)[0]
            energy += energies(statistics, s, k)[WITHIN].sum()
        assert_allclose(sums.gram[k], gram[..., None] * np.eye(L), rtol=1e-12)
        assert_allclose(sums.transported[k], right, rtol=1e-12)
        assert_allclose(sums.misfit[k], [energy - most, energy], rtol=1e-12)


def test_what_is_not_asked_for_is_not_summed():
    dictionary, statistics, params = block()
    sums = in_double(
        programs.summarize,
        Gain(),
        SumOptions(by_subject=False, centres=False, searches=False, copy_steps=1),
        *(dictionary, statistics, params),
    )
    for name in ("gram", "transported", "mixing", "moment", "weight", "misfit"):
        assert getattr(sums, name).size == 0
    assert sums.copies.shape == (K, L, P)


def test_every_subject_counts_once_whatever_its_amplitude():
    """Activations twice as large leave no trace, and the mean weight of each within is one."""
    dictionary, statistics, _ = block()
    louder = 4.0 ** np.array([0, -20, 3, 20, 1])[:, None, None, None]
    scaled = statistics._replace(
        moment=louder * statistics.moment, weight=louder * statistics.weight
    )
    plain, loud = (in_double(programs.add_up, x, dictionary, True) for x in (statistics, scaled))
    for ours, theirs in zip(loud, plain, strict=True):
        assert_allclose(ours, theirs, rtol=1e-12)
    mean = statistics.weight[:, :, WITHIN].mean((2, 3), keepdims=True)
    share = np.divide(1, mean, out=np.ones_like(mean), where=mean > 0)
    assert_allclose(plain[0], (share * statistics.moment).sum(0), rtol=1e-12)
    assert_allclose(plain[1], (share * statistics.weight).sum(0), rtol=1e-12)
    all_of_it = in_double(programs.add_up, statistics, dictionary, False)
    assert_allclose(all_of_it[0], statistics.moment.sum(0))
    assert_allclose(all_of_it[1], statistics.weight.sum(0))


def test_a_closed_form_is_solved_in_the_best_window():
    """Those without an atom keep their parameters; windows are those that explain most."""
    dictionary, statistics, params = block(2.0**-40)
    still = np.zeros((S, K), np.int32)
    found = in_double(
        programs.fit,
        Gain(), FitOptions("gauss-newton", 3), dictionary, statistics, params, still,
    )  # fmt: skip
    assert_allclose(found.params[2, 0], params[2, 0])
    assert_array_equal(found.price, 0)
    for s in range(S):
        for k in range(K):
            personal = dictionary[k] * np.exp(found.params[s, k])
            assert_allclose(found.atoms[s, k], personal, rtol=1e-12)
            windows = [slice(i, i + L) for i in range(2 * R + 1)]
            within = [
                explained(personal, statistics.moment[s, k, w], statistics.weight[s, k, w])[0]
                for w in windows
            ]
            assert any(np.isclose(found.explained[s, k], x, rtol=1e-9, atol=0) for x in within)
