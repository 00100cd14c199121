"""A site that misbehaves once: ``python -m benchmarks.faulty_site FAULT KIND CONFIG``.

It is the command of a site with one answer replaced; nothing of this is in the library.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

# A slow answer takes this many seconds.
SLOW = 90.0


def main(fault: str, kind: str, config: str) -> None:
    """Run a site whose first answer of a kind is late (``slow``) or not a number (``nan``).

    A file beside the one of options says that it has happened: a site started again is sound.
    """
    from percdl.cli import app
    from percdl.federated.site import FederatedSite

    happened, answer = Path(f"{config}.fault"), FederatedSite.answer

    def answer_badly(self: FederatedSite, request: Any) -> Any:
        if request.kind != kind or happened.exists():
            return answer(self, request)
        happened.touch()
        if fault == "slow":
            time.sleep(SLOW)
        reply = answer(self, request)
        bad = {name: np.full(x.shape, np.nan) for name, x in reply.arrays.items()}
        return replace(reply, arrays=bad)

    FederatedSite.answer = answer_badly  # pyright: ignore[reportAttributeAccessIssue]
    app(["federate", "site", config])


if __name__ == "__main__":
    main(*sys.argv[1:4])
