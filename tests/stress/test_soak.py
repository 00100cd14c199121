"""A process that goes on working holds no more than before: the short version of `make soak`."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small_models as small

from percdl.algorithm import programs
from percdl.estimators.personalization import Personalization
from percdl.transforms import TimeWarp

ROOT = Path(__file__).resolve().parents[2]
WARP = TimeWarp(1, 5)  # used only here, so that its programs can be counted


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.stress.soak")


def test_people_in_any_number_meet_few_programs():
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((2, 12, 1))
    params = rng.uniform(-0.1, 0.1, (40, 2, 5))
    counts = np.ones((40, 2), int)
    people = {
        n: Personalization(
            params[:n], pd.DataFrame(), counts[:n], tuple(map(str, range(n))), WARP, dictionary,
            "float32",
        )
        for n in range(1, 41)
    }  # fmt: skip
    atoms = {n: some.personal_dictionary for n, some in people.items()}
    warps = {n: some.warps for n, some in people.items()}
    for found in (atoms, warps):
        for n, some in found.items():
            assert len(some) == n
            np.testing.assert_allclose(some, found[40][:n], rtol=1e-6, atol=1e-6)
    for program in (programs.apply_params, programs.evaluate_warps):
        assert len([key for key in program._built if WARP in key.static]) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")
def test_work_leaves_nothing_behind(soak, tmp_path):
    model = small.make("PopCDL", atom_length=soak.LENGTH, n_atoms=1, init="auto")
    bench = soak.Bench(np.random.default_rng(0), tmp_path, [])
    bench.models.append(model.fit(small.spaced_recordings(0)))
    held = []
    for _ in range(3):
        for operate in (soak.save_and_load, soak.fail):
            operate(bench)
        bench.models[0].personalize(small.spaced_recordings(1))
        held.append(soak.holdings())
    for name in ("arrays", "files", "threads", "children", "programs"):
        assert getattr(held[2], name) <= getattr(held[1], name), name
    assert not list(tmp_path.iterdir())


def test_growth_is_told_from_noise(soak):
    done = list(range(0, 1000, 10))
    noise = np.random.default_rng(0).normal(0, 5, len(done))
    assert soak.slope(done, list(1e6 + noise)) == pytest.approx(0, abs=0.01)
    assert soak.slope(done, list(1e6 + noise + 3 * np.array(done))) == pytest.approx(3, abs=0.01)
