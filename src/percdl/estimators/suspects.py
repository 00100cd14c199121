"""Warnings that name recordings with doubtful results.

All rules work on arrays over subjects. Single recordings are read only to estimate the period of
at most `MOST_EXAMINED` people with a doubtful rhythm.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from percdl.exceptions import SingleSubjectWarning, SuspectRecordingWarning
from percdl.signals import AnyCohort, Cohort
from percdl.signals.events import usual_interval
from percdl.signals.recording import abbreviate

if TYPE_CHECKING:
    from percdl.algorithm.results import Results
    from percdl.algorithm.settings import Settings

# Onsets are whole samples, and so are periods: a difference of up to 2 may be rounding.
SLACK = 2
# Periods vary from cycle to cycle; an interval within this share of a period agrees with it.
MEETS = 0.05
# Back to back throughout: at least this share of the gaps has no room for a sample; with fewer
# gaps the share is not estimated.
THROUGHOUT, FEWEST_GAPS = 0.9, 5
# Irregular: at least this share of the gaps differs by this share from their median.
IRREGULAR, DIFFERENT = 0.2, 0.2
# Extra activations: the mean gap is at most this share of a period that is clear, which takes a
# recording of several periods.
EXTRA, CLEAR, FEWEST_PERIODS = 0.9, 0.25, 8
# The units that are mixed up most often and differ least are g and m/s^2, by a factor of 9.8.
LARGE = 8.0
# Tukey's fences, in interquartile ranges: beyond the first a value is outside, beyond the second
# far out. With fewer than five people the quartiles depend on the one in question.
OUTSIDE, FAR_OUT, FEWEST_PEOPLE = 1.5, 3.0, 5
# Slow drift: at least this share of the variance, and of the unexplained part, is slower than a
# cycle. Set by hand.
DRIFT, OF_ERROR = 0.3, 0.5
# Missing more cycles in between than this is hardly possible; the period is not the pattern's.
MOST_MISSED = 4
# A recording that is explained this well is not in doubt, even if others are explained better.
WELL_EXPLAINED = 0.8
# Number of people examined, and of ordinary people they are compared with; with several atoms.
MOST_EXAMINED, N_ORDINARY, MOST_EXAMINED_KINDS = 32, 5, 64
# A rate follows a rhythm if it differs by at most this share. Cycles are alike if a segment recurs
# with at least this share of its usual gain.
CLOSE, ALIKE = 0.02, 0.8
# Number of intervals of a recording that its period is estimated from.
MOST_INTERVALS = 256
# A rhythm shows in at least this number of intervals.
FEWEST_INTERVALS = 12
MOST_NAMED = 5


class Rhythm(NamedTuple):
    """Gaps between the onsets of each subject: number, median and mean.

    ``back_to_back``: nearly all are full. ``irregular``: many differ from the median.
    """

    n_gaps: Int[np.ndarray, " S"]
    interval: Float[np.ndarray, " S"]
    mean: Float[np.ndarray, " S"]
    back_to_back: np.ndarray
    irregular: np.ndarray


class Kind(NamedTuple):
    """The warning of a kind of finding: its beginning, advice, advice in Python, category."""

    found: str
    advice: str
    code: str = ""
    category: type[UserWarning] = SuspectRecordingWarning


KINDS = {
    "rate": Kind(
        "Activations do not follow the person's own rhythm",
        "Rates and intervals of these people are wrong. If cycles are missed, use an atom that is "
        "shorter than their period; if there are too many activations, use a longer one, raise "
        "the penalty, or keep the likely ones. Either way, allow other lengths (--stretch 2), or "
        "leave these people out.",
        "In Python: `percdl.analysis.judge_events`, `coder=L0Coder(stretch=2)`.",
    ),
    "length": Kind(
        "Activations are as short or as long as `stretch` allows",
        "The person's length may be outside this range. Allow a larger --stretch, or choose an "
        "--atom-length nearer to the middle of all people.",
        "In Python: `coder=L0Coder(stretch=...)`, `atom_length`.",
    ),
    "large": Kind(
        "Much larger than the other recordings",
        "In a fit they outweigh all others. Check their unit and look for artefacts; with "
        "--loss relative all people count alike.",
        'In Python: `loss="relative"`.',
    ),
    "unexplained": Kind(
        "Explained far worse than the other recordings",
        "Their onsets and parameters are unreliable. Look at them. If some are upside down, use "
        "one sign per person (--polarity person); remove drift, or leave the recording out.",
        'In Python: `coder=L0Coder(polarity="person")`.',
    ),
    "drift": Kind(
        "Slow drift beside the pattern",
        "Atoms cannot follow it, so onsets are unreliable. Fit a line under each activation "
        "(--baseline line), or remove the drift with a band-pass from about half the rate of the "
        "pattern on: --bandpass 0.5 inf.",
        'In Python: `coder=L0Coder(baseline="line")`, `cohort.bandpass(0.5, None)`.',
    ),
    "constant": Kind(
        "A channel is constant",
        "It contains no pattern and counts as missing for these people; its own warp, if any, "
        "is NaN. Check the sensor, or leave the channel out.",
    ),
    "alone": Kind(
        "There is only one recording",
        "The common atom is this person's own atom. Fit several people together, or let people "
        "differ by nothing (--transformation identity).",
        "In Python: `PopCDL`.",
        SingleSubjectWarning,
    ),
}


def find_suspects(
    cohort: AnyCohort,
    settings: Settings,
    subject: Int[np.ndarray, " E"],
    atom: Int[np.ndarray, " E"],
    onset: Int[np.ndarray, " E"],
    length: Int[np.ndarray, " E"],
    error: Float[np.ndarray, " S"],
    fitted: bool,
) -> pd.DataFrame:
    """Return the subjects with doubtful results, and why: columns subject, kind and message.

    A channel that is constant in all recordings is one row, with an empty subject. ``subject``,
    ``atom``, ``onset`` and ``length`` are those of all events, sorted; ``error`` is the share of
    each recording's energy that is not explained, NaN if unknown; ``fitted`` says whether the
    atoms were learned from these recordings.
    """
    names = cohort.subjects
    shortest = settings.atom_length + settings.disjoint_coder.gap
    rhythm = measure_rhythm(subject, onset, len(error), shortest)
    wrong_rate = {}
    # With overlap, gaps say nothing; activations of different lengths have no common pace.
    if not (settings.overlaps or settings.has_lengths):
        rates = _wrong_rates(cohort, shortest, error, rhythm)
        if settings.n_atoms > 1:
            of_atom = [(subject[atom == k], onset[atom == k]) for k in range(settings.n_atoms)]
            rates = _without_rhythm(cohort, of_atom)
        wrong_rate = dict(rates)
    rest = error.copy()
    rest[np.bincount(subject, minlength=len(error)) == 0] = np.nan  # another warning names them
    rest[list(wrong_rate)] = np.nan
    drifting = []
    if not settings.disjoint_coder.n_terms:
        drifting = list(_drifting(cohort, settings.atom_length, rhythm.interval, error))
    rest[[s for s, _ in drifting if s is not None]] = np.nan
    found = {"rate": wrong_rate.items(), "unexplained": _unexplained(rest), "drift": drifting}
    if settings.disjoint_coder.stretch > 1 and not settings.atom_lengths:
        found["length"] = _at_a_bound(settings, subject, length, cohort.sfreq)
    if settings.transform.shares_structure and not settings.relative:
        found["large"] = _large(cohort.power)
    if isinstance(cohort, Cohort):
        found["constant"] = _constant(cohort.constant, cohort.channels)
    if fitted and len(cohort) == 1 and settings.transform.shares_structure and settings.n_params:
        found["alone"] = [(0, "no other to compare with")]
    rows = [
        ("" if s is None else names[s], kind, message)
        for kind in KINDS
        for s, message in found.get(kind, ())
    ]
    return pd.DataFrame(rows, columns=["subject", "kind", "message"], dtype="str")


def describe_suspects(table: pd.DataFrame, code: bool = True) -> dict[str, str]:
    """Return one text for each kind of finding, naming the first few subjects.

    ``code`` adds the advice in Python.
    """
    texts = {}
    for kind, who in name_suspects(table, MOST_NAMED):
        own = KINDS[kind]
        advice = f"{own.advice} {own.code}".rstrip() if code else own.advice
        texts[kind] = f"{own.found}: {who}. {advice}"
    return texts


def name_suspects(table: pd.DataFrame, most: int) -> Iterator[tuple[str, str]]:
    """Yield the kinds of finding, each with the first few subjects and their messages."""
    for kind, rows in table.groupby("kind", sort=False):
        pairs = zip(rows["subject"], rows["message"], strict=True)
        who = [f"{subject or 'every recording'} ({message})" for subject, message in pairs]
        yield str(kind), abbreviate(who, most)


def warn_suspects(
    cohort: AnyCohort, settings: Settings, results: Results, fitted: bool
) -> pd.DataFrame:
    """Return the table of `find_suspects`, and issue one warning per kind."""
    events = results.subject, results.atom, results.onset, results.length
    table = find_suspects(cohort, settings, *events, results.error, fitted)
    for kind, text in describe_suspects(table).items():
        warnings.warn(text, KINDS[kind].category, stacklevel=4)
    return table


def _wrong_rates(
    cohort: AnyCohort,
    shortest: int,
    error: Float[np.ndarray, " S"],
    rhythm: Rhythm,
) -> Iterator[tuple[int, str]]:
    """Yield people whose activations miss cycles, are too many, or have the pace of the atom."""
    n_gaps, intervals, means, back_to_back, irregular = rhythm
    known = n_gaps >= FEWEST_GAPS
    doubtful = known & (back_to_back | irregular | ~(error <= _fence(error, OUTSIDE)))
    if not doubtful.any():
        return
    some = np.flatnonzero(doubtful)
    order = np.lexsort((-error[some], ~irregular[some], ~back_to_back[some]))
    examined = some[order[:MOST_EXAMINED]].tolist()
    # How many periods an interval usually has: one atom may be meant to hold two steps.
    usual, some = 1.0, np.flatnonzero(known)
    if len(some) >= FEWEST_PEOPLE:
        some = some[np.linspace(0, len(some) - 1, N_ORDINARY).astype(int)]
        ratios = intervals[some] / _periods(cohort, some.tolist(), intervals)[0]
        ratios = ratios[np.isfinite(ratios)]
        usual = max(1.0, np.round(np.median(ratios))) if len(ratios) else 1.0
    found = zip(examined, *_periods(cohort, examined, intervals), strict=True)
    for s, period, strength in found:
        interval = intervals[s]
        n_cycles = max(1, np.round(interval / period)) if period > 0 else np.nan
        meets = abs(interval - n_cycles * period) <= max(SLACK, MEETS * period)
        missed = meets and usual < n_cycles <= MOST_MISSED * usual
        skips = irregular[s] and means[s] > interval > period
        clear = strength >= CLEAR and cohort.lengths[s] >= FEWEST_PERIODS * period
        extra = irregular[s] and clear and means[s] <= EXTRA * period
        pace = f"every {interval / cohort.sfreq:.3g} s"
        own = f"repeats every {period / cohort.sfreq:.3g} s"
        if missed and period < shortest - SLACK:
            yield s, f"{own}, less than the atom; activations {pace}"
        elif skips and period < (1 + MEETS) * shortest:  # many cycles are shorter than the atom
            yield s, f"{own}, too close to the atom; activations {pace}, some left out"
        elif extra:
            yield s, f"{own}, with {period / means[s]:.2g} activations each time"
        elif back_to_back[s] and not (meets and n_cycles <= usual):
            yield s, f"back to back, {pace}"


def _without_rhythm(
    cohort: AnyCohort, of_atom: list[tuple[np.ndarray, np.ndarray]]
) -> Iterator[tuple[int, str]]:
    """Yield people with a steady rhythm of their own that the events of no atom follow.

    ``of_atom`` holds the subjects and onsets of each atom's events. The rhythm comes from the
    recording, not from the events: where several patterns follow each other in any order, there is
    none, and nothing is said. Where patterns alternate in a common rhythm, all events together
    follow it.
    """
    everyone = np.arange(len(cohort) + 1)
    bounds = [np.searchsorted(subject, everyone) for subject, _ in of_atom]
    counts = np.diff(np.stack(bounds), axis=1).max(0)
    known = np.flatnonzero(counts > FEWEST_GAPS)
    # Few events for the length of the recording, or many, are more in doubt than others.
    density = np.log(counts[known] / np.asarray(cohort.lengths)[known])
    usual_density = np.median(density) if len(known) else 0.0
    order = known[np.argsort(-np.abs(density - usual_density), kind="stable")]
    rhythms, paces = {}, {}
    for s in np.sort(order[:MOST_EXAMINED_KINDS]).tolist():
        own = [onset[b[s] : b[s + 1]] for (_, onset), b in zip(of_atom, bounds, strict=True)]
        x = _loudest(cohort, s)
        period = find_rhythm(x)
        if np.isfinite(period):
            rhythms[s] = x, period
            paces[s] = [usual_interval(np.diff(o)) for o in own if len(o) > FEWEST_GAPS]
            paces[s].append(usual_interval(np.diff(np.sort(np.concatenate(own)))))
    # Periods between events of the fastest atom: it may be meant to hold two steps, or half one.
    ratios = {s: min(paces[s][:-1]) / period for s, (_, period) in rhythms.items()}
    usual = np.median([*ratios.values()]) if len(ratios) >= FEWEST_PEOPLE else 1.0
    most, parts = (max(1.0, np.round(x)) for x in (usual, 1 / usual))
    for s, (x, period) in rhythms.items():
        pace = np.array(paces[s])
        n_cycles = np.clip(np.round(pace / period), 1, most)
        n_cycles /= np.clip(np.round(period / pace), 1, parts)
        follows = np.abs(pace / n_cycles - period) <= max(1, CLOSE * period)
        says = f"repeats every {period / cohort.sfreq:.3g} s"
        if not follows.any():
            fastest = ratios[s] * period / cohort.sfreq
            yield s, f"{says}, but the events of no atom do; activations every {fastest:.3g} s"
        elif ratios[s] <= EXTRA * min(1.0, usual):
            yield s, f"{says}, but one atom has {1 / ratios[s]:.2g} activations each time"
        elif not follows[:-1].any() and np.isfinite(find_rhythm(x, ALIKE)):  # one shape
            yield s, f"{says}, but its events are divided between atoms"


def _drifting(
    cohort: AnyCohort,
    atom_length: int,
    intervals: Float[np.ndarray, " S"],
    error: Float[np.ndarray, " S"],
) -> Iterator[tuple[int | None, str]]:
    """Yield people with drift, among those explained badly; None if all examined ones drift."""
    from percdl.steps.period import drift_share

    widths = np.where(np.isnan(intervals), atom_length, intervals)
    # Changes slower than a cycle are visible only over several cycles.
    is_long = (widths > 1) & (np.asarray(cohort.lengths) >= FEWEST_GAPS * widths)
    badly = np.flatnonzero((error > 1 - WELL_EXPLAINED) & is_long)
    if not len(badly):
        return
    order = badly[np.argsort(-error[badly], kind="stable")]
    examined = order[np.linspace(0, len(order) - 1, min(len(order), MOST_EXAMINED)).astype(int)]
    shares = np.array([drift_share(cohort[int(s)].values, int(widths[s])) for s in examined])
    # A mean over the n samples of a cycle keeps 1 / n of the variance of white noise.
    noise = 1 / widths[examined]
    shares = (shares - noise) / (1 - noise)
    drifts = (shares >= DRIFT) & (shares >= OF_ERROR * error[examined])
    if drifts.all() and len(badly) > MOST_EXAMINED:
        much = f"{np.median(shares):.0%} of the variance is slower than a cycle"
        yield None, f"{much} in the {len(examined)} recordings examined"
        return
    for s, share in zip(examined[drifts].tolist(), shares[drifts], strict=True):
        yield s, f"{share:.0%} of its variance is slower than a cycle"


def measure_rhythm(
    subject: Int[np.ndarray, " E"], onset: Int[np.ndarray, " E"], n_subjects: int, shortest: int
) -> Rhythm:
    """Measure the gaps between the onsets of each subject; without any, the interval is NaN.

    Events are sorted by subject and onset. A gap is full if there is no room for a sample.
    """
    same = subject[1:] == subject[:-1]
    gaps, owner = np.diff(onset)[same], subject[1:][same]
    n_gaps = np.bincount(owner, minlength=n_subjects)
    # The larger of two middle gaps; groups of pandas take ten times as long.
    middle = np.cumsum(n_gaps) - n_gaps + n_gaps // 2
    interval, some = np.full(n_subjects, np.nan), n_gaps > 0
    # Owners are in order; one sort of one key is the fastest way to sort the gaps of each.
    first = owner.astype(np.int64) * (int(gaps.max(initial=0)) + 1)
    interval[some] = (np.sort(first + gaps) - first)[middle[some]]
    mean = np.bincount(owner, gaps, n_subjects) / np.maximum(n_gaps, 1)
    close = np.bincount(owner, gaps <= shortest + SLACK, n_subjects)
    usual = np.repeat(interval, n_gaps)
    differs = np.abs(gaps - usual) > np.maximum(SLACK, DIFFERENT * usual)
    irregular = some & (np.bincount(owner, differs, n_subjects) >= IRREGULAR * n_gaps)
    back_to_back = (n_gaps >= FEWEST_GAPS) & (close >= THROUGHOUT * n_gaps)
    return Rhythm(n_gaps, interval, mean, back_to_back, irregular)


def _at_a_bound(
    settings: Settings, subject: np.ndarray, length: np.ndarray, sfreq: float
) -> Iterator[tuple[int, str]]:
    """Yield people with a median length that is the shortest or the longest."""
    lengths = settings.disjoint_coder.lengths(settings.atom_length)
    for s, own in pd.Series(length).groupby(subject).median().items():
        if own in (lengths[0], lengths[-1]):
            yield int(s), f"{own / sfreq:.3g} s"  # pyright: ignore[reportArgumentType]


def _periods(
    cohort: AnyCohort, positions: list[int], intervals: Float[np.ndarray, " S"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return periods of some recordings, in samples, and strengths, by their loudest channel."""
    from percdl.steps.period import estimate_periods

    chosen = [_loudest(cohort, s, int(MOST_INTERVALS * intervals[s])) for s in positions]
    return estimate_periods(chosen, vote=False)


