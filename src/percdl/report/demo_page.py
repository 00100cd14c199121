"""The page that ``percdl demo`` writes."""

from __future__ import annotations

from dataclasses import dataclass

from percdl.report.pages import as_data_uri, render

MODELS = {
    "PopCDL": "One dictionary for everybody. It cannot follow individual timing, so the atom is "
    "blurred and onsets drift.",
    "IndCDL": "A dictionary for each person. It follows the signals, but shares nothing: the "
    "common atom is only the average of the individual ones.",
    "PerCDL": "Common atoms, and a time warp for each person that turns them into personal ones.",
}


@dataclass(frozen=True)
class Outcome:
    """How one model did.

    Attributes
    ----------
    name : str
        The model.
    distance : float
        Mean distance of its unit-norm atoms to the true ones.
    error : float
        Squared relative reconstruction error.
    onsets : float
        Share of the true onsets found within one sample.
    seconds : float
        Time to fit.
    picture : bytes
        A PNG image.
    """

    name: str
    distance: float
    error: float
    onsets: float
    seconds: float
    picture: bytes

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the numbers as text, in the order of a table row."""
        return (
            self.name,
            f"{self.distance:.3f}",
            f"{self.error:.1e}",
            f"{self.onsets:.1%}",
            f"{self.seconds:.1f}",
        )

    @property
    def inline_picture(self) -> str:
        """The picture as a data URI."""
        return as_data_uri(self.picture)


@dataclass(frozen=True)
class Comparison:
    """The demo's data and what the models made of them.

    Attributes
    ----------
    n_subjects, n_times, seed : int
        The synthetic cohort.
    start_distance : float
        Distance to the truth of the dictionary that all models start from.
    gauge_floor : float
        Distance to the truth that even perfect warps would leave.
    outcomes : tuple of Outcome
        One per model.
    """

    n_subjects: int
    n_times: int
    seed: int
    start_distance: float
    gauge_floor: float
    outcomes: tuple[Outcome, ...]


def render_page(comparison: Comparison) -> str:
    """Return the page as HTML, pictures included; it needs no network."""
    return render("demo.html.j2", comparison=comparison, models=MODELS)
