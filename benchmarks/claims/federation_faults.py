"""A federation in which a site, the relay or all of them are killed, and started again.

Real processes on one machine: a relay and four sites over TLS, sums masked. Each fault has a
separate run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, is_quick
from benchmarks.federation import Federation
from benchmarks.timing import say
from percdl import load, make_synthetic

SITES = ("east", "north", "south", "west")
MODEL = {
    "n-atoms": 2, "atom-length": 50, "penalty": 0.01, "depth": 1, "width": 3, "realign": False,
    "multistart": False, "dtype": "float64", "population-rounds": 2, "personal-rounds": 3,
}  # fmt: skip
PATIENCE = 1200


def claims() -> Iterator[Claim]:
    """Run without a fault, then with each of them."""
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Absent(f"uvicorn is not installed ({error})") from error
    with tempfile.TemporaryDirectory() as folder:
        say("no fault")
        truth = _run(Path(folder) / "sound", ())
        faults = {"a site is killed (-9)": ("west",), "the relay is killed (-9)": ("relay",)}
        faults["all are killed (-9)"] = (*SITES, "relay")
        for name, killed in list(faults.items())[: 1 if is_quick() else None]:
            say(name)
            found = _run(Path(folder) / killed[0] / str(len(killed)), killed)
            distance = float(np.abs(found - truth).max())
            yield at_most(f"{name} and started again: distance to the sound run", distance, 0)


def _run(folder: Path, killed: tuple[str, ...]) -> np.ndarray:
    """Run a federation, kill some of its processes in the middle, and start them again."""
    truth = make_synthetic(8, random_state=0)
    cohorts = {site: truth.cohort[2 * i : 2 * i + 2] for i, site in enumerate(SITES)}
    with Federation(folder, cohorts, MODEL) as federation:
        start: dict[str, Callable] = {
            site: lambda s=site: federation.start_site(s) for site in SITES
        }
        start["relay"] = federation.start_relay
        running = {name: begin() for name, begin in start.items()}
        end = time.monotonic() + PATIENCE
        while killed and sum(line["asked"] == "personal" for line in federation.audit("east")) < 1:
            if time.monotonic() > end:
                raise TimeoutError(federation.said("east"))
            time.sleep(0.2)
        for name in killed:
            running[name].kill()
            running[name].wait()
        running |= {name: start[name]() for name in killed}
        for site in SITES:
            if running[site].wait(PATIENCE):
                raise RuntimeError(federation.said(site))
        return load(federation.place("east") / "common.percdl").dictionary_
