"""What the three estimators share: fitting, personalizing, reconstructing."""

from __future__ import annotations

import warnings
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.automatic import Choices, choose
from percdl.estimators.described import Described
from percdl.estimators.hyperparameters import estimator
from percdl.estimators.personalization import Personalization
from percdl.estimators.progress import progress_bar
from percdl.estimators.scoring import explained_share, rebuild_one_by_one
from percdl.estimators.source import Source
from percdl.estimators.suspects import warn_suspects
from percdl.estimators.validation import (
    check_arguments,
    check_lengths,
    check_samples,
    overflow,
    warn_inactive,
    warn_offset,
    warn_processing,
)
from percdl.exceptions import InvalidParameterError, NoActivationWarning, NumericalError
from percdl.signals import AnyCohort, Cohort, as_any_cohort
from percdl.steps.coders import L0Coder

if TYPE_CHECKING:
    from percdl.algorithm.settings import Settings
    from percdl.estimators.restarts import End, Watch
    from percdl.runtimes.protocol import Place


@estimator
class BaseCDL(TransformerMixin, Described):
    """Fit, personalize, transform, reconstruct and score; leaves choose the transformation."""

    # The settings of the command that fitted the model, if any; they are kept in its file.
    settings_: Any = field(default=None, init=False)

    def fit(self, X: Any, y: Any = None, *, runtime: Place | None = None) -> BaseCDL:
        """Learn the dictionary and everyone's version of it (Algorithm 1).

        Parameters
        ----------
        X : Cohort, list of arrays (n_times, n_channels), array (S, N, P) or (S, N)
            The recordings; NaN marks missing samples. A `ShardedCohort` stays on disk.
        y : ignored
        runtime : DaskRuntime or OutOfCore, optional
            Where to run: in this process by default. The result does not depend on it.

        Returns
        -------
        self
        """
        from percdl.estimators.restarts import Watch, count_rounds
        from percdl.runtimes.hosting import check_place

        check_place(runtime)
        cohort = self._check(X)
        with progress_bar(self.progress, count_rounds(self)) as report:
            return self._learn(cohort, choose(self, cohort), Watch(report), runtime)

    def _learn(
        self, cohort: AnyCohort, chosen: Choices, watch: Watch, runtime: Place | None = None
    ) -> BaseCDL:
        """Fit with hyper-parameters that are numbers."""
        from percdl.algorithm.history import StopReason
        from percdl.estimators.restarts import run_restarts

        settings = self._settings(cohort, chosen)
        try:
            end = run_restarts(self, cohort, settings, watch, runtime)
        except NumericalError as error:
            # Whose recording it was is found out here: the rounds know of sums alone.
            raise overflow(np.nan, cohort, settings.dtype, type(self).__name__) from error
        self._adopt(end, chosen, cohort, settings)
        if self.n_activations_.any():
            warn_inactive(self.n_activations_, cohort)
        else:
            self.stop_reason_ = StopReason.NO_ACTIVATIONS.value
            warnings.warn(self.stop_reason_, NoActivationWarning, stacklevel=3)
        self.suspects_ = warn_suspects(cohort, settings, end.results, fitted=True)
        return self

    def _adopt(self, end: End, chosen: Choices, source: Source, settings: Settings) -> None:
        """Take over how a fit ended, wherever it was run."""
        self.dictionary_ = end.dictionary
        self.n_atoms_, self.atom_length_, self.penalty_, self.huber_delta_ = chosen
        found = self._collect(source, settings, end.results)
        self.params_ = found.params
        for earlier in ("personalization_", "settings_", "suspects_"):
            vars(self).pop(earlier, None)
        self.events_ = found.events
        self.n_activations_ = found.n_activations
        self.history_ = pd.DataFrame([asdict(record) for record in end.history.records])
        self.objective_ = end.objective
        self.stop_reason_ = end.stop_reason.value
        self.subjects_ = source.subjects
        self.recordings_ = source if isinstance(source, Cohort) else None
        self.channels_, self.units_, self.sfreq_ = source.channels, source.units, source.sfreq
        self.n_channels_, self.processing_ = source.n_channels, source.processing

    def personalize(self, X: Any, *, runtime: Place | None = None) -> Personalization:
        """Express recordings never seen, with the dictionary frozen.

        The parameters are fitted from the start, so for the recordings of the fit they differ
        from ``params_`` and ``warps_``, which went through the rounds of the fit. On 150 gait
        recordings, with atoms of 90 samples, the median of the largest difference of a warp was
        5 samples, where people differ by 6. Use ``personalization_`` for the recordings of the
        fit, and compare people only within one of the two.

        Parameters
        ----------
        X, runtime : as in `fit`

        Returns
        -------
        Personalization
        """
        from percdl.runtimes.hosting import check_place

        check_place(runtime)
        return self._personalize(self._check_new(X), runtime)

    def transform(self, X: Any) -> np.ndarray:
        """Return each subject's parameters as features, array (S, K M); NaN where unknown."""
        return self._features(self._personalize(self._check_new(X)))

    def reconstruct(self, X: Any) -> list[np.ndarray]:
        """Return the recordings as the model sees them, one array (n_times, P) each."""
        cohort = self._check_new(X)
        return list(rebuild_one_by_one(cohort, self._personalize(cohort)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the signals' energy that the model explains (decision 12).

        One minus the normalized reconstruction error, ``sum |x - x_hat|^2 / sum |x|^2``, over
        the observed samples; higher is better, 1 is perfect.
        """
        cohort = self._check_new(X)
        return explained_share(cohort, self._personalize(cohort))

    def save(self, path: Any) -> None:
        """Write the model to one file: safetensors with JSON metadata, no pickle, no code."""
        from percdl.estimators.persistence import save

        check_is_fitted(self)
        save(self, path)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns of `transform`."""
        check_is_fitted(self)
        n_atoms, n_params = self.params_.shape[1:]
        names = [f"atom{k}_param{m}" for k in range(n_atoms) for m in range(n_params)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags

    def _check(self, X: Any) -> AnyCohort:
        check_arguments(self)
        return as_any_cohort(X)

    def _check_new(self, X: Any) -> AnyCohort:
        check_is_fitted(self)
        cohort = as_any_cohort(X)
        if cohort.n_channels != self.n_channels_:
            raise InvalidParameterError(
                f"`{type(self).__name__}` was fitted on {self.n_channels_} channel(s) "
                f"({', '.join(self.channels_)}), but X has {cohort.n_channels} "
                f"({', '.join(cohort.channels)}). Select the same channels; one recording of "
                "several channels is passed as a list, `[x]`, since a 2-D array is read as "
                "(subjects, samples)."
            )
        if cohort.sfreq != self.sfreq_:
            raise InvalidParameterError(
                f"`{type(self).__name__}` was fitted at {self.sfreq_:g} Hz, but X is sampled at "
                f"{cohort.sfreq:g} Hz. Resample X first; plain arrays count as 1 Hz unless "
                f"wrapped: `Cohort.from_arrays(X, sfreq={self.sfreq_:g})`."
            )
        check_lengths(cohort, self.atom_length_, type(self).__name__)
        warn_processing(type(self).__name__, self.processing_, cohort)
        return cohort

    def _personalize(self, cohort: AnyCohort, runtime: Place | None = None) -> Personalization:
        settings = self._settings(cohort)
        results = self._run_frozen(cohort, settings, runtime)
        found = self._collect(cohort, settings, results)
        warn_inactive(found.n_activations, cohort)
        return replace(found, suspects=warn_suspects(cohort, settings, results, fitted=False))

    def _settings(self, source: Source, chosen: Choices | None = None) -> Settings:
        from percdl.algorithm.settings import Settings

        chosen = chosen or Choices(
            self.n_atoms_, self.atom_length_, self.penalty_, self.huber_delta_
        )
        coder = self.resolve("coder")
        if isinstance(coder, L0Coder):
            coder = coder.at_rate(source.sfreq)
        return Settings(
            transform=self.resolve("transformation"),
            atom_length=int(chosen.atom_length),
            n_atoms=int(chosen.n_atoms),
            n_channels=source.n_channels,
            penalty=float(chosen.penalty),
            delta=chosen.huber_delta,
            coder=coder,
            dtype=self.dtype,
            **asdict(self.resolve("algorithm")),
        )

    def _first_dictionary(
        self, cohort: AnyCohort, settings: Settings, rng: Any, restart: int = 0
    ) -> np.ndarray:
        from percdl.estimators.first_dictionary import first_dictionary

        return first_dictionary(self.init, cohort, settings, rng, restart)

    def _run_frozen(self, cohort: AnyCohort, settings: Settings, runtime: Place | None):
        from percdl.algorithm.loop import run_frozen
        from percdl.runtimes.hosting import host_fit

        hosted = host_fit(runtime, cohort, settings, settings.chunk_rows)
        try:
            check_samples(cohort)
            warn_offset(cohort, settings.dtype, type(self).__name__)
            sums = run_frozen(hosted, settings, self.dictionary_)
            if not np.isfinite(sums.objective):
                raise overflow(sums.objective, cohort, settings.dtype, type(self).__name__)
            return hosted.results()
        finally:
            hosted.close()

    def _collect(self, source: Source, settings: Settings, results: Any) -> Personalization:
        """Turn a site's results into tables; what nobody could know becomes NaN (decision 11)."""
        absent = results.counts == 0
        results.params[absent] = np.nan
        events = pd.DataFrame(
            {
                "subject": pd.array(list(source.subjects), dtype="str").take(results.subject),
                "atom": results.atom.astype(int),
                "onset_sample": results.onset.astype(int),
                "onset_seconds": results.onset / source.sfreq,
                "amplitude": results.amplitude,
            }
        )
        model = (settings.transform, self.dictionary_, settings.dtype)
        return Personalization(results.params, events, results.counts, source.subjects, *model)

    def _features(self, found: Personalization) -> np.ndarray:
        return found.params.reshape(len(found.params), -1)
