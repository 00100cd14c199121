"""Recordings as activations and atoms say they are, and how much of them that misses."""

from collections.abc import Iterable
from itertools import zip_longest

import numpy as np
import pandas as pd
from jaxtyping import Float

from percdl.exceptions import InvalidParameterError
from percdl.signals.recording import Recording


def rebuild(
    recordings: Iterable[Recording],
    events: pd.DataFrame,
    personal_dictionary: Float[np.ndarray, "S K L P"],
) -> list[np.ndarray]:
    """Return ``sum_k z_k * phi_sk`` for each recording, arrays (n_times, n_channels).

    ``events`` has columns subject, atom, onset_sample and amplitude; the atoms are in the order
    of the recordings.
    """
    recordings = list(recordings)
    rebuilt = {record.subject: np.zeros(record.values.shape) for record in recordings}
    atoms = {r.subject: own for r, own in zip(recordings, personal_dictionary, strict=True)}
    columns = ("subject", "atom", "onset_sample", "amplitude")
    for subject, k, onset, amplitude in zip(*(events[c] for c in columns), strict=True):
        atom = atoms[subject][k]
        rebuilt[subject][onset : onset + len(atom)] += amplitude * atom
    return list(rebuilt.values())


def normalized_reconstruction_error(
    recordings: Iterable[Recording], reconstructions: Iterable[np.ndarray]
) -> float:
    """Return ``sum |x - x_hat|^2 / sum |x|^2`` over all recordings (decision 12).

    Missing samples play no part. 0 is perfect; silence in place of the recordings gives 1.
    Recordings and reconstructions are taken one by one, so that neither need fit in memory. Cost
    O(S N P).

    Parameters
    ----------
    recordings : Cohort or list of Recording
        The recordings x.
    reconstructions : list of arrays (n_times, n_channels)
        One x_hat for each of them, such as ``model.reconstruct(cohort)``.

    Returns
    -------
    float
        The share of the energy that is not explained.

    Examples
    --------
    >>> x = Recording([3.0, np.nan, 4.0])
    >>> normalized_reconstruction_error([x], [np.array([[3.0], [9.0], [0.0]])])
    0.64
    """
    missed = energy = 0.0
    for record, rebuilt in zip_longest(recordings, reconstructions):
        shapes = [np.shape(x.values if isinstance(x, Recording) else x) for x in (record, rebuilt)]
        if record is None or rebuilt is None or shapes[0] != shapes[1]:
            raise InvalidParameterError(
                f"A recording has shape {shapes[0] or 'none'}, its reconstruction "
                f"{shapes[1] or 'none'}. Pass one (n_times, n_channels) array for each recording."
            )
        missed += np.nansum((record.values - np.asarray(rebuilt)) ** 2)
        energy += np.nansum(np.square(record.values, dtype=float))
    if not energy > 0:
        raise InvalidParameterError(
            "The recordings are all zero or missing: an error relative to them has no meaning."
        )
    return float(missed / energy)
