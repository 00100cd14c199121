"""Write the last results of the claims into ``benchmarks.md``: ``python docs/make_claims.py``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.claims.__main__ import FOLDER, RESULTS, discover
from benchmarks.claims._claim import HEADING, Claim
from benchmarks.history import update_page

PAGE = Path(__file__).resolve().parent / "benchmarks.md"
BEGIN, END = "<!-- claims: written by docs/make_claims.py -->\n", "<!-- claims end -->\n"
# A script with more checks than this lists those that fall short, and counts the others.
MOST_LISTED = 16


def render() -> str:
    """Return the page with the last results."""
    results = json.loads((FOLDER / RESULTS).read_text(encoding="utf-8"))
    lines = [f"| script | {HEADING} | commit, date |", "|---|---|---|---|---|---|"]
    for name, result in results.items():
        source = "{commit}, {date}".format(**result)
        lines += [f"| `{name}` | {row} | {source} |" for row in list_checks(result["checks"])]
    missing = ", ".join(f"`{name}`" for name in discover() if name not in results)
    table = "\n".join([*lines, "", f"No results stored yet: {missing or 'none'}.", ""])
    return update_page(PAGE.read_text(encoding="utf-8"), table, BEGIN, END)


def list_checks(checks: list[dict[str, Any]]) -> list[Claim]:
    """Return the checks with a target, as cells of a table; all checks if none has one."""
    claims = [Claim(**{key: _escape(value) for key, value in check.items()}) for check in checks]
    settled = [claim for claim in claims if claim.holds is not None] or claims
    if len(settled) <= MOST_LISTED:
        return settled
    short = [claim for claim in settled if not claim.holds]
    return [*short, Claim("others", "each its own", f"{len(settled) - len(short)} checks", True)]


def _escape(value: Any) -> Any:
    return re.sub(r"[|*`\[]|<(?=\w)", r"\\\g<0>", value) if isinstance(value, str) else value


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
