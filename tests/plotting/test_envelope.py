"""Long recordings lose no extreme when they are drawn."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from percdl.plotting import plot_activations, plot_reconstruction
from percdl.plotting.recordings import N_BINS, envelope_samples

signals = arrays(float, st.integers(1, 300), elements=st.floats(-1e6, 1e6, width=32))


@given(signals, st.integers(1, 40))
def test_every_bin_keeps_its_extremes(signal, n_bins):
    at = envelope_samples(signal, n_bins)
    size = -(-len(signal) // n_bins)
    for start in range(0, len(signal), size):
        here = signal[start : start + size]
        kept = signal[at[(at >= start) & (at < start + size)]]
        assert (kept.min(), kept.max()) == (here.min(), here.max())


@given(signals, st.integers(1, 40))
def test_samples_are_kept_in_order_and_few_of_them(signal, n_bins):
    at = envelope_samples(signal, n_bins)
    assert (np.diff(at) > 0).all()
    assert at[0] == 0
    assert at[-1] == len(signal) - 1
    assert len(at) <= 2 * n_bins + 2


@given(signals)
def test_short_recordings_are_kept_whole(signal):
    np.testing.assert_array_equal(envelope_samples(signal, len(signal)), np.arange(len(signal)))


def test_gaps_stay_gaps():
    signal = np.arange(100.0)
    signal[30:70] = np.nan
    signal[5] = np.nan  # within a bin that has other samples
    at = envelope_samples(signal, 10)
    assert {int(i) for i in at[np.isnan(signal[at])]} == {30, 40, 50, 60}
    np.testing.assert_array_equal(signal[at[:2]], [0, 9])


@pytest.mark.parametrize("n_times", [50, 100 * N_BINS])
def test_recordings_are_drawn_through_their_samples(n_times):
    signal = np.random.default_rng(0).normal(size=(n_times, 1))
    line = plot_reconstruction(signal, sfreq=10.0).lines[0]
    at = np.rint(line.get_xdata() * 10).astype(int)
    np.testing.assert_array_equal(line.get_ydata(), signal[at, 0])
    assert len(at) == n_times if n_times == 50 else len(at) <= 2 * N_BINS + 2
    assert (line.get_ydata().min(), line.get_ydata().max()) == (signal.min(), signal.max())


def test_both_pictures_of_a_recording_draw_it_alike():
    from pictures import EVENTS, SIGNAL

    first, second = plot_reconstruction(SIGNAL), plot_activations(SIGNAL, EVENTS)
    np.testing.assert_array_equal(first.lines[0].get_xydata(), second.lines[0].get_xydata())
