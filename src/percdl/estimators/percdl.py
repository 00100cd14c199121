"""PerCDL, and its limits: one dictionary for all (PopCDL), one per subject (IndCDL)."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any, final

import numpy as np

from percdl.estimators.base import BaseCDL
from percdl.estimators.hyperparameters import estimator
from percdl.estimators.personalization import Personalization


@final
@estimator
class PerCDL(BaseCDL):
    """Personalized convolutional dictionary learning (Eq. 3, Algorithm 1).

    Finds repeated patterns in the recordings, learns the common atoms of the population and
    expresses each subject's version as a transformation of them. Cost per round: O(N P log N)
    for coding and O(L M^2) for the parameters, per subject and atom.

    Examples
    --------
    >>> from percdl import PerCDL, TimeWarp, make_synthetic
    >>> truth = make_synthetic(8, random_state=0)
    >>> model = PerCDL(2, 50, TimeWarp(3, 10), 1e-2, init=truth.personal_dictionary[0])
    >>> model.fit(truth.cohort).dictionary_.shape
    (2, 50, 1)
    """


@final
@estimator
class PopCDL(BaseCDL):
    """Convolutional dictionary learning with one dictionary for the population (Eq. 1).

    The same as ``PerCDL(transformation=Identity())``. Subjects have no parameters (M = 0);
    `transform` returns the number and the mean amplitude of each atom's activations instead, array
    (S, 2 K). Cost per round: O(N P log N) per subject and atom.

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(8, random_state=0)
    >>> model = PopCDL(2, 50, 1e-2, init=truth.personal_dictionary[0]).fit(truth.cohort)
    >>> model.transform(truth.cohort).shape
    (8, 4)
    """

    transformation: Any = field(default=None, init=False)
    _default_transformation = "Identity"

    def _features(self, found: Personalization) -> np.ndarray:
        counts = found.n_activations
        totals = np.zeros(counts.shape)
        np.add.at(totals, (found.positions, found.events["atom"]), found.events["amplitude"])
        means = np.divide(totals, counts, out=np.zeros_like(totals), where=counts > 0)
        return np.stack([counts, means], axis=2).reshape(len(counts), -1)

    def _feature_names(self) -> Sequence[str]:
        return ("n_activations", "mean_amplitude")


@final
@estimator
class IndCDL(BaseCDL):
    """Convolutional dictionary learning run for each subject alone (Section 2.1).

    The same as ``PerCDL(transformation=Free())``. ``params_`` holds the individual atoms,
    flattened (M = L P); ``dictionary_`` is their barycenter and is not used by the fit. Cost per
    round: O(N P log N) for coding and O(L P) for the atom itself, per subject and atom.

    Examples
    --------
    >>> from percdl import IndCDL, make_synthetic
    >>> truth = make_synthetic(8, random_state=0)
    >>> model = IndCDL(2, 50, 1e-2, init=truth.personal_dictionary[0]).fit(truth.cohort)
    >>> model.personal_dictionary_.shape
    (8, 2, 50, 1)
    """

    transformation: Any = field(default=None, init=False)
    _default_transformation = "Free"
