"""A path of models in one call: the table and the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from percdl.estimators.base import BaseCDL


def selection_path(
    cohort: Any,
    grid: Mapping[str, Sequence[Any]],
    model: BaseCDL | None = None,
    ax: Axes | None = None,
    **options: Any,
) -> tuple[pd.DataFrame, Axes]:
    """Return the held-out scores of a grid of models, as a table and as a picture.

    Cost: that of `percdl.select`, ``n_folds`` fits of each model.

    Parameters
    ----------
    cohort, grid, model, **options
        As in `percdl.select`.
    ax : Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    table : DataFrame
        One row per model, see `percdl.analysis.Selection`.
    ax : Axes
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from percdl import PopCDL
    >>> waves = np.sin(np.arange(400).reshape(4, 100) / 3)
    >>> model = PopCDL(1, 19, init=waves[:1, :19, None], n_init=1, n_perso=0)
    >>> table, ax = selection_path(waves, {"penalty": [0.1, 5.0]}, model, n_folds=2)
    >>> table["chosen"].tolist(), ax.get_xlabel()
    ([True, False], 'penalty')
    """
    from percdl.analysis import select
    from percdl.plotting import plot_selection

    found = select(cohort, grid, model, **options)
    return found.table, plot_selection(found, ax)
