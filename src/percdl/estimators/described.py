"""The attributes of a fitted model, and methods that describe it: tables, pages, a summary."""

from __future__ import annotations

import os
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from percdl.estimators.hyperparameters import HyperParameters
from percdl.estimators.personalization import Personalization
from percdl.exceptions import InvalidParameterError
from percdl.registry import look_up
from percdl.signals import AnyCohort

if TYPE_CHECKING:
    import pandas as pd

    from percdl.estimators.cycles import Cycles
    from percdl.estimators.landmarks import Mark
    from percdl.estimators.summary import Summary
    from percdl.signals import Cohort

Self = TypeVar("Self", bound="Described")


class Described(HyperParameters):
    """A model and its descriptions.

    ``recordings_`` is the cohort of the fit, not a copy; pickles and model files leave it out
    (None). ``settings_`` are those of the command that fitted the model, if any.
    """

    params_: np.ndarray
    events_: pd.DataFrame
    n_activations_: np.ndarray
    history_: pd.DataFrame
    subjects_: tuple[str, ...]
    channels_: tuple[str, ...]
    units_: tuple[str, ...]
    processing_: tuple[str, ...] | None
    dictionary_: np.ndarray
    n_atoms_: int
    atom_length_: int
    atom_lengths_: tuple[int, ...]
    n_channels_: int
    penalty_: float
    huber_delta_: float | None
    prior_: np.ndarray | None = None
    sfreq_: float
    objective_: float
    stop_reason_: str
    recordings_: Cohort | None = None
    suspects_: pd.DataFrame | None = None
    kinds_path_: pd.DataFrame | None = None
    marks_: tuple[Mark, ...] = ()
    atom_names_: tuple[str, ...] = ()
    settings_: Any = None

    @cached_property
    def personalization_(self) -> Personalization:
        """The subjects of the fit, as `personalize` describes others."""
        check_is_fitted(self)
        found = self.params_, self.events_, self.n_activations_, tuple(self.subjects_)
        model = self.resolve("transformation"), self.dictionary_, self.dtype
        n_terms = getattr(self.resolve("coder"), "n_terms", 0)
        return Personalization(*found, *model, n_terms, self.suspects_, self.atom_lengths_)

    @property
    def personal_dictionary_(self) -> np.ndarray:
        """The personal atoms, array (S, K, L, P); NaN for subjects without the atom."""
        return self.personalization_.personal_dictionary

    @property
    def warps_(self) -> np.ndarray:
        """The warps psi, array (S, K, C, L), in samples; see `Personalization.warps`."""
        return self.personalization_.warps

    def report(self, path: str | os.PathLike[str], X: Any = None, **options: Any) -> Path:
        """Write one HTML file that shows the model, its people and their groups.

        It is interactive and needs no network.

        Parameters
        ----------
        path : path
            Where to write.
        X : Cohort or arrays, optional
            The recordings, by default those of the fit; others are personalized first. Needed
            for a model that was loaded from a file.
        **options
            ``reference``, ``metadata``, ``person`` and ``title``, see
            `percdl.report.cohort.write_report`.
        """
        check_is_fitted(self)
        return look_up("write_report")(self, path, X, **options)

    def person_page(
        self, path: str | os.PathLike[str], subject: str, X: Any = None, **options: Any
    ) -> Path:
        """Write one page about one person, to read or to print.

        Sentences come first, then pictures, numbers with the range of the reference, methods.

        Parameters
        ----------
        path, subject : path, str
            Where to write, and whom it is about.
        X : Cohort or arrays, optional
            The recordings of the person and of the reference, as in `report`.
        **options
            ``reference``, ``metadata`` and ``person``, see `percdl.report.person.write_person`.
        """
        check_is_fitted(self)
        return look_up("write_person")(self, path, subject, X, **options)

    def cycles(
        self,
        X: Any = None,
        *,
        events: pd.DataFrame | None = None,
        min_quality: float = 0.0,
        false_alarms: float = 0.01,
    ) -> pd.DataFrame:
        """Describe every cycle: how it differs from the person's usual one, and its quality.

        Each event gets a gain, a shift and a small warp relative to the person's warp. Their
        distribution is estimated from all cycles, and noisy cycles are shrunk more towards the
        person's usual cycle (docs/cycles.md).

        Parameters
        ----------
        X : Cohort or arrays, optional
            The recordings, by default those of the fit; others are personalized first.
        events : DataFrame, optional
            Cycles to describe instead of those that the model finds, such as the onsets of
            another detector: columns ``subject``, ``onset_sample`` and optionally ``atom``. They
            may overlap.
        min_quality : float, default=0.0
            Leave out cycles of a lower quality.
        false_alarms : float, default=0.01
            The share of ordinary cycles that may be flagged.

        Returns
        -------
        DataFrame
            One row per event: subject, atom, onset_sample, onset_seconds, duration_seconds,
            amplitude, ``residual`` (share of the cycle's energy that is not explained),
            ``quality`` (p-value of the residual among the cycles of the same person), ``flagged``
            (quality below ``false_alarms``), ``missing`` (share of its samples), and, if the
            transformation warps time, ``shift``, ``warp1``, ``warp2``, ... in seconds: the cycle
            is later than the person's usual one by
            ``shift + sum_j warp_j sin(j pi t / duration)``.

        Examples
        --------
        >>> from percdl import PerCDL, TimeWarp, make_synthetic
        >>> truth = make_synthetic(4, noise_std=0.05, random_state=0)
        >>> model = PerCDL(2, 50, TimeWarp(3, 10), 1e-2, init=truth.personal_dictionary[0])
        >>> table = model.fit(truth.cohort).cycles()
        >>> len(table) == len(model.events_), bool(table["residual"].median() < 0.1)
        (True, True)
        """
        for name, value in (("min_quality", min_quality), ("false_alarms", false_alarms)):
            if not 0 <= value <= 1:
                raise InvalidParameterError(f"`{name}={value!r}` must be between 0 and 1.")
        table: Any = self._find_cycles(X, events, false_alarms=false_alarms).table
        return table[~(table["quality"] < min_quality)] if min_quality else table

    def mark(
        self: Self,
        name: str | None = None,
        atom: int = 0,
        time: Any = None,
        *,
        channel: str | None = None,
        X: Any = None,
    ) -> Self:
        """Place a landmark on a common atom; `landmarks` finds it in every cycle.

        Landmarks are kept in ``marks_`` and saved with the model. One of the same name is
        replaced.

        Parameters
        ----------
        name : str, optional
            Its name. None: place one landmark per value of the column ``label`` of annotations.
        atom : int, default=0
            The atom.
        time : float or DataFrame
            Seconds from the start of the atom, or annotations of some people, with columns
            ``subject`` and ``sample``, such as `percdl.read_annotations` returns. The warps
            map them to common time, and their median over people is the landmark.
        channel : str, optional
            The channel of the landmark, if each channel has its own warp. By default landmarks
            follow the median of these warps.
        X : Cohort or arrays, optional
            The recordings of the annotations, by default those of the fit.

        Examples
        --------
        >>> from percdl import PopCDL, make_synthetic
        >>> truth = make_synthetic(2, random_state=0)
        >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
        >>> model.mark("peak", 1, 0.12).landmarks()["landmark"].unique().tolist()
        ['peak']
        """
        from percdl.estimators.landmarks import make_marks

        check_is_fitted(self)
        new = make_marks(self, name, atom, time, channel, X)
        names = {mark.name for mark in new}
        self.marks_ = (*(old for old in self.marks_ if old.name not in names), *new)
        return self

    def unmark(self: Self, name: str) -> Self:
        """Remove the landmark of this name.

        Examples
        --------
        >>> from percdl import PopCDL, make_synthetic
        >>> truth = make_synthetic(2, random_state=0)
        >>> model = PopCDL(penalty=1.0, init=truth.dictionary).find(truth.cohort)
        >>> model.mark("peak", 1, 0.12).unmark("peak").marks_
        ()
        """
        check_is_fitted(self)
        kept = tuple(mark for mark in self.marks_ if mark.name != name)
        if len(kept) == len(self.marks_):
            known = ", ".join(repr(mark.name) for mark in kept) or "none"
            raise InvalidParameterError(f"There is no landmark {name!r}. The model has {known}.")
        self.marks_ = kept
        return self

    def landmarks(
        self, X: Any = None, *, events: pd.DataFrame | None = None, level: float = 0.01
    ) -> pd.DataFrame:
        """Return each landmark in each cycle of each person.

        Parameters
        ----------
        X, events : as in `cycles`
        level : float, default=0.01
            A wave is present if its gain, estimated near the landmark, is significantly above
            zero at this level.

        Returns
        -------
        DataFrame
            One row per cycle and landmark: ``cycle`` (row of `cycles`), subject, atom,
            onset_sample, landmark, ``sample`` and ``seconds`` (NaN if absent), ``se`` (standard
            error in seconds), ``gain`` (1 is the wave as expected, 0 is no wave), ``present``.
            `percdl.estimators.intervals` turns it into intervals in ms.
        """
        from percdl.estimators.landmarks import find_landmarks

        check_is_fitted(self)
        if not 0 < level < 1:
            raise InvalidParameterError(f"`level={level!r}` must be between 0 and 1.")
        if not self.marks_:
            raise InvalidParameterError(
                "There are no landmarks. Place some first: `model.mark(name, atom, seconds)`, "
                "or `percdl mark` in the shell."
            )
        return find_landmarks(self.marks_, self._find_cycles(X, events), level)

    def name_atoms(self: Self, names: Any) -> Self:
        """Name the kinds of pattern; names are saved with the model.

        Parameters
        ----------
        names : list of str, or dict of int to str
            In the order of the atoms, or by position.

        Examples
        --------
        >>> from percdl import PopCDL, make_synthetic
        >>> truth = make_synthetic(2, random_state=0)
        >>> model = PopCDL(penalty=1.0, init=truth.dictionary).find(truth.cohort)
        >>> model.name_atoms({1: "arcs"}).atom_names_
        ('atom0', 'arcs')
        """
        from percdl.estimators.people import check_names

        check_is_fitted(self)
        self.atom_names_ = check_names(names, self.n_atoms_)
        return self

    def kinds(self, X: Any = None, *, level: float = 0.001) -> pd.DataFrame:
        """Return the kind of every event, with a probability, and patterns of unknown kind.

        The probability compares the gains of the person's atoms at the event, assuming Gaussian
        noise with the variance of the residuals of the person's events, and takes the frequency
        of the kinds into account.

        Parameters
        ----------
        X : as in `cycles`
        level : float, default=0.001
            An event is of kind "other" if residuals as large as its own have less than this
            probability among the events of the person.

        Returns
        -------
        DataFrame
            The events with columns ``kind`` (name of the atom, or "other"), ``kind_probability``
            and ``residual`` (share of the energy of its window that its atom does not explain).
            Windows without an event that contain at least half the energy of a usual one are
            also rows: kind "other", atom -1.
        """
        from percdl.estimators.people import check_names, describe_kinds

        if not 0 < level < 1:
            raise InvalidParameterError(f"`level={level!r}` must be between 0 and 1.")
        found, cohort = self._described(X)
        return describe_kinds(found, cohort, check_names(self.atom_names_, self.n_atoms_), level)

    def people(self, X: Any = None) -> pd.DataFrame:
        """Return one row per person, with numbers to check before using the other results.

        Parameters
        ----------
        X : as in `cycles`

        Returns
        -------
        DataFrame
            Columns subject, ``scale`` (root mean square over the median of all),
            ``polarity`` (sign of most amplitudes), ``constant_channels``, ``explained`` (share of
            the energy), ``back_to_back`` (share of the activations that end where the next
            begins); for each kind its activations ``n_...`` and median ``amplitude_...``, NaN for
            people without the kind; ``remarks``, the warnings that name the person.
        """
        from percdl.estimators.people import check_names, describe_people

        found, cohort = self._described(X)
        return describe_people(found, cohort, check_names(self.atom_names_, self.n_atoms_))

    def parameters(self, X: Any = None) -> pd.DataFrame:
        """Return interpretable parameters, one row per person and atom.

        Layers of a time warp are interchangeable, so single raw parameters (`transform`) have no
        meaning, unlike the displacement of the warp (docs/transforms.md).

        Parameters
        ----------
        X : as in `cycles`
            Not needed for the people of the fit, even if the model was loaded.

        Returns
        -------
        DataFrame
            Columns subject, atom, activations, amplitude (median size), then those of the
            transformation: ``displacement_at_25%_s`` (seconds that the person is ahead of the
            population at a quarter of the cycle) and ``speed_0%_to_12.5%`` (mean local speed
            there; 1 is the population's) of a `TimeWarp`, ``gain_...`` of a `Gain`,
            ``angle_..._deg`` of a `Rotation`, and so on. NaN for people without the atom.
        """
        from percdl.estimators.people import describe_parameters

        return describe_parameters(self, self._described(X, needed=False)[0])

    def summary(self, X: Any = None) -> Summary:
        """Return a `Summary` of a fit on one screen: settings, results, and recordings to check.

        Print it; notebooks show it as HTML, rich shows it in colour.

        Parameters
        ----------
        X : Cohort or arrays, optional
            The recordings of the fit, if the model does not hold them. Without recordings, the
            summary has no errors and no quality of cycles.
        """
        from percdl.estimators.summary import summarize

        return summarize(self, X)

    def _html_repr(self) -> str:
        """Return the summary of a fitted model for notebooks, or the diagram of scikit-learn."""
        from percdl.estimators.summary import summarize

        is_fitted = hasattr(self, "dictionary_")
        return summarize(self, quick=True)._repr_html_() if is_fitted else super()._html_repr()

    def _described(self, X: Any, needed: bool = True) -> tuple[Personalization, Any]:
        """Return how the model describes recordings, by default those of the fit, and them.

        If the model does not hold them, that is an error or, unless ``needed``, None.
        """
        check_is_fitted(self)
        if X is not None:
            cohort = self._check_new(X)
            return self._express(cohort), cohort
        if needed and self.recordings_ is None:
            raise InvalidParameterError(
                "The model does not hold the recordings it was fitted on: model files, pickles "
                "and fits from disk leave them out. Pass them as X."
            )
        return self.personalization_, self.recordings_

    def _find_cycles(self, X: Any = None, events: Any = None, **options: Any) -> Cycles:
        from percdl.estimators.cycles import find_cycles

        return find_cycles(*self._described(X), events, **options)

    @abstractmethod
    def _check_new(self, X: Any) -> AnyCohort:
        """Return recordings as a cohort; raise if they do not match those of the fit."""

    @abstractmethod
    def _express(self, cohort: AnyCohort, runtime: Any = None) -> Personalization:
        """Describe recordings with the fitted dictionary."""
