"""Three hospitals over TLS learn the same model as one place with all walks.

150 real walks; healthy, orthopedic and neurological walkers are one site each. Relay and sites are
processes of this machine, sums are masked; double precision.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import Problem, gait, present
from benchmarks.federation import Federation
from benchmarks.timing import say
from percdl import Cohort, load, load_gait

MOST_DIFFERENCE = 1e-9
PATIENCE = 1800
# As the table [model] of the server names the arguments of `gait()`.
OPTIONS = {
    "n-atoms": 1, "atom-length": 100, "penalty": 0.01, "depth": 4, "width": 15, "dtype": "float64",
}  # fmt: skip


def claims() -> Iterator[Claim]:
    """Fit all walks here, then by three sites, from the same first cycle."""
    try:
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise Absent(f"uvicorn is not installed ({error})") from error
    problem = gait()
    sites = _split(problem)
    n_init, n_perso = (1, 1) if is_quick() else (5, 5)
    everyone = Cohort(walk for name in sorted(sites) for walk in sites[name])
    say("all walks in one place")
    central = problem.model(
        dtype="float64", algorithm__population_rounds=n_init, algorithm__personal_rounds=n_perso
    ).fit(everyone)
    with tempfile.TemporaryDirectory() as folder:
        say("three sites")
        began = time.perf_counter()
        dictionary, audit = _federate(Path(folder), problem, sites, n_init, n_perso)
        seconds = time.perf_counter() - began
    difference = float(np.abs(dictionary - central.dictionary_).max())
    yield at_most("difference of the dictionaries", difference, MOST_DIFFERENCE)
    rounds = [line for line in audit if line["asked"] in ("population", "personal", "express")]
    yield beside("rounds, and seconds in all", f"{len(rounds)}, {seconds:.0f} s")
    first, *_, last = (datetime.fromisoformat(line["time"]) for line in rounds)
    each = (last - first).total_seconds() / (len(rounds) - 1)
    yield beside("seconds a round, after the first", f"{each:.1f} s")
    for kind in ("population", "personal"):
        told = [line["sent"] for line in rounds if line["asked"] == kind]
        yield beside(f"{kind} round, bytes up per site", f"{max(told):,}")


def _split(problem: Problem) -> dict[str, Cohort]:
    groups = dict(zip(problem.cohort.subjects, _groups(problem.cohort), strict=True))
    most = 2 if is_quick() else None
    return {
        name.lower(): problem.cohort.select([s for s in groups if groups[s] == name])[:most]
        for name in sorted(set(groups.values()))
    }


def _groups(cohort: Cohort) -> list[str]:
    walks = present(load_gait).cohort
    known = dict(zip(walks.subjects, walks.groups, strict=True))
    return [str(known[subject]) for subject in cohort.subjects]


def _federate(
    folder: Path, problem: Problem, sites: dict[str, Cohort], n_init: int, n_perso: int
) -> tuple[np.ndarray, list[dict]]:
    """Run a federation to its end; return the dictionary, and the log of a site."""
    start = problem.model(
        dtype="float64", algorithm__population_rounds=0, algorithm__personal_rounds=0
    ).fit(problem.cohort[:2])
    start.save(folder / "start.percdl")
    model = {**OPTIONS, "population-rounds": n_init, "personal-rounds": n_perso}
    with Federation(folder, sites, model, {"init": "start.percdl"}) as federation:
        federation.start_relay()
        running = {name: federation.start_site(name) for name in federation.sites}
        for name, site in running.items():
            if site.wait(PATIENCE):
                raise RuntimeError(federation.said(name))
        first = federation.sites[0]
        found = load(federation.place(first) / "common.percdl").dictionary_
        return found, federation.audit(first)
