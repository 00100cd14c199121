"""The folder of CSV files that the README reads: ``python tests/walks.py FOLDER``."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from percdl import make_synthetic


def write_walks(folder: Path) -> None:
    """Write ``walks/``, two other people in ``new/``, and ``subjects.csv``."""
    cohort = make_synthetic(n_subjects=8, noise_std=0.03, random_state=0).cohort
    for recording in cohort:
        place = folder / ("new" if int(recording.subject) >= 6 else "walks")
        place.mkdir(exist_ok=True)
        time = np.arange(recording.n_times) / 100
        table = pd.DataFrame({"t": time, "gyro_y": recording.values[:, 0]})
        table.to_csv(place / f"P{recording.subject}.csv", index=False)
    groups = {"subject": [f"P{s}" for s in range(6)], "group": ["healthy", "patient"] * 3}
    pd.DataFrame(groups).to_csv(folder / "subjects.csv", index=False)


if __name__ == "__main__":
    write_walks(Path(sys.argv[1]))
