"""Which recordings of a cohort an index, a list of ids or a random draw stands for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from percdl.exceptions import InvalidParameterError
from percdl.signals.labels import Label


def as_ids(labels: Label | Iterable[Label]) -> list[str]:
    """Return labels as text; a lone label is a list of one."""
    return [str(label) for label in ([labels] if isinstance(labels, Label) else labels)]


def positions(index: Any, n_recordings: int) -> Int[np.ndarray, " n_selected"]:
    """Return the positions that a list of positions or a mask selects.

    >>> positions([True, False, True], 3).tolist()
    [0, 2]
    >>> positions([-1, 0], 3).tolist()
    [2, 0]
    """
    chosen = np.asarray(index)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iub"):
        raise TypeError(
            f"A Cohort cannot be indexed with {index!r}. Pass a position, a subject id, a slice, "
            "a list of positions or a mask; for a list of subject ids use `select`."
        )
    if chosen.dtype.kind == "b":
        if chosen.size != n_recordings:
            raise IndexError(
                f"The mask has {chosen.size} entries, but the cohort has {n_recordings} "
                "recording(s). Pass one entry per recording."
            )
        return np.flatnonzero(chosen)
    beyond = chosen[(chosen < -n_recordings) | (chosen >= n_recordings)]
    if beyond.size:
        raise IndexError(
            f"Position {beyond[0]} is out of range: the cohort has {n_recordings} recording(s)."
        )
    return chosen.astype(np.intp) % n_recordings


def draw_test(
    groups: Sequence[str | None],
    test_size: float,
    stratify_by_group: bool,
    random_state: int | np.random.RandomState | None,
) -> tuple[Int[np.ndarray, " n_train"], Int[np.ndarray, " n_test"]]:
    """Draw the positions of a training and of a test part, each in increasing order."""
    from sklearn.model_selection import train_test_split

    labels = [str(group) for group in groups]
    try:
        train, test = train_test_split(
            np.arange(len(labels)),
            test_size=test_size,
            stratify=labels if stratify_by_group and len(set(labels)) > 1 else None,
            random_state=random_state,
        )
    except ValueError as error:
        raise InvalidParameterError(
            f"Cannot split {len(labels)} recording(s), groups {dict(Counter(labels))}, with "
            f"test_size={test_size}: {error} Change test_size or pass stratify_by_group=False."
        ) from error
    return np.sort(train), np.sort(test)
