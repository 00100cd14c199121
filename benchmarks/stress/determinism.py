"""A few fits and their fingerprints: ``python -m benchmarks.stress.determinism``."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from benchmarks.stress import torture

# What differs between two processes on one machine.
SURROUNDINGS: dict[str, dict[str, str]] = {
    "hash seed 0": {"PYTHONHASHSEED": "0"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 2": {"PYTHONHASHSEED": "2"},
    "hash seed random": {"PYTHONHASHSEED": "random"},
    "no compilation cache": {"PERCDL_NO_CACHE": "1"},
    "one thread": {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    },
    "two threads": {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
}
NAMES = ("auto", "subjects", "IndCDL")


def make(name: str = "auto", **options: Any) -> Any:
    """Return one of the models of `torture`, with other options."""
    return torture.MODELS[name][0](1.0, "float32").set_params(**options)


def fingerprint(model: Any) -> str:
    """Return a checksum of the model's file, less the seconds that the rounds took."""
    model.history_ = model.history_.assign(seconds=0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def fingerprints_in(surroundings: dict[str, str]) -> tuple[str, ...]:
    """Return the fingerprints of all fits, made in a separate process."""
    command = [sys.executable, "-m", "benchmarks.stress.determinism"]
    done = subprocess.run(
        command, env=os.environ | surroundings, check=True, capture_output=True, text=True
    )
    return tuple(done.stdout.split())


@contextmanager
def busy_machine() -> Iterator[None]:
    """Give the threads of XLA other work, so that now more and now fewer of them are free."""
    over = threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            jnp.fft.rfft(jnp.ones((64, 4096))).block_until_ready()

    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        yield
    finally:
        over.set()
        other.join()


def main() -> None:
    """Print a fingerprint for each fit."""
    for name in NAMES:
        sys.stdout.write(fingerprint(make(name).fit(torture.recordings())) + "\n")


if __name__ == "__main__":
    main()
