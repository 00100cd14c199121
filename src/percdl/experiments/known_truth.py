"""Each step of the algorithm alone: two of Phi, A and Z are known, the step finds the third.

fig:app:activations (CSC), fig:app:validation_common (PerCDU) and fig:app:perso (IPU), in double
precision, so that the errors are those of the step and not of rounding.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets import SyntheticCohort, make_synthetic, onset_accuracy
from percdl.datasets.synthetic import personalize
from percdl.experiments.fits import panels
from percdl.experiments.study import Result, Study, lines
from percdl.plotting.style import FAINT, OBSERVED, SHARED, color, label
from percdl.signals.reconstruction import rebuild
from percdl.steps import percdu
from percdl.steps.csc import encode
from percdl.steps.realignment import search
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals, Statistics
from percdl.transforms.base import WarpTransform

# The paper's number of steps; Gauss-Newton stops by itself long before.
N_STEPS = 250
SETTINGS = "S = 3, N = 500, K = 2, L = 50, r = 3, D = 3, W = 10"
PENALTY = 1e-2
# A warp whose largest error is at most this many samples counts as recovered.
TOLERANCE = 0.5
# The truth is wide and pale; the estimate is thin and dark on top of it.
TRUE: dict[str, Any] = {"linewidth": 6, "alpha": 0.35, "solid_capstyle": "butt", "label": "true"}
FOUND: dict[str, Any] = {"linewidth": 1.5, "linestyle": "--", "color": SHARED}


@cache
def make_cohort(seed: int) -> SyntheticCohort:
    """Return the recordings of three subjects."""
    return make_synthetic(3, random_state=seed)


def find_events(data: SyntheticCohort) -> pd.DataFrame:
    """Return the activations that CSC finds with the true personal atoms."""
    with jax.enable_x64(True):
        events, _ = _encode(_signals(data), data.personal_dictionary, PENALTY)
        onset, atom, amplitude = (np.asarray(x) for x in events)
    used = np.nonzero(amplitude)
    columns = {"atom": atom[used], "onset_sample": onset[used], "amplitude": amplitude[used]}
    return pd.DataFrame({"subject": np.asarray(data.cohort.subjects)[used[0]], **columns})


def find_atoms(data: SyntheticCohort) -> Float[np.ndarray, "K L P"]:
    """Return the common atoms that PerCDU finds from the first subject's atoms."""
    start = data.personal_dictionary[0]
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        systems = [
            _equations(data.transform, data.params[:, k], atom, moment[:, k], weight[:, k])
            for k, atom in enumerate(start)
        ]
        gram, transported = (
            np.stack(list(map(np.asarray, x))) for x in zip(*systems, strict=True)
        )
    return percdu.update_dictionary(gram, transported, start)


def find_params(data: SyntheticCohort, transform: WarpTransform) -> Float[np.ndarray, "S K M"]:
    """Return the parameters that IPU finds from zero with the true atoms and activations."""
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        found = [
            np.asarray(_fit(transform, atom, moment[:, k], weight[:, k]))
            for k, atom in enumerate(data.dictionary)
        ]
    return np.stack(found, axis=1)


# Compiled, since a first call operation by operation would take seconds.
_encode = jax.jit(encode)
_count = jax.jit(segment_statistics, static_argnums=(2, 3, 4))
_equations = jax.jit(lambda f, *system: f.normal_equations(*system), static_argnums=0)
_warp = jax.jit(lambda f, params, length: f.warp(params, length, 1), static_argnums=(0, 2))


@partial(jax.jit, static_argnames="transform")
def _fit(transform, atom, moment, weight):
    """Fit from zero and from a monotone alignment, onsets fixed; keep the better fit."""
    zero = jnp.tile(transform.neutral(atom), (len(moment), 1))
    still = jnp.zeros(len(moment), jnp.int32)
    return search(transform, atom, moment, weight, (zero, still), still[:1], True, N_STEPS)[0]


def _signals(data: SyntheticCohort) -> Signals:
    values = jnp.asarray(np.stack([record.values for record in data.cohort]))
    return Signals(values, jnp.full(len(values), values.shape[1]), None)


def _statistics(data: SyntheticCohort) -> Statistics:
    """Return the statistics of the true segments, on the host."""
    columns = ("onset_sample", "atom", "amplitude")  # by subject, onsets increasing
    shape = len(data.cohort), -1
    events = Events(*(jnp.asarray(data.events[c].to_numpy().reshape(shape)) for c in columns))
    size = data.dictionary.shape[:2]
    return jax.tree.map(np.asarray, _count(_signals(data), events, *size, 0))


def _error(data: SyntheticCohort, personal: np.ndarray) -> float:
    """Return the reconstruction error of personal atoms at the true activations."""
    return normalized_reconstruction_error(
        data.cohort, rebuild(data.cohort, data.events, personal)
    )


