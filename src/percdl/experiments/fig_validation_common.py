"""fig:app:validation_common: PerCDU finds the common atoms, codes and warps being known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets import SyntheticCohort, make_synthetic
from percdl.datasets.warping import personalize
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.known_truth import (
    SETTINGS,
    find_atoms,
    measure_seeds,
    rebuild,
    true_codes,
)
from percdl.experiments.studies.recovery_picture import draw_pair, draw_reconstruction
from percdl.plotting.style import OBSERVED, color, label, make_axes

N_SUBJECTS = 3
SHOWN = 0
# Distances of unit-norm atoms below this are not to be seen in a picture.
VISIBLE = 0.01


def run(study: Study) -> Result:
    """Solve PerCDU for cohorts of three with their true codes and warps; draw the first one."""
    seeds = study.pick(range(5), range(20))
    rows = measure(study, seeds)
    data = make_synthetic(N_SUBJECTS, random_state=SHOWN)
    atoms = find_atoms(data)
    personal = personalize(data.transform, data.params, atoms)
    picture = draw_reconstruction(data, true_codes(data), atoms, personal)
    distance = rows["distance"].to_numpy()
    median, worst, seen = np.median(distance), distance.max(), int(np.sum(distance > VISIBLE))
    start, error = float(np.mean(rows["start_distance"])), float(np.max(rows["error"]))
    settings = f"{SETTINGS}, one solve from the first subject's atoms, {len(seeds)} seeds"
    return Result(
        lines=[
            Line(
                "distance to the true common atoms",
                "recovered (picture)",
                f"median {median:.1e}, largest {worst:.1e}; {start:.2f} at the start",
                settings,
            ),
            Line("normalized reconstruction error, largest", "-", f"{error:.1e}", settings),
        ],
        tables={"fig_validation_common": rows},
        figures={
            "fig_validation_common": draw(data, atoms),
            "fig_validation_common_reconstruction": picture,
        },
        reading="The common atoms are recovered, as in the paper, by one linear solve."
        if seen == 0
        else f"In {seen} of {len(rows)} cohorts the atoms differ visibly (by more than {VISIBLE}) "
        "from the truth although all recordings are reconstructed: where no warp of the three "
        "subjects visits a sample of the atom, nothing is known of it.",
    )


def measure(study: Study, seeds: Sequence[int]) -> pd.DataFrame:
    """Return distances of the atoms to the truth, one row per seed."""
    return measure_seeds(study, seeds, _score)


def _score(seed: int) -> dict[str, float]:
    data = make_synthetic(N_SUBJECTS, random_state=seed)
    atoms = find_atoms(data)
    personal = personalize(data.transform, data.params, atoms)
    rebuilt = rebuild(true_codes(data), personal, data.cohort[0].n_times)
    return {
        "distance": data.distance_to_truth(atoms),
        "start_distance": data.distance_to_truth(data.personal_dictionary[0]),
        "error": normalized_reconstruction_error(data.cohort, rebuilt),
    }


def draw(data: SyntheticCohort, atoms: Float[np.ndarray, "K L P"]) -> Figure:
    """Draw true and found common atoms, and those of the first subject, the start."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots(1, len(atoms), sharey=True, squeeze=False)[0]
    time = np.arange(atoms.shape[1])
    for k, ax in enumerate(axes):
        make_axes(ax).plot(
            data.personal_dictionary[0, k, :, 0], ":", color=OBSERVED, label="start (subject 0)"
        )
        draw_pair(ax, time, data.dictionary[k, :, 0], atoms[k, :, 0], color(k))
        ax.set_title(f"common atom {k}")
        label(ax, "time (samples)", "")
        ax.set_ylim(-1.3, 1.9)
        ax.legend(fontsize="small", frameon=False, ncols=3, loc="upper center")
    axes[0].set_ylabel("amplitude (a.u.)")
    return figure
