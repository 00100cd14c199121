"""fig:app:activations: CSC finds the activations when atoms and personalization are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets import SyntheticCohort, make_synthetic, onset_accuracy
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.known_truth import (
    SETTINGS,
    Codes,
    as_events,
    find_codes,
    measure_seeds,
    true_codes,
)
from percdl.experiments.studies.recovery_picture import TRUE, draw_reconstruction
from percdl.plotting.style import SHARED, color, label, make_axes

PENALTY = 1e-2
N_SUBJECTS = 3
SHOWN = 0


def run(study: Study) -> Result:
    """Code cohorts of three with their true personal atoms; the first one is drawn."""
    seeds = study.pick(range(5), range(20))
    rows = measure(study, seeds)
    data = make_synthetic(N_SUBJECTS, random_state=SHOWN)
    codes = find_codes(data, PENALTY)
    picture = draw_reconstruction(data, codes, data.dictionary, data.personal_dictionary)
    exact, error = float(np.mean(rows["onsets_exact"])), float(np.max(rows["amplitude_error"]))
    extra = int(np.sum(rows["n_extra"]))
    settings = f"{SETTINGS}, lambda = {PENALTY}, exact coder, {len(seeds)} seeds"
    return Result(
        lines=[
            Line("onsets found to the sample", "recovered (picture)", f"{exact:.2%}", settings),
            Line("activations that are not there", "-", str(extra), settings),
            Line("largest error of an amplitude", "-", f"{error:.1e} of 1", settings),
        ],
        tables={"fig_activations": rows},
        figures={"fig_activations": draw(data, codes), "fig_activations_reconstruction": picture},
        reading="All activations are recovered, as in the paper."
        if exact == 1 and extra == 0
        else f"{1 - exact:.2%} of the activations are missed and {extra} are invented, which the "
        "paper's picture does not show.",
    )


def measure(study: Study, seeds: Sequence[int]) -> pd.DataFrame:
    """Return how well the activations are found, one row per seed."""
    return measure_seeds(study, seeds, _score)


def _score(seed: int) -> dict[str, float]:
    data = make_synthetic(N_SUBJECTS, random_state=seed)
    found = as_events(find_codes(data, PENALTY), data)
    both = data.events.merge(found, on=["subject", "atom", "onset_sample"])
    gap = both["amplitude_x"].to_numpy() - both["amplitude_y"].to_numpy()
    return {
        "onsets_exact": onset_accuracy(found, data.events, tolerance=0),
        "n_true": len(data.events),
        "n_extra": len(found) - len(both),
        "amplitude_error": float(np.abs(gap).max()),
    }


def draw(data: SyntheticCohort, codes: Codes) -> Figure:
    """Draw true and found activations of each subject as lines as high as their amplitude."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    axes = figure.subplots(len(data.cohort), 1, sharex=True, sharey=True)
    truth = true_codes(data)
    for s, ax in enumerate(axes):
        for k in range(len(data.dictionary)):
            _draw_activations(make_axes(ax), truth, codes, s, k)
        label(ax, "", f"subject {s}\namplitude")
        ax.set_xlim(0, data.cohort[s].n_times)
    axes[0].set_ylim(0, 1.5)
    axes[-1].set_xlabel("onset (samples)")
    axes[0].legend(ncols=4, fontsize="small", frameon=False, loc="upper center")
    return figure


def _draw_activations(ax: Axes, truth: Codes, found: Codes, subject: int, atom: int) -> None:
    at, height = _of(truth, subject, atom)
    ax.vlines(at, 0, height, color=color(atom), lw=TRUE["linewidth"], alpha=TRUE["alpha"],
              label=f"true, atom {atom}")  # fmt: skip
    at, height = _of(found, subject, atom)
    ax.vlines(at, 0, height, color=SHARED, lw=1.2)
    ax.plot(at, height, "os"[atom % 2], color=SHARED, ms=4, label=f"found, atom {atom}")


def _of(codes: Codes, subject: int, atom: int) -> tuple[np.ndarray, np.ndarray]:
    here = (codes.atom[subject] == atom) & (codes.amplitude[subject] != 0)
    return codes.onset[subject, here], codes.amplitude[subject, here]
