"""What a model was told to choose by itself: ``"auto"`` becomes a number before the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from percdl.estimators.robustness import choose_delta
from percdl.estimators.validation import check_lengths, check_samples
from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.parameters import in_samples, share_of
from percdl.signals import AnyCohort

if TYPE_CHECKING:
    from percdl.algorithm.settings import Settings
    from percdl.estimators.base import BaseCDL

SHORTEST = 3
# Periods are read off so many recordings at most.
MOST_PERIODS = 512
# An atom counts if it explains at least this share of what the first one explains.
WORTH, MOST_ATOMS = 0.25, 4


class Choices(NamedTuple):
    """The hyper-parameters of a fit, as numbers."""

    n_atoms: int
    atom_length: int
    penalty: float
    huber_delta: float | None = None


def choose(model: BaseCDL, cohort: AnyCohort) -> Choices:
    """Return the numbers a model works with; those not given are chosen in turn."""
    length, share = model.atom_length, share_of(model.penalty)
    is_chosen = model.penalty == "auto" or share is not None
    chosen = Choices(
        n_atoms=1 if model.n_atoms == "auto" else int(model.n_atoms),
        atom_length=0 if length == "auto" else _length_in_samples(length, cohort.sfreq),
        penalty=0.0 if is_chosen else float(model.penalty),
        huber_delta=choose_delta(model.loss, cohort),
    )
    rng = check_random_state(model.random_state)
    if length == "auto":
        check_lengths(cohort, SHORTEST, type(model).__name__)
        check_samples(cohort)
        chosen = chosen._replace(atom_length=choose_length(cohort, model.init))
    check_lengths(cohort, chosen.atom_length, type(model).__name__)
    if model.n_atoms == "auto" or is_chosen:
        check_samples(cohort)
    if model.n_atoms == "auto":
        free = model._settings(cohort, chosen._replace(penalty=0.0))
        chosen = chosen._replace(n_atoms=choose_n_atoms(cohort, free, model.init, rng))
    if is_chosen:
        free = model._settings(cohort, chosen._replace(penalty=0.0))
        dictionary = model._first_dictionary(cohort, free, rng)
        chosen = chosen._replace(penalty=choose_penalty(cohort, free, dictionary, share, rng))
    return chosen


def _length_in_samples(length: int | str, sfreq: float) -> int:
    n_samples = in_samples(length, sfreq)
    if n_samples < SHORTEST:
        raise InvalidParameterError(
            f"`atom_length={length!r}` is {n_samples} sample(s) at {sfreq:g} Hz, but an atom has "
            f"at least {SHORTEST}. Plain arrays count as 1 Hz: wrap them, "
            "`Cohort.from_arrays(X, sfreq=...)`, or give a number of samples."
        )
    return n_samples


def choose_length(cohort: AnyCohort, init: Any) -> int:
    """Return the length of a given first dictionary, or one that suits the periods."""
    from percdl.estimators.first_dictionary import given_atoms
    from percdl.steps.period import agree_on_length, estimate_periods

    given = given_atoms(init)
    if isinstance(given, np.ndarray):
        return given.shape[1]
    ranks = by_power(cohort)
    looked_at = ranks[np.linspace(0, len(ranks) - 1, min(len(ranks), MOST_PERIODS)).astype(int)]
    length = agree_on_length(estimate_periods([cohort[i].values for i in looked_at]).period)
    if length is None or length < SHORTEST:
        raise InvalidRecordingError(
            '`atom_length="auto"`: the recordings do not repeat themselves, so their period says '
            "nothing. Set `atom_length` to the duration of the pattern, in samples."
        )
    return length


def choose_n_atoms(
    cohort: AnyCohort, settings: Settings, init: Any, rng: np.random.RandomState
) -> int:
    """Return how many atoms are given, or are worth it: the next explains too little."""
    from percdl.estimators.first_dictionary import draw_sample, find_segments, given_atoms
    from percdl.steps.initialization import mean_shares

    given = given_atoms(init)
    if given is not None:
        return len(given)
    sample = draw_sample(cohort, settings, rng)
    found = find_segments(sample, MOST_ATOMS, rng)
    nested = np.tril(np.ones((MOST_ATOMS, MOST_ATOMS)))[..., None, None] * found
    price, coder = sample.settings.penalty, settings.disjoint_coder
    shares = mean_shares(sample.signals, nested.astype(found.dtype), price, coder)
    added = np.diff(shares, prepend=0)
    return int(np.argmax(np.append(added[1:] < WORTH * added[0], True))) + 1


def choose_penalty(
    cohort: AnyCohort,
    settings: Settings,
    dictionary: np.ndarray,
    ratio: float | None,
    rng: np.random.RandomState,
) -> float:
    """Return the penalty by BIC, or a ratio of the largest useful one."""
    from percdl.estimators.first_dictionary import draw_sample
    from percdl.steps import penalty
    from percdl.steps.cdu import normalize

    atoms = normalize(dictionary).astype(settings.dtype)
    signals, _, unit = draw_sample(cohort, settings, rng)
    if ratio is None:
        price = penalty.choose_penalty(signals, atoms, settings.disjoint_coder)
    else:
        price = ratio * penalty.largest_penalty(signals, atoms, settings.disjoint_coder)
    return price * unit * unit


def by_power(cohort: AnyCohort) -> np.ndarray:
    """Return the positions of the recordings, in order of power.

    Drawing by rank of power, neither the order of subjects nor units play a part.
    """
    return np.argsort(cohort.power, kind="stable")
