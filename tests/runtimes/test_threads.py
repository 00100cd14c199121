"""Several fits at once in the threads of one process."""

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
np.testing.assert_allclose(found, [found[0]] * len(found), rtol=0, atol=1e-12)
"""


def test_fits_in_threads_end_and_agree():
    """Programs of several threads once waited for each other in XLA, forever."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FITS], check=True, timeout=600)
