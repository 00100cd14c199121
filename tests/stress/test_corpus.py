"""Damaged and forged files: refused in words, or right; the short version of ``make corpus``."""

import json
import pickle

import numpy as np
import pytest

from benchmarks.stress.corpus import READERS, run_corpus
from benchmarks.stress.mutations import change_json, others
from benchmarks.stress.watch import watchman

FAIR = {"rejected", "equal", "consistent"}
NAMES = (
    "warp.percdl",
    "population.percdl",
    "out_of_core.checkpoint",
    "restarted.checkpoint",
    "shards",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return list(run_corpus(tmp_path_factory.mktemp("corpus"), 0.2, NAMES))


def test_no_file_loads_wrong(outcomes):
    unfair = [f"{o.name}: {o.verdict}" for o in outcomes if o.verdict not in FAIR]
    assert not unfair, "\n".join(unfair)
    assert len(outcomes) > 150
    assert sum(outcome.signed for outcome in outcomes) > 60


def test_what_is_not_signed_anew_never_differs(outcomes):
    """A checksum detects damage: such a file is refused, or it is the same."""
    assert not [o.name for o in outcomes if not o.signed and o.verdict == "consistent"]


def test_memory_is_a_small_multiple_of_the_file(outcomes):
    assert max(o.n_bytes / (o.size + 2**16) for o in outcomes) < 8


def test_the_corpus_is_the_same_each_time(tmp_path, outcomes):
    again = run_corpus(tmp_path, 0.2, ("population.percdl",))
    first = [(o.name, o.verdict) for o in outcomes if o.name.startswith(NAMES[1])]
    assert [(o.name, o.verdict) for o in again] == first


def test_the_watchman_sees_what_files_must_not_do(tmp_path):
    """Else nothing would be shown by his silence."""
    guard = watchman()
    deeds = (
        lambda: exec("x = 1"),
        lambda: (tmp_path / "written").write_text("x"),
        lambda: pickle.loads(pickle.dumps(np.dtype)),
        lambda: (tmp_path / "made").mkdir(),
    )
    for deed in deeds:
        guard.seen.clear()
        guard.awake = True
        deed()
        guard.awake = False
        assert guard.seen
    guard.seen.clear()


def test_places_of_all_depths_are_changed():
    seen = set()
    for seed in range(200):
        content = {"a": {"b": [1, {"c": 2}]}, "d": None}
        change_json(content, np.random.default_rng(seed))
        seen.add(json.dumps(content))
    assert len(seen) > 50
    assert len(others()) > 5
    assert set(READERS) > {NAMES[2]}
