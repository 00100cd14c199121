"""Look locked versions up among the known vulnerabilities; silence is not taken for an answer.

``python -m benchmarks.audit PIP_AUDIT LOCK`` runs pip-audit, which says that nothing was found
also where it could look nothing up; here that fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

SERVICES = ("osv", "pypi")


def main(pip_audit: str, lock: str) -> int:
    """Return 0 where every version was looked up and none is known to be vulnerable."""
    for service in SERVICES:
        command = [pip_audit, "--requirement", lock, "--disable-pip", "--service", service]
        done = subprocess.run(
            [*command, "--format", "json"], capture_output=True, text=True, check=False
        )
        status, sentence = judge(done.stdout)
        print(f"{service}: {sentence}")
        if status is not None:
            return status
    print(
        "No service answered for all versions: nothing is known, which is not the same as clean."
    )
    return 2


def judge(printed: str) -> tuple[int | None, str]:
    """Return the status of an answer of pip-audit (None if invalid), and a sentence."""
    try:
        found: list[dict[str, Any]] = json.loads(printed)["dependencies"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return None, "could not be asked."
    known = [f"{x['name']} {x['version']}: {y['id']}" for x in found for y in x.get("vulns", ())]
    if known:
        return 1, f"{len(known)} known vulnerabilities: " + "; ".join(known)
    skipped = sum("skip_reason" in x for x in found)
    if skipped or not found:
        return None, f"{skipped} of {len(found)} versions could not be looked up."
    return 0, f"{len(found)} versions, no known vulnerability."


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
