"""Where the experiments find real recordings."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def data_home() -> Path | None:
    """Return the folder with gait/ and ptbxl/: ``PERCDL_DATA``, or ``shared/data`` next door.

    Next door means beside the checkout that this file belongs to. None lets the loaders look
    in the user's cache and download.
    """
    if os.environ.get("PERCDL_DATA"):
        return Path(os.environ["PERCDL_DATA"])
    beside = REPOSITORY.parent / "shared" / "data"
    return beside if beside.is_dir() else None
