"""How much of recordings their reconstructions miss."""

from collections.abc import Iterable

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals.recording import Recording


def normalized_reconstruction_error(
    recordings: Iterable[Recording], reconstructions: Iterable[np.ndarray]
) -> float:
    """Return ``sum |x - x_hat|^2 / sum |x|^2`` over all recordings (decision 12).

    Missing samples play no part. 0 is perfect; silence in place of the recordings gives 1.

    Parameters
    ----------
    recordings : Cohort or list of Recording
        The recordings x.
    reconstructions : list of arrays (n_times, n_channels)
        One x_hat for each of them, such as ``model.reconstruct(cohort)``.

    Examples
    --------
    >>> x = Recording([3.0, np.nan, 4.0])
    >>> normalized_reconstruction_error([x], [np.array([[3.0], [9.0], [0.0]])])
    0.64
    """
    recordings, rebuilt = list(recordings), [np.asarray(x) for x in reconstructions]
    shapes = [record.values.shape for record in recordings], [x.shape for x in rebuilt]
    if shapes[0] != shapes[1]:
        raise InvalidParameterError(
            f"The reconstructions have shapes {shapes[1][:4]}..., the recordings "
            f"{shapes[0][:4]}... . Pass one (n_times, n_channels) array for each recording."
        )
    missed = sum(
        np.nansum((record.values - x) ** 2) for record, x in zip(recordings, rebuilt, strict=True)
    )
    energy = sum(np.nansum(np.square(record.values)) for record in recordings)
    if not energy > 0:
        raise InvalidParameterError(
            "The recordings are all zero or missing: an error relative to them has no meaning."
        )
    return float(missed / energy)