def find_rhythm(values: Float[np.ndarray, "n 1"], least_gain: float | None = None) -> float:
    """Return the usual interval of a recording that repeats regularly, or NaN."""
    from percdl.steps.period import LEAST_GAIN, estimate_periods, find_intervals

    period = estimate_periods([values]).period[0]
    if not np.isfinite(period):
        return np.nan
    intervals = find_intervals(values, period, least_gain or LEAST_GAIN)
    if len(intervals) < FEWEST_INTERVALS:
        return np.nan
    away = np.abs(intervals / np.median(intervals) - 1)
    if (away <= DIFFERENT).mean() < THROUGHOUT:
        return np.nan
    return usual_interval(intervals)


def _loudest(cohort: AnyCohort, s: int, stop: int | None = None) -> Float[np.ndarray, "n 1"]:
    """Return the loudest channel of the beginning of a recording."""
    x = cohort[s].values[:stop]
    spread = np.var(x, axis=0)
    if np.isnan(spread).any():  # `nanvar` takes many times as long
        spread = np.nan_to_num(np.nanvar(x, axis=0))
    return np.asarray(x[:, [int(np.argmax(spread))]], float)


def _fence(error: Float[np.ndarray, " S"], width: float) -> float:
    """Return the error above which a recording is explained worse than the others.

    Tukey's fence for the log odds of the error; their spread does not depend on its size.
    """
    known = error[np.isfinite(error)].clip(1e-9, 1 - 1e-9)
    if len(known) < FEWEST_PEOPLE:
        return 1 - WELL_EXPLAINED
    low, high = np.quantile(np.log(known / (1 - known)), (0.25, 0.75))
    fence = 1 / (1 + np.exp(-(high + width * (high - low))))
    return max(float(fence), 1 - WELL_EXPLAINED)


