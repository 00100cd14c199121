"""Sums over the subjects of a block, in double precision whatever the fit is in.

They then do not depend on how subjects are grouped, to far less than the next dictionary is
rounded by: a fit in single precision is the same for chunks of any size.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from percdl.algorithm import programs
from percdl.algorithm.settings import Settings
from percdl.steps.types import Statistics


def add_population(
    settings: Settings, statistics: Statistics, dictionary: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the moments (K, L + 2R, P) and weights (K, L + 2R, Q) that CDU needs."""
    with jax.enable_x64(True):
        terms = _in_double((statistics, dictionary))
        moment, weight = programs.add_up(*terms, settings.by_subject)
        return np.asarray(moment), np.asarray(weight)


def add_personal(
    settings: Settings, statistics: Statistics, dictionary: Any, params: Any
) -> dict[str, np.ndarray]:
    """Return what PerCDU, centering and searching need, by the names of `Summary`."""
    with jax.enable_x64(True):
        summary = programs.summarize(
            settings.transform,
            *_in_double((dictionary, statistics, params)),
            settings.by_subject,
            settings.refits,
            bool(settings.shifts),
            settings.copy_steps,
        )
        return {name: np.asarray(total) for name, total in summary._asdict().items()}


def _in_double(terms: Any) -> Any:
    return jax.tree.map(lambda term: term.astype(float), terms)
