"""Measure the claims of the documentation: ``python -m benchmarks.claims [NAME ...]``.

Every script of this folder has a function ``claims()`` that yields `Claim`. Each runs in a
separate process, so that scripts share neither memory nor compiled programs. The exit status is 1
if a claim fails. The last results of each claim are kept in ``results.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from functools import cache
from pathlib import Path

from benchmarks.claims._claim import HEADING, Claim
from benchmarks.origin import ROOT, commit

FOLDER = Path(__file__).resolve().parent
RESULTS = "results.json"


def discover(folder: Path = FOLDER) -> dict[str, Path]:
    """Return the claim scripts by name; names that begin with an underscore are helpers."""
    return {path.stem: path for path in sorted(folder.glob("[!_]*.py"))}


def measure(script: Path, quick: bool = False) -> Iterator[Claim]:
    """Run a script and yield its claims as they come; a crash is a claim that falls short."""
    command = [sys.executable, "-m", "benchmarks.claims._child", str(script)]
    environment = {**os.environ, "PERCDL_CLAIMS_QUICK": "1" if quick else "0"}
    n_claims = 0
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        for line in child.stdout or ():
            n_claims += 1
            yield Claim.from_json(line)
    if child.returncode:
        yield Claim(script.stem, "runs to its end", f"exit status {child.returncode}", False)
    elif not n_claims:
        yield Claim(script.stem, "measures something", "no claim", False)


@cache
def machine_kind() -> str:
    """Ask another process: JAX would keep most of the memory of a GPU from the claims."""
    command = [sys.executable, "-m", "benchmarks.origin"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def store(results: Path, name: str, claims: list[Claim]) -> None:
    """Replace the last results of a script, unless everything was skipped."""
    if all(claim.verdict == "skipped" for claim in claims):
        return
    stored = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    stored[name] = {
        "date": date.today().isoformat(),
        "commit": commit(),
        "machine": machine_kind(),
        "checks": [asdict(claim) for claim in claims],
    }
    text = json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False)
    results.write_text(f"{text}\n", encoding="utf-8")


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Run all claims, or those named; return the exit status."""
    scripts = discover(folder)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.claims", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(scripts)}")
    parser.add_argument("--quick", action="store_true", help="small sizes; settles no claim")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in scripts]
    if unknown:
        parser.error(f"no claim {', '.join(unknown)}; there are {', '.join(scripts)}")
    print(HEADING, flush=True)
    short = 0
    for name in chosen.names or scripts:
        claims = []
        for claim in measure(scripts[name], chosen.quick):
            print(f"{name}: {claim}", flush=True)
            claims.append(claim)
        short += sum(claim.holds is False for claim in claims)
        if not chosen.quick:
            store(folder / RESULTS, name, claims)
    if short:
        print(f"{short} claim{'s' if short > 1 else ''} fell short.")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
