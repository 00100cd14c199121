"""Checks at the door: every complaint names the subject or the argument, and says what to do."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, get_args

import numpy as np
from sklearn.utils import check_random_state

from percdl.algorithm.magnitude import choose_unit
from percdl.algorithm.settings import Centering, Solver, Update, Weighting
from percdl.exceptions import (
    InvalidParameterError,
    InvalidRecordingError,
    NoActivationWarning,
    NumericalError,
    OffsetWarning,
    ProcessingWarning,
)
from percdl.signals import AnyCohort, Cohort
from percdl.signals.preprocessing import in_words, lasting_steps
from percdl.steps.coders import L0Coder, L1Coder

MOST_NAMED = 5
# Of the standard deviation: squares then differ by a factor of 1e5, and of seven digits of single
# precision two are left.
MOST_OFFSET = 300
MAY_BE_AUTO = ("n_atoms", "atom_length", "penalty")
DEFAULT_PENALTY = 0.01
# Samples, activations and rows are counted in 32 bits.
MOST_INTEGER = 2**31 - 1


def check_lengths(cohort: AnyCohort, atom_length: int, model: str) -> None:
    """Raise where a recording is too short for atoms of this length, or rates differ."""
    _ = cohort.sfreq  # raises where sampling rates differ
    if cohort.lengths.min() < atom_length:
        pairs = zip(cohort.subjects, cohort.lengths, strict=True)
        short = [f"{subject} ({n} samples)" for subject, n in pairs if n < atom_length]
        raise InvalidRecordingError(
            f"`{model}(atom_length={atom_length})` is longer than {_name(short)}. "
            f"Use shorter atoms, or {_leave_out(cohort)}."
        )


def check_samples(cohort: AnyCohort) -> None:
    """Raise where a recording has no pattern to find."""
    if empty := cohort.empty:
        raise InvalidRecordingError(
            f"Every sample of {_name(empty)} is missing (NaN); {_leave_out(cohort)}."
        )
    if flat := cohort.flat:
        raise InvalidRecordingError(
            f"Every channel of {_name(flat)} is constant: there is no pattern to find. "
            f"Check the recording, or {_leave_out(cohort)}."
        )


def warn_offset(cohort: AnyCohort, dtype: str, model: str) -> None:
    """Warn of recordings in memory whose offset leaves single precision no digits for the rest."""
    if dtype != "float32" or not isinstance(cohort, Cohort):
        return
    if far := cohort.offset(MOST_OFFSET):
        warnings.warn(
            f"The mean of {_name(far)} is more than {MOST_OFFSET} times their standard "
            f'deviation: `{model}(dtype="float32")` hardly sees the signal beside it. Subtract '
            'it, e.g. with `cohort.zscore()` or `cohort.bandpass(...)`, or use `dtype="float64"`.',
            OffsetWarning,
            stacklevel=5,
        )


def _leave_out(cohort: AnyCohort) -> str:
    """Say how recordings are left out of a cohort."""
    if isinstance(cohort, Cohort):
        return "drop them: `cohort.drop([...])`"
    return "write the shards anew without them"


def overflow(objective: float, cohort: AnyCohort, dtype: str, model: str) -> NumericalError:
    """Return the complaint that samples too large for the arithmetic left nothing of a fit."""
    unit = choose_unit(cohort)
    with np.errstate(over="ignore"):
        counted = ((r.values.astype(float) / unit).astype(dtype) for r in cohort)
        energies = [np.nansum(np.square(values)) for values in counted]
    pairs = zip(cohort.subjects, energies, strict=True)
    large = [subject for subject, energy in pairs if energy == np.inf]
    return NumericalError(
        f"`{model}` cannot express the recordings: the objective is {objective}"
        + (f", since the squares of {_name(large)} overflow in {dtype}" if large else "")
        + '. Bring X to the units of the fit, or fit with `dtype="float64"`.'
    )


def check_parameters(model: str, parameters: dict[str, Any]) -> None:
    """Raise where an argument is out of range."""
    for name, least in (
        ("n_atoms", 1), ("atom_length", 3), ("n_init", 0), ("n_perso", 0), ("n_restarts", 1),
        ("min_gap", 0),
    ):  # fmt: skip
        _check_integer(model, name, parameters.get(name, least), least)
    for name in ("max_activations", "chunk_rows", "n_solver_steps"):
        if parameters.get(name) is not None:
            _check_integer(model, name, parameters[name], 1)
    for name in ("penalty", "tol"):
        _check_number(model, name, parameters.get(name, 0))
    _check_ratio(model, parameters.get("penalty_ratio"), parameters.get("penalty"))
    _check_seed(model, parameters.get("random_state"))
    _check_coder(model, parameters)
    _check_update(model, parameters)
    for name in ("signed", "realign", "multistart"):
        _check_choice(model, name, parameters.get(name, True), (True, False))
    for name, choices in (
        ("centering", get_args(Centering)), ("weighting", get_args(Weighting)),
        ("solver", get_args(Solver)), ("update", get_args(Update)),
        ("loss", ("squared", "huber")), ("dtype", ("float32", "float64")),
        ("progress", ("auto", True, False)),
    ):  # fmt: skip
        _check_choice(model, name, parameters.get(name, choices[0]), choices)


def warn_inactive(n_activations: np.ndarray, cohort: AnyCohort) -> None:
    """Warn of atoms that nobody uses and of subjects without activations (decision 11)."""
    unused = np.flatnonzero(n_activations.sum(0) == 0)
    if unused.size:
        warnings.warn(
            f"Atom {', '.join(map(str, unused))} is activated nowhere and was left as it "
            "was. Lower `penalty` or `n_atoms`.",
            NoActivationWarning,
            stacklevel=3,
        )
    idle = [cohort.subjects[s] for s in np.flatnonzero(n_activations.sum(1) == 0)]
    if idle:
        warnings.warn(
            f"No activation in {len(idle)} recording(s) ({', '.join(idle[:5])}"
            f"{', ...' if len(idle) > 5 else ''}): parameters and personal atoms are NaN "
            "there. Lower `penalty`, or look at these recordings.",
            NoActivationWarning,
            stacklevel=3,
        )


def warn_processing(model: str, fitted: tuple[str, ...] | None, cohort: AnyCohort) -> None:
    """Warn where a cohort was processed otherwise than the one a model was fitted on.

    Resampling aside: rates must agree, and which rate a device had before does not matter.
    Model files of early versions do not say what was done (None).
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


