"""What becomes of a federation when a site dies, comes back, lies or sleeps, or the server dies.

Real processes on one machine: a server and four sites over TLS, sums masked unless said
otherwise. Each fault has a run of its own; its log of rounds is printed on standard error.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
# Seconds for an answer, and for a whole run. Flower notices a dead site after 60 to 70.
TIMEOUT, PATIENCE = 60, 1200


def claims() -> Iterator[Claim]:
    """Run without a fault, then with each of them."""
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise Absent(f"Flower is not installed ({error})") from error
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        say("no fault")
        truth = _sound(place / "sound")
        faults: list[Callable[[Path, np.ndarray], Iterator[Claim]]] = [
            _not_a_number, _slow, _killed_and_back, _server_killed, _link_killed,
        ]  # fmt: skip
        for fault in faults[:1] if is_quick() else faults:
            say(fault.__name__.strip("_").replace("_", " "))
            yield from fault(place / fault.__name__, truth)


def _federation(folder: Path, model: dict[str, Any] | None = None, **server: Any) -> Federation:
    truth = make_synthetic(8, random_state=0)
    cohorts = {site: truth.cohort[2 * i : 2 * i + 2] for i, site in enumerate(SITES)}
    settings = {"min-sites": 3, "timeout": TIMEOUT, **server}
    # Sites that know four keys answer masked sums only, unless their files say otherwise.
    plain = {"require-secure": False} if server.get("secure") is False else {}
    return Federation(folder, cohorts, {**MODEL, **(model or {})}, settings, plain)


def _sound(folder: Path) -> np.ndarray:
    with _federation(folder, timeout=PATIENCE) as federation:  # programs are compiled here
        for site in SITES:
            federation.start_site(site)
        _end(federation, federation.start_server())
        return load(federation.results / "model.percdl").dictionary_


def _not_a_number(folder: Path, truth: np.ndarray) -> Iterator[Claim]:
    with _federation(folder, secure=False) as federation:
        _start(federation, ("nan", "personal"))
        _end(federation, federation.start_server())
        yield _dropped(federation, "not finite", "a site sends NaN (plain sums)")
        yield _back(federation, "a site that sent NaN once counts in the next round")


def _slow(folder: Path, truth: np.ndarray) -> Iterator[Claim]:
    with _federation(folder) as federation:
        _start(federation, ("slow", "personal"))
        _end(federation, federation.start_server())
        yield _dropped(federation, "no answer within", "a site sleeps past the timeout")
        yield _repeated(federation, "a site sleeps past the timeout")


def _killed_and_back(folder: Path, truth: np.ndarray) -> Iterator[Claim]:
    with _federation(folder, {"personal-rounds": 14}) as federation:
        sites = _start(federation, ("slow", "personal"))
        server = federation.start_server()
        mark = federation.folder / "west.toml.fault"
        _wait(mark.exists, "the round in which it dies")
        _kill(sites["west"])
        federation.start_site("west")  # at once: refused until the server has noticed
        _end(federation, server)
        yield _dropped(federation, "", "a site is killed (-9) in a round")
        yield _repeated(federation, "a site is killed (-9) in a round")
        yield _back(federation, "a site killed and started again counts once more")


def _server_killed(folder: Path, truth: np.ndarray) -> Iterator[Claim]:
    with _federation(folder) as federation:
        _start(federation)
        server = federation.start_server()
        federation.wait_for("personal", PATIENCE)
        _kill(server)
        yield from _resumed(federation, truth, "the server is killed (-9)")


def _link_killed(folder: Path, truth: np.ndarray) -> Iterator[Claim]:
    with _federation(folder) as federation:
        _start(federation)
        server = federation.start_server()
        federation.wait_for("personal", PATIENCE)
        found = subprocess.run(
            ["pgrep", "-P", str(server.pid), "-f", "superlink"], capture_output=True, text=True
        )
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
        code = server.wait(120)
        said = "superlink ended" in federation.said("server")
        yield Claim(
            "the superlink is killed (-9): the server says so", "exit code 2", str(code),
            code == 2 and said,
        )  # fmt: skip
        yield from _resumed(federation, truth, "the superlink is killed (-9)")


def _resumed(federation: Federation, truth: np.ndarray, name: str) -> Iterator[Claim]:
    _end(federation, federation.start_server("--resume"))
    found = load(federation.results / "model.percdl").dictionary_
    distance = float(np.abs(found - truth).max())
    yield at_most(f"{name}, then resumed: distance to the run without fault", distance, 1e-12)


def _start(
    federation: Federation, fault: tuple[str, str] | None = None
) -> dict[str, subprocess.Popen[bytes]]:
    """Start all sites; the last one has a fault."""
    sites = {site: federation.start_site(site) for site in SITES[: -1 if fault else None]}
    if fault is not None:
        sites["west"] = federation.start(
            *fault, "west.toml", log="west.log", python=("-m", "benchmarks.faulty_site")
        )
    return sites


def _end(federation: Federation, server: subprocess.Popen[bytes]) -> None:
    code = server.wait(PATIENCE)
    for line in federation.audit():
        kept = ("round", "attempt", "kind", "roster", "dropped", "afresh", "seconds", "objective")
        print("  ", json.dumps({key: line[key] for key in kept}), file=sys.stderr)
    if code != 0:
        raise RuntimeError(f"the server ended with {code}: {federation.said('server')}")


def _dropped(federation: Federation, why: str, name: str) -> Claim:
    reasons = [
        reason for line in federation.audit() for site, reason in line["dropped"].items()
        if site == "west" and why in reason
    ]  # fmt: skip
    figure = reasons[0] if reasons else "not dropped"
    return Claim(
        f"{name}: dropped from the round, and why", why or "a reason", figure, bool(reasons)
    )


def _repeated(federation: Federation, name: str) -> Claim:
    again = [line for line in federation.audit() if line["attempt"] > 0 and not line["dropped"]]
    rosters = {" ".join(line["roster"]) for line in again}
    return Claim(
        f"{name}: the round is repeated by the others", "3 sites", "; ".join(sorted(rosters)),
        "east north south" in rosters,
    )  # fmt: skip


def _back(federation: Federation, name: str) -> Claim:
    lines = federation.audit()
    lost = max(line["round"] for line in lines if "west" in line["dropped"])
    later = [
        line["round"] for line in lines if "west" in line["bytes_up"] and line["round"] > lost
    ]
    figure = f"lost in round {lost}, counted in {len(later)} later rounds"
    return Claim(name, "1 or more rounds", figure, bool(later))


def _kill(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()


def _wait(ready: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come in {PATIENCE} s")
        time.sleep(0.3)
