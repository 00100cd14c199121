"""Several fits at once in the threads of one process."""

import os
import subprocess
import sys

import pytest

# As many threads as XLA has, each with a fit of its own.
FITS = """
import os
from threading import Thread

import jax.numpy as jnp
import numpy as np

from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.transforms import Custom

cohort, found = make_synthetic(32, random_state=0).cohort, []


def with_lapack(phi, a):
    size = jnp.linalg.cholesky((1 + a**2) * jnp.eye(40))[0, 0]
    return phi * size * jnp.exp(a * jnp.linspace(-1, 1, len(phi)))[:, None]


def fit():
    model = PerCDL(2, 50, {transformation}, penalty=0.01, random_state=0)
    found.append(model.fit(cohort).dictionary_)


fit()
threads = [Thread(target=fit) for _ in range(max(2, os.cpu_count() or 1))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == len(threads) + 1
assert all(np.array_equal(each, found[0]) for each in found)
"""


@pytest.mark.parametrize("transformation", ["TimeWarp()", "Custom(with_lapack, 1)"])
def test_fits_in_threads_of_a_cpu_end_and_give_the_same_bits(transformation):
    """Programs of several threads that use LAPACK wait for each other in XLA, forever."""
    on_cpu = {**os.environ, "JAX_PLATFORMS": "cpu"}
    fits = FITS.format(transformation=transformation)
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", fits], env=on_cpu, check=True, timeout=600
    )
