"""fig:app:perso: IPU finds everyone's warps when the common atoms and the codes are known."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
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
    find_params,
    measure_seeds,
    rebuild,
    true_codes,
)
from percdl.experiments.studies.recovery_picture import draw_pair, draw_reconstruction
from percdl.plotting.style import color, make_axes

N_SUBJECTS = 3
SHOWN = 0
# A warp that is nowhere off by more samples than this counts as recovered.
TOLERANCE = 0.5


def run(study: Study) -> Result:
    """Fit the warps of cohorts of three with their true atoms and codes; draw the first one."""
    seeds = study.pick(range(5), range(20))
    rows = measure(study, seeds)
    data = make_synthetic(N_SUBJECTS, random_state=SHOWN)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    picture = draw_reconstruction(data, true_codes(data), data.dictionary, personal)
    good = float(np.mean(rows["warps_recovered"]))
    near = float(np.median(rows["warp_error_median"]))
    distance, error = (float(np.max(rows[name])) for name in ("atom_distance", "error"))
    settings = f"{SETTINGS}, Gauss-Newton from zero and from an alignment, {len(seeds)} seeds"
    return Result(
        lines=[
            Line(
                f"warps nowhere off by more than {TOLERANCE:g} samples",
                "recovered (picture)",
                f"{good:.1%}; median of the largest deviation {near:.2g} samples",
                settings,
            ),
            Line("distance to the personal atoms, largest", "-", f"{distance:.2g}", settings),
            Line("normalized reconstruction error, largest", "-", f"{error:.1e}", settings),
        ],
        tables={"fig_perso": rows},
        figures={"fig_perso": draw(data, params), "fig_perso_reconstruction": picture},
        reading=_read(good, distance),
    )


def measure(study: Study, seeds: Sequence[int]) -> pd.DataFrame:
    """Return how well warps and personal atoms are found, one row per seed."""
    return measure_seeds(study, seeds, _score)


def _score(seed: int) -> dict[str, float]:
    data = make_synthetic(N_SUBJECTS, random_state=seed)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    deviation = np.abs(displacements(data, params) - displacements(data, data.params)).max(-1)
    gaps = personal - data.personal_dictionary
    distances = np.linalg.norm(gaps, axis=(2, 3)) / np.linalg.norm(data.dictionary, axis=(1, 2))
    rebuilt = rebuild(true_codes(data), personal, data.cohort[0].n_times)
    return {
        "warps_recovered": float((deviation <= TOLERANCE).mean()),
        "warp_error_median": float(np.median(deviation)),
        "warp_error_max": float(deviation.max()),
        "atom_distance": float(distances.max()),
        "error": normalized_reconstruction_error(data.cohort, rebuilt),
    }


def displacements(
    data: SyntheticCohort, params: Float[np.ndarray, "S K M"]
) -> Float[np.ndarray, "S K L"]:
    """Return psi(t) - t in samples: of different parameters, the same warp may come."""
    length = data.dictionary.shape[1]
    with jax.enable_x64(True):
        warps = jax.jit(lambda a: data.transform.warp(a, length, 1))(jnp.asarray(params))
        return np.asarray(warps)[..., 0, :] - np.arange(length)


def draw(data: SyntheticCohort, params: Float[np.ndarray, "S K M"]) -> Figure:
    """Draw true and found warps, as displacements: a row per atom, a column per subject."""
    truth, found = displacements(data, data.params), displacements(data, params)
    n_subjects, n_atoms, length = truth.shape
    figure = Figure(figsize=(11, 5), layout="constrained")
    axes = figure.subplots(n_atoms, n_subjects, sharex=True, sharey=True, squeeze=False)
    for ax, (k, s) in zip(axes.flat, np.ndindex(n_atoms, n_subjects), strict=True):
        make_axes(ax)
        draw_pair(ax, np.arange(length), truth[s, k], found[s, k], color(k))
        ax.set_title(f"subject {s}, atom {k}", fontsize="medium")
    for ax in axes[-1]:
        ax.set_xlabel("time t (samples)")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\psi(t) - t$ (samples)")
        ax.legend(fontsize="small", frameon=False)
    return figure


def _read(recovered: float, distance: float) -> str:
    if recovered == 1:
        return (
            "All warps are recovered, as in the paper. They are compared as functions of time: "
            "different parameters can give the same warp."
        )
    return (
        f"{recovered:.1%} of the warps are recovered; the others differ where the atom is flat or "
        "end in another minimum, and the personal atoms differ by at most "
        f"{distance:.2g} of their norm. Warps are compared as functions of time: different "
        "parameters can give the same warp."
    )
