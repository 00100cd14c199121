"""fig:app:gaussian_noise: personal atoms and reconstruction under Gaussian noise."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from percdl.datasets import make_synthetic, personal_atom_distance
from percdl.experiments.progress import follow
from percdl.experiments.result import Line, Result, Study
from percdl.experiments.studies.residuals import rebuild_fit
from percdl.experiments.studies.synthetic_fits import LOOKS, PENALTY, SETTINGS, confidence, fit
from percdl.plotting.style import label, make_axes
from percdl.signals.reconstruction import normalized_reconstruction_error

METHODS = ("PerCDL", "PopCDL", "IndCDL")
PAPER_LEVELS, SMALL_LEVELS = (-5, 0, 5, 10, 15, 20, 25, 30), (0, 10, 30)
# Below this SNR, the paper says, PerCDL and PopCDL do better than IndCDL.
NOISY = 20
N_SUBJECTS, N_TIMES = 32, 1000
QUANTITIES = {
    "euclidean": "Euclidean distance to the personal atoms",
    "dtw": "DTW distance to the personal atoms",
    "error_clean": "error of the clean signals",
    "error_given": "error of the recordings as given",
}
DISTANCES, ERRORS = ("euclidean", "dtw"), ("error_clean", "error_given")
# Of the input signals' error the paper says this, without a number; of the clean ones' nothing.
SAID_OF_ERRORS = {
    "error_clean": "-",
    "error_given": "PopCDL and PerCDL degrade relatively less than IndCDL under high noise levels "
    f"(SNR < {NOISY})",
}
# The paper's price of an activation lies far below loud noise; "auto" follows the noise.
PENALTIES = {str(PENALTY): PENALTY, "auto": "auto"}
FIXED = str(PENALTY)


def run(study: Study) -> Result:
    """Measure and draw distances and errors at all noise levels."""
    levels, seeds = study.pick((SMALL_LEVELS, range(3)), (PAPER_LEVELS, range(10)))
    rows = measure(study, levels, seeds)
    table = summarize(rows)
    return Result(
        lines=_lines(table, len(seeds)),
        tables={"fig_gaussian_noise": table, "fig_gaussian_noise_seeds": rows},
        figures={"fig_gaussian_noise": draw(table, len(seeds))},
        reading=_read(table),
    )


def measure(
    study: Study,
    levels: Sequence[int],
    seeds: Sequence[int],
    n_subjects: int = N_SUBJECTS,
    n_times: int = N_TIMES,
) -> pd.DataFrame:
    """Return distances and errors, one row per level, seed, penalty and method."""
    rows = []
    for snr_db in follow(levels, "SNR in dB"):
        for seed in seeds:
            for penalty in PENALTIES:
                for method in METHODS:
                    key = {
                        "S": n_subjects, "N": n_times, "snr_db": snr_db, "seed": seed,
                        "penalty": penalty, "method": method,
                    }  # fmt: skip
                    rows.append(study.ledger.row(key, lambda key=key: _score(**key)))
    return pd.DataFrame(rows)


def _score(S: int, N: int, snr_db: int, seed: int, penalty: str, method: str) -> dict[str, float]:
    clean = make_synthetic(S, N, random_state=seed)
    data = make_synthetic(S, N, snr_db=snr_db, random_state=seed)
    model = fit(method, data, penalty=PENALTIES[penalty])
    rebuilt = rebuild_fit(model, data.cohort)
    atoms = model.personal_dictionary_, clean.personal_dictionary
    return {
        **{metric: personal_atom_distance(*atoms, metric) for metric in DISTANCES},
        "error_clean": normalized_reconstruction_error(clean.cohort, rebuilt),
        "error_given": normalized_reconstruction_error(data.cohort, rebuilt),
        "penalty_used": model.penalty_,
    }


def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and 95 % confidence limits of every quantity over seeds."""
    by = ["penalty", "snr_db", "method"]
    frames = [confidence(rows, by, name).assign(quantity=name) for name in QUANTITIES]
    return pd.concat(frames, ignore_index=True)


def mean_by_level(
    table: pd.DataFrame, quantity: str, method: str, penalty: str = FIXED
) -> dict[int, float]:
    """Return the means of one curve."""
    chosen = table.query("quantity == @quantity and method == @method and penalty == @penalty")
    return dict(zip(chosen["snr_db"].tolist(), chosen["mean"].tolist(), strict=True))


