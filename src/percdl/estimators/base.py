"""The methods of all three estimators: fit, personalize, transform, reconstruct."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.described import Described
from percdl.estimators.personalization import Personalization, explained_share, rebuild_one_by_one
from percdl.estimators.validation import check_lengths, is_permuted, warn_processing
from percdl.exceptions import InvalidParameterError
from percdl.registry import look_up
from percdl.signals import AnyCohort, as_any_cohort

if TYPE_CHECKING:
    from percdl.runtimes.protocol import Place

Self = TypeVar("Self", bound="BaseCDL")


class BaseCDL(TransformerMixin, Described):
    """Fit, personalize, transform, reconstruct and score; leaves choose the transformation."""

    def __getstate__(self) -> dict[str, Any]:
        whole: Any = super().__getstate__()
        return {name: value for name, value in whole.items() if name != "recordings_"}

    def fit(self: Self, X: Any, y: Any = None, *, runtime: Place | None = None) -> Self:
        """Learn the common atoms and the personal ones (Algorithm 1); return the model.

        Parameters
        ----------
        X : Cohort, list of arrays (n_times, n_channels), array (S, N, P) or (S, N)
            The recordings; NaN marks missing samples. A `ShardedCohort` stays on disk.
        y : ignored
        runtime : DaskRuntime or OutOfCore, optional
            Where to run: in this process by default. The result does not depend on it.
        """
        from percdl.estimators.fitting import Watch, count_rounds, learn, prepare, progress_bar
        from percdl.estimators.start import choose

        cohort = prepare(self, X, runtime)
        with progress_bar(self.progress, count_rounds(self)) as report:
            learn(self, cohort, choose(self, cohort), Watch(report), runtime)
        return self

    def find(self: Self, X: Any, *, runtime: Place | None = None) -> Self:
        """Find the atoms passed as ``init`` in recordings, without learning.

        The result is a model with these atoms: unchanged with `PopCDL`, personalized to each
        subject with `PerCDL`. A penalty "auto" is chosen for these recordings.

        Parameters
        ----------
        X, runtime : as in `fit`

        Examples
        --------
        >>> from percdl import PopCDL, make_synthetic
        >>> truth = make_synthetic(2, random_state=0)
        >>> PopCDL(penalty=1.0, init=truth.dictionary).find(truth.cohort).n_activations_.shape
        (2, 2)
        """
        from percdl.estimators.fitting import find_given

        find_given(self, X, runtime)
        return self

    def personalize(self, X: Any, *, runtime: Place | None = None) -> Personalization:
        """Describe new recordings with the fitted dictionary; return a `Personalization`.

        The dictionary does not change. Recordings of the fit get the same parameters as in it, if
        the transformation warps time or mixes channels; those of others may differ slightly.

        Parameters
        ----------
        X, runtime : as in `fit`
        """
        from percdl.runtimes.partitioned import check_place

        check_place(runtime)
        return self._express(self._check_new(X), runtime)

    def transform(self, X: Any) -> np.ndarray:
        """Return each subject's parameters as features, array (S, K M); NaN where unknown."""
        return self._features(self._express(self._check_new(X)))

    def reconstruct(self, X: Any) -> list[np.ndarray]:
        """Return the recordings as the model sees them, one array (n_times, P) each."""
        cohort = self._check_new(X)
        return list(rebuild_one_by_one(cohort, self._express(cohort)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the signals' energy that the model explains (decision 12).

        One minus the normalized reconstruction error, ``sum |x - x_hat|^2 / sum |x|^2``, over
        the observed samples; higher is better, 1 is perfect.
        """
        cohort = self._check_new(X)
        return explained_share(cohort, self._express(cohort))

    def save(self, path: Any) -> None:
        """Write the model to one file: safetensors with JSON metadata, no pickle, no code."""
        check_is_fitted(self)
        look_up("save")(self, path)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns of `transform`: the atom, then the parameter."""
        check_is_fitted(self)
        names = [f"atom{k}_{name}" for k in range(self.n_atoms_) for name in self._feature_names()]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags

    def _check_new(self, X: Any) -> AnyCohort:
        check_is_fitted(self)
        cohort = as_any_cohort(X)
        if cohort.n_channels != self.n_channels_:
            raise InvalidParameterError(
                f"`{type(self).__name__}` was fitted on {self.n_channels_} channel(s) "
                f"({', '.join(self.channels_)}), but X has {cohort.n_channels} "
                f"({', '.join(cohort.channels)}). Select the same channels. Pass one recording "
                "of several channels as a list, `[x]`."
            )
        if is_permuted(self.channels_, cohort.channels):
            raise InvalidParameterError(
                f"`{type(self).__name__}` was fitted on the channels {', '.join(self.channels_)}, "
                f"but X has them as {', '.join(cohort.channels)}. Pass them in the order of the "
                "fit, e.g. with `channels=` of the readers."
            )
        if cohort.sfreq != self.sfreq_:
            raise InvalidParameterError(
                f"`{type(self).__name__}` was fitted at {self.sfreq_:g} Hz, but X is sampled at "
                f"{cohort.sfreq:g} Hz. Resample X first (in the shell: --resample "
                f"{self.sfreq_:g}), or state the rate of plain arrays: "
                f"`Cohort.from_arrays(X, sfreq={self.sfreq_:g})`."
            )
        for name, fitted, own in zip(self.channels_, self.units_, cohort.units, strict=True):
            if fitted and own and fitted != own:
                raise InvalidParameterError(
                    f"`{type(self).__name__}` was fitted on channel {name} in {fitted}, but X has "
                    f"it in {own}. Convert the samples, or write the unit as in the fit."
                )
        check_lengths(cohort, self.atom_length_, type(self).__name__)
        warn_processing(type(self).__name__, self.processing_, cohort)
        return cohort

    def _express(self, cohort: AnyCohort, runtime: Place | None = None) -> Personalization:
        from percdl.estimators.fitting import express

        return express(self, cohort, runtime)

    def _features(self, found: Personalization) -> np.ndarray:
        return found.params.reshape(len(found.params), -1)

    def _feature_names(self) -> Sequence[str]:
        return self.resolve("transformation").param_names(self.atom_length_, self.channels_)
