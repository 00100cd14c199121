"""The dictionary a fit starts from: given, cut from named subjects, or chosen from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from percdl.algorithm.chunks import Chunk, bucket_length, fill
from percdl.algorithm.magnitude import choose_unit
from percdl.algorithm.settings import Settings
from percdl.estimators.automatic import by_power
from percdl.estimators.motif import Motif
from percdl.exceptions import InvalidParameterError
from percdl.signals import AnyCohort

if TYPE_CHECKING:
    from percdl.steps.types import Signals

# Data-driven initialization looks at this many recordings, and this many atom lengths of each.
MOST_RECORDINGS, MOST_LENGTHS = 32, 40
# Share of the candidates that a restart knows.
RESTART_SHARE = 0.25
_ALLOWED = "'auto', an array (n_atoms, atom_length, n_channels), a Motif or a list of Motif"


class Sample(NamedTuple):
    """Some recordings, counted in a unit that suits them, and the settings in the same unit."""

    signals: Signals
    settings: Settings
    unit: float


def first_dictionary(
    init: Any,
    cohort: AnyCohort,
    settings: Settings,
    rng: np.random.RandomState,
    restart: int = 0,
) -> np.ndarray:
    """Return the first dictionary, array (K, L, P).

    ``init`` is an array of that shape, a `Motif` (or a list of K of them), or ``"auto"``;
    restarts of the latter know only some of the candidates, so as to begin elsewhere.
    """
    given = given_atoms(init)
    if given is None:
        return _from_data(cohort, settings, rng, RESTART_SHARE if restart else 1.0)
    if isinstance(given, list):
        given = np.stack([motif.cut(cohort, settings.atom_length) for motif in given])
    return check_atoms(given, settings)


def given_atoms(init: Any) -> np.ndarray | list[Motif] | None:
    """Return the atoms that ``init`` gives, array (K, L, P) or motifs; None if it gives none."""
    if isinstance(init, str):
        if init != "auto":
            raise InvalidParameterError(f"`init={init!r}` must be {_ALLOWED}.")
        return None
    motifs = [init] if isinstance(init, Motif) else init
    if isinstance(motifs, (list, tuple)) and motifs and all(isinstance(m, Motif) for m in motifs):
        return list(motifs)
    array = _as_array(init)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidParameterError(
            f"`init` has shape {array.shape}, but must be {_ALLOWED}, with at least one atom."
        )
    return array


def _as_array(init: Any) -> np.ndarray:
    try:
        array = np.asarray(init)
    except ValueError:  # rows of unequal lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise InvalidParameterError(
            f"`init` is a {type(init).__name__} that holds no array of real numbers. It must be "
            f"{_ALLOWED}."
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
    norms = np.sqrt((dictionary**2).sum((1, 2)))
    if not np.isfinite(norms).all() or not (norms > 0).all():
        bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
        raise InvalidParameterError(
            f"`init` holds an atom that is zero or not finite (atom {bad[0]}). "
            "Give each atom a shape."
        )
    return dictionary


def _from_data(
    cohort: AnyCohort, settings: Settings, rng: np.random.RandomState, share: float
) -> np.ndarray:
    """Pick segments that recur across some of the recordings."""
    sample = draw_sample(cohort, settings, rng)
    return find_segments(sample, settings.n_atoms, rng, share=share).astype(float)


def find_segments(
    sample: Sample, n_atoms: int, rng: np.random.RandomState, **options: Any
) -> np.ndarray:
    """Return segments (K, L, P) that recur, as the settings of a fit would use them."""
    from percdl.steps.initialization import choose_segments

    signals, settings, _ = sample
    generator = np.random.default_rng(rng.randint(2**31))
    length, coder = settings.atom_length, settings.disjoint_coder
    return choose_segments(signals, n_atoms, length, settings.penalty, coder, generator, **options)


def revive_atoms(
    dictionary: np.ndarray,
    dead: np.ndarray,
    cohort: AnyCohort,
    settings: Settings,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Replace atoms that nobody uses by segments that the others leave unexplained.

    Where no segment is worth its price the dictionary is returned as it was.
    """
    from percdl.steps.initialization import mean_shares

    sample = draw_sample(cohort, settings, rng)
    order = np.argsort(dead, kind="stable")  # those alive come first
    found = find_segments(sample, settings.n_atoms, rng, chosen=dictionary[~dead])
    revived = dictionary.copy()
    revived[order] = found
    both = np.stack([dictionary, revived]).astype(settings.dtype)
    price = sample.settings.penalty
    before, after = np.asarray(mean_shares(sample.signals, both, price, settings.disjoint_coder))
    return revived if after > before else dictionary


def draw_sample(cohort: AnyCohort, settings: Settings, rng: np.random.RandomState) -> Sample:
    """Return some recordings, cut to a length that is quick to look at."""
    picked = by_power(cohort)[np.sort(rng.permutation(len(cohort))[:MOST_RECORDINGS])]
    longest = MOST_LENGTHS * settings.atom_length
    n_times = bucket_length(min(int(cohort.lengths[picked].max()), longest))
    rows = next(size for size in (4, 16, MOST_RECORDINGS) if len(picked) <= size)
    chunk = Chunk(picked, rows, bucket_length(int(cohort.lengths[picked].max())))
    unit = choose_unit(cohort, picked)
    signals = fill(cohort, chunk, cohort.n_masks, settings.dtype, unit)
    cut = signals._replace(
        values=signals.values[:, :n_times],
        lengths=np.minimum(signals.lengths, n_times).astype(np.int32),
        observed=None if signals.observed is None else signals.observed[:, :n_times],
    )
    return Sample(cut, settings.in_unit(unit), unit)
