"""What groups of people share and how much their members differ, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError


@dataclass(frozen=True, eq=False)
class GroupCurve:
    """Mean and spread of the curves of a group.

    Attributes
    ----------
    mean, sd : array (L, P)
        Over the members; the standard deviation is that of a sample (n - 1).
    n_members : int
        How many members have the curve.
    """

    mean: Float[np.ndarray, "L P"]
    sd: Float[np.ndarray, "L P"]
    n_members: int

    def band(self, width: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean minus and plus so many standard deviations."""
        return self.mean - width * self.sd, self.mean + width * self.sd


def summarize_groups(
    curves: Float[np.ndarray, "S L P"], groups: Sequence[str | None]
) -> dict[str, GroupCurve]:
    """Return mean and standard deviation of each group, in order of appearance.

    Cost O(S (L P + G)) for G groups.

    Parameters
    ----------
    curves : array (S, L, P)
        One curve per subject, such as ``model.personal_dictionary_[:, 0]``. Subjects whose
        curve holds NaN (an atom they never use) are left out.
    groups : list of str
        Group of each subject; those of None are left out.

    Returns
    -------
    dict of str to GroupCurve
        One entry per group.

    Examples
    --------
    >>> curves = np.array([[[1.0]], [[3.0]], [[5.0]], [[5.0]]])
    >>> found = summarize_groups(curves, ["a", "a", "b", "b"])
    >>> found["a"].mean.item(), found["b"].sd.item()
    (2.0, 0.0)
    """
    if len(curves) != len(groups):
        raise InvalidParameterError(
            f"There are {len(curves)} curves and {len(groups)} groups. Pass the group of each "
            "curve's subject."
        )
    known = ~np.isnan(curves).any((1, 2))
    names = dict.fromkeys(name for name in groups if name is not None)
    of = np.array([str(name) for name in groups])
    return {name: _summarize(curves[known & (of == name)], name) for name in names}


def _summarize(curves: np.ndarray, name: str) -> GroupCurve:
    if len(curves) < 2:
        raise InvalidParameterError(
            f"Group {name!r} has {len(curves)} curve(s); a standard deviation takes two."
        )
    return GroupCurve(curves.mean(0), curves.std(0, ddof=1), len(curves))


def relative_variability(group: GroupCurve, reference: GroupCurve) -> Float[np.ndarray, "L P"]:
    """Return how much more a group varies than a reference, sample by sample.

    The difference of the standard deviations over the reference's largest one (of each
    channel): 0 where both vary alike, 1 where the group's standard deviation exceeds the
    other's by as much as the latter ever reaches. Unlike the ratio of the two, it stays
    readable where nobody varies. Cost O(L P).

    Parameters
    ----------
    group, reference : GroupCurve
        Of `summarize_groups`.

    Returns
    -------
    array (L, P)
        Above 0 where the group varies more.

    Examples
    --------
    >>> few = GroupCurve(np.zeros((2, 1)), np.array([[0.0], [2.0]]), 5)
    >>> many = GroupCurve(np.zeros((2, 1)), np.array([[1.0], [2.0]]), 5)
    >>> relative_variability(many, few).ravel()
    array([0.5, 0. ])
    """
    largest = reference.sd.max(0)
    if not (largest > 0).all():
        raise InvalidParameterError(
            "The reference group does not vary at all, so nothing can be relative to it."
        )
    return (group.sd - reference.sd) / largest
