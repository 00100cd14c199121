"""A cohort as one NPZ archive: plain arrays and a description in JSON, no pickle."""

import io
import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from percdl.signals.readers.npz import DESCRIPTION, SCHEMA, entry_name
from percdl.signals.recording import Recording
from percdl.signals.writers.files import replace_file


def write_npz(recordings: Sequence[Recording], path: str | PathLike[str]) -> None:
    """Write recordings so that `Cohort.from_npz` gives them back, bit by bit."""
    described = [
        {
            "sfreq": recording.sfreq,
            "channels": recording.channels,
            "units": recording.units,
            "subject": recording.subject,
            "group": recording.group,
            "processing": recording.processing,
        }
        for recording in recordings
    ]
    description = json.dumps({"schema": SCHEMA, "recordings": described})
    arrays: dict[str, Any] = {DESCRIPTION: np.array(description)}
    arrays |= {entry_name(i): recording.values for i, recording in enumerate(recordings)}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    replace_file(Path(path).expanduser(), buffer.getvalue())