def _score(
    study: Study, score: Callable[[int], dict[str, float]], settings: str
) -> tuple[pd.DataFrame, str]:
    """Return the scores of one cohort per seed, and the settings."""
    seeds = study.pick(range(5), range(20))
    return study.sweep(score, seed=seeds), f"{SETTINGS}, {settings}, {len(seeds)} seeds"


def fig_activations(study: Study) -> Result:
    """fig:app:activations: CSC finds the activations; one cohort of three is drawn."""
    rows, settings = _score(study, score_activations, f"lambda = {PENALTY}, exact coder")
    data = make_cohort(0)
    events = find_events(data)
    exact, error = rows["onsets_exact"].mean(), rows["amplitude_error"].max()
    found = [
        ("onsets found to the sample", "recovered (picture)", f"{exact:.2%}"),
        ("activations that are not there", "-", str(rows["n_extra"].sum())),
        ("largest error of an amplitude", "-", f"{error:.1e} of 1"),
    ]
    rebuilt = draw_reconstruction(data, events, data.dictionary, data.personal_dictionary)
    return Result(
        lines(settings, found),
        {"fig_activations": rows},
        {
            "fig_activations": draw_activations(data, events),
            "fig_activations_reconstruction": rebuilt,
        },
        "CSC finds the activations with the true personal atoms.",
    )


def score_activations(seed: int) -> dict[str, float]:
    """Return how well CSC finds the activations of a cohort."""
    data = make_cohort(seed)
    found = find_events(data)
    both = data.events.merge(found, on=["subject", "atom", "onset_sample"])
    return {
        "onsets_exact": onset_accuracy(found, data.events, tolerance=0),
        "n_true": len(data.events),
        "n_extra": len(found) - len(both),
        "amplitude_error": float(np.max(np.abs(both["amplitude_x"] - both["amplitude_y"]))),
    }


def draw_activations(data: SyntheticCohort, found: pd.DataFrame) -> Figure:
    """Draw true and found activations of each subject as lines as high as their amplitude."""
    figure, axes = panels((10, 5), len(data.cohort), sharex=True, sharey=True)
    for ax, record in zip(axes[:, 0], data.cohort, strict=True):
        for k in range(len(data.dictionary)):
            true, ours = (
                e[(e["subject"] == record.subject) & (e["atom"] == k)]
                for e in (data.events, found)
            )
            at, height = true["onset_sample"], true["amplitude"]
            ax.vlines(at, 0, height, color=color(k), lw=6, alpha=0.35, label=f"true, atom {k}")
            at, height = ours["onset_sample"], ours["amplitude"]
            ax.vlines(at, 0, height, color=SHARED, lw=1.2)
            ax.plot(at, height, "os"[k % 2], color=SHARED, ms=4, label=f"found, atom {k}")
        label(ax, "onset (samples)", f"subject {record.subject}\namplitude")
        ax.set(xlim=(0, record.n_times), ylim=(0, 1.5))
        ax.label_outer()
    axes[0, 0].legend(ncols=4, fontsize="small", frameon=False, loc="upper center")
    return figure


def fig_validation_common(study: Study) -> Result:
    """fig:app:validation_common: PerCDU finds the common atoms, codes and warps known."""
    rows, settings = _score(study, score_atoms, "one solve from the first subject's atoms")
    data = make_cohort(0)
    atoms = find_atoms(data)
    personal = personalize(data.transform, data.params, atoms)
    median, largest = rows["distance"].median(), rows["distance"].max()
    start = rows["start_distance"].mean()
    ours = f"median {median:.1e}, largest {largest:.1e}; {start:.2f} at the start"
    found = [
        ("distance to the true common atoms", "recovered (picture)", ours),
        ("normalized reconstruction error, largest", "-", f"{rows['error'].max():.1e}"),
    ]
    rebuilt = draw_reconstruction(data, data.events, atoms, personal)
    return Result(
        lines(settings, found),
        {"fig_validation_common": rows},
        {
            "fig_validation_common": draw_pairs(
                data.dictionary[:, None, :, 0], atoms[:, None, :, 0], "amplitude (a.u.)"
            ),
            "fig_validation_common_reconstruction": rebuilt,
        },
        "One linear solve finds the common atoms with the true codes and warps. A sample of the "
        "atom that no warp of the three subjects visits stays unknown, even though all recordings "
        "are reconstructed.",
    )


def score_atoms(seed: int) -> dict[str, float]:
    """Return how far PerCDU's atoms are from the truth."""
    data = make_cohort(seed)
    atoms = find_atoms(data)
    return {
        "distance": data.distance_to_truth(atoms),
        "start_distance": data.distance_to_truth(data.personal_dictionary[0]),
        "error": _error(data, personalize(data.transform, data.params, atoms)),
    }


