"""Bootstrap over subjects: errors of the common atoms without a formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.utils import check_random_state

from percdl.algorithm.settings import Huber
from percdl.analysis.checks import check_fitted_on, check_level
from percdl.estimators.start import make_settings
from percdl.exceptions import InvalidParameterError
from percdl.signals import Cohort

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """The common atoms of cohorts resampled from the subjects.

    Attributes
    ----------
    dictionary : array (K, L, P)
        The common atoms of the whole cohort.
    draws : array (B, K, L, P)
        Those of each resampled cohort, in the same order and with the same signs.
    """

    dictionary: Float[np.ndarray, "K L P"]
    draws: Float[np.ndarray, "B K L P"]

    def __repr__(self) -> str:
        return (
            f"Bootstrap({len(self.draws)} draws, {len(self.dictionary)} atoms, "
            f"mean standard error {self.atom_se.mean():.2g} of the common atoms)"
        )

    @cached_property
    def atom_se(self) -> Float[np.ndarray, "K L P"]:
        """Standard errors of the common atoms: their standard deviation over the draws."""
        return self.draws.std(0, ddof=1)

    def atom_band(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends (K, L, P) of percentile bands."""
        check_level(level)
        lower, upper = np.quantile(self.draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return lower, upper


def bootstrap_atoms(
    model: BaseCDL, X: Any, n_draws: int = 100, random_state: Any = None
) -> Bootstrap:
    """Fit the model again to subjects drawn with replacement.

    Every fit starts from the dictionary of the model and uses its settings. The draws contain all
    that varies between subjects: noise, warps, amplitudes, misfit. Cost: ``n_draws`` fits.

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        Fitted.
    X : Cohort or arrays
        The recordings it was fitted on.
    n_draws : int
        Number of resampled cohorts; 50 are enough for standard errors, bands need hundreds.
    random_state : int, RandomState or None
        Seed of the draws.

    Returns
    -------
    Bootstrap

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(4, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> bootstrap_atoms(model, truth.cohort, n_draws=2, random_state=0).draws.shape
    (2, 2, 50, 1)
    """
    cohort = check_fitted_on(model, X)
    if n_draws < 2:
        raise InvalidParameterError(f"`bootstrap_atoms(n_draws={n_draws!r})` must be at least 2.")
    rng = check_random_state(random_state)
    again: BaseCDL = clone(model)  # pyright: ignore[reportAssignmentType]
    settings = make_settings(model, cohort)
    again.set_params(
        init=model.dictionary_, n_atoms=settings.n_atoms, atom_length=settings.atom_length,
        penalty=settings.penalty, progress=False,
        loss="squared" if settings.delta is None else Huber(settings.delta),
    )  # fmt: skip
    draws = []
    for _ in range(n_draws):
        drawn = rng.randint(len(cohort), size=len(cohort)).tolist()
        some = [replace(cohort[s], subject=f"draw {i}: {s}") for i, s in enumerate(drawn)]
        dictionary = again.fit(Cohort(some)).dictionary_
        draws.append(match_to(dictionary, model.dictionary_, settings.coder.signed))
    return Bootstrap(model.dictionary_, np.stack(draws))


def match_to(dictionary: np.ndarray, reference: np.ndarray, signed: bool = False) -> np.ndarray:
    """Return atoms of unit norm in the order, and with ``signed`` the signs, of a reference."""
    likeness = np.einsum("klp,jlp->kj", reference, dictionary)
    rows, order = linear_sum_assignment(np.abs(likeness) if signed else likeness, maximize=True)
    sign = np.where(signed & (likeness[rows, order] < 0), -1, 1)
    return dictionary[order] * sign[:, None, None]
