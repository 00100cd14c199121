"""Several devices: each has its share of the rows, and the fit is the same."""

import json
import os
import subprocess
import sys

import jax
import numpy as np

from percdl import Cohort, Gain, make_synthetic
from percdl.algorithm.chunks import (
    LARGE_CHUNK,
    Chunk,
    Shape,
    accelerator_shape,
    plan_blocks,
    plan_chunks,
)
from percdl.algorithm.local import Site
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History

FOUR_DEVICES = "--xla_force_host_platform_device_count=4"


class OneSite(Runtime):
    """The rounds of one site."""

    def __init__(self, site):
        self.site = site

    def run_round(self, kind, broadcast):
        return getattr(self.site, {"express": kind}.get(kind, f"{kind}_round"))(broadcast)


def fit_as_on_accelerators() -> list:
    """Fit recordings that stay on the devices, stacked and apart; return where they are."""
    data = make_synthetic(n_subjects=13, n_times=400, random_state=0)
    stacked = Cohort.from_arrays(np.stack([r.values for r in data.cohort]), sfreq=100)
    settings = Settings(
        Gain(),
        50,
        2,
        1,
        1e-2,
        population_rounds=1,
        personal_rounds=1,
        realign=False,
        multistart=False,
        dtype="float64",
    )
    found = []
    with jax.enable_x64(True):
        for cohort in (stacked, data.cohort):
            site = Site(cohort, settings, Shape(64, 2**20, 64), resident=True)
            start = data.personal_dictionary[0]
            outcome = run_percdl(OneSite(site), settings, start, History(), lambda *told: None)
            (signals,) = site._on_device or []
            n_devices = len(signals.values.sharding.device_set)
            params = site.results().params
            found.append([n_devices, outcome.dictionary.tolist(), params.tolist()])
    return found


def test_rows_are_shared_out_and_the_fit_is_the_same():
    done = subprocess.run(
        [sys.executable, __file__],
        env={
            **os.environ,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {FOUR_DEVICES}",
            "JAX_PLATFORMS": "cpu",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    shared = json.loads(done.stdout.splitlines()[-1])
    for one, four in zip(fit_as_on_accelerators(), shared, strict=True):
        assert (one[0], four[0]) == (1, 4)  # 13 recordings fill a chunk of 16 rows
        np.testing.assert_allclose(four[1], one[1], atol=1e-9)
        np.testing.assert_allclose(four[2], one[2], atol=1e-6)


def test_full_chunks_can_be_shared_out():
    for n_devices in (2, 4, 8):
        chunks = plan_chunks(np.full(500_000, 1000), 12, accelerator_shape(n_devices))
        assert all(chunk.rows % n_devices == 0 for chunk in chunks)


def test_large_chunks_stay_alone_and_small_ones_are_packed():
    counts = (LARGE_CHUNK, LARGE_CHUNK, 100, 200)
    chunks = [Chunk(np.arange(count), count, 64) for count in counts]
    blocks = plan_blocks(chunks, accelerator_shape(1).block_rows)
    packed = sorted((block.counts for block in blocks), key=len)
    assert packed == [[LARGE_CHUNK], [LARGE_CHUNK], [200, 100]]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(fit_as_on_accelerators()))
