"""Make the pictures of the documentation: ``python docs/make_images.py``."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from percdl import PerCDL, TimeWarp, make_synthetic
from percdl.datasets import SyntheticCohort
from percdl.plotting import plot_atoms, plot_personal_atoms, plot_reconstruction, plot_warps

IMAGES = Path(__file__).resolve().parent / "images"
# The atom and the subjects in colour, and the subject of the recording.
ATOM, SUBJECTS, EXAMPLE = 0, (1, 3, 4), 3


def main() -> None:
    """Fit a cohort and write ``images/percdl.png``."""
    data = make_synthetic(n_subjects=256, noise_std=0.03, random_state=0)
    model = PerCDL(
        n_atoms=2,
        atom_length=50,
        transformation=TimeWarp(depth=3, width=10),
        penalty=1.0,
        init=data.personal_dictionary[0],
        random_state=0,
    ).fit(data.cohort)
    IMAGES.mkdir(exist_ok=True)
    draw(model, data).savefig(IMAGES / "percdl.png", dpi=130)


def draw(model: PerCDL, data: SyntheticCohort) -> Figure:
    """Return the first picture of the README: atoms, personal atoms, warps, a recording."""
    sfreq, names = data.cohort.sfreq, [f"subject {s}" for s in data.cohort.subjects]
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1.25, 1))
    panels = [figure.add_subplot(grid[0, i]) for i in range(3)]
    plot_atoms(model.dictionary_, data.dictionary, sfreq=sfreq, ax=panels[0])
    panels[0].set_title("What the population shares")
    plot_personal_atoms(
        model.personal_dictionary_,
        model.dictionary_,
        atom=ATOM,
        highlight=SUBJECTS,
        subjects=names,
        sfreq=sfreq,
        ax=panels[1],
    ).set_title(f"Everyone's version of atom {ATOM}")
    params = jnp.asarray(model.params_[:, ATOM])
    warps = TimeWarp(depth=3, width=10).warp(params, *model.dictionary_.shape[1:])[:, 0]
    plot_warps(
        np.asarray(warps, float), highlight=SUBJECTS, subjects=names, sfreq=sfreq, ax=panels[2]
    ).set_title("The time warps behind them")
    recording = data.cohort[EXAMPLE]
    plot_reconstruction(
        recording.values,
        model.reconstruct(data.cohort)[EXAMPLE],
        model.events_[model.events_["subject"] == recording.subject],
        atom_length=model.dictionary_.shape[1],
        name="signal (a.u.)",
        sfreq=sfreq,
        ax=figure.add_subplot(grid[1, :]),
    ).set_title(f"Where it happens: cycles found in the recording of {names[EXAMPLE]}")
    return figure


if __name__ == "__main__":
    main()
