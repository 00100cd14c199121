"""The start of a fit: hyper-parameters as numbers, and the first dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from percdl.algorithm.chunks import Chunk, bucket_length, fill
from percdl.algorithm.magnitude import choose_unit, find_spreads
from percdl.algorithm.settings import Huber, Settings
from percdl.estimators.hyperparameters import SHORTEST, Motif
from percdl.estimators.validation import check_lengths, check_samples
from percdl.exceptions import InvalidParameterError, InvalidRecordingError
from percdl.parameters import in_samples, share_of
from percdl.seeds import as_random_state
from percdl.signals import AnyCohort, Cohort, Recording
from percdl.steps import initialization, period
from percdl.steps import penalty as penalties
from percdl.steps.coders import L0Coder, L1Coder, SizedCoder
from percdl.steps.dictionary import normalize

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL
    from percdl.steps.types import Signals

# Largest number of recordings used to estimate the period.
MOST_PERIODS = 512
# An atom counts if it explains at least this share of what the first one explains.
WORTH, MOST_ATOMS = 0.25, 4
# Recordings searched for a first dictionary, and the number of atom lengths of each.
MOST_RECORDINGS, MOST_LENGTHS = 32, 40
# Share of the candidates that a restart uses.
RESTART_SHARE = 0.25
_ALLOWED = "'auto', an array (n_atoms, atom_length, n_channels), a Motif or a list of Motif"
# Delta of Huber's loss over the root mean square of a recording. A residual as large as the signal
# is an artefact; smaller shares take the misfit of the first rounds for artefacts, too.
SHARE = 1.0


class Choices(NamedTuple):
    """The hyper-parameters of a fit, as numbers."""

    n_atoms: int
    atom_length: int
    penalty: float
    huber_delta: float | None = None
    atom_lengths: tuple[int, ...] = ()


def make_settings(model: BaseCDL, source: Any, chosen: Choices | None = None) -> Settings:
    """Return the problem and the algorithm of a model; of a fitted one by default.

    ``source`` is a cohort, or what the cohorts of all sites have in common.
    """
    n_atoms, length, penalty, delta, lengths = chosen or (
        model.n_atoms_, model.atom_length_, model.penalty_, model.huber_delta_, model.atom_lengths_
    )  # fmt: skip
    return Settings(
        transform=model.resolve("transformation"),
        atom_length=int(length),
        n_atoms=int(n_atoms),
        n_channels=source.n_channels,
        penalty=float(penalty),
        delta=delta,
        relative=model.loss == "relative",
        coder=make_coder(model.resolve("coder"), source.sfreq, lengths),
        dtype=model.dtype,
        **asdict(model.resolve("algorithm")),
    )


def make_coder(
    coder: L0Coder | L1Coder, sfreq: float, atom_lengths: Sequence[int]
) -> L0Coder | L1Coder:
    """Return a coder with times in samples, and the lengths of atoms if they differ."""
    if isinstance(coder, L1Coder):
        return coder
    coder, sizes = coder.at_rate(sfreq), tuple(atom_lengths)
    return SizedCoder(**vars(coder), sizes=sizes) if len(set(sizes)) > 1 else coder


def choose(model: BaseCDL, cohort: AnyCohort) -> Choices:
    """Return the hyper-parameters as numbers; those not given are chosen one by one."""
    name, rng = type(model).__name__, as_random_state(model.random_state)
    share, is_listed = share_of(model.penalty), isinstance(model.atom_length, (list, tuple))
    finds_penalty = model.penalty == "auto" or share is not None
    if model.atom_length == "auto":
        check_lengths(cohort, SHORTEST, name)
        check_samples(cohort)
        lengths = (choose_length(cohort, model.init),)
    else:
        lengths = lengths_in_samples(model.atom_length, cohort.sfreq)
    check_lengths(cohort, max(lengths), name)
    n_atoms = len(lengths) if model.n_atoms == "auto" else int(model.n_atoms)
    penalty, delta = 0.0 if finds_penalty else float(model.penalty), None
    if isinstance(model.loss, Huber):
        # The median over the recordings: a few that are full of artefacts do not change it.
        typical = SHARE * np.sqrt(np.median(cohort.power))
        delta = float(typical if model.loss.delta is None else model.loss.delta)
    chosen = Choices(n_atoms, max(lengths), penalty, delta, lengths if is_listed else ())
    if model.n_atoms == "auto" or finds_penalty:
        check_samples(cohort)
    if model.n_atoms == "auto" and not is_listed:
        free = make_settings(model, cohort, chosen._replace(penalty=0.0))
        chosen = chosen._replace(n_atoms=choose_n_atoms(cohort, free, model.init, rng))
    if finds_penalty:
        free = make_settings(model, cohort, chosen)
        dictionary = first_dictionary(model.init, cohort, free, rng)
        chosen = chosen._replace(penalty=choose_penalty(cohort, free, dictionary, share, rng))
    return chosen


def lengths_in_samples(length: Any, sfreq: float) -> tuple[int, ...]:
    """Return a length, or those of a list, in samples."""
    each = length if isinstance(length, (list, tuple)) else (length,)
    found = tuple(in_samples(one, sfreq) for one in each)
    for given, n_samples in zip(each, found, strict=True):
        if n_samples < SHORTEST:
            raise InvalidParameterError(
                f"`atom_length={given!r}` is {n_samples} sample(s) at {sfreq:g} Hz, but an atom "
                f"has at least {SHORTEST}. Plain arrays count as 1 Hz: pass "
                "`Cohort.from_arrays(X, sfreq=...)`, or a number of samples."
            )
    return found


def choose_length(cohort: AnyCohort, init: Any) -> int:
    """Return the length of a given first dictionary, or one that suits the periods."""
    given = given_atoms(init)
    if isinstance(given, np.ndarray):
        return given.shape[1]
    ranks = by_power(cohort)
    looked_at = ranks[np.linspace(0, len(ranks) - 1, min(len(ranks), MOST_PERIODS)).astype(int)]
    recordings = [cohort[i].values for i in looked_at]
    length = period.agree_on_length(period.estimate_periods(recordings).period, recordings)
    if length is None or length < SHORTEST:
        raise InvalidRecordingError(
            '`atom_length="auto"`: the recordings do not repeat themselves, so they have no '
            "period. Set `atom_length` to the duration of the pattern, in samples."
        )
    return length


def choose_n_atoms(
    cohort: AnyCohort, settings: Settings, init: Any, rng: np.random.RandomState
) -> int:
    """Return the number of atoms: as given, or up to the first that explains too little."""
    given = given_atoms(init)
    if given is not None:
        return len(given)
    sample = draw_sample(cohort, settings, rng)
    found = find_segments(sample, MOST_ATOMS, rng)
    nested = np.tril(np.ones((MOST_ATOMS, MOST_ATOMS)))[..., None, None] * found
    price, coder = sample.settings.penalty, settings.disjoint_coder
    shares = initialization.mean_shares(sample.signals, nested.astype(found.dtype), price, coder)
    added = np.diff(shares, prepend=0)
    return int(np.argmax(np.append(added[1:] < WORTH * added[0], True))) + 1


def choose_penalty(
    cohort: AnyCohort,
    settings: Settings,
    dictionary: np.ndarray,
    ratio: float | None,
    rng: np.random.RandomState,
) -> float:
    """Return the penalty by BIC, or a ratio of the largest useful one."""
    atoms = normalize(dictionary).astype(settings.dtype)
    signals, _, unit = draw_sample(cohort, settings, rng)
    problem = signals, atoms, settings.disjoint_coder
    if ratio is None:
        return penalties.choose_penalty(*problem) * unit * unit
    return ratio * float(penalties.largest_penalty(*problem)) * unit * unit


def by_power(cohort: AnyCohort) -> np.ndarray:
    """Return the positions of the recordings in order of power: subjects may come in any order."""
    return np.argsort(cohort.power, kind="stable")


class Sample(NamedTuple):
    """Some recordings, counted in a unit that suits them, and the settings in the same unit."""

    signals: Signals
    settings: Settings
    unit: float


def first_dictionary(
    init: Any, cohort: AnyCohort, settings: Settings, rng: np.random.RandomState, restart: int = 0
) -> np.ndarray:
    """Return the first dictionary, array (K, L, P).

    ``init`` is an array of that shape, a `Motif` (or a list of K of them), or ``"auto"``:
    segments that recur across some of the recordings. Restarts use only some candidates.
    """
    given = given_atoms(init)
    if given is None:
        sample, share = draw_sample(cohort, settings, rng), RESTART_SHARE if restart else 1.0
        return find_segments(sample, settings.n_atoms, rng, share=share).astype(float)
    if isinstance(given, list):
        given = np.stack([motif.cut(cohort, settings.atom_length) for motif in given])
    return check_atoms(given, settings)


def given_atoms(init: Any) -> np.ndarray | list[Motif] | None:
    """Return the atoms that ``init`` gives, array (K, L, P) or motifs; None for "auto"."""
    if isinstance(init, str) and init == "auto":
        return None
    motifs = [init] if isinstance(init, Motif) else init
    if isinstance(motifs, (list, tuple)) and {type(motif) for motif in motifs} == {Motif}:
        return list(motifs)
    try:
        array = np.asarray(init)
    except ValueError:  # rows of unequal lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        value = repr(init) if isinstance(init, str) else type(init).__name__
        raise InvalidParameterError(
            f"`init={value}` must be {_ALLOWED}; arrays hold real numbers."
        )
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidParameterError(
            f"`init` has shape {array.shape}, but must be {_ALLOWED}, with at least one atom."
        )
    return array.astype(float)


def check_atoms(dictionary: np.ndarray, settings: Settings) -> np.ndarray:
    """Return a given dictionary, if it can be that of these settings."""
    shape = (settings.n_atoms, settings.atom_length, settings.n_channels)
    if dictionary.shape != shape:
        raise InvalidParameterError(
            f"`init` has shape {dictionary.shape}, but (n_atoms, atom_length, n_channels) is "
            f"{shape}."
        )
    squares = (dictionary**2).sum((1, 2))
    if len(bad := np.flatnonzero(~(np.isfinite(squares) & (squares > 0)))):
        raise InvalidParameterError(
            f"`init` holds an atom that is zero or not finite (atom {bad[0]}). "
            "Give each atom a shape."
        )
    return dictionary


def find_segments(
    sample: Sample, n_atoms: int, rng: np.random.RandomState, **options: Any
) -> np.ndarray:
    """Return segments (K, L, P) that recur, as the settings of a fit would use them."""
    signals, settings, _ = sample
    generator = np.random.default_rng(rng.randint(2**31))
    length, coder = settings.atom_length, settings.disjoint_coder
    return initialization.choose_segments(
        signals, n_atoms, length, settings.penalty, coder, generator, **options
    )


def revive_atoms(
    dictionary: np.ndarray,
    dead: np.ndarray,
    cohort: AnyCohort,
    settings: Settings,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Replace unused atoms by unexplained segments, if that lowers the objective."""
    sample = draw_sample(cohort, settings, rng)
    order = np.argsort(dead, kind="stable")  # those alive come first
    if isinstance(settings.coder, SizedCoder):
        coder = replace(settings.coder, sizes=tuple(settings.coder.sizes[k] for k in order))
        sample = sample._replace(settings=replace(sample.settings, coder=coder))
    found = find_segments(sample, settings.n_atoms, rng, chosen=dictionary[~dead])
    revived = dictionary.copy()
    revived[order] = found
    both = np.stack([dictionary, revived]).astype(settings.dtype)
    price = sample.settings.penalty
    before, after = np.asarray(
        initialization.mean_shares(sample.signals, both, price, settings.disjoint_coder)
    )
    return revived if after > before else dictionary


