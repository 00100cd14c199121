"""Fixtures and settings shared by all tests."""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import jaxtyping
import pytest
import type_checks
from browser import chromium
from hypothesis import Phase, settings

__all__ = ["chromium"]  # one browser for all files of tests

# What the option `--jaxtyping-packages` decorates percdl with.
jaxtyping.jaxtyped = type_checks.jaxtyped

# Derandomized: a failure on one machine is a failure on all of them. No deadline: the first
# example of a test may pay for a compilation.
settings.register_profile("percdl", derandomize=True, deadline=None, max_examples=50)
# Mutants need to be noticed, not understood: the first example that fails is as good as the least.
settings.register_profile(
    "unshrunk", settings.get_profile("percdl"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("percdl")

# Mathematics holds without optimization, and compiles in a third of the time; modules that are not
# split for several threads take a quarter less. Processes that tests start follow. XLA ends a
# process that has a flag it does not know.
if version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
        "--xla_cpu_parallel_codegen_split_count=1",
    )
# One folder of executables for all workers and the processes that they start, empty at first: what
# one has compiled, the others load. Deleted when the process that made it ends, after its threads.
if "PERCDL_CACHE_DIR" not in os.environ:
    os.environ["PERCDL_CACHE_DIR"] = tempfile.mkdtemp(prefix="percdl-tests-")
    atexit.register(shutil.rmtree, os.environ["PERCDL_CACHE_DIR"], ignore_errors=True)

ROOT = Path(__file__).resolve().parents[1]
# Of the 65,530 that Linux grants a process; the tests of a module add 16,000 at most.
MANY_MAPS = 40_000


def pytest_collection_finish():
    """Look for garbage less often, and never among what is imported: JAX makes many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forget compiled programs when they are many: each holds maps of memory, which run out."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > MANY_MAPS:
        sys.modules["jax"].clear_caches()
        if "percdl.steps.compilation" in sys.modules:
            sys.modules["percdl.steps.compilation"].forget_programs()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real recordings: ``PERCDL_DATA``, or ``shared/data`` beside the repository."""
    folder = Path(os.environ.get("PERCDL_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real recordings in {folder}; set PERCDL_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def real_gait(shared_data: Path) -> Path:
    """Folder of the gait recordings, with ``GaitData/<subject>-<trial>.csv`` inside."""
    folder = shared_data / "gait"
    if not folder.is_dir():
        pytest.skip(f"no gait recordings in {folder}; set PERCDL_DATA to the folder above gait/")
    return folder