def _unexplained(error: Float[np.ndarray, " S"]) -> Iterator[tuple[int, str]]:
    if np.isfinite(error).sum() < FEWEST_PEOPLE:
        return
    middle = np.nanmedian(error)
    for s in np.flatnonzero(error > _fence(error, FAR_OUT)):
        yield int(s), f"{error[s]:.0%} of its energy is not explained, median {middle:.0%}"


def _large(power: Float[np.ndarray, " S"]) -> Iterator[tuple[int, str]]:
    """Yield people many times larger than the median, which for two people is the smaller one."""
    size = np.sqrt(power)
    with np.errstate(invalid="ignore"):  # squares may exceed all numbers
        ratio = size / np.nanquantile(size, 0.5, method="lower")
    for s in np.flatnonzero(ratio > LARGE):
        yield int(s), f"{ratio[s]:.3g} times the median root mean square"


def _constant(constant: np.ndarray, channels: tuple[str, ...]) -> Iterator[tuple[int | None, str]]:
    """Yield channels that are constant in all recordings (None), then those in one recording."""
    always = np.asarray(constant.all(0)) & (len(constant) > 1)
    own = constant & ~always
    rows: list[tuple[int | None, np.ndarray]] = [(None, always)] if always.any() else []
    rows += [(int(s), own[s]) for s in np.flatnonzero(own.any(1))]
    for s, which in rows:
        names = [channels[i] for i in np.flatnonzero(which)]
        yield s, f"channel{'s' * (len(names) > 1)} {abbreviate(names)}"
