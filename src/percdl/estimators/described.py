"""What a fitted model says of the people it was fitted on."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.hyperparameters import HyperParameters
from percdl.estimators.personalization import Personalization
from percdl.registry import look_up

if TYPE_CHECKING:
    import pandas as pd

    from percdl.signals import Cohort


class Described(HyperParameters):
    """Personal atoms, warps and the report of the subjects of the fit, made when asked for.

    ``recordings_`` is the cohort of the fit, not a copy; copies of the model by pickle, and
    model files, come without it (None).
    """

    params_: np.ndarray
    events_: pd.DataFrame
    n_activations_: np.ndarray
    subjects_: tuple[str, ...]
    dictionary_: np.ndarray
    recordings_: Cohort | None = None
    suspects_: pd.DataFrame | None = None

    @cached_property
    def personalization_(self) -> Personalization:
        """The subjects of the fit, as `personalize` describes others."""
        check_is_fitted(self)
        return Personalization(
            self.params_,
            self.events_,
            self.n_activations_,
            tuple(self.subjects_),
            self.resolve("transformation"),
            self.dictionary_,
            self.dtype,
            self.suspects_,
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

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        reference: str | None = None,
        metadata: pd.DataFrame | None = None,
        person: str | None = None,
        title: str | None = None,
    ) -> Path:
        """Write one HTML file that shows the model, its people and their groups.

        It is interactive and needs no network. See `percdl.report.cohort.write_report`.

        Parameters
        ----------
        path : path
            Where to write.
        X : Cohort or arrays, optional
            The recordings: by default those of the fit; others are personalized first. Needed
            for a model that was loaded from a file.
        reference : str, optional
            The group others are compared with; by default the one called healthy, control,
            normal or so, else everyone.
        metadata : DataFrame, optional
            More columns of the table of people, one row per subject.
        person : str, optional
            Column of the metadata that says who was recorded, where people have several
            recordings.
        title : str, optional
            Heading of the page.
        """
        check_is_fitted(self)
        return look_up("write_report")(
            self, path, X, reference=reference, metadata=metadata, person=person, title=title
        )

    def __getstate__(self) -> dict[str, Any]:
        whole: Any = super().__getstate__()
        return {name: value for name, value in whole.items() if name != "recordings_"}
