"""Covariates as the columns of a regression: numbers centred, categories against a reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError

INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a regression.

    Attributes
    ----------
    terms : tuple of str
        What the columns are called: ``"intercept"``, ``"age"``, ``"group[Parkinson]"``.
    matrix : array (S, T)
        The columns.
    columns_of : dict of str to list of int
        The columns of each covariate.
    """

    terms: tuple[str, ...]
    matrix: Float[np.ndarray, "S T"]
    columns_of: dict[str, list[int]]

    def split(self, covariate: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of a covariate, and all others."""
        own = self.columns_of[covariate]
        others = [t for t in range(len(self.terms)) if t not in own]
        return self.matrix[:, own], self.matrix[:, others]


def build_design(covariates: pd.DataFrame, reference: Mapping[str, Any]) -> Design:
    """Return the columns of complete covariates.

    Numbers are centred. Text, categories and truth values get one column for each level but the
    reference, which is the first one unless named. So the intercept is about a person of average
    numbers and of the reference levels.
    """
    terms, columns, columns_of = [INTERCEPT], [np.ones(len(covariates))], {}
    for covariate, column in covariates.items():
        name = str(covariate)
        pairs = _encode(name, column, reference.get(name))
        columns_of[name] = list(range(len(terms), len(terms) + len(pairs)))
        terms += [term for term, _ in pairs]
        columns += [values for _, values in pairs]
    design = Design(tuple(terms), np.stack(columns, 1), columns_of)
    _check_rank(design)
    return design


def is_numeric(column: pd.Series) -> bool:
    """Whether a covariate is a number, rather than a name or a truth value."""
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _encode(name: str, column: pd.Series, reference: Any) -> list[tuple[str, np.ndarray]]:
    if is_numeric(column):
        values = column.to_numpy(float)
        _check_varies(name, len(np.unique(values)))
        return [(name, values - values.mean())]
    levels = _levels(column)
    _check_varies(name, len(levels))
    first = levels[0] if reference is None else str(reference)
    if first not in levels:
        raise InvalidParameterError(
            f"`reference={{{name!r}: {reference!r}}}`: nobody has it; {name} is one of "
            f"{', '.join(levels)}."
        )
    of = column.astype(str).to_numpy()
    return [(f"{name}[{x}]", (of == x).astype(float)) for x in levels if x != first]


def _levels(column: pd.Series) -> list[str]:
    """Return the levels that somebody has, in the order of the categories or of the alphabet."""
    there = set(column.astype(str))
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [str(x) for x in column.cat.categories if str(x) in there]
    return sorted(there)


def _check_varies(name: str, n_values: int) -> None:
    if n_values < 2:
        raise InvalidParameterError(
            f"Covariate {name!r} is the same for all subjects that have all values: nothing can "
            "be told of it. Leave it out."
        )


def _check_rank(design: Design) -> None:
    """Raise where subjects are too few, or a covariate says what others say already."""
    n_subjects, n_terms = design.matrix.shape
    if n_subjects <= n_terms + 1:
        raise InvalidParameterError(
            f"{n_subjects} subjects have all values and covariates; the {n_terms} terms "
            f"({', '.join(design.terms)}) take at least {n_terms + 2}."
        )
    scaled = design.matrix / np.linalg.norm(design.matrix, axis=0)
    if np.linalg.matrix_rank(scaled) == n_terms:
        return
    redundant = [name for name in design.columns_of if _is_redundant(design, scaled, name)]
    raise InvalidParameterError(
        f"Covariates {', '.join(map(repr, redundant))} cannot be told apart in these subjects: "
        "one follows from the others (a sensor used in one group only, say). Leave one out."
    )


def _is_redundant(design: Design, scaled: np.ndarray, name: str) -> bool:
    own = design.columns_of[name]
    others = np.delete(scaled, own, axis=1)
    gained = np.linalg.matrix_rank(scaled) - np.linalg.matrix_rank(others)
    return bool(gained < len(own))
