"""Each step of the algorithm alone: two of Phi, A and Z are known, the step finds the third.

fig:app:activations (CSC), fig:app:validation_common (PerCDU) and fig:app:perso (IPU), in double
precision, so that the errors are those of the step and not of rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets import SyntheticCohort, make_synthetic, onset_accuracy
from percdl.datasets.warping import personalize
from percdl.experiments.fits import panels
from percdl.experiments.study import Line, Result, Study
from percdl.plotting.style import FAINT, OBSERVED, SHARED, color, label, make_axes
from percdl.steps import percdu, robust
from percdl.steps.csc import encode
from percdl.steps.realignment import search
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals, Statistics
from percdl.transforms.base import WarpTransform

# The paper's number of steps; Gauss-Newton stops by itself long before.
N_STEPS = 250
N_SUBJECTS = 3
SETTINGS = "S = 3, N = 500, K = 2, L = 50, r = 3, D = 3, W = 10"
PENALTY = 1e-2
# A warp whose largest error is at most this many samples counts as recovered.
TOLERANCE = 0.5
# The truth is wide and pale; what was found is thin and dark on top of it.
TRUE: dict[str, Any] = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt"}
FOUND: dict[str, Any] = {"linewidth": 1.5, "linestyle": "--"}


class Codes(NamedTuple):
    """Activations in order of onset, arrays (S, E); empty slots have amplitude 0."""

    onset: np.ndarray
    atom: np.ndarray
    amplitude: np.ndarray


def true_codes(data: SyntheticCohort) -> Codes:
    """Return the activations that the recordings were made from."""
    columns = ("onset_sample", "atom", "amplitude")  # by subject, onsets increasing
    shape = len(data.cohort), -1
    return Codes(*(data.events[name].to_numpy().reshape(shape) for name in columns))


def find_codes(data: SyntheticCohort, penalty: float) -> Codes:
    """Return the activations that CSC finds with the true personal atoms."""
    with jax.enable_x64(True):
        events, _ = _encode(_signals(data), data.personal_dictionary, penalty)
        return Codes(*(np.asarray(x) for x in events))


def find_atoms(data: SyntheticCohort) -> np.ndarray:
    """Return the common atoms (K, L, P) that PerCDU finds from the first subject's atoms."""
    start = data.personal_dictionary[0]
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        systems = [
            _equations(data.transform, data.params[:, k], atom, moment[:, k], weight[:, k])
            for k, atom in enumerate(start)
        ]
        gram, transported = (
            np.stack([np.asarray(x) for x in sums]) for sums in zip(*systems, strict=True)
        )
    return percdu.update_dictionary(gram, transported, start)


def find_params(data: SyntheticCohort, transform: WarpTransform) -> np.ndarray:
    """Return the parameters (S, K, M) that IPU finds from zero with the true atoms and codes."""
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        found = [
            np.asarray(_fit(transform, atom, moment[:, k], weight[:, k]))
            for k, atom in enumerate(data.dictionary)
        ]
    return np.stack(found, axis=1)


def rebuild(codes: Codes, personal: np.ndarray, n_times: int) -> np.ndarray:
    """Return the signals (S, N, P) of codes and personal atoms (S, K, L, P)."""
    with jax.enable_x64(True):
        events = Events(*(jnp.asarray(x) for x in codes))
        return np.asarray(_rebuild(events, personal, n_times))


# Compiled, since a first call operation by operation would take seconds.
_encode = jax.jit(encode)
_rebuild = jax.jit(robust.rebuild, static_argnums=2)
_count = jax.jit(segment_statistics, static_argnums=(2, 3, 4))


@partial(jax.jit, static_argnames="transform")
def _equations(transform, params, atom, moment, weight):
    return transform.normal_equations(params, atom, moment, weight)


