"""The library's steps on a synthetic cohort of which all but one of Phi, A and Z is known.

In double precision, so that what is left is what the step misses and not rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from percdl.datasets import SyntheticCohort
from percdl.experiments.progress import follow
from percdl.experiments.result import Study
from percdl.steps import percdu, robust
from percdl.steps.csc import encode
from percdl.steps.realignment import search
from percdl.steps.statistics import segment_statistics
from percdl.steps.types import Events, Signals, Statistics
from percdl.transforms.base import WarpTransform

# As many steps as the paper takes; Gauss-Newton stops by itself long before.
N_STEPS = 250
SETTINGS = "S = 3, N = 500, K = 2, L = 50, r = 3, D = 3, W = 10"


class Codes(NamedTuple):
    """Activations in order of onset, arrays (S, E); empty slots have amplitude 0."""

    onset: np.ndarray
    atom: np.ndarray
    amplitude: np.ndarray


def measure_seeds(
    study: Study, seeds: Sequence[int], score: Callable[[int], dict[str, float]]
) -> pd.DataFrame:
    """Return the scores of the cohorts of all seeds, one row each."""
    rows = [
        study.ledger.row({"seed": seed}, lambda seed=seed: score(seed))
        for seed in follow(seeds, "seed")
    ]
    return pd.DataFrame(rows)


def true_codes(data: SyntheticCohort) -> Codes:
    """Return the activations that the recordings were made from."""
    n_subjects = len(data.cohort)
    ordered = data.events  # by subject, onsets increasing
    columns = ("onset_sample", "atom", "amplitude")
    return Codes(*(ordered[name].to_numpy().reshape(n_subjects, -1) for name in columns))


def find_codes(data: SyntheticCohort, penalty: float) -> Codes:
    """Return the activations found by CSC with the true personal atoms."""
    with jax.enable_x64(True):
        events, _ = _encode(_signals(data), data.personal_dictionary, penalty)
        return Codes(*(np.asarray(x) for x in events))


def find_atoms(data: SyntheticCohort) -> np.ndarray:
    """Return the common atoms (K, L, P) found by PerCDU from the first subject's atoms."""
    start = data.personal_dictionary[0]
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        systems = [
            _equations(data.transform, data.params[:, k], atom, moment[:, k], weight[:, k])
            for k, atom in enumerate(start)
        ]
        gram, transported = (
            np.stack([np.asarray(x) for x in sums]) for sums in zip(*systems, strict=True)
        )
    return percdu.update_dictionary(gram, transported, start)


def find_params(data: SyntheticCohort, transform: WarpTransform) -> np.ndarray:
    """Return the parameters (S, K, M) found by IPU from zero, the true atoms and codes known."""
    with jax.enable_x64(True):
        moment, weight, _ = _statistics(data)
        found = [
            np.asarray(_fit(transform, atom, moment[:, k], weight[:, k]))
            for k, atom in enumerate(data.dictionary)
        ]
    return np.stack(found, axis=1)


def rebuild(codes: Codes, personal: np.ndarray, n_times: int) -> np.ndarray:
    """Return the signals (S, N, P) that codes and personal atoms (S, K, L, P) stand for."""
    with jax.enable_x64(True):
        events = Events(*(jnp.asarray(x) for x in codes))
        return np.asarray(_rebuild(events, personal, n_times))


def as_events(codes: Codes, data: SyntheticCohort) -> pd.DataFrame:
    """Return codes as the frame that `onset_accuracy` and the plots take."""
    rows, slots = np.nonzero(codes.amplitude)
    return pd.DataFrame(
        {
            "subject": np.asarray(data.cohort.subjects)[rows],
            "atom": codes.atom[rows, slots],
            "onset_sample": codes.onset[rows, slots],
            "amplitude": codes.amplitude[rows, slots],
        }
    )


# Compiled, since operation by operation a first call would take seconds.
_encode = jax.jit(encode)
_rebuild = jax.jit(robust.rebuild, static_argnums=2)
_count = jax.jit(segment_statistics, static_argnums=(2, 3, 4))


@partial(jax.jit, static_argnames="transform")
def _equations(transform, params, atom, moment, weight):
    return transform.normal_equations(params, atom, moment, weight)


@partial(jax.jit, static_argnames="transform")
def _fit(transform, atom, moment, weight):
    """Fit from zero and from a monotone alignment, onsets fixed; keep what explains more."""
    zero = jnp.tile(transform.neutral(atom), (len(moment), 1))
    still = jnp.zeros(len(moment), jnp.int32)
    start = zero, still
    return search(transform, atom, moment, weight, start, still[:1], True, N_STEPS)[0]


def _signals(data: SyntheticCohort) -> Signals:
    values = np.stack([record.values for record in data.cohort])
    lengths = np.full(len(values), values.shape[1])
    return Signals(jnp.asarray(values), jnp.asarray(lengths), None)


def _statistics(data: SyntheticCohort) -> Statistics:
    """Return the statistics of the true segments, on the host."""
    n_atoms, length, _ = data.dictionary.shape
    events = Events(*(jnp.asarray(x) for x in true_codes(data)))
    return jax.tree.map(np.asarray, _count(_signals(data), events, n_atoms, length, 0))
