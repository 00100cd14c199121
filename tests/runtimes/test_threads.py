"""Several fits at once in the threads of one process."""

import os
import subprocess
import sys

# As many threads as XLA has, each with a fit of its own.
FITS = """
import os
from threading import Thread

import numpy as np

from percdl import PerCDL, make_synthetic

cohort, found = make_synthetic(32, random_state=0).cohort, []


def fit():
    found.append(PerCDL(2, 50, penalty=0.01, random_state=0).fit(cohort).dictionary_)


fit()
threads = [Thread(target=fit) for _ in range(max(2, os.cpu_count() or 1))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == len(threads) + 1
assert all(np.array_equal(each, found[0]) for each in found)
"""


def test_fits_in_threads_of_a_cpu_end_and_give_the_same_bits():
    """Programs of several threads once waited for each other in XLA, forever."""
    on_cpu = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "ignore", "-c", FITS]
    subprocess.run(command, env=on_cpu, check=True, timeout=600)