@partial(jax.jit, static_argnames="transform")
def _fit(transform, atom, moment, weight):
    """Fit from zero and from a monotone alignment, onsets fixed; keep the better fit."""
    zero = jnp.tile(transform.neutral(atom), (len(moment), 1))
    still = jnp.zeros(len(moment), jnp.int32)
    start = zero, still
    return search(transform, atom, moment, weight, start, still[:1], True, N_STEPS)[0]


@partial(jax.jit, static_argnames=("transform", "length"))
def _warp(transform, params, length):
    return transform.warp(params, length, 1)


def _signals(data: SyntheticCohort) -> Signals:
    values = np.stack([record.values for record in data.cohort])
    lengths = np.full(len(values), values.shape[1])
    return Signals(jnp.asarray(values), jnp.asarray(lengths), None)


def _statistics(data: SyntheticCohort) -> Statistics:
    """Return the statistics of the true segments, on the host."""
    n_atoms, length, _ = data.dictionary.shape
    events = Events(*(jnp.asarray(x) for x in true_codes(data)))
    return jax.tree.map(np.asarray, _count(_signals(data), events, n_atoms, length, 0))


def _cohort(seed: int = 0) -> SyntheticCohort:
    return make_synthetic(N_SUBJECTS, random_state=seed)


def _error(data: SyntheticCohort, personal: np.ndarray) -> float:
    """Return the reconstruction error of personal atoms at the true activations."""
    rebuilt = rebuild(true_codes(data), personal, data.cohort[0].n_times)
    return normalized_reconstruction_error(data.cohort, rebuilt)


def fig_activations(study: Study) -> Result:
    """fig:app:activations: CSC finds the activations; one cohort of three is drawn."""
    seeds, data = study.pick(range(5), range(20)), _cohort()
    rows = study.sweep(score_activations, seed=seeds)
    codes = find_codes(data, PENALTY)
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
        figures={
            "fig_activations": draw_activations(data, codes),
            "fig_activations_reconstruction": draw_reconstruction(
                data, codes, data.dictionary, data.personal_dictionary
            ),
        },
        reading="CSC finds the activations with the true personal atoms.",
    )


def score_activations(seed: int) -> dict[str, float]:
    """Return how well CSC finds the activations of a cohort."""
    data = _cohort(seed)
    codes = find_codes(data, PENALTY)
    rows, slots = np.nonzero(codes.amplitude)
    found = pd.DataFrame(
        {
            "subject": np.asarray(data.cohort.subjects)[rows],
            "atom": codes.atom[rows, slots],
            "onset_sample": codes.onset[rows, slots],
            "amplitude": codes.amplitude[rows, slots],
        }
    )
    both = data.events.merge(found, on=["subject", "atom", "onset_sample"])
    gap = both["amplitude_x"].to_numpy() - both["amplitude_y"].to_numpy()
    return {
        "onsets_exact": onset_accuracy(found, data.events, tolerance=0),
        "n_true": len(data.events),
        "n_extra": len(found) - len(both),
        "amplitude_error": float(np.abs(gap).max()),
    }


def draw_activations(data: SyntheticCohort, codes: Codes) -> Figure:
    """Draw true and found activations of each subject as lines as high as their amplitude."""
    figure, axes = panels((10, 5), len(data.cohort), sharex=True, sharey=True)
    looks = {"lw": TRUE["linewidth"], "alpha": TRUE["alpha"]}
    for (s, _), ax in np.ndenumerate(axes):
        for k in range(len(data.dictionary)):
            at, height = _of(true_codes(data), s, k)
            ax.vlines(at, 0, height, color=color(k), label=f"true, atom {k}", **looks)
            at, height = _of(codes, s, k)
            ax.vlines(at, 0, height, color=SHARED, lw=1.2)
            ax.plot(at, height, "os"[k % 2], color=SHARED, ms=4, label=f"found, atom {k}")
        label(ax, "", f"subject {s}\namplitude")
        ax.set_xlim(0, data.cohort[s].n_times)
    axes[0, 0].set_ylim(0, 1.5)
    axes[-1, 0].set_xlabel("onset (samples)")
    axes[0, 0].legend(ncols=4, fontsize="small", frameon=False, loc="upper center")
    return figure


