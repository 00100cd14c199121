"""Run one claim script in this process: ``python -m benchmarks.claims._child SCRIPT``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from benchmarks import Absent
from benchmarks.claims._claim import skipped


def main(script: str) -> None:
    """Write each claim of a script as a line of JSON, as soon as it is measured."""
    results, sys.stdout = sys.stdout, sys.stderr  # whatever else is printed is not a result
    claims = runpy.run_path(script)["claims"]
    try:
        for claim in claims():
            print(claim.to_json(), file=results, flush=True)
    except Absent as reason:
        print(skipped(Path(script).stem, reason).to_json(), file=results, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
