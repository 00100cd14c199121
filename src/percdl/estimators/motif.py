"""A motif of a named subject, as a first atom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from percdl.exceptions import InvalidParameterError
from percdl.signals import AnyCohort


@dataclass(frozen=True)
class Motif:
    """The segment of ``subject`` that starts at sample ``onset``, used as a first atom.

    Parameters
    ----------
    subject : str
        Whose recording.
    onset : int
        Its first sample.

    Examples
    --------
    >>> Motif("P01", onset=120)
    Motif(subject='P01', onset=120)
    """

    subject: str
    onset: int

    def cut(self, cohort: AnyCohort, atom_length: int) -> np.ndarray:
        """Return the segment, array (L, P)."""
        try:
            record = cohort[self.subject]
        except KeyError as error:
            raise InvalidParameterError(f"`init={self!r}`: {error.args[0]}") from error
        segment = record.values[self.onset : self.onset + atom_length]
        if self.onset < 0 or len(segment) < atom_length or not np.isfinite(segment).all():
            raise InvalidParameterError(
                f"`init={self!r}` needs {atom_length} observed samples from {self.onset} on, but "
                f"subject {self.subject!r} has {record.n_times} samples"
                f"{' with missing values there' if len(segment) == atom_length else ''}. "
                "Choose another onset or subject."
            )
        return np.asarray(segment, float)