def _of(codes: Codes, subject: int, atom: int) -> tuple[np.ndarray, np.ndarray]:
    here = (codes.atom[subject] == atom) & (codes.amplitude[subject] != 0)
    return codes.onset[subject, here], codes.amplitude[subject, here]


def fig_validation_common(study: Study) -> Result:
    """fig:app:validation_common: PerCDU finds the common atoms, codes and warps known."""
    seeds, data = study.pick(range(5), range(20)), _cohort()
    rows = study.sweep(score_atoms, seed=seeds)
    atoms = find_atoms(data)
    personal = personalize(data.transform, data.params, atoms)
    distance = rows["distance"].to_numpy()
    start, error = float(np.mean(rows["start_distance"])), float(np.max(rows["error"]))
    settings = f"{SETTINGS}, one solve from the first subject's atoms, {len(seeds)} seeds"
    return Result(
        lines=[
            Line(
                "distance to the true common atoms",
                "recovered (picture)",
                f"median {np.median(distance):.1e}, largest {distance.max():.1e}; "
                f"{start:.2f} at the start",
                settings,
            ),
            Line("normalized reconstruction error, largest", "-", f"{error:.1e}", settings),
        ],
        tables={"fig_validation_common": rows},
        figures={
            "fig_validation_common": draw_atoms(data, atoms),
            "fig_validation_common_reconstruction": draw_reconstruction(
                data, true_codes(data), atoms, personal
            ),
        },
        reading="One linear solve finds the common atoms with the true codes and warps. A sample "
        "of the atom that no warp of the three subjects visits stays unknown, even though all "
        "recordings are reconstructed.",
    )


def score_atoms(seed: int) -> dict[str, float]:
    """Return how far PerCDU's atoms are from the truth."""
    data = _cohort(seed)
    atoms = find_atoms(data)
    return {
        "distance": data.distance_to_truth(atoms),
        "start_distance": data.distance_to_truth(data.personal_dictionary[0]),
        "error": _error(data, personalize(data.transform, data.params, atoms)),
    }


def draw_atoms(data: SyntheticCohort, atoms: Float[np.ndarray, "K L P"]) -> Figure:
    """Draw true and found common atoms, and the start: the atoms of the first subject."""
    figure, axes = panels((9, 3.5), 1, len(atoms), sharey=True)
    for k, ax in enumerate(axes[0]):
        start = data.personal_dictionary[0, k, :, 0]
        ax.plot(start, ":", color=OBSERVED, label="start (subject 0)")
        _draw_pair(ax, data.dictionary[k, :, 0], atoms[k, :, 0], color(k))
        ax.set_title(f"common atom {k}")
        label(ax, "time (samples)", "amplitude (a.u.)" if k == 0 else "")
        ax.set_ylim(-1.3, 1.9)
        ax.legend(fontsize="small", frameon=False, ncols=3, loc="upper center")
    return figure


def fig_perso(study: Study) -> Result:
    """fig:app:perso: IPU finds the warps, common atoms and codes known."""
    seeds, data = study.pick(range(5), range(20)), _cohort()
    rows = study.sweep(score_warps, seed=seeds)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
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
        figures={
            "fig_perso": draw_warps(data, params),
            "fig_perso_reconstruction": draw_reconstruction(
                data, true_codes(data), data.dictionary, personal
            ),
        },
        reading="IPU finds the warps with the true atoms and codes. Warps are compared as "
        "functions of time, since different parameters can give the same warp.",
    )