def _check_coder(model: str, parameters: dict[str, Any]) -> None:
    coder = parameters.get("coder")
    if coder is None:
        return
    if not isinstance(coder, (L0Coder, L1Coder)):
        raise InvalidParameterError(
            f"`{model}(coder={coder!r})` must be an L0Coder or an L1Coder, e.g. `L1Coder()`."
        )
    for name, default in {"signed": False, "min_gap": 0, "max_activations": None}.items():
        if parameters.get(name, default) != default:
            raise InvalidParameterError(
                f"`{model}({name}={parameters[name]!r})` says how to code, and so does "
                f"`coder={coder!r}`. Leave out one of them."
            )
    if isinstance(coder, L1Coder):
        _check_integer("L1Coder", "n_steps", coder.n_steps, 1)
        _check_l1(model, parameters)
        return
    _check_integer("L0Coder", "min_gap", coder.min_gap, 0)
    if coder.max_activations is not None:
        _check_integer("L0Coder", "max_activations", coder.max_activations, 1)


def _check_update(model: str, parameters: dict[str, Any]) -> None:
    from percdl.transforms.base import Transform

    transform = parameters.get("transform")
    if not isinstance(transform, Transform) or transform.shares_structure:
        return
    if parameters.get("update") == "robust":
        raise InvalidParameterError(
            f"`{model}(update='robust')` moves copies of a common atom, but with "
            f"`transform={transform!r}` nobody's atom depends on one. Leave out `update`."
        )


def _check_l1(model: str, parameters: dict[str, Any]) -> None:
    if parameters.get("loss", "squared") != "squared":
        raise InvalidParameterError(
            f"`{model}(loss={parameters['loss']!r})` needs the exact coder. Leave out the "
            "L1Coder, or the loss."
        )
    if parameters.get("penalty") == "auto" or parameters.get("penalty_ratio") is not None:
        raise InvalidParameterError(
            f"`{model}` chooses penalties for the exact coder only. Give `penalty` as a number "
            "with an L1Coder, e.g. a tenth of `percdl.steps.csc_l1.largest_useful_penalty`."
        )


def _is_auto(name: str, value: Any) -> bool:
    return name in MAY_BE_AUTO and isinstance(value, str) and value == "auto"


def _check_number(model: str, name: str, value: Any) -> None:
    if _is_auto(name, value):
        return
    if not _is_within(value, Real, 0, sys.float_info.max):
        raise InvalidParameterError(
            f"`{model}({name}={value!r})` must be a finite number of at least 0{_or_auto(name)}."
        )


def _check_ratio(model: str, ratio: Any, penalty: Any) -> None:
    if ratio is None:
        return
    if not _is_within(ratio, Real, sys.float_info.min, 1):
        raise InvalidParameterError(
            f"`{model}(penalty_ratio={ratio!r})` must be a number above 0 and at most 1."
        )
    if penalty != DEFAULT_PENALTY:
        raise InvalidParameterError(
            f"`{model}(penalty={penalty!r}, penalty_ratio={ratio!r})`: both say what an "
            "activation costs. Give one of them."
        )


def _or_auto(name: str) -> str:
    return ' or "auto"' if name in MAY_BE_AUTO else ""


def _check_integer(model: str, name: str, value: Any, least: int) -> None:
    if _is_auto(name, value):
        return
    if not _is_within(value, Integral, least, MOST_INTEGER):
        large = _is_within(value, Integral, least, math.inf)
        most = f" and at most {MOST_INTEGER}" if large else ""
        raise InvalidParameterError(
            f"`{model}({name}={value!r})` must be an integer of at least {least}{most}"
            f"{_or_auto(name)}."
        )


def _is_within(value: Any, kind: type, least: float, most: float) -> bool:
    """Whether a value is a number of a kind and in a range; Python's own can be of any size."""
    return isinstance(value, kind) and not isinstance(value, bool) and bool(least <= value <= most)


def _check_seed(model: str, value: Any) -> None:
    try:
        check_random_state(value)
    except ValueError as error:
        raise InvalidParameterError(
            f"`{model}(random_state={value!r})` must be None, an integer from 0 to {2**32 - 1}, "
            "or a numpy.random.RandomState."
        ) from error


def _check_choice(model: str, name: str, value: Any, choices: tuple[Any, ...]) -> None:
    # An array would compare with each choice element by element.
    if not isinstance(value, (str, bool, np.bool_)) or value not in choices:
        raise InvalidParameterError(
            f"`{model}({name}={value!r})` must be one of {', '.join(map(repr, choices))}."
        )


def _name(items: Sequence[str]) -> str:
    """Write out the first few, and say how many more there are."""
    named = ", ".join(items[:MOST_NAMED])
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return f"subject{'s' if len(items) > 1 else ''} {named}{more}"
