"""What a page holds is what it was given, up to what a screen can show."""

import base64
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from percdl.report.packing import MISSING, N_LEVELS, draw_recordings, envelope, pack

NUMBERS = st.floats(-1e6, 1e6, width=32) | st.just(np.nan)
CURVES = array_shapes(min_dims=1, max_dims=3, max_side=9).flatmap(
    lambda shape: arrays(float, shape, elements=NUMBERS)
)
SIGNALS = st.tuples(st.integers(1, 60), st.integers(1, 3)).flatmap(
    lambda shape: arrays(float, shape, elements=NUMBERS)
)


def unpack(packed):
    """Undo ``pack``, as the page does."""
    raw = zlib.decompress(base64.b64decode(packed["bytes"]))
    shape = packed["shape"]
    change = np.frombuffer(raw, np.uint8).reshape(2, -1).T.copy().view("<u2")
    whole = np.cumsum(change.reshape(-1, shape[-1]), axis=1, dtype=np.uint16)
    low, step = np.array(packed["low"])[:, None], np.array(packed["step"])[:, None]
    return np.where(whole == MISSING, np.nan, low + step * whole).reshape(shape)


@given(CURVES)
def test_packing_keeps_every_sample_within_a_step(curves):
    back = unpack(pack(curves))
    assert back.shape == curves.shape
    np.testing.assert_array_equal(np.isnan(back), np.isnan(curves))
    span = np.nan_to_num(np.nanmax(curves, initial=0) - np.nanmin(curves, initial=0))
    assert np.nanmax(np.abs(back - curves), initial=0) <= span / (N_LEVELS - 1) + 1e-5


def test_extremes_are_kept():
    curve = np.sin(np.linspace(0, 7, 300))
    back = unpack(pack(curve))
    np.testing.assert_allclose([back.min(), back.max()], [curve.min(), curve.max()], rtol=1e-6)


def test_nothing_packs_to_nothing():
    assert unpack(pack(np.zeros((3, 0, 10)))).shape == (3, 0, 10)


@given(SIGNALS, st.integers(4, 20))
def test_an_envelope_holds_the_extremes_of_every_run(values, run):
    pairs = envelope(values, run).reshape(-1, 2, values.shape[1])
    assert len(pairs) == -(-len(values) // run)
    for index, (low, high) in enumerate(pairs):
        part = values[index * run : (index + 1) * run]
        for p in range(values.shape[1]):
            known = part[~np.isnan(part[:, p]), p]
            expected = (known.min(), known.max()) if len(known) else (np.nan, np.nan)
            np.testing.assert_array_equal((low[p], high[p]), expected)


@given(SIGNALS)
def test_short_recordings_are_drawn_whole(values):
    drawn = draw_recordings([values])
    assert drawn.run == 1
    assert unpack(drawn.recordings[0]).shape == values.T.shape


def test_what_does_not_fit_is_drawn_by_runs():
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(5000, 2)) for _ in range(30)]
    drawn = draw_recordings(values, budget=100_000)
    assert drawn.run >= 4
    assert sum(len(packed["bytes"]) for packed in drawn.recordings) < 110_000