def draw(table: pd.DataFrame, n_seeds: int) -> Figure:
    """Draw one panel per quantity: solid with the paper's penalty, dashed with "auto"."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for ax, (quantity, name) in zip(axes.flat, QUANTITIES.items(), strict=True):
        _draw_quantity(make_axes(ax), table.query(f"quantity == '{quantity}'"))
        ax.set_title(name)
    for above, below in zip(*axes, strict=True):
        above.set_ylabel("distance, atoms at unit norm")
        label(below, "signal-to-noise ratio (dB)", "normalized reconstruction error")
    axes[0, 0].legend(frameon=False, fontsize="small")
    figure.suptitle(f"Mean of {n_seeds} seeds; bands: 95 % confidence, fixed penalty")
    return figure


def _draw_quantity(ax: Axes, table: pd.DataFrame) -> None:
    for penalty, line in zip(PENALTIES, ("-", "--"), strict=True):
        for method in METHODS:
            part = table.query("method == @method and penalty == @penalty")
            look = {**LOOKS[method], "linestyle": line}
            name = f"{method}, penalty {penalty}"
            ax.plot(part["snr_db"], part["mean"], label=name, ms=5, **look)
            if penalty != FIXED:
                continue  # bands of these would hide those of the paper's setting
            low = part["low"].clip(lower=part["mean"] / 10)  # the axis has no place for zero
            ax.fill_between(
                part["snr_db"], low, part["high"], color=look["color"], alpha=0.15, lw=0
            )
    ax.set_yscale("log")


def _lines(table: pd.DataFrame, n_seeds: int) -> list[Line]:
    settings = f"S = {N_SUBJECTS}, N = {N_TIMES}, {SETTINGS}, {n_seeds} seeds"
    adapted = settings.replace(f"lambda = {PENALTY}", 'penalty="auto"')
    closer = f"PerCDL and PopCDL closer than IndCDL below {NOISY} dB"
    lines = [
        Line(f"{name}, {_levels(table)}", said, _list(table, quantity, penalty), how)
        for quantity, name in QUANTITIES.items()
        for penalty, said, how in (
            (FIXED, closer if quantity in DISTANCES else "-", settings),
            ("auto", "-", adapted),
        )
    ]
    return lines + [
        Line(
            f"rise of the {QUANTITIES[name]} {_span(table)}, difference and ratio",
            SAID_OF_ERRORS[name],
            _rises(table, name),
            settings,
        )
        for name in ERRORS
    ]


def rise(table: pd.DataFrame, quantity: str, method: str) -> tuple[float, float]:
    """Return difference and ratio of an error at the loudest noise to that at the faintest."""
    curve = mean_by_level(table, quantity, method)
    loudest, faintest = curve[min(curve)], curve[max(curve)]
    return loudest - faintest, loudest / faintest


def _rises(table: pd.DataFrame, quantity: str) -> str:
    rises = {method: rise(table, quantity, method) for method in METHODS}
    return "; ".join(f"{m} {more:+.2g}, {times:.3g} times" for m, (more, times) in rises.items())


def _span(table: pd.DataFrame) -> str:
    levels = table["snr_db"].tolist()
    return f"from {max(levels)} to {min(levels)} dB"


def _levels(table: pd.DataFrame) -> str:
    levels = list(dict.fromkeys(table["snr_db"].tolist()))
    return f"at {', '.join(map(str, levels))} dB"


def _list(table: pd.DataFrame, quantity: str, penalty: str) -> str:
    return "; ".join(
        f"{method} "
        + ", ".join(f"{v:.2g}" for v in mean_by_level(table, quantity, method, penalty).values())
        for method in METHODS
    )


def _read(table: pd.DataFrame) -> str:
    parts = [_compare(table, name, method) for name in DISTANCES for method in METHODS[:2]]
    return " ".join(
        [
            f"With the paper's penalty, at levels below {NOISY} dB: {'; '.join(parts)}.",
            *(_read_rise(table, name) for name in ERRORS),
            _read_penalty(table),
        ]
    )


def _read_rise(table: pd.DataFrame, quantity: str) -> str:
    rises = {method: rise(table, quantity, method) for method in METHODS}
    by_difference, by_ratio = (
        " and ".join(m for m in METHODS[:2] if rises[m][measure] < rises["IndCDL"][measure])
        or "neither PerCDL nor PopCDL"
        for measure in range(2)
    )
    return (
        f"The {QUANTITIES[quantity]} rises {_span(table)} by less than IndCDL's for "
        f"{by_difference}, and by a smaller factor for {by_ratio} ({_rises(table, quantity)})."
    )


def levels_won(
    table: pd.DataFrame, quantity: str, method: str, penalty: str = FIXED
) -> tuple[list[int], list[int]]:
    """Return the noisy levels at which a method is below IndCDL, and those where it is not."""
    rival = mean_by_level(table, quantity, "IndCDL", penalty)
    own = mean_by_level(table, quantity, method, penalty)
    noisy = [level for level in own if level < NOISY]
    won = [level for level in noisy if own[level] < rival[level]]
    return won, [level for level in noisy if level not in won]


def _compare(table: pd.DataFrame, quantity: str, method: str) -> str:
    won, lost = levels_won(table, quantity, method)
    where = "all" if not lost else (f"{', '.join(map(str, won))} dB only" if won else "none")
    return f"{QUANTITIES[quantity]}, {method} below IndCDL at {where}"


def _read_penalty(table: pd.DataFrame) -> str:
    noisiest = min(table["snr_db"].tolist())
    fixed, auto = (
        mean_by_level(table, "error_clean", "PerCDL", penalty)[noisiest] for penalty in PENALTIES
    )
    verb, why = "does not lower", ""
    if auto < fixed:
        verb, why = "lowers", ": with a price far below the noise, activations fit noise too"
    return (
        f'At {noisiest} dB, penalty="auto" {verb} PerCDL\'s error of the clean signals '
        f"({fixed:.2g} with {FIXED}, {auto:.2g} with auto){why}."
    )
