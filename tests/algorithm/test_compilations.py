"""A cohort of any lengths meets a handful of compiled programs."""

import logging

import jax
import numpy as np
import toy

from percdl.algorithm import programs
from percdl.transforms import TimeWarp

PROGRAMS = ("code", "personalize", "choose", "summarize", "add_up")
# Lengths 97-128, 129-192 and 193-256 share a bucket.
FIRST = np.arange(100, 250)
SECOND = np.concatenate([np.arange(97, 126), np.arange(129, 193), np.arange(200, 257)])


def compiled():
    return {name: getattr(programs, name)._cache_size() for name in PROGRAMS}


def fit(lengths, seed):
    chosen = toy.settings(TimeWarp(1, 3), dtype="float32", n_init=1, n_perso=2)
    rng = np.random.default_rng(seed)
    arrays = toy.recordings(seed, rng.permutation(lengths))
    return toy.fit(arrays, chosen, toy.first_guess(seed))[0]


def test_lengths_do_not_cost_compilations(caplog):
    before = compiled()
    assert fit(FIRST, 0).sums.counts.all()
    first = compiled()
    new = {name: first[name] - before[name] for name in PROGRAMS}
    # Three shapes of chunks: with common atoms and personal ones for CSC; one shape of blocks.
    most = {"code": 6, "personalize": 1, "choose": 3, "summarize": 1, "add_up": 1}
    assert all(0 < new[name] <= most[name] for name in PROGRAMS), new

    assert len(set(FIRST) ^ set(SECOND)) > 10
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        assert fit(SECOND, 1).sums.counts.all()
    assert compiled() == first
    assert not [r.getMessage() for r in caplog.records if r.getMessage().startswith("Compiling")]
