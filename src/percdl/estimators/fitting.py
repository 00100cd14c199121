"""Fitting and personalizing: run the algorithm and store its results in a model."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import FitState, History, StopReason, begin
from percdl.estimators import start, validation
from percdl.estimators.kinds import settle_kinds, warn_alike
from percdl.estimators.personalization import Personalization
from percdl.estimators.start import Choices
from percdl.estimators.suspects import warn_suspects
from percdl.exceptions import InvalidParameterError, NoActivationWarning, NumericalError
from percdl.runtimes.partitioned import check_place, host_fit
from percdl.runtimes.protocol import HostedFit, Place
from percdl.seeds import as_random_state
from percdl.signals import AnyCohort, Cohort, as_any_cohort
from percdl.steps.dictionary import normalize

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL


@dataclass(frozen=True)
class End:
    """The end of a run: dictionary (K, L, P), objective, stop reason and results of subjects."""

    dictionary: np.ndarray
    objective: float
    stop_reason: StopReason
    history: History
    results: Results
    precision: np.ndarray | None = None

    @property
    def broadcast(self) -> Broadcast:
        """The quantities that subjects are expressed with."""
        return Broadcast(self.dictionary, precision=self.precision)


@dataclass(frozen=True)
class Moment:
    """A fit between two rounds of the run ``restart``.

    ``draws`` is the state of the random generator, ``best`` the best of the runs before, and
    ``site`` the state of the subjects. At the end of a fit it is empty: ``best`` is the result.
    """

    restart: int
    state: FitState
    history: History
    draws: Any
    best: End | None
    site: dict[str, np.ndarray]


@dataclass(frozen=True)
class Watch:
    """The callbacks of a fit, and its initial state.

    ``save(take)`` is called after each round, then ``report(phase, round, objective)``; once
    more at the end. It writes the moment ``take(path)`` to that path, and returns whether both
    succeeded. With ``resumed``, the fit continues from there.
    """

    report: Callable[[str, int, float], None]
    save: Callable[[Callable[[Path], Moment]], bool] = lambda take: True
    resumed: Moment | None = None


def prepare(model: BaseCDL, X: Any, runtime: Any) -> AnyCohort:
    """Return the recordings of a fit as a cohort; raise if an argument is invalid."""
    check_place(runtime)
    validation.check_arguments(model)
    return as_any_cohort(X)


def count_runs(model: BaseCDL) -> int:
    """Return the number of first dictionaries to fit from; 1 if the dictionary is given."""
    return model.n_restarts if isinstance(model.init, str) else 1


def rounds_per_run(model: BaseCDL) -> int:
    """Return the largest number of rounds from one first dictionary."""
    algorithm = model.resolve("algorithm")
    return algorithm.population_rounds + algorithm.personal_rounds


def count_rounds(model: BaseCDL) -> int:
    """Return the largest number of rounds of a fit."""
    return count_runs(model) * rounds_per_run(model)


def run_restarts(
    model: BaseCDL, cohort: AnyCohort, settings: Settings, watch: Watch, place: Place | None
) -> End:
    """Run from each first dictionary; return the end with the lowest objective."""
    runtime, is_saved = host_fit(place, cohort, settings), False
    try:
        validation.check_samples(cohort)  # the runtime has measured them as it took them up
        validation.warn_offset(cohort, settings, type(model).__name__)
        end, is_saved = _run_restarts(model, cohort, settings, watch, runtime)
    finally:
        runtime.close(keep=not is_saved)  # an earlier checkpoint may refer to its files
    return end


def _run_restarts(
    model: BaseCDL, cohort: AnyCohort, settings: Settings, watch: Watch, runtime: HostedFit
) -> tuple[End, bool]:
    """Return the best end, and whether the state of the subjects can be deleted."""
    rng = as_random_state(model.random_state)
    revive = None  # a given dictionary is not changed
    if isinstance(model.init, str):
        revive = partial(start.revive_atoms, cohort=cohort, settings=settings, rng=rng)
    first, best, resumed = 0, None, watch.resumed
    if resumed is not None:
        if resumed.best is not None and not resumed.site:
            return resumed.best, True
        runtime.restore(resumed.site)
        rng.set_state(resumed.draws)
        first, best = resumed.restart, resumed.best
    for restart in range(first, count_runs(model)):
        if resumed is not None:
            history, begun, resumed = resumed.history, resumed.state, None
        else:
            history = History()
            begun = start.first_dictionary(model.init, cohort, settings, rng, restart)

        def save(state: FitState, restart=restart, history=history, best=best) -> None:
            moment = partial(Moment, restart, state, history, rng.get_state(), best)
            if watch.save(lambda path: moment(runtime.snapshot(path))):
                runtime.settle()

        outcome = run_percdl(runtime, settings, begun, history, watch.report, revive, save)
        objective, reason = outcome.sums.objective, outcome.stop_reason
        if best is None or objective < best.objective:
            reached, results = (objective, reason, history), runtime.results()
            best = End(outcome.dictionary, *reached, results, outcome.precision)
    assert best is not None  # there is at least one run
    end = Moment(restart, begin(best.dictionary), history, rng.get_state(), best, {})
    return best, watch.save(lambda path: end)


def learn(
    model: BaseCDL, cohort: AnyCohort, chosen: Choices, watch: Watch, runtime: Place | None = None
) -> None:
    """Fit a model with hyper-parameters that are numbers."""
    settings, name = start.make_settings(model, cohort, chosen), type(model).__name__
    try:
        end = run_restarts(model, cohort, settings, watch, runtime)
    except NumericalError as error:
        # The rounds only see sums, so the offending recording is found here.
        raise validation.overflow(np.nan, cohort, settings.dtype, name) from error
    path = None
    # A list of lengths says how many atoms there are, and so do corrections that name them.
    is_open = isinstance(model.init, str) and not chosen.atom_lengths
    named = (each.atom for own in cohort.corrections.values() for each in own)
    if model.n_atoms == "auto" and is_open and all(atom is None for atom in named):

        def rerun(atoms: np.ndarray) -> End:
            again: Any = clone(model)
            again.set_params(n_atoms=len(atoms), init=atoms)
            own = start.make_settings(again, cohort, chosen._replace(n_atoms=len(atoms)))
            return run_restarts(again, cohort, own, Watch(watch.report), runtime)

        end, path = settle_kinds(end, cohort, settings, rerun)
        chosen = chosen._replace(n_atoms=len(end.dictionary))
        settings = start.make_settings(model, cohort, chosen)
    adopt(model, end, chosen, cohort, settings)
    model.kinds_path_ = path
    validation.warn_unmet(cohort, settings, end.results)
    if model.n_activations_.any():
        validation.warn_inactive(model.n_activations_, cohort)
        if path is None and settings.transform.shares_structure:
            signed = bool(settings.disjoint_coder.signed)
            warn_alike(model.dictionary_, model.n_activations_, signed)
    else:
        model.stop_reason_ = StopReason.NO_ACTIVATIONS.value
        warnings.warn(model.stop_reason_, NoActivationWarning, stacklevel=3)
    model.suspects_ = warn_suspects(cohort, settings, end.results, fitted=True)


def find_given(model: BaseCDL, X: Any, runtime: Any = None) -> None:
    """Make a model of the atoms that ``init`` gives, and find them in recordings."""
    cohort = prepare(model, X, runtime)
    if start.given_atoms(model.init) is None:
        raise InvalidParameterError(
            f"`{type(model).__name__}.find` needs the atoms to look for: pass them as `init`, an "
            "array (n_atoms, atom_length, n_channels), or learn some with `fit`."
        )
    chosen, history = start.choose(model, cohort), History()
    settings = start.make_settings(model, cohort, chosen)
    rng = as_random_state(model.random_state)
    dictionary = normalize(start.first_dictionary(model.init, cohort, settings, rng))
    model.dictionary_, model.prior_ = dictionary, None
    objective, results = run_on_frozen(model, cohort, settings, runtime)
    history.record("given", 0, "CSC", objective)
    end = End(dictionary, objective, StopReason.ROUNDS_DONE, history, results)
    adopt(model, end, chosen, cohort, settings)
    model.stop_reason_ = "The atoms were given; nothing was learned."
    validation.warn_inactive(model.n_activations_, cohort)
    validation.warn_unmet(cohort, settings, results)
    model.suspects_ = warn_suspects(cohort, settings, results, fitted=False)


def adopt(model: BaseCDL, end: End, chosen: Choices, source: Any, settings: Settings) -> None:
    """Give a model the results of a fit, wherever it was run."""
    model.dictionary_ = end.dictionary
    model.prior_ = end.precision
    model.n_atoms_, model.atom_length_, model.penalty_, model.huber_delta_, lengths = chosen
    model.atom_lengths_ = tuple(lengths) or (chosen.atom_length,) * chosen.n_atoms
    found = collect(end.dictionary, source, settings, end.results)
    model.params_, model.events_ = found.params, found.events
    model.n_activations_ = found.n_activations
    model.settings_ = model.suspects_ = model.kinds_path_ = None
    model.marks_ = model.atom_names_ = ()
    vars(model).pop("personalization_", None)  # a cached property
    model.history_ = pd.DataFrame([asdict(record) for record in end.history.records])
    model.objective_, model.stop_reason_ = end.objective, end.stop_reason.value
    model.subjects_ = source.subjects
    model.recordings_ = source if isinstance(source, Cohort) else None
    model.channels_, model.units_, model.sfreq_ = source.channels, source.units, source.sfreq
    model.n_channels_, model.processing_ = source.n_channels, source.processing


def express(model: BaseCDL, cohort: AnyCohort, runtime: Place | None = None) -> Personalization:
    """Express recordings with the dictionary of a fitted model."""
    settings = start.make_settings(model, cohort)
    _, results = run_on_frozen(model, cohort, settings, runtime)
    found = collect(model.dictionary_, cohort, settings, results)
    validation.warn_inactive(found.n_activations, cohort)
    validation.warn_unmet(cohort, settings, results)
    return replace(found, suspects=warn_suspects(cohort, settings, results, fitted=False))


def run_on_frozen(
    model: BaseCDL, cohort: AnyCohort, settings: Settings, runtime: Place | None = None
) -> tuple[float, Results]:
    """Return objective, codes and parameters of recordings for a fixed dictionary."""
    hosted, name = host_fit(runtime, cohort, settings), type(model).__name__
    try:
        validation.check_samples(cohort)
        validation.warn_offset(cohort, settings, name)
        sums = hosted.express(Broadcast(model.dictionary_, precision=model.prior_))
        if not np.isfinite(sums.objective):
            raise validation.overflow(sums.objective, cohort, settings.dtype, name)
        return sums.objective, hosted.results()
    finally:
        hosted.close()


def collect(
    dictionary: np.ndarray, source: Any, settings: Settings, results: Results
) -> Personalization:
    """Turn results into tables; parameters of absent atoms become NaN (decision 11)."""
    results.params[results.counts == 0] = np.nan
    if isinstance(source, Cohort):
        _forget_dead_channels(results.params, source.measures.is_constant, settings)
    events = pd.DataFrame(
        {
            "subject": pd.array(list(source.subjects), dtype="str").take(results.subject),
            "atom": results.atom.astype(int),
            "onset_sample": results.onset.astype(int),
            "onset_seconds": results.onset / source.sfreq,
            "amplitude": results.amplitude,
        }
    )
    if settings.has_lengths:
        events["duration_samples"] = results.length.astype(int)
        events["duration_seconds"] = results.length / source.sfreq
    model = (settings.transform, dictionary, settings.dtype, settings.disjoint_coder.n_terms)
    found = results.params, events, results.counts, source.subjects
    return Personalization(*found, *model, atom_lengths=settings.atom_lengths)


def _forget_dead_channels(params: np.ndarray, dead: np.ndarray, settings: Settings) -> None:
    """Set the warps of channels without a signal to NaN, if there is one warp per channel."""
    n_channels, part = settings.n_channels, settings.warp_part
    if dead.any() and part is not None and part[0].n_warps(n_channels) > 1:
        own = params[..., part[1]]
        by_channel = own.reshape(*own.shape[:2], n_channels, -1)
        by_channel[np.broadcast_to(dead[:, None], by_channel.shape[:3])] = np.nan
        params[..., part[1]] = by_channel.reshape(own.shape)


@contextmanager
def progress_bar(show: bool | str, n_rounds: int) -> Iterator[Callable[[str, int, float], None]]:
    """Yield ``report(phase, round, objective)``; with ``"auto"``, show only on a terminal.

    Elsewhere, if ``show`` is True, a line is written after each round.
    """
    if not show or (show == "auto" and not sys.stderr.isatty()):
        yield lambda phase, index, objective: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    def describe(phase: str, index: int, objective: float) -> str:
        return f"{phase} round {index + 1}, objective {objective:.6g}"

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *done: console.print(describe(*done), highlight=False, soft_wrap=True)
        return
    from percdl.steps.compilation import on_wait

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=n_rounds)
        with on_wait(lambda program: progress.update(task, description=f"compiling {program}")):
            yield lambda *done: progress.update(task, advance=1, description=describe(*done))
