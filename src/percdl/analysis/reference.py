"""A reference population, with the judged person left out of its mean and covariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Shaped
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from percdl.exceptions import InvalidParameterError

# Standard deviations are at least this share of the largest value of a kind: below is rounding.
ROUNDING = 1e-6
# With one person left out, two must remain to have a spread.
LEAST_PERSONS = 3


@dataclass(frozen=True)
class _Rest:
    """Mean, standard deviation and number of the remaining rows, and the rows left out."""

    mean: Float[np.ndarray, " F"]
    sd: Float[np.ndarray, " F"]
    n: int
    absent: Int[np.ndarray, " b"]


class Reference:
    """Measurements of a reference population: one row per recording.

    Sums over all members are computed once. Leaving a person out subtracts the rows of that
    person. This is exact and costs O(F) for z-scores and O(F^3) for distances, independent of the
    number of members.

    Parameters
    ----------
    values : array (n, F)
        Without NaN.
    persons : array (n,)
        Person of each row.
    kinds : array (F,), optional
        Kind (0, 1, ...) of each measurement; those of one kind share a unit. By default all do.
    """

    def __init__(
        self,
        values: Float[np.ndarray, "n F"],
        persons: Shaped[np.ndarray, " n"],
        kinds: Int[np.ndarray, " F"] | None = None,
    ):
        self.centre = values.mean(0)
        self.rows = values - self.centre
        self.persons = persons
        self.squares = (self.rows**2).sum(0)
        self.kinds = np.zeros(values.shape[1], int) if kinds is None else kinds
        largest = np.full(self.kinds.max(initial=0) + 1, np.finfo(float).tiny)
        np.maximum.at(largest, self.kinds, np.abs(values).max(0, initial=0.0))
        self.floor = ROUNDING * largest[self.kinds]

    @property
    def is_large_enough(self) -> bool:
        """Whether two persons remain when any one is left out."""
        return len(np.unique(self.persons)) >= LEAST_PERSONS

    @property
    def varies(self) -> np.ndarray:
        """Which of the F measurements differ between members, beyond rounding."""
        return np.sqrt(self.squares / max(len(self.rows) - 1, 1)) > self.floor

    def z_scores(
        self, values: Float[np.ndarray, "m F"], persons: Shaped[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m F"]:
        """Return distances from the mean of all others, in their standard deviations (n - 1)."""
        scores = np.empty(values.shape)
        for rest, judged in self._leave_out(persons):
            scores[judged] = (values[judged] - self.centre - rest.mean) / rest.sd
        return scores

    # The systems are small, so threads would only wait for each other.
    @threadpool_limits.wrap(limits=1)
    def distances(
        self,
        values: Float[np.ndarray, "m F"],
        persons: Shaped[np.ndarray, " m"],
        shrinkage: float | None = None,
    ) -> Float[np.ndarray, " m"]:
        """Return Mahalanobis distances from the mean of all others.

        ``sqrt(y^T C^-1 y)``, with y the difference from the mean and S the covariance of the
        others, both in units of the spread of each kind (the root mean square of its standard
        deviations), and ``C = (1 - shrinkage) S + shrinkage I``. By default the shrinkage is that
        of scikit-learn's ``OAS`` on the others; 0 gives the plain distance.
        """
        n_of_kind = np.maximum(np.bincount(self.kinds), 1)
        scatter = self.rows.T @ self.rows
        squared = np.empty(len(values))
        for rest, judged in self._leave_out(persons):
            absent = self.rows[rest.absent]
            cross = scatter - absent.T @ absent - rest.n * np.outer(rest.mean, rest.mean)
            unit = np.sqrt(np.bincount(self.kinds, rest.sd**2) / n_of_kind)[self.kinds]
            covariance = cross / (rest.n - 1) / np.outer(unit, unit)
            share = shrink_by_oas(covariance, rest.n) if shrinkage is None else shrinkage
            if share == 0 and rest.n <= len(covariance):
                raise InvalidParameterError(
                    f"`shrinkage=0` needs more recordings in the reference than measurements; "
                    f"there are {rest.n}, of {len(covariance)} measurements. Leave it out."
                )
            covariance *= 1 - share
            np.fill_diagonal(covariance, covariance.diagonal() + share)
            y = (values[judged] - self.centre - rest.mean).T / unit[:, None]
            factor = cho_factor(covariance, overwrite_a=True, check_finite=False)
            squared[judged] = (y * cho_solve(factor, y, check_finite=False)).sum(0)
        return np.sqrt(squared)

    def _leave_out(
        self, persons: Shaped[np.ndarray, " m"]
    ) -> Iterator[tuple[_Rest, Int[np.ndarray, " j"]]]:
        """Yield the moments without each person, and the rows judged by them."""
        members = pd.Series(self.persons).groupby(self.persons).indices
        judged = pd.Series(persons).groupby(persons).indices
        strangers = np.flatnonzero(~np.isin(persons, self.persons))
        if len(strangers):
            yield self._moments(strangers[:0]), strangers
        for name in judged.keys() & members.keys():
            yield self._moments(members[name]), judged[name]

    def _moments(self, absent: np.ndarray) -> _Rest:
        rows = self.rows[absent]
        n = len(self.rows) - len(rows)
        # The rows are centred, so the remaining ones sum to minus the absent ones.
        mean = -rows.sum(0) / n
        squares = self.squares - (rows**2).sum(0) - n * mean**2
        sd = np.sqrt(np.maximum(squares, 0) / (n - 1))
        return _Rest(mean, np.maximum(sd, self.floor), n, absent)


def shrink_by_oas(covariance: Float[np.ndarray, "F F"], n: int) -> float:
    """Return the shrinkage of scikit-learn's ``OAS`` for the covariance of n rows.

    scikit-learn computes it from the rows, which would cost O(n F^2) for each person left out.

    >>> shrink_by_oas(np.eye(3), 50)
    1.0
    """
    size = len(covariance)
    square, mean = np.mean(covariance**2), np.trace(covariance) / size
    spread = (n + 1) * (square - mean**2 / size)
    return float((square + mean**2) / spread) if spread > square + mean**2 else 1.0
