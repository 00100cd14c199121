"""How large an ordinary subject's contribution is."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.estimators.base import BaseCDL
from percdl.estimators.first_dictionary import check_atoms, given_atoms
from percdl.exceptions import InvalidParameterError
from percdl.federated.agreement import choices_of
from percdl.federated.contributions import contributions
from percdl.federated.privacy import check_private
from percdl.federated.private import ROWS
from percdl.runtimes.in_process import InProcess
from percdl.signals import as_cohort
from percdl.steps.cdu import normalize


def suggest_clip(model: BaseCDL, X: Any, quantile: float = 0.75) -> float:
    """Return a clip for `Privacy`, from recordings that need no protection.

    Never from those of the federation: the clip is public, and would tell of them.

    Parameters
    ----------
    model : PerCDL or PopCDL
        As it will be fitted, with a first dictionary that is an array.
    X : Cohort or arrays
        Public recordings, or those of people who agreed.
    quantile : float
        Share of these subjects that would not be clipped.

    Returns
    -------
    float
        The quantile of the contributions' norms in a round of each phase, for one atom.

    Examples
    --------
    >>> from percdl import Algorithm, PerCDL, TimeWarp, make_synthetic
    >>> pilot = make_synthetic(4, n_times=200, atom_length=20, random_state=0)
    >>> plain = Algorithm(weighting="subjects", realign=False, multistart=False)
    >>> start = pilot.personal_dictionary[0]
    >>> model = PerCDL(2, 20, TimeWarp(1, 3), 0.5, init=start, algorithm=plain)
    >>> bool(1 < suggest_clip(model, pilot.cohort) < 3)
    True
    """
    cohort = as_cohort(X)
    settings = model._settings(cohort, choices_of(model))
    check_private(settings)
    first = given_atoms(model.init)
    if not isinstance(first, np.ndarray):
        raise InvalidParameterError(
            f"`suggest_clip` needs a model with a first dictionary: `init` an array, not "
            f"{model.init!r}."
        )
    broadcast = Broadcast(normalize(check_atoms(first, settings)))
    runtime = InProcess(cohort, settings, chunk_rows=ROWS)
    squares = []
    for kind in ("population", "personal"):
        getattr(runtime, f"{kind}_round")(broadcast)
        with jax.enable_x64(settings.dtype == "float64"):
            for rows in contributions(runtime.site, broadcast.dictionary, kind):
                flat = [(x.reshape(len(x), -1) ** 2).sum(1) for x in rows.values()]
                squares.append(np.sum(flat, axis=0))
    norms = np.sqrt(np.concatenate(squares) / settings.n_atoms)
    return float(np.quantile(norms, quantile))
