"""Measures of recordings equal a loop over them, however they are batched."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from percdl import Cohort
from percdl.signals import measured
from percdl.signals.measured import measure

P = 2
VALUES = st.sampled_from([np.nan, -1.5, 0.0, 0.25, 2.0, 1e4])
DTYPES = st.sampled_from([np.float32, np.float64])


LENGTHS = st.integers(1, 7)


def recordings(lengths=LENGTHS):
    """Draw recordings of few values, so that gaps and constants are frequent."""
    one = lengths.flatmap(lambda n: hnp.arrays(float, (n, P), elements=VALUES))
    return st.lists(one, min_size=1, max_size=6)


def assert_as_a_loop(found, arrays):
    for s, x in enumerate(arrays):
        seen, double = ~np.isnan(x), x.astype(float)
        assert found.length[s] == len(x)
        assert_array_equal(found.count[s], seen.sum(0))
        assert_allclose(found.total[s], np.nansum(double, axis=0), rtol=1e-12, atol=1e-9)
        assert_allclose(found.square[s], np.nansum(double**2, axis=0), rtol=1e-12)
        columns = [x[seen[:, p], p] for p in range(P)]
        alike = [len(np.unique(own)) <= 1 for own in columns]
        is_dead = [len(own) > 1 and same for own, same in zip(columns, alike, strict=True)]
        needed = 0 if seen.all() else 1 if (seen.all(1) == seen.any(1)).all() else P
        assert found.masks[s] == (P if any(is_dead) and not all(alike) else needed)
        assert found.is_empty[s] == (not seen.any())
        assert_array_equal(found.is_constant[s], alike)
        for p, own in enumerate(columns):
            if len(own):
                assert found.low[s, p] == own.min()
                assert found.high[s, p] == own.max()
        if seen.any():
            assert_allclose(found.power[s], np.nanmean(double**2), rtol=1e-12)


@pytest.fixture(params=[1, 9, 2**18], ids="batches of {}".format, scope="module", autouse=True)
def batch(request):
    """Look at this many samples together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "BATCH_SAMPLES", request.param)
        yield


@given(recordings(), DTYPES)
def test_recordings_of_any_lengths(arrays, dtype):
    arrays = [x.astype(dtype) for x in arrays]
    assert_as_a_loop(measure(arrays), arrays)


@given(recordings(), st.sampled_from([0.5, 3.0]))
def test_an_offset_is_a_mean_beyond_the_largest_deviation(arrays, most):
    found = Cohort.from_arrays(arrays).offset(most)
    for s, x in enumerate(arrays):
        channels = [x[~np.isnan(x[:, p]), p] for p in range(P)]
        means = [abs(own.mean()) for own in channels if len(own) and own.min() < own.max()]
        deviation = max((own.std() for own in channels if len(own)), default=0.0)
        largest = max(means, default=0.0)
        if abs(largest - most * deviation) > 1e-6 * largest:  # not decided by rounding
            assert (str(s) in found) == (largest > most * deviation)
