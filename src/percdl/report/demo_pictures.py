"""One picture per model of the demo: its atoms, everyone's atoms, a recording."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort, match_atoms
from percdl.plotting import plot_atoms, plot_personal_atoms, plot_reconstruction

# Subject 0 lent its atoms to the start; the next one is a fairer example.
EXAMPLE = 1


def draw_model(model: Any, data: SyntheticCohort, rebuilt: list[np.ndarray]) -> bytes:
    """Return a PNG of a fitted model beside the truth.

    ``rebuilt`` holds the reconstructions of all recordings.
    """
    sfreq = data.cohort.sfreq
    # Atoms in the order of the truth, so that colours mean the same in all pictures.
    order = match_atoms(model.dictionary_, data.dictionary)
    dictionary, personal = model.dictionary_[order], model.personal_dictionary_[:, order]
    figure = Figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1.2, 1))
    first = figure.add_subplot(grid[0, 0])
    plot_atoms(dictionary, data.dictionary, sfreq=sfreq, ax=first).set_title("Common atoms")
    for k in range(2):
        ax = figure.add_subplot(grid[0, 1 + k], sharey=first)
        plot_personal_atoms(personal, dictionary, atom=k, sfreq=sfreq, ax=ax)
        ax.set_title(f"Personal versions of atom {k}")
    recording = data.cohort[EXAMPLE]
    events = model.events_[model.events_["subject"] == recording.subject]
    ranks = dict(zip(order.tolist(), range(len(order)), strict=True))
    plot_reconstruction(
        recording.values,
        rebuilt[EXAMPLE],
        events.assign(atom=events["atom"].map(ranks)),
        atom_length=dictionary.shape[1],
        name="amplitude (a.u.)",
        sfreq=sfreq,
        ax=figure.add_subplot(grid[1, :]),
    ).set_title(f"Recording of subject {recording.subject}")
    figure.suptitle(type(model).__name__)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
