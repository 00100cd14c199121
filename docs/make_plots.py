"""Make the pictures of ``plots.md``: ``python docs/make_plots.py``.

Two groups of a synthetic cohort; the patients linger in the second quarter of the first pattern.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from mne.stats import permutation_cluster_test
from PIL import Image

from percdl import Cohort, PerCDL, TimeWarp, plotting
from percdl.analysis import estimate_uncertainty
from percdl.datasets.synthetic import common_patterns, repeat_patterns

IMAGES = Path(__file__).resolve().parent / "images" / "plots"
SFREQ, UNITS, NOISE = 100.0, "angular velocity (deg/s)", 0.05
N_CONTROLS, N_PATIENTS = 30, 20
WARP = TimeWarp(depth=2, width=8)
EXAMPLE = "P41"
# What the patients have in common: (layer, basis function) of the warp, and how much of it.
DELAY = {(0, 2): -0.3}


def main() -> None:
    """Fit the cohort and write one picture per function."""
    cohort = make_cohort()
    model = PerCDL(
        n_atoms=2, atom_length=50, transform=WARP, penalty=1e4, random_state=0, progress=False
    ).fit(cohort)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, ax in {**draw_model(model, cohort), **draw_people(model, cohort)}.items():
        save(ax.figure, IMAGES / f"{name}.png")


def save(figure: Figure, path: Path) -> None:
    """Write a figure in 64 colours: a third of the bytes, and the eye sees no difference."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=90)
    Image.open(buffer).convert("RGB").quantize(64).save(path, optimize=True)


def make_cohort() -> Cohort:
    """Return controls and patients, each pattern repeated six times by everyone."""
    rng = np.random.default_rng(0)
    groups = ["controls"] * N_CONTROLS + ["patients"] * N_PATIENTS
    rows = rng.uniform(-0.12, 0.12, (len(groups), 2, WARP.depth, WARP.width))
    for (layer, basis), much in DELAY.items():
        rows[N_CONTROLS:, 0, layer, basis] += much * rng.uniform(0.5, 1.5, N_PATIENTS)
    params = rows.reshape(len(groups), 2, -1)
    streams = rng.spawn(len(groups))
    clean = repeat_patterns(WARP, params, common_patterns(50), 6, 900, streams)[2]
    values = 100 * (clean + NOISE * rng.standard_normal(clean.shape))
    names = [f"{group[0].upper()}{i:02d}" for i, group in enumerate(groups)]
    return Cohort.from_arrays(
        values, sfreq=SFREQ, subjects=names, groups=groups, channels="gyro", units="deg/s"
    )


def draw_model(model: PerCDL, cohort: Cohort) -> dict:
    """Return the pictures of a fitted model."""
    example = cohort[EXAMPLE]
    events = model.events_[model.events_["subject"] == example.subject]
    low, high = estimate_uncertainty(model, cohort).atom_band(0.95)
    warps, shown = model.warps_[:, 0, 0], ["C03", EXAMPLE]
    people = {"subjects": model.subjects_, "sfreq": SFREQ}
    signal = {"name": "angular velocity", "units": "deg/s", "sfreq": SFREQ}
    return {
        "atoms": plotting.plot_atoms(model.dictionary_, sfreq=SFREQ),
        "atom_band": plotting.plot_atom_band(model.dictionary_[0], (low[0], high[0]), sfreq=SFREQ),
        "personal_atoms": plotting.plot_personal_atoms(
            model.personal_dictionary_, model.dictionary_, highlight=shown, **people
        ),
        "warps": plotting.plot_warps(warps, highlight=shown, **people),
        "speed": plotting.plot_speed(warps, EXAMPLE, **people),
        "activations": plotting.plot_activations(example.values, events, **signal),
        "reconstruction": plotting.plot_reconstruction(
            example.values,
            model.reconstruct(cohort)[cohort.subjects.index(EXAMPLE)],
            events,
            atom_length=50,
            **signal,
        ),
        "history": plotting.plot_history(model.history_),
    }


def draw_people(model: PerCDL, cohort: Cohort) -> dict:
    """Return the pictures of groups, and of subjects among them."""
    curves, groups = model.personal_dictionary_[:, 0], np.array(cohort.groups)
    z = standardize(curves[:, :, 0], groups == "controls")
    people = {"subjects": model.subjects_}
    return {
        "group_comparison": plotting.plot_group_comparison(
            curves, cohort.groups, find_clusters(curves[:, :, 0], groups), sfreq=SFREQ
        ),
        "deviation_ranking": plotting.plot_deviation_ranking(
            np.sqrt((z**2).mean(1)), cohort.groups, reference="controls", **people
        ),
        "deviation_profile": plotting.plot_deviation_profile(
            z[cohort.subjects.index(EXAMPLE)], subject=EXAMPLE, sfreq=SFREQ
        ),
        "embedding": plotting.plot_embedding(
            model.params_[:, 0], cohort.groups, highlight=[EXAMPLE], **people
        ),
    }


def standardize(curves: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the z of each curve against the reference, oneself left out."""
    others = [
        np.flatnonzero(reference & (np.arange(len(curves)) != s)) for s in range(len(curves))
    ]
    mean = np.stack([curves[o].mean(0) for o in others])
    sd = np.stack([curves[o].std(0, ddof=1) for o in others])
    return (curves - mean) / np.maximum(sd, 0.01 * sd.max())  # the ends of an atom never vary


def find_clusters(curves: np.ndarray, groups: np.ndarray) -> list[tuple[int, int, float]]:
    """Return the runs of samples in which two groups differ, by a permutation test."""
    parts = [curves[groups == name, 1:-1] for name in ("controls", "patients")]
    _, runs, p_values, _ = permutation_cluster_test(
        parts, n_permutations=1000, tail=1, rng=0, out_type="mask", verbose=False
    )
    return [(run.start + 1, run.stop + 1, p) for (run,), p in zip(runs, p_values, strict=True)]


if __name__ == "__main__":
    main()
