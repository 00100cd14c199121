"""Make the pictures of ``plots.md``: ``python docs/make_plots.py``.

Two groups of a synthetic cohort; the patients linger in the second quarter of the first pattern.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from percdl import Cohort, PerCDL, TimeWarp, plotting
from percdl.analysis import (
    compare_groups,
    estimate_uncertainty,
    measure_changes,
    measure_deviation,
    measure_reliability,
)
from percdl.datasets.synthetic import common_patterns, repeat_patterns

IMAGES = Path(__file__).resolve().parent / "images" / "plots"
SFREQ, UNITS, NOISE = 100.0, "angular velocity (deg/s)", 0.05
N_CONTROLS, N_PATIENTS = 30, 20
WARP = TimeWarp(depth=2, width=8)
EXAMPLE = "P41"
# The common warp of the patients: (layer, basis function) and its coefficient.
DELAY = {(0, 2): -0.3}


def main() -> None:
    """Fit the cohort and write one picture per function."""
    cohort = make_cohort()
    model = PerCDL(
        n_atoms=2, atom_length=50, transformation=WARP, penalty=1e4, random_state=0, progress=False
    ).fit(cohort)
    IMAGES.mkdir(parents=True, exist_ok=True)
    pictures = draw_model(model, cohort) | draw_cycles(model, cohort) | draw_people(model, cohort)
    for name, ax in pictures.items():
        save(ax.figure, IMAGES / f"{name}.png")


def save(figure: Figure, path: Path) -> None:
    """Write a figure in 64 colours, which takes a third of the bytes."""
    buffer = BytesIO()
    figure.savefig(buffer, dpi=90)
    Image.open(buffer).convert("RGB").quantize(64).save(path, optimize=True)


def make_cohort() -> Cohort:
    """Return controls and patients, with each pattern repeated six times."""
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
    found = estimate_uncertainty(model, cohort)
    band, whole = (
        [end[0] for end in found.atom_band(0.95, simultaneous)] for simultaneous in (False, True)
    )
    warps, shown = model.warps_[:, 0, 0], ["C03", EXAMPLE]
    people = {"subjects": model.subjects_, "sfreq": SFREQ}
    signal = {"name": "angular velocity", "units": "deg/s", "sfreq": SFREQ}
    return {
        "atoms": plotting.plot_atoms(model.dictionary_, sfreq=SFREQ),
        "atom_band": plotting.plot_atom_band(model.dictionary_[0], band, whole=whole, sfreq=SFREQ),
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


def draw_cycles(model: PerCDL, cohort: Cohort) -> dict:
    """Return the pictures of cycles and landmarks; an artefact spoils one cycle."""
    values = [record.values.copy() for record in cohort]
    position = cohort.subjects.index(EXAMPLE)
    own = model.events_[(model.events_["subject"] == EXAMPLE) & (model.events_["atom"] == 0)]
    start = own["onset_sample"].iloc[2] + 15
    values[position][start : start + 12] += 60 * np.hanning(12)[:, None]
    spoilt = Cohort.from_arrays(values, sfreq=SFREQ, subjects=cohort.subjects)
    peaks = {
        "peak": np.argmax(model.dictionary_[0, :25, 0]),
        "valley": np.argmin(model.dictionary_[0, :25, 0]),
    }
    for name, sample in peaks.items():
        model.mark(name, 0, sample / SFREQ)
    cycles, landmarks = model.cycles(spoilt), model.landmarks(cohort)
    cycles = cycles[(cycles["subject"] == EXAMPLE) & (cycles["atom"] == 0)]
    landmarks = landmarks[landmarks["subject"] == EXAMPLE]
    signal = {"name": "angular velocity", "units": "deg/s", "sfreq": SFREQ}
    atom = model.personal_dictionary_[position, 0]
    return {
        "cycles": plotting.plot_cycles(values[position], cycles, atom, units=UNITS, sfreq=SFREQ),
        "landmarks": plotting.plot_landmarks(cohort[EXAMPLE].values, landmarks, **signal),
        "marks": plotting.plot_marks(model.dictionary_, model.marks_, SFREQ),
    }


def draw_people(model: PerCDL, cohort: Cohort) -> dict:
    """Return the pictures of groups, and of subjects among them."""
    curves = model.personal_dictionary_[:, 0]
    clusters = compare_groups(curves, cohort.groups, "patients", "controls").clusters
    deviation = measure_deviation(model, cohort.groups, "controls")
    people = {"subjects": model.subjects_}
    return {
        "group_comparison": plotting.plot_group_comparison(
            curves, cohort.groups, clusters, sfreq=SFREQ
        ),
        "deviation_ranking": plotting.plot_deviation_ranking(
            deviation.index, cohort.groups, reference="controls", **people
        ),
        "deviation_profile": plotting.plot_deviation_profile(
            deviation.profile[cohort.subjects.index(EXAMPLE), 0], subject=EXAMPLE, sfreq=SFREQ
        ),
        "embedding": plotting.plot_embedding(
            model.params_[:, 0], cohort.groups, highlight=[EXAMPLE], **people
        ),
        "changes": draw_changes(),
    }


def draw_changes() -> Axes:
    """Return the changes of people at three visits; two of them slow down."""
    rng = np.random.default_rng(0)
    persons, visits = np.repeat(np.arange(1, 16), 3), np.tile(["first", "second", "third"], 15)
    period = np.repeat(rng.normal(1.1, 0.1, 15), 3) + 0.02 * rng.normal(size=45)
    stable = measure_reliability(period, persons, visits)
    period[[4, 5, 26]] += [0.09, 0.16, 0.12]
    changes = measure_changes(period, [f"P{p:02d}" for p in persons], visits, stable)
    return plotting.plot_changes(changes, units="change of the period (s)")


if __name__ == "__main__":
    main()
