"""Time warps, and each step of the algorithm alone.

fig:transfo_illustration draws random warps. In fig:app:activations (CSC),
fig:app:validation_common (PerCDU) and fig:app:perso (IPU), two of Phi, A and Z are known and the
step finds the third; fig:sensitivity_analysis repeats IPU with other depths and widths. All in
double precision, so that the errors are those of the step and not of rounding.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from percdl.analysis import normalized_reconstruction_error
from percdl.datasets import SyntheticCohort, make_synthetic, onset_accuracy
from percdl.datasets.synthetic import common_patterns, draw_warps, personalize
from percdl.experiments.fits import PENALTY, panels
from percdl.experiments.study import Result, Study, lines
from percdl.plotting.style import COLORS, SHARED, color, label
from percdl.signals.reconstruction import rebuild
from percdl.steps.csc import encode
from percdl.steps.dictionary import update_personal
from percdl.steps.realignment import search
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals, Statistics
from percdl.transforms import TimeWarp
from percdl.transforms.base import WarpTransform

# Depths and widths that are drawn, the length of the atom, and the number of warps.
SHAPES = ((1, 3), (1, 10), (3, 3), (3, 10))
LENGTH, N_DRAWS = 50, 5
# The paper's number of steps; Gauss-Newton stops by itself long before.
N_STEPS = 250
SETTINGS = "S = 3, N = 500, K = 2, L = 50, r = 3, D = 3, W = 10"
# A warp counts as recovered if its largest error is at most this number of samples.
TOLERANCE = 0.5
# Depth and width of the data of fig:sensitivity_analysis.
TRUTH = (3, 10)
_encode = jax.jit(encode)
_count = jax.jit(segment_statistics, static_argnums=(2, 3, 4))
_equations = jax.jit(lambda f, *system: f.normal_equations(*system), static_argnums=0)
_warp = jax.jit(lambda f, params, length: f.warp(params, length, 1), static_argnums=(0, 2))


def fig_transfo_illustration(study: Study) -> Result:
    """fig:transfo_illustration: warps psi and personal atoms, the same at both scales."""
    rng, time = np.random.default_rng(0), np.linspace(0, 1, LENGTH)
    atom = common_patterns(LENGTH)[1]
    figure, axes = panels((11, 5), 2, len(SHAPES), sharex=True, sharey="row")
    found, frames = [], []
    for (depth, width), (top, bottom) in zip(SHAPES, axes.T, strict=True):
        transform = TimeWarp(depth, width)
        params = jnp.asarray(draw_warps(N_DRAWS, depth, width, rng))
        warps = np.asarray(transform.warp(params, LENGTH, 1))[:, 0] / (LENGTH - 1)
        atoms = np.asarray(transform.apply(params, jnp.asarray(atom)))[..., 0]
        slopes = np.diff(warps) * (LENGTH - 1)
        ours = f"{slopes.min():.2g} to {slopes.max():.2g}"
        found.append((f"slopes of psi, D = {depth}, W = {width}", "increasing (picture)", ours))
        top.plot([0, 1], [0, 1], color=SHARED, lw=2, label="identity")
        bottom.plot(time, atom[:, 0], color=SHARED, lw=2, label="common atom")
        for draw, (warp, own) in enumerate(zip(warps, atoms, strict=True)):
            top.plot(time, warp, color=color(draw), lw=1, label=f"draw {draw}")
            bottom.plot(time, own, color=color(draw), lw=1)
            about = {"depth": depth, "width": width, "draw": draw, "time": time}
            curves = {"warp": warp, "atom": atom[:, 0], "personal_atom": own}
            frames.append(pd.DataFrame({**about, **curves}))
        top.set(title=f"D = {depth}, W = {width}", ylabel="warped time (share)")
        label(bottom, "time (share of the atom)", "amplitude (a.u.)")
    for ax in axes.flat:
        ax.label_outer()
    for ax in axes[:, 0]:
        ax.legend(fontsize="small", frameon=False)
    settings = f"{N_DRAWS} draws each, rows of a rescaled to l1 norm 0.99"
    table = pd.concat(frames, ignore_index=True)
    return Result(lines(settings, found), {"": table}, figure)


@cache
def make_cohort(seed: int) -> SyntheticCohort:
    """Return the recordings of three subjects."""
    return make_synthetic(3, random_state=seed)


def find_events(data: SyntheticCohort) -> pd.DataFrame:
    """Return the activations that CSC finds with the true personal atoms."""
    with jax.enable_x64(True):
        events, _ = _encode(_signals(data), data.personal_dictionary, PENALTY)
        onset, atom, amplitude = (np.asarray(x) for x in events[:3])
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
        gram, transported = (np.stack([*map(np.asarray, x)]) for x in zip(*systems, strict=True))
    return update_personal(gram, transported, start)


def find_params(data: SyntheticCohort, transform: WarpTransform) -> Float[np.ndarray, "S K M"]:
    """Return the parameters that IPU finds from zero with the true atoms and activations."""
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        found = [
            np.asarray(_fit(transform, atom, moment[:, k], weight[:, k]))
            for k, atom in enumerate(data.dictionary)
        ]
    return np.stack(found, axis=1)


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
    events = Events(*(jnp.asarray(data.events[c]).reshape(shape) for c in columns))
    return jax.tree.map(np.asarray, _count(_signals(data), events, *data.dictionary.shape[:2], 0))


def _error(data: SyntheticCohort, personal: np.ndarray) -> float:
    """Return the reconstruction error of personal atoms at the true activations."""
    rebuilt = rebuild(data.cohort, data.events, personal)
    return normalized_reconstruction_error(data.cohort, rebuilt)


def _score(
    study: Study, score: Callable[[int], dict[str, float]], settings: str
) -> tuple[pd.DataFrame, str]:
    """Return the scores of one cohort per seed, and the settings."""
    seeds = study.pick(range(5), range(20))
    return study.sweep(score, seed=seeds), f"{SETTINGS}, {settings}, {len(seeds)} seeds"


def fig_activations(study: Study) -> Result:
    """fig:app:activations: CSC finds the activations; one cohort of three is drawn."""
    rows, settings = _score(study, score_activations, f"lambda = {PENALTY}, exact coder")
    exact, error = rows["onsets_exact"].mean(), rows["amplitude_error"].max()
    found = [
        ("onsets found to the sample", "recovered (picture)", f"{exact:.2%}"),
        ("activations that are not there", "-", str(rows["n_extra"].sum())),
        ("largest error of an amplitude", "-", f"{error:.1e} of 1"),
    ]
    return Result(lines(settings, found), {"": rows}, _draw_activations(make_cohort(0)))


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


def _draw_activations(data: SyntheticCohort) -> Figure:
    """Draw true and found activations of each subject as lines as high as their amplitude."""
    figure, axes = panels((10, 5), len(data.cohort), sharex=True, sharey=True)
    found = find_events(data)
    for ax, record in zip(axes[:, 0], data.cohort, strict=True):
        for k in range(len(data.dictionary)):
            (at, height), (there, size) = (
                e.query(f"subject == '{record.subject}' and atom == {k}")[
                    ["onset_sample", "amplitude"]
                ].T.to_numpy()
                for e in (data.events, found)
            )
            ax.vlines(at, 0, height, color=color(k), lw=6, alpha=0.35, label=f"true, atom {k}")
            ax.vlines(there, 0, size, color=SHARED, lw=1.2)
            ax.plot(there, size, "os"[k % 2], color=SHARED, ms=4, label=f"found, atom {k}")
        label(ax, "onset (samples)", f"subject {record.subject}\namplitude")
        ax.set(xlim=(0, record.n_times), ylim=(0, 1.5))
        ax.label_outer()
    axes[0, 0].legend(ncols=4, fontsize="small", frameon=False, loc="upper center")
    return figure


def fig_validation_common(study: Study) -> Result:
    """fig:app:validation_common: PerCDU finds the common atoms, codes and warps known."""
    rows, settings = _score(study, score_atoms, "one solve from the first subject's atoms")
    data = make_cohort(0)
    true, ours = (atoms[:, None, :, 0] for atoms in (data.dictionary, find_atoms(data)))
    median, largest = rows["distance"].median(), rows["distance"].max()
    start = rows["start_distance"].mean()
    distances = f"median {median:.1e}, largest {largest:.1e}; {start:.2f} at the start"
    found = [
        ("distance to the true common atoms", "recovered (picture)", distances),
        ("normalized reconstruction error, largest", "-", f"{rows['error'].max():.1e}"),
    ]
    figure = _draw_pairs(true, ours, "amplitude (a.u.)")
    return Result(lines(settings, found), {"": rows}, figure)


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
    good, near = rows["warps_recovered"].mean(), rows["warp_error_median"].median()
    ours = f"{good:.1%}; median of the largest deviation {near:.2g} samples"
    found = [
        (f"warps nowhere off by more than {TOLERANCE:g} samples", "recovered (picture)", ours),
        ("distance to the personal atoms, largest", "-", f"{rows['atom_distance'].max():.2g}"),
        ("normalized reconstruction error, largest", "-", f"{rows['error'].max():.1e}"),
    ]
    both = data.params, find_params(data, data.transform)
    true, ours = (_displacements(data, params).swapaxes(0, 1) for params in both)
    figure = _draw_pairs(true, ours, r"$\psi(t) - t$ (samples)")
    return Result(lines(settings, found), {"": rows}, figure)


def score_warps(seed: int) -> dict[str, float]:
    """Return how well IPU finds the warps and personal atoms of a cohort."""
    data = make_cohort(seed)
    params = find_params(data, data.transform)
    personal = personalize(data.transform, params, data.dictionary)
    deviation = np.abs(_displacements(data, params) - _displacements(data, data.params)).max(-1)
    gaps = personal - data.personal_dictionary
    distances = np.linalg.norm(gaps, axis=(2, 3)) / np.linalg.norm(data.dictionary, axis=(1, 2))
    return {
        "warps_recovered": (deviation <= TOLERANCE).mean(),
        "warp_error_median": np.median(deviation),
        "warp_error_max": deviation.max(),
        "atom_distance": distances.max(),
        "error": _error(data, personal),
    }


def _displacements(data: SyntheticCohort, params: np.ndarray) -> Float[np.ndarray, "S K L"]:
    """Return psi(t) - t in samples."""
    length = data.dictionary.shape[1]
    with jax.enable_x64(True):
        warps = _warp(data.transform, jnp.asarray(params), length)
        return np.asarray(warps)[..., 0, :] - np.arange(length)


def _draw_pairs(truth: np.ndarray, found: np.ndarray, name: str) -> Figure:
    """Draw true and found curves (K, S, L): a row per atom, a column per subject."""
    figure, axes = panels((11, 5), *truth.shape[:2], sharex=True, sharey=True)
    # The truth is wide and pale; the estimate is thin and dark on top of it.
    wide: dict[str, Any] = {"lw": 6, "alpha": 0.35, "solid_capstyle": "butt", "label": "true"}
    for (k, s), ax in np.ndenumerate(axes):
        ax.plot(truth[k, s], color=color(k), **wide)
        ax.plot(found[k, s], "--", color=SHARED, lw=1.5, label="found")
        ax.set_title(f"atom {k}" if axes.shape[1] == 1 else f"subject {s}, atom {k}")
        label(ax, "time (samples)", name)
        ax.label_outer()
    for ax in axes[:, 0]:
        ax.legend(fontsize="small", frameon=False)
    return figure


def fig_sensitivity(study: Study) -> Result:
    """fig:sensitivity_analysis: warps of every depth and width on data with warps (3, 10)."""
    paper = range(1, 7), (2, 4, 6, 8, 10, 12, 15, 20), range(20)
    depths, widths, seeds = study.pick(((1, 3, 5), (2, 6, 10, 15), range(2)), paper)
    rows = study.sweep(measure_sensitivity, depth=depths, width=widths, seed=seeds)
    groups = rows.groupby(["depth", "width"], sort=False, as_index=False)
    table = groups.agg({"error": "mean", "normalized_error": "mean"})
    found = []
    for depth, errors in table.groupby("depth")["error"]:
        quantity = f"error over W: standard deviation, D = {depth}"
        ours = f"{errors.std(ddof=0):.3f} around {errors.mean():.3f}"
        found.append((quantity, "falls with D (picture)", ours))
    settings = (
        f"S = 3, N = 500, true (D, W) = {TRUTH}, true atoms and activations, "
        f"W from {min(widths)} to {max(widths)}, {len(seeds)} seeds"
    )
    figure = _draw_sensitivity(table, len(seeds))
    return Result(lines(settings, found), {"": table, "_seeds": rows}, figure)


def measure_sensitivity(depth: int, width: int, seed: int) -> dict[str, float]:
    """Return the Euclidean distance of recordings and reconstructions, mean over subjects."""
    data, transform = make_cohort(seed), TimeWarp(depth, width)
    personal = personalize(transform, find_params(data, transform), data.dictionary)
    rebuilt = rebuild(data.cohort, data.events, personal)
    gaps = [record.values - own for record, own in zip(data.cohort, rebuilt, strict=True)]
    return {
        "error": float(np.linalg.norm(gaps, axis=(1, 2)).mean()),
        "normalized_error": normalized_reconstruction_error(data.cohort, rebuilt),
    }


def _draw_sensitivity(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw the errors as a map with numbers; the true depth and width are boxed."""
    errors = table.pivot(index="depth", columns="width", values="error")
    values, depths, widths = errors.to_numpy(), errors.index.tolist(), errors.columns.tolist()
    figure = Figure(figsize=(2 + 0.9 * len(widths), 1.6 + 0.6 * len(depths)), layout="constrained")
    ax = figure.add_subplot()
    image = ax.imshow(values, cmap="cividis", aspect="auto", vmin=0)
    for (row, column), value in np.ndenumerate(values):
        shade = "white" if value < 0.6 * values.max() else SHARED
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
    corner = widths.index(TRUTH[1]) - 0.5, depths.index(TRUTH[0]) - 0.5
    box = {"fill": False, "edgecolor": COLORS[1], "lw": 4, "label": "true D and W"}
    ax.add_patch(Rectangle(corner, 1, 1, **box))
    figure.legend(loc="outside upper right", frameon=False)
    ax.set_xticks(range(len(widths)), widths)
    ax.set_yticks(range(len(depths)), depths)
    label(ax, "width W (sines per layer)", "depth D (layers)")
    ax.set_title(f"Mean of {n_seeds} seeds", loc="left", fontsize="medium")
    figure.colorbar(image, label="reconstruction error\n(Euclidean distance per recording)")
    return figure
