"""Make the picture of ``choosing.md``: ``python -m docs.make_lengths_image``.

Two of fifteen simulated hearts, with activations of one length and of several.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

from benchmarks.claims.lengths import RATES, SFREQ, simulate_hearts
from percdl import L0Coder, PerCDL
from percdl.plotting import plot_reconstruction

IMAGE = Path(__file__).resolve().parent / "images" / "lengths.png"
SLOW, FAST, N_SHOWN = 1, 12, 5 * SFREQ


def main() -> None:
    """Fit the cohort twice and draw both people."""
    cohort = simulate_hearts(0)
    _, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, layout="constrained")
    for column, stretch in enumerate((1.0, 2.5)):
        coder = L0Coder(stretch=stretch)
        model = PerCDL(1, "0.6s", coder=coder, random_state=0).fit(cohort)
        for row, person in enumerate((SLOW, FAST)):
            events = model.events_
            own = events[(events["subject"] == cohort.subjects[person])]
            own = own[own["onset_sample"] < N_SHOWN]
            ax = axes[row, column]
            looks = {"atom_length": model.atom_length_, "sfreq": SFREQ, "units": "mV"}
            plot_reconstruction(cohort[person].values[:N_SHOWN], events=own, **looks, ax=ax)
            ax.set_title(f"{RATES[person]:.0f} beats per minute, stretch {stretch:g}")
            ax.set_xlim(0, N_SHOWN / SFREQ)
    plt.savefig(IMAGE, dpi=90)


if __name__ == "__main__":
    main()