def score_warps(seed: int) -> dict[str, float]:
    """Return how well IPU finds the warps and personal atoms of a cohort."""
    data = _cohort(seed)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    deviation = np.abs(displacements(data, params) - displacements(data, data.params)).max(-1)
    gaps = personal - data.personal_dictionary
    distances = np.linalg.norm(gaps, axis=(2, 3)) / np.linalg.norm(data.dictionary, axis=(1, 2))
    return {
        "warps_recovered": float((deviation <= TOLERANCE).mean()),
        "warp_error_median": float(np.median(deviation)),
        "warp_error_max": float(deviation.max()),
        "atom_distance": float(distances.max()),
        "error": _error(data, personal),
    }


def displacements(
    data: SyntheticCohort, params: Float[np.ndarray, "S K M"]
) -> Float[np.ndarray, "S K L"]:
    """Return psi(t) - t in samples."""
    length = data.dictionary.shape[1]
    with jax.enable_x64(True):
        warps = _warp(data.transform, jnp.asarray(params), length)
        return np.asarray(warps)[..., 0, :] - np.arange(length)


def draw_warps(data: SyntheticCohort, params: Float[np.ndarray, "S K M"]) -> Figure:
    """Draw true and found warps as displacements: a row per atom, a column per subject."""
    truth, found = displacements(data, data.params), displacements(data, params)
    n_subjects, n_atoms, _ = truth.shape
    figure, axes = panels((11, 5), n_atoms, n_subjects, sharex=True, sharey=True)
    for (k, s), ax in np.ndenumerate(axes):
        _draw_pair(ax, truth[s, k], found[s, k], color(k))
        ax.set_title(f"subject {s}, atom {k}", fontsize="medium")
    for ax in axes[-1]:
        ax.set_xlabel("time t (samples)")
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\psi(t) - t$ (samples)")
        ax.legend(fontsize="small", frameon=False)
    return figure


def draw_reconstruction(
    data: SyntheticCohort,
    codes: Codes,
    dictionary: Float[np.ndarray, "K L P"],
    personal: Float[np.ndarray, "S K L P"],
) -> Figure:
    """Draw each recording with its reconstruction, and the atoms of each subject beside it."""
    n_subjects, n_atoms = personal.shape[:2]
    figure = Figure(figsize=(13, 2.3 * n_subjects), layout="constrained")
    grid = figure.add_gridspec(n_subjects, 1 + n_atoms, width_ratios=[4, *[1.2] * n_atoms])
    rebuilt = rebuild(codes, personal, data.cohort[0].n_times)
    for s in range(n_subjects):
        ax = make_axes(figure.add_subplot(grid[s, 0]))
        ax.plot(data.cohort[s].values[:, 0], color=FAINT, lw=5, label="recording")
        ax.plot(rebuilt[s, :, 0], color=SHARED, lw=1, label="reconstruction")
        ax.margins(x=0)
        ax.set_ylim(-1.3, 1.8)
        ax.set_title(f"subject {s}", fontsize="medium")
        label(ax, "", "amplitude (a.u.)")
        for k in range(n_atoms):
            panel = make_axes(figure.add_subplot(grid[s, 1 + k]))
            panel.plot(dictionary[k, :, 0], ":", color=OBSERVED, lw=1, label="common atom")
            # Given or found, depending on the experiment.
            truth, used = data.personal_dictionary[s, k, :, 0], personal[s, k, :, 0]
            _draw_pair(panel, truth, used, color(k), "in use")
            panel.set_ylim(-1.3, 2.6)
            panel.set_title(f"atom {k}, subject {s}", fontsize="medium")
    for ax in figure.axes[-1 - n_atoms :]:
        ax.set_xlabel("time (samples)")
    for ax in figure.axes[: 1 + n_atoms]:
        ax.legend(fontsize="x-small", frameon=False, loc="upper right")
    return figure


def _draw_pair(
    ax: Axes, truth: np.ndarray, found: np.ndarray, tint: str, name: str = "found"
) -> None:
    ax.plot(truth, color=tint, label="true", **TRUE)
    ax.plot(found, color=SHARED, label=name, **FOUND)