def spread_sample(cohort: Cohort, atom_length: int, least: int) -> Cohort:
    """Return the beginnings of ``least`` recordings or more, over the whole range of powers."""
    n_picked = min(len(cohort), max(MOST_RECORDINGS, least))
    ranks = np.linspace(0, len(cohort) - 1, n_picked).astype(int)
    longest = MOST_LENGTHS * atom_length
    picked = (cohort[i] for i in np.sort(by_power(cohort)[ranks]))
    cut = (Recording(r.values[:longest], subject=r.subject, person=r.person) for r in picked)
    return Cohort(cut)


def draw_sample(cohort: AnyCohort, settings: Settings, rng: np.random.RandomState) -> Sample:
    """Return some recordings, cut to limit the cost."""
    picked = by_power(cohort)[np.sort(rng.permutation(len(cohort))[:MOST_RECORDINGS])]
    longest = MOST_LENGTHS * settings.atom_length
    n_times = bucket_length(min(int(cohort.lengths[picked].max()), longest))
    rows = next(size for size in (4, 16, MOST_RECORDINGS) if len(picked) <= size)
    chunk = Chunk(picked, rows, bucket_length(int(cohort.lengths[picked].max())))
    unit = 1.0 if settings.relative else choose_unit(cohort, picked)
    divisors = find_spreads(cohort, picked) if settings.relative else unit
    signals = fill(cohort, chunk, cohort.n_masks, settings.dtype, divisors)
    cut = signals._replace(
        values=signals.values[:, :n_times],
        lengths=np.minimum(signals.lengths, n_times).astype(np.int32),
        observed=None if signals.observed is None else signals.observed[:, :n_times],
    )
    return Sample(cut, settings.in_unit(unit), unit)
