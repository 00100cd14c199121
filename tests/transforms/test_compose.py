"""Compositions: sums from their structure are those of their matrices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from double import in_double
from numpy.testing import assert_allclose

from percdl.exceptions import InvalidParameterError
from percdl.transforms import Compose, Gain, Identity, Rotation, Shift, TimeWarp

L, P, S = 6, 2, 3
WARP, OWN = TimeWarp(1, 3), TimeWarp(1, 3, per_channel=True)
# Size of the systems of PerCDU with one mask for all channels, and with one for each.
COMPOSED = [
    (Compose(WARP, Rotation()), L, L * P),
    (Compose(Rotation(), Identity()), L, L * P),
    (Compose(Gain(), WARP, Rotation()), L, L * P),
    (Compose(WARP, Rotation(), Gain()), L * P, L * P),
    (Compose(Rotation(), Gain(), Rotation()), L * P, L * P),
    (Compose(Gain(), OWN), L, L),
    (Compose(OWN, Rotation(), Gain()), L * P, L * P),
    (Compose(Shift(0.4), Gain()), L * P, L * P),
]


@partial(jax.jit, static_argnums=0)
def tell_sums(transform, raw, atom, moment, weights):
    """Return the matrices of a transform, column by column, and its sums for several weights."""
    params = transform.project(raw)
    each = jnp.eye(L * P).reshape(-1, L, P)
    columns = jax.vmap(transform.apply, (None, 0))(params, each)
    return columns, [transform.normal_equations(params, atom, moment, w) for w in weights]


@pytest.mark.parametrize(("transform", "alike", "apart"), COMPOSED, ids=str)
def test_sums_are_those_of_the_matrices(transform, alike, apart):
    rng = np.random.default_rng(0)
    atom, moment = rng.standard_normal((L, P)), rng.standard_normal((S, L, P))
    raw = 0.3 * rng.standard_normal((S, transform.n_params(L, P)))
    weights = [rng.uniform(0, 2, (S, L, n_masks)) for n_masks in (1, P)]
    columns, sums = in_double(tell_sums, transform, raw, atom, moment, weights)
    matrices = columns.reshape(L * P, S, L * P)
    for (gram, right), weight, size in zip(sums, weights, (alike, apart), strict=True):
        assert gram.shape[-1] == size
        if size == L:
            by_channel = np.broadcast_to(gram, (P, L, L))
            gram = np.einsum("plm,pq->lpmq", by_channel, np.eye(P)).reshape(1, L * P, L * P)
        all_weights = np.broadcast_to(weight, moment.shape).reshape(S, -1)
        assert_allclose(
            gram[0], np.einsum("msn,sn,ksn->mk", matrices, all_weights, matrices), atol=1e-12
        )
        expected = np.einsum("msn,sn->m", matrices, moment.reshape(S, -1))
        assert_allclose(right.ravel(), expected, atol=1e-12)


@pytest.mark.parametrize(("transform", "alike", "apart"), COMPOSED, ids=str)
@pytest.mark.parametrize("n_channels", [1, 2, 3, 5])
def test_parameters_tell_the_number_of_channels(transform, alike, apart, n_channels):
    """Each stage gets its own, whatever the number of channels."""
    sizes = [stage.n_params(L, n_channels) for stage in transform.stages]
    params = np.arange(sum(sizes), dtype=np.float32)
    parts = transform._split(jax.numpy.asarray(params))
    assert [part.size for part in parts] == sizes
    assert_allclose(np.concatenate(parts), params)
    moves = [stage.n_moves(L, n_channels) for stage in transform.stages]
    assert transform.n_moves(L, n_channels) == sum(moves)


@pytest.mark.parametrize(
    ("stages", "message"),
    [((Compose(WARP),), "takes single transforms"), ((WARP, "gain"), "but got 'gain'")],
)
def test_stages_are_single_transforms(stages, message):
    composed = Compose(WARP)
    object.__setattr__(composed, "stages", stages)  # past the type checks that tests switch on
    with pytest.raises(InvalidParameterError, match=message):
        composed.validate()


@pytest.mark.parametrize("stages", [(WARP, Rotation()), (OWN, Rotation()), (Rotation(), WARP)])
def test_warps_and_rotations_follow_one_another(stages):
    composed = Compose(*stages)
    composed.validate()
    assert composed.linear
    at = stages.index(Rotation())
    warp = stages[1 - at]
    start = P**2 if at == 0 else 0
    assert composed.warp_part(L, P) == (warp, slice(start, start + warp.n_params(L, P)))


@pytest.mark.parametrize("mixers", [(Rotation(), Gain()), (Gain(), Rotation()), (Gain(), Gain())])
def test_channels_are_solved_one_after_the_other(mixers):
    """Solving what explains a clean personal atom leaves it, once the warp is known."""
    composed = Compose(mixers[0], WARP, mixers[1])
    rng = np.random.default_rng(1)
    atom = rng.standard_normal((L, P))

    @jax.jit
    def solve(raw):
        params, weight = composed.project(raw), jnp.full((S, L, 1), 2.0)
        personal = composed.apply(params, jnp.asarray(atom))
        solved = composed.solve_parts(params, jnp.asarray(atom), 3 * personal, weight)
        return personal, composed.apply(solved, jnp.asarray(atom))

    raw = 0.3 * rng.standard_normal((S, composed.n_params(L, P)))
    personal, again = in_double(solve, raw)
    assert_allclose(again, personal, atol=1e-12)
