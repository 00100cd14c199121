"""The normalized reconstruction error."""

import numpy as np
import pytest

from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort
from percdl.signals.reconstruction import normalized_reconstruction_error

RNG = np.random.default_rng(0)
VALUES = [RNG.normal(size=(n, 2)) for n in (20, 35)]
COHORT = Cohort.from_arrays(VALUES)


def test_perfection_is_zero_and_silence_one():
    assert normalized_reconstruction_error(COHORT, VALUES) == 0
    assert normalized_reconstruction_error(COHORT, [0 * x for x in VALUES]) == 1


def test_a_share_of_the_signal_is_missed_in_square():
    rebuilt = [0.9 * x for x in VALUES]
    assert normalized_reconstruction_error(COHORT, rebuilt) == pytest.approx(0.01)


def test_scale_and_order_play_no_part():
    rebuilt = [x + RNG.normal(size=x.shape) for x in VALUES]
    error = normalized_reconstruction_error(COHORT, rebuilt)
    louder = Cohort.from_arrays([7 * x for x in VALUES])
    assert normalized_reconstruction_error(louder, [7 * x for x in rebuilt]) == pytest.approx(
        error
    )
    assert normalized_reconstruction_error(COHORT[::-1], rebuilt[::-1]) == pytest.approx(error)


def test_missing_samples_play_no_part():
    rebuilt = [x + 1 for x in VALUES]
    holes = [np.where(np.arange(len(x))[:, None] < 5, np.nan, x) for x in VALUES]
    rest = Cohort.from_arrays([x[5:] for x in VALUES])
    assert normalized_reconstruction_error(Cohort.from_arrays(holes), rebuilt) == pytest.approx(
        normalized_reconstruction_error(rest, [x[5:] for x in rebuilt])
    )


def test_other_shapes_and_silent_recordings_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        normalized_reconstruction_error(COHORT, VALUES[:1])
    with pytest.raises(InvalidParameterError, match=r"one \(n_times, n_"):
        normalized_reconstruction_error(COHORT, [x[1:] for x in VALUES])
    with pytest.raises(InvalidParameterError, match="all zero"):
        normalized_reconstruction_error(Cohort.from_arrays([[0.0, 0.0]]), [np.ones((2, 1))])
