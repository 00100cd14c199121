"""The models that all experiments compare: synthetic fits, errors, statistics and pictures."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats
from sklearn.base import clone

from percdl.datasets import SyntheticCohort
from percdl.estimators import IndCDL, PerCDL, PopCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import NoActivationWarning
from percdl.experiments.study import as_printed
from percdl.plotting.style import COLORS, OBSERVED, make_axes
from percdl.signals import Cohort
from percdl.signals.reconstruction import normalized_reconstruction_error, rebuild

METHODS = ("PerCDL", "PopCDL", "IndCDL")
BARYCENTER = "IndCDL barycenter"
PENALTY = 1e-2
MODELS: dict[str, tuple[type[BaseCDL], dict[str, Any]]] = {
    "PerCDL": (PerCDL, {}),
    "PerCDL, as printed": (PerCDL, as_printed()),
    "PopCDL": (PopCDL, {}),
    "IndCDL": (IndCDL, {}),
}
FLOOR = "gauge floor"
LOOKS: dict[str, dict[str, Any]] = {
    "PerCDL": {"color": COLORS[0], "marker": "o"},
    "PerCDL, as printed": {"color": COLORS[5], "marker": "v", "linestyle": "--"},
    "PopCDL": {"color": COLORS[1], "marker": "s"},
    "IndCDL": {"color": COLORS[2], "marker": "^"},
    FLOOR: {"color": OBSERVED, "linestyle": ":"},
}
SETTINGS = "K = 2, L = 50, r = 3, D = 3, W = 10, lambda = 0.01, rounds 5 + 5"


def fit(name: str, data: SyntheticCohort, **changes: Any) -> BaseCDL:
    """Fit one of `MODELS` with the paper's settings, from the first subject's atoms."""
    kind, options = MODELS[name]
    start = data.personal_dictionary[0]
    model = kind(*start.shape[:2], penalty=PENALTY, init=start, progress=False)
    if kind is PerCDL:
        model.set_params(transformation=data.transform)
    with warnings.catch_warnings():
        # A subject that loses an atom is part of what is measured.
        warnings.simplefilter("ignore", NoActivationWarning)
        return model.set_params(**options, **changes).fit(data.cohort)


def error_of_fit(model: BaseCDL, cohort: Cohort, truth: Cohort | None = None) -> float:
    """Return the normalized reconstruction error (decision 12) of a fit, or against a truth."""
    rebuilt = rebuild(cohort, model.events_, model.personal_dictionary_)
    return normalized_reconstruction_error(truth or cohort, rebuilt)


def errors_of_fits(models: Mapping[str, BaseCDL], cohort: Cohort) -> dict[str, float]:
    """Return the errors of fits, and of coding with the mean of IndCDL's atoms (`BARYCENTER`)."""
    mean = np.nanmean(models["IndCDL"].personal_dictionary_, axis=0)
    no_rounds = {"algorithm__population_rounds": 0, "algorithm__personal_rounds": 0}
    model: Any = clone(models["PopCDL"])
    coded = model.set_params(init=mean, **no_rounds).fit(cohort)
    return {name: error_of_fit(m, cohort) for name, m in {**models, BARYCENTER: coded}.items()}


def unit(curves: Float[np.ndarray, "... L"]) -> Float[np.ndarray, "... L"]:
    """Return curves at unit norm; a zero curve stays zero."""
    norms = np.linalg.norm(curves, axis=-1, keepdims=True)
    return curves / np.where(norms > 0, norms, 1)


def choose(table: Any, **chosen: Any) -> Any:
    """Return the rows that have the chosen values."""
    for name, wanted in chosen.items():
        table = table[table[name] == wanted]
    return table


def select(table: Any, by: str, value: str, **chosen: Any) -> dict[Any, Any]:
    """Return a column by another one, for the rows that have the chosen values.

    >>> table = pd.DataFrame({"S": [1, 2, 1], "method": ["a", "a", "b"], "mean": [0.5, 0.25, 3]})
    >>> select(table, "S", "mean", method="a")
    {1: 0.5, 2: 0.25}
    """
    return choose(table, **chosen).set_index(by)[value].to_dict()


def confidence(rows: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Return mean and 95 % confidence limits (Student) of a value over the seeds of each group.

    >>> rows = pd.DataFrame({"S": [1, 1], "seed": [0, 1], "distance": [1.0, 3.0]})
    >>> confidence(rows, ["S"], "distance")["mean"].tolist()
    [2.0]
    """
    groups = rows.groupby(by, sort=False)[value]
    table = groups.agg(["mean", "sem", "count"]).reset_index()
    reach = table["sem"] * stats.t.ppf(0.975, np.maximum(table["count"] - 1, 1))
    return table.assign(low=table["mean"] - reach, high=table["mean"] + reach)


def loglog_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power law fitted to the points; NaN for a single point."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) > 1 else float("nan")


def panels(
    size: tuple[float, float], rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Return a new figure and its axes (rows, columns); ``options`` go to `Figure.subplots`."""
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.flat:
        make_axes(ax)
    return figure, axes


def legend_below(figure: Figure, n_columns: int = 3) -> None:
    """Add the legend of the first axes below all of them."""
    entries = figure.axes[0].get_legend_handles_labels()
    figure.legend(*entries, loc="outside lower center", ncols=n_columns)


def draw_band(ax: Axes, part: pd.DataFrame, x: str, color: str, alpha: float) -> None:
    """Fill the confidence limits of a curve; a logarithmic axis cannot show zero."""
    low = np.maximum(part["low"], part["mean"] / 10)
    ax.fill_between(part[x], low, part["high"], color=color, alpha=alpha, lw=0)
