"""Checks of arguments and recordings; messages name the subject or argument and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from percdl.algorithm.magnitude import choose_unit
from percdl.algorithm.settings import Huber, Settings
from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    NoActivationWarning,
    NumericalError,
    OffsetWarning,
    ProcessingWarning,
)
from percdl.parameters import check_parameters
from percdl.signals import AnyCohort, Cohort
from percdl.signals.preprocessing import in_words, lasting_steps
from percdl.signals.recording import abbreviate
from percdl.steps.coders import L1Coder

if TYPE_CHECKING:
    from percdl.algorithm.results import Results
    from percdl.estimators.base import BaseCDL

# In standard deviations. Without a baseline, activations follow a larger level instead of the
# pattern. Beyond the second, squares differ by a factor of 1e5, which leaves two of the seven
# digits of single precision.
MOST_LEVEL, MOST_OFFSET = 3, 300
MOST_NAMED = 5


def check_lengths(cohort: AnyCohort, atom_length: int, model: str) -> None:
    """Raise if a recording is too short for atoms of this length, or rates differ."""
    _ = cohort.sfreq  # raises if sampling rates differ
    if cohort.lengths.min() < atom_length:
        pairs = zip(cohort.subjects, cohort.lengths, strict=True)
        short = [f"{subject} ({n} samples)" for subject, n in pairs if n < atom_length]
        raise InvalidRecordingError(
            f"`{model}(atom_length={atom_length})` is longer than {_name(short)}. "
            f"Use shorter atoms, or {_leave_out(cohort)}."
        )


def check_samples(cohort: AnyCohort) -> None:
    """Raise if a recording has no pattern to find."""
    if empty := cohort.empty:
        raise InvalidRecordingError(
            f"Every sample of {_name(empty)} is missing (NaN); {_leave_out(cohort)}."
        )
    if flat := cohort.flat:
        raise InvalidRecordingError(
            f"Every channel of {_name(flat)} is constant: there is no pattern to find. "
            f"Check the recording, or {_leave_out(cohort)}."
        )


def warn_offset(cohort: AnyCohort, settings: Settings, model: str) -> None:
    """Warn of recordings in memory whose offset hides the pattern, or is too large for float32."""
    if not isinstance(cohort, Cohort) or not (level := cohort.offset(MOST_LEVEL)):
        return
    if settings.dtype == "float32" and (far := cohort.offset(MOST_OFFSET)):
        warnings.warn(
            f"The mean of {_name(far)} is more than {MOST_OFFSET} times their standard "
            f'deviation: `{model}(dtype="float32")` hardly sees the signal beside it. Subtract '
            'it, e.g. with `cohort.zscore()` or `cohort.bandpass(...)`, or use `dtype="float64"`.',
            OffsetWarning,
            stacklevel=5,
        )
    elif not settings.disjoint_coder.n_terms:
        warnings.warn(
            f"The mean of {_name(level)} is more than {MOST_LEVEL} times their standard "
            "deviation: activations follow this level, not the pattern. Fit an offset under each "
            'activation, `coder=L0Coder(baseline="offset")` (in the shell, --baseline offset), or '
            "remove the level, e.g. with `cohort.bandpass(...)` (--bandpass).",
            OffsetWarning,
            stacklevel=5,
        )


def _leave_out(cohort: AnyCohort) -> str:
    in_memory = isinstance(cohort, Cohort)
    return "leave them out" if in_memory else "write the shards again without them"


def overflow(objective: float, cohort: AnyCohort, dtype: str, model: str) -> NumericalError:
    """Return the error for samples that are too large for the arithmetic."""
    unit = choose_unit(cohort)
    with np.errstate(over="ignore"):
        sizes = [np.nansum(np.square((r.values / unit).astype(dtype))) for r in cohort]
    large = [cohort.subjects[s] for s in np.flatnonzero(np.isinf(sizes))]
    why = f", since the squares of {_name(large)} overflow in {dtype}" if large else ""
    return NumericalError(
        f"`{model}` cannot express the recordings: the objective is {objective}{why}. Bring X to "
        'the units of the fit, or fit with `dtype="float64"`.'
    )


def check_arguments(model: BaseCDL) -> None:
    """Raise if an argument of a model is out of range, or contradicts another one."""
    check_parameters(model)
    name, transformation = type(model).__name__, model.resolve("transformation")
    is_robust, coder = isinstance(model.loss, Huber), model.resolve("coder")
    is_exact = not isinstance(coder, L1Coder)
    transformation.validate()
    if model.resolve("algorithm").update == "robust" and not transformation.shares_structure:
        raise InvalidParameterError(
            f"`{name}(algorithm=Algorithm(update='robust'))` moves copies of a common atom, but "
            f"with `{transformation!r}` no personal atom depends on one. Leave out `update`."
        )
    lengths: Any = model.atom_length
    is_listed = isinstance(lengths, (list, tuple))
    if is_listed and model.n_atoms not in ("auto", len(lengths)):
        raise InvalidParameterError(
            f"`{name}(n_atoms={model.n_atoms!r}, atom_length={lengths!r})`: the list has "
            f"{len(lengths)} length(s). Give one length for each atom."
        )
    if is_listed and (is_robust or not is_exact):
        raise InvalidParameterError(
            f"`{name}(atom_length={lengths!r})`: atoms of different lengths need the "
            "exact coder, and a loss that is squared or relative. Give one length, or leave out "
            "the other argument."
        )
    if is_robust and is_exact and (coder.stretch > 1 or coder.n_terms):
        raise InvalidParameterError(
            f"`{name}(loss={model.loss!r})` needs activations of one length, without a baseline. "
            "Leave out `stretch` and `baseline`, or the loss."
        )
    if is_robust and not is_exact:
        raise InvalidParameterError(
            f"`{name}(loss={model.loss!r})` needs the exact coder. Leave out one of the two."
        )
    if isinstance(model.penalty, str) and not is_exact:
        raise InvalidParameterError(
            f"`{name}(penalty={model.penalty!r})` is chosen for the exact coder only. Give "
            "`penalty` as a number with an L1Coder, e.g. a tenth of "
            "`percdl.steps.csc_l1.largest_useful_penalty`."
        )


def warn_inactive(n_activations: np.ndarray, cohort: AnyCohort) -> None:
    """Warn of unused atoms and of subjects without activations (decision 11)."""
    unused = np.flatnonzero(n_activations.sum(0) == 0)
    idle = [cohort.subjects[s] for s in np.flatnonzero(n_activations.sum(1) == 0)]
    texts = []
    if unused.size:
        texts.append(
            f"Atom {', '.join(map(str, unused))} is never activated and was left as it was. Lower "
            "`penalty` or `n_atoms`."
        )
    if idle:
        texts.append(
            f"No activation in {len(idle)} recording(s) ({abbreviate(idle, MOST_NAMED)}): "
            "parameters and personal atoms are NaN there. Lower `penalty`, or look at these "
            "recordings."
        )
    for text in texts:
        warnings.warn(text, NoActivationWarning, stacklevel=3)


def warn_unmet(cohort: AnyCohort, settings: Settings, results: Results) -> None:
    """Warn of events that corrections keep, but at which no atom explains anything."""
    from percdl.algorithm.pins import Pinned

    unmet = Pinned(cohort, (), settings).unmet(results)
    if places := [f"{cohort.subjects[s]} at {t:g} s" for s, own in unmet.items() for t in own]:
        warnings.warn(
            f"{len(places)} kept event(s) explain nothing and are not among the events: "
            f"{abbreviate(places, MOST_NAMED)}. No atom has a positive amplitude there. Look at "
            "them, allow a tolerance, or leave out these corrections.",
            NoActivationWarning,
            stacklevel=4,
        )


def is_permuted(fitted: Sequence[str], given: Sequence[str]) -> bool:
    """Whether channels are those of a fit in another order."""
    return tuple(fitted) != tuple(given) and sorted(fitted) == sorted(given)


def warn_processing(model: str, fitted: tuple[str, ...] | None, cohort: AnyCohort) -> None:
    """Warn if a cohort was processed differently from the one a model was fitted on.

    Earlier sampling rates do not matter. Model files of early versions lack the steps (None).
    """
    if fitted is None or lasting_steps(fitted) == lasting_steps(cohort.processing):
        return
    warnings.warn(
        f"`{model}` was fitted on recordings that were {in_words(fitted)}, but X was "
        f"{in_words(cohort.processing)}. Atoms and amplitudes may not fit: process X in the same "
        "way, e.g. with `Cohort.resample`, `Cohort.bandpass` and `Cohort.zscore`.",
        ProcessingWarning,
        stacklevel=4,
    )


def _name(subjects: Sequence[str]) -> str:
    return f"subject{'s' * (len(subjects) > 1)} {abbreviate(subjects, MOST_NAMED)}"
