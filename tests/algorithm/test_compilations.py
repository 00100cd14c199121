"""A cohort of any lengths meets a handful of compiled programs."""

import logging
import re

import jax
import numpy as np
import toy

from percdl.algorithm import coding, programs
from percdl.transforms import TimeWarp

PROGRAMS = ("measure_energy", "code", "prepare", "fit", "choose", "summarize", "add_up")
# Lengths 385 to 512 share a bucket, and 513 to 768.
FIRST = np.arange(440, 590)
SECOND = np.concatenate([np.arange(400, 473), np.arange(600, 677)])


def sizes():
    homes = {**vars(programs), **vars(coding)}
    return {name: homes[name]._cache_size() for name in PROGRAMS}


def fit(lengths, seed):
    chosen = toy.settings(
        TimeWarp(1, 3), dtype="float32", n_init=1, n_perso=2, realign=False, multistart=False
    )
    rng = np.random.default_rng(seed)
    arrays = toy.recordings(seed, rng.permutation(lengths))
    outcome, _ = toy.fit(arrays, chosen, toy.first_guess(seed))
    assert outcome.sums.counts.all()


def compilations(caplog, lengths, seed):
    """Return the names of the programs compiled during a fit, in order."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        fit(lengths, seed)
    found = (re.match(r"Compiling (?:jit\()?(\w+)", r.getMessage()) for r in caplog.records)
    return [match[1] for match in found if match]


def test_lengths_do_not_cost_compilations(caplog):
    jax.clear_caches()  # of the tests that ran before in this process
    names = compilations(caplog, FIRST, 0)
    # Two shapes of chunks, with common and with personal atoms for CSC; two of blocks.
    most = dict.fromkeys(PROGRAMS, 2) | {"code": 4}
    counts = {name: names.count(name) for name in PROGRAMS}
    assert all(0 < counts[name] <= most[name] for name in PROGRAMS), counts

    assert len(set(FIRST) ^ set(SECOND)) > 10
    before = sizes()
    assert compilations(caplog, SECOND, 1) == []
    assert sizes() == before
