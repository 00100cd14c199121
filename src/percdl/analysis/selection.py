"""Which numbers to take: held-out scores along a path of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid

from percdl.estimators import PerCDL
from percdl.estimators.base import BaseCDL
from percdl.exceptions import InvalidParameterError
from percdl.signals import as_cohort
from percdl.transforms import TimeWarp

WARP = ("depth", "width")


@dataclass(frozen=True)
class Selection:
    """Held-out scores of several models, and the one to take.

    Attributes
    ----------
    table : DataFrame
        One row per model, simplest first: the parameters of the grid, ``score`` (mean over
        folds), ``error`` (its standard error), ``chosen``.
    chosen : dict
        Parameters of the simplest model whose score is within one standard error of the best.
    model : estimator
        The model with these parameters, not fitted.
    """

    table: pd.DataFrame
    chosen: dict[str, Any]
    model: BaseCDL

    @property
    def names(self) -> list[str]:
        """The parameters that vary."""
        return list(self.chosen)

    def __repr__(self) -> str:
        """Say which model is chosen; the table is long."""
        row = self.table[self.table["chosen"]].iloc[0]
        given = ", ".join(f"{name}={value!r}" for name, value in self.chosen.items())
        return (
            f"Selection({given}; held-out score {row['score']:.3f} +- {row['error']:.3f}, "
            f"best of {len(self.table)} {self.table['score'].max():.3f})"
        )


def select(
    cohort: Any,
    grid: Mapping[str, Sequence[Any]],
    model: BaseCDL | None = None,
    *,
    n_folds: int = 3,
    random_state: int | None = 0,
) -> Selection:
    """Fit every model of a grid to some subjects and score it on the others, in turn.

    The score is the share of energy explained in people never seen (`PerCDL.score`). It hardly
    ever falls as a model grows, so the simplest model within one standard error of the best is
    chosen: fewest atoms, then fewest parameters, then the highest penalty. Cost: ``n_folds`` fits
    of each model.

    Parameters
    ----------
    cohort : Cohort, list of arrays (n_times, n_channels), array (S, N, P) or (S, N)
        The recordings.
    grid : dict of name to list of values
        Arguments of the model, such as ``n_atoms``, ``penalty`` or ``transform``; ``depth`` and
        ``width`` stand for ``transform=TimeWarp(depth, width)``.
    model : estimator, optional
        All other arguments; ``PerCDL(random_state=0)`` by default.
    n_folds : int
        Groups of subjects, each held out once.
    random_state : int, optional
        Decides who is held out together.

    Returns
    -------
    Selection
        `percdl.plotting.plot_selection` draws it.

    Examples
    --------
    >>> from percdl import PopCDL
    >>> waves = np.sin(np.arange(600).reshape(6, 100) / 3)
    >>> found = select(waves, {"penalty": [0.1, 5.0]}, PopCDL(atom_length=19, random_state=0))
    >>> found.chosen
    {'penalty': 5.0}
    """
    base = PerCDL(random_state=0, progress=False) if model is None else model
    cohort = as_cohort(cohort)
    points = _points(grid, base)
    if not 2 <= n_folds <= len(cohort):
        raise InvalidParameterError(
            f"`select(n_folds={n_folds})` must be at least 2 and at most the number of "
            f"recordings, {len(cohort)}."
        )
    folds = KFold(n_folds, shuffle=True, random_state=random_state)
    candidates = [{k: [v] for k, v in _arguments(point, base).items()} for point in points]
    on_error: Any = "raise"
    search = GridSearchCV(clone(base), candidates, cv=folds, refit=False, error_score=on_error)
    scores = search.fit(cohort).cv_results_
    table = pd.DataFrame(points)
    table["score"] = scores["mean_test_score"]
    table["error"] = scores["std_test_score"] / np.sqrt(n_folds - 1)
    order = sorted(range(len(points)), key=lambda i: _size(points[i], base, cohort.n_channels))
    table = table.iloc[order].reset_index(drop=True)
    best = table.loc[table["score"].idxmax()]
    first = int((table["score"] >= best["score"] - best["error"]).to_numpy().argmax())
    table["chosen"] = table.index == first
    chosen = points[order[first]]
    return Selection(table, chosen, _with(base, chosen))


def _points(grid: Mapping[str, Sequence[Any]], base: BaseCDL) -> list[dict[str, Any]]:
    """Return all combinations, each in the order of the grid."""
    allowed = {*base.get_params(deep=False), *(WARP if isinstance(base, PerCDL) else ())}
    unknown = [name for name in grid if name not in allowed]
    if unknown or not grid:
        raise InvalidParameterError(
            f"`select(grid={dict(grid)!r})` needs arguments of {type(base).__name__}"
            f"{f', which {unknown[0]!r} is not' if unknown else ''}: "
            f"{', '.join(sorted(allowed))}."
        )
    return [{name: point[name] for name in grid} for point in ParameterGrid(dict(grid))]


def _arguments(point: dict[str, Any], base: BaseCDL) -> dict[str, Any]:
    """Return a point as arguments of the model: depth and width make a transform."""
    arguments = {name: value for name, value in point.items() if name not in WARP}
    if len(arguments) < len(point):
        now = base._get_transform()
        if not isinstance(now, TimeWarp):
            raise InvalidParameterError(
                f"`select` varies `depth` and `width` of a TimeWarp, but the transform is "
                f"{now!r}. Vary `transform` instead, by a list of transforms."
            )
        changes = {name: point[name] for name in WARP if name in point}
        arguments["transform"] = replace(now, **changes)
    return arguments


def _size(point: dict[str, Any], base: BaseCDL, n_channels: int) -> tuple[float, float, float]:
    """Return how large a model is: atoms, free parameters, and how cheap activations are."""
    model = _with(base, point)
    length = 0 if model.atom_length == "auto" else int(model.atom_length)
    n_params = model._get_transform().n_moves(length, n_channels)
    price = model.penalty if model.penalty_ratio is None else model.penalty_ratio
    return (
        0.0 if model.n_atoms == "auto" else float(model.n_atoms),
        float(n_params),
        0.0 if price == "auto" else -float(price),
    )


def _with(base: BaseCDL, point: dict[str, Any]) -> BaseCDL:
    """Return the model of a point, not fitted."""
    model: Any = clone(base)
    return model.set_params(**_arguments(point, base))
