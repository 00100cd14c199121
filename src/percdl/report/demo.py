"""The page of ``percdl demo``: one picture and one row of numbers per model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from percdl.report import as_data_uri, as_png, render

if TYPE_CHECKING:
    from percdl.datasets import SyntheticCohort

MODELS = {
    "PopCDL": "One dictionary for all subjects. It cannot follow individual timing, so the atom "
    "is blurred and onsets drift.",
    "IndCDL": "One dictionary per subject. It follows the signals, but shares nothing: the "
    "common atom is only the average of the individual ones.",
    "PerCDL": "Common atoms, and a time warp per subject that turns them into personal ones.",
}
# The fits start from the atoms of subject 0, so the next one is a fairer example.
EXAMPLE = 1


class Outcome(NamedTuple):
    """Results of one model."""

    name: str
    distance: float  # mean, of its unit-norm atoms to the true ones
    error: float  # squared relative reconstruction error
    onsets: float  # share of the true onsets found within one sample
    seconds: float  # to fit
    picture: bytes  # a PNG image


class Comparison(NamedTuple):
    """The synthetic cohort of the demo, and the results of the models."""

    n_subjects: int
    n_times: int
    seed: int
    start_distance: float  # to the truth, of the dictionary that all models start from
    gauge_floor: float  # distance to the truth with perfect warps
    outcomes: tuple[Outcome, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table as text: a row per model, between the start and the gauge floor."""
        models = [
            (x.name, f"{x.distance:.3f}", f"{x.error:.1e}", f"{x.onsets:.1%}", f"{x.seconds:.1f}")
            for x in self.outcomes
        ]
        ends = {"start": self.start_distance, "gauge floor": self.gauge_floor}
        first, last = ((name, f"{distance:.3f}", "", "", "") for name, distance in ends.items())
        return [first, *models, last]


def render_page(comparison: Comparison) -> str:
    """Return the page as HTML, pictures included; it needs no network."""
    return render("demo.html.j2", comparison=comparison, models=MODELS, inline=as_data_uri)


def draw_model(model: Any, data: SyntheticCohort, rebuilt: list[np.ndarray]) -> bytes:
    """Return a PNG of a fitted model beside the truth, given all reconstructions."""
    from matplotlib.figure import Figure

    from percdl.datasets import match_atoms
    from percdl.plotting import plot_atoms, plot_personal_atoms, plot_reconstruction

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
    return as_png(figure, 110)
