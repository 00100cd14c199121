"""Choices before a fit: the atom length, and other settings by held-out scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid, cross_val_score

from percdl.estimators import PerCDL
from percdl.estimators.base import BaseCDL
from percdl.estimators.start import lengths_in_samples
from percdl.exceptions import InvalidRecordingError, UnclearPeriodWarning
from percdl.parameters import share_of
from percdl.seeds import Seed, as_random_state
from percdl.signals import Cohort, as_cohort
from percdl.steps.period import agree_on_length, estimate_periods

# Warn if the median autocorrelation at the period is below this. Set by hand: white noise (8
# recordings of 400 samples) gives at most 0.14, a perfectly periodic signal 1.
UNCLEAR = 0.4


@dataclass(frozen=True)
class AtomLength:
    """A suggested atom length, and the periods it comes from.

    Attributes
    ----------
    length : int
        The suggestion in samples: a low quantile of the periods, because cycles shorter than the
        atom are missed. Hardly any cycle of a typical subject is shorter.
    periods, strengths : array (S,)
        Period of each subject in samples, NaN without one, and the autocorrelation at it.
    subjects, sfreq : tuple of str, float
        Subject ids, and the sampling rate in Hz.
    """

    length: int
    periods: np.ndarray
    strengths: np.ndarray
    subjects: tuple[str, ...]
    sfreq: float

    @property
    def seconds(self) -> float:
        """The suggestion in seconds."""
        return self.length / self.sfreq

    @property
    def period(self) -> float:
        """The median period, in samples."""
        return float(np.nanmedian(self.periods))

    @property
    def confidence(self) -> float:
        """Median strength, 0 to 1: how clearly the recordings are periodic."""
        return float(np.median(self.strengths))

    def __repr__(self) -> str:
        known = int(np.isfinite(self.periods).sum())
        return (
            f"AtomLength({self.length} samples, {self.seconds:.3g} s; median period "
            f"{self.period:g} samples in {known} of {len(self.periods)} subjects, "
            f"confidence {self.confidence:.2f})"
        )


def suggest_atom_length(cohort: Any) -> AtomLength:
    """Suggest an atom length from the periods of the recordings.

    The period is the first high peak of the autocorrelation, in the range that the subjects agree
    on. The length is the longest that fits nearly all cycles, of all people and of a typical one.
    Cost O(S P N log N).

    Parameters
    ----------
    cohort : Cohort or arrays
        The recordings; NaN marks missing samples.

    Returns
    -------
    AtomLength

    Examples
    --------
    >>> time = np.arange(500)
    >>> walks = [np.sin(2 * np.pi * time / period) ** 3 for period in (38, 40, 42)]
    >>> suggest_atom_length(walks)
    AtomLength(38 samples, 38 s; median period 40 samples in 3 of 3 subjects, confidence 1.00)
    """
    cohort = as_cohort(cohort)
    recordings = [record.values for record in cohort]
    found = estimate_periods(recordings)
    length = agree_on_length(found.period, recordings)
    if length is None:
        raise InvalidRecordingError(
            f"None of the {len(cohort)} recordings repeats itself: their autocorrelations have no "
            "peak at up to half their durations. Record for longer, or choose `atom_length` by "
            "eye: as long as the pattern you look for."
        )
    chosen = AtomLength(length, found.period, found.strength, cohort.subjects, cohort.sfreq)
    if chosen.confidence < UNCLEAR:
        warnings.warn(
            f"The recordings are hardly periodic: {chosen!r}. If they drift, band-pass first: "
            "`cohort.bandpass(0.5, None)` or `--bandpass 0.5 inf`. Check the length by eye, or "
            "choose `atom_length` yourself: as long as the pattern you look for.",
            UnclearPeriodWarning,
            stacklevel=2,
        )
    return chosen


@dataclass(frozen=True)
class Selection:
    """Held-out scores of several models, and the chosen one.

    Attributes
    ----------
    table : DataFrame
        One row per model, simplest first: the parameters of the grid, ``score`` (mean over
        folds), ``error`` (its standard error), ``chosen``.
    chosen, model : dict, estimator
        Parameters of the simplest model within one standard error of the best, and that model,
        not fitted.
    """

    table: pd.DataFrame
    chosen: dict[str, Any]
    model: BaseCDL

    def __repr__(self) -> str:
        row = self.table[self.table["chosen"]].iloc[0]
        given = ", ".join(f"{name}={value!r}" for name, value in self.chosen.items())
        return (
            f"Selection({given}; held-out score {row['score']:.3f} +- {row['error']:.3f}, "
            f"best of {len(self.table)} {self.table['score'].max():.3f})"
        )


def select(
    cohort: Any,
    grid: Mapping[str, Sequence[Any]],
    model: BaseCDL | None = None,
    *,
    n_folds: int = 3,
    random_state: Seed = 0,
) -> Selection:
    """Choose a model from a grid by cross-validation over subjects.

    The score is the share of energy explained in held-out subjects (`PerCDL.score`). It rarely
    falls as a model grows, so the simplest model within one standard error of the best is chosen:
    fewest atoms, then fewest parameters, then the highest penalty. Cost: ``n_folds`` fits of each
    model.

    Parameters
    ----------
    cohort : Cohort or arrays
        The recordings.
    grid : dict of name to list of values
        Arguments of the model, such as ``n_atoms``, ``penalty`` or ``transformation__width``.
    model, n_folds, random_state : estimator, int, int
        All other arguments (``PerCDL(random_state=0)``), and number and seed of the folds.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from percdl import PopCDL
    >>> waves = np.sin(np.arange(600).reshape(6, 100) / 3)
    >>> select(waves, {"penalty": [0.1, 5.0]}, PopCDL(atom_length=19, random_state=0)).chosen
    {'penalty': 5.0}
    """
    base: Any = PerCDL(random_state=0, progress=False) if model is None else model
    cohort = as_cohort(cohort)
    points = [{name: point[name] for name in grid} for point in ParameterGrid(dict(grid))]
    models: list[Any] = [clone(base) for _ in points]
    pairs = [(x.set_params(**point), point) for x, point in zip(models, points, strict=True)]
    pairs.sort(key=lambda pair: _size(pair[0], cohort))
    drawn = KFold(n_folds, shuffle=True, random_state=as_random_state(random_state))
    folds = list(drawn.split(cohort.subjects))
    raises: Any = "raise"
    scores = [cross_val_score(x, cohort, cv=folds, error_score=raises) for x, _ in pairs]
    table = pd.DataFrame([point for _, point in pairs])
    table["score"] = np.mean(scores, axis=1)
    table["error"] = np.std(scores, axis=1) / np.sqrt(n_folds - 1)
    best = table.loc[table["score"].idxmax()]
    first = int((table["score"] >= best["score"] - best["error"]).to_numpy().argmax())
    table["chosen"] = table.index == first
    return Selection(table, pairs[first][1], pairs[first][0])


def _size(model: BaseCDL, cohort: Cohort) -> tuple[float, float, float]:
    """Return the sort key of a model: atoms, free parameters, and minus the penalty."""
    given, share = model.atom_length, share_of(model.penalty)
    length = 0 if given == "auto" else max(lengths_in_samples(given, cohort.sfreq))
    price = model.penalty if share is None else share
    return (
        0.0 if model.n_atoms == "auto" else float(model.n_atoms),
        float(model.resolve("transformation").n_moves(length, cohort.n_channels)),
        0.0 if price == "auto" else -float(price),
    )
