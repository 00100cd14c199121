"""What a fitted model says of the people it was fitted on."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.personalization import Personalization

if TYPE_CHECKING:
    import pandas as pd

    from percdl.transforms import Transform


class Described:
    """Personal atoms and warps of the subjects of the fit, computed when first asked for."""

    params_: np.ndarray
    events_: pd.DataFrame
    n_activations_: np.ndarray
    subjects_: tuple[str, ...]
    dictionary_: np.ndarray
    dtype: str

    @abstractmethod
    def _get_transform(self) -> Transform:
        """Return the f of the model."""

    @cached_property
    def personalization_(self) -> Personalization:
        """The subjects of the fit, as `personalize` describes others."""
        check_is_fitted(self)
        return Personalization(
            self.params_,
            self.events_,
            self.n_activations_,
            tuple(self.subjects_),
            self._get_transform(),
            self.dictionary_,
            self.dtype,
        )

    @property
    def personal_dictionary_(self) -> np.ndarray:
        """Everyone's version of the atoms, array (S, K, L, P); NaN where never activated."""
        return self.personalization_.personal_dictionary

    @property
    def warps_(self) -> np.ndarray:
        """Everyone's warps psi, array (S, K, C, L), in samples; NaN where never activated.

        C = 1 warp for all channels, one for each, or none where the transform warps no time.
        """
        return self.personalization_.warps