def fig_perso(study: Study) -> Result:
    """fig:app:perso: IPU finds the warps, common atoms and codes known."""
    rows, settings = _score(study, score_warps, "Gauss-Newton from zero and from an alignment")
    data = make_cohort(0)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    good, near = rows["warps_recovered"].mean(), rows["warp_error_median"].median()
    ours = f"{good:.1%}; median of the largest deviation {near:.2g} samples"
    found = [
        (f"warps nowhere off by more than {TOLERANCE:g} samples", "recovered (picture)", ours),
        ("distance to the personal atoms, largest", "-", f"{rows['atom_distance'].max():.2g}"),
        ("normalized reconstruction error, largest", "-", f"{rows['error'].max():.1e}"),
    ]
    true, ours = (displacements(data, x).swapaxes(0, 1) for x in (data.params, params))
    rebuilt = draw_reconstruction(data, data.events, data.dictionary, personal)
    return Result(
        lines(settings, found),
        {"fig_perso": rows},
        {
            "fig_perso": draw_pairs(true, ours, r"$\psi(t) - t$ (samples)"),
            "fig_perso_reconstruction": rebuilt,
        },
        "IPU finds the warps with the true atoms and codes. Warps are compared as functions of "
        "time, since different parameters can give the same warp.",
    )


def score_warps(seed: int) -> dict[str, float]:
    """Return how well IPU finds the warps and personal atoms of a cohort."""
    data = make_cohort(seed)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    deviation = np.abs(displacements(data, params) - displacements(data, data.params)).max(-1)
    gaps = personal - data.personal_dictionary
    distances = np.linalg.norm(gaps, axis=(2, 3)) / np.linalg.norm(data.dictionary, axis=(1, 2))
    return {
        "warps_recovered": (deviation <= TOLERANCE).mean(),
        "warp_error_median": np.median(deviation),
        "warp_error_max": deviation.max(),
        "atom_distance": distances.max(),
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


def draw_pairs(
    truth: Float[np.ndarray, "K S L"], found: Float[np.ndarray, "K S L"], name: str
) -> Figure:
    """Draw true and found curves: a row per atom, a column per subject."""
    figure, axes = panels((11, 5), *truth.shape[:2], sharex=True, sharey=True)
    for (k, s), ax in np.ndenumerate(axes):
        _draw_pair(ax, truth[k, s], found[k, s], k)
        ax.set_title(f"atom {k}" if axes.shape[1] == 1 else f"subject {s}, atom {k}")
        label(ax, "time (samples)", name)
        ax.label_outer()
    for ax in axes[:, 0]:
        ax.legend(fontsize="small", frameon=False)
    return figure


def draw_reconstruction(
    data: SyntheticCohort,
    events: pd.DataFrame,
    dictionary: Float[np.ndarray, "K L P"],
    personal: Float[np.ndarray, "S K L P"],
) -> Figure:
    """Draw each recording with its reconstruction, and the atoms of each subject beside it."""
    n_subjects, n_atoms = personal.shape[:2]
    widths = [4, *[1.2] * n_atoms]
    figure, axes = panels((13, 2.3 * n_subjects), n_subjects, 1 + n_atoms, width_ratios=widths)
    rebuilt = rebuild(data.cohort, events, personal)
    for s, (first, *others) in enumerate(axes):
        first.plot(data.cohort[s].values[:, 0], color=FAINT, lw=5, label="recording")
        first.plot(rebuilt[s][:, 0], color=SHARED, lw=1, label="reconstruction")
        first.margins(x=0)
        first.set(ylim=(-1.3, 1.8), ylabel="amplitude (a.u.)")
        first.set_title(f"subject {s}", fontsize="medium")
        for k, ax in enumerate(others):
            ax.plot(dictionary[k, :, 0], ":", color=OBSERVED, lw=1, label="common atom")
            # Given or found, depending on the experiment.
            truth, used = data.personal_dictionary[s, k, :, 0], personal[s, k, :, 0]
            _draw_pair(ax, truth, used, k, "in use")
            ax.set_ylim(-1.3, 2.6)
            ax.set_title(f"atom {k}, subject {s}", fontsize="medium")
    for top, bottom in zip(axes[0], axes[-1], strict=True):
        top.legend(fontsize="x-small", frameon=False, loc="upper right")
        bottom.set_xlabel("time (samples)")
    return figure


def _draw_pair(
    ax: Axes, truth: np.ndarray, found: np.ndarray, atom: int, name: str = "found"
) -> None:
    ax.plot(truth, color=color(atom), **TRUE)
    ax.plot(found, label=name, **FOUND)
