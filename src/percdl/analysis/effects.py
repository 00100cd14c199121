"""Separate timing from amplitude: how fast subjects run through the cycle, and its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from percdl.algorithm.programs import read_cycles
from percdl.analysis.checks import Fitted, as_personalization, check_fitted_on
from percdl.estimators.personalization import SLOWEST, Personalization, in_batches
from percdl.signals import Cohort
from percdl.signals.events import event_lengths
from percdl.signals.reconstruction import read_dilated, rebuild


@dataclass(frozen=True, eq=False)
class Effects:
    """Timing and amplitude of every subject along the cycle, on a common clock.

    Sample u of the common clock is the phase of sample u of the common atom, so the curves of
    different subjects can be compared sample by sample.

    Attributes
    ----------
    timing : array (S, K, C, L)
        Logarithm of the local speed psi' at each phase: 0 at the pace of the population,
        log 2 = 0.69 where a subject is twice as fast. C = 1 warp for all channels, one for each,
        or none if the transform has no time warp.
    delay : array (S, K, C, L)
        How much later than the population a subject reaches each phase, in samples since the
        onset and of the dictionary; negative if earlier. ``timing = -log(1 + d delay / du)``.
    amplitude : array (S, K, L, P)
        The mean observed cycle in signal units, with the timing undone.
    subjects, sfreq : tuple of str, float
        Subject ids (curves are NaN for those without the atom), and the sampling rate in Hz.
    clocks : array (K,)
        Samples of the dictionary per second, for each atom: ``sfreq`` if all are equally long.
    """

    timing: Float[np.ndarray, "S K C L"]
    delay: Float[np.ndarray, "S K C L"]
    amplitude: Float[np.ndarray, "S K L P"]
    subjects: tuple[str, ...]
    sfreq: float
    clocks: Float[np.ndarray, " K"]

    def __repr__(self) -> str:
        n_subjects, n_atoms, n_warps, _ = self.timing.shape
        return (
            f"Effects({n_subjects} subjects, {n_atoms} atoms, {n_warps} warps each, amplitude "
            f"in {self.amplitude.shape[3]} channels)"
        )

    @property
    def delay_seconds(self) -> Float[np.ndarray, "S K C L"]:
        """The delay in seconds."""
        return self.delay / self.clocks[:, None, None]


def separate_effects(fitted: Fitted, X: Any) -> Effects:
    """Separate the pace of a subject's cycle from its shape.

    A subject's cycle is ``A_s(psi_s(t))``: a shape on the common clock, run through at an
    individual pace. The fitted warps give the pace. The recordings give the shape: the
    least-squares mean cycle ``sum_j z_j y_j / sum_j z_j^2`` over a subject's segments with
    activations z_j, times the mean activation, read at ``psi_s^-1``. Other activations that
    overlap a segment are subtracted first. The ends of a warp are fixed, so a shift of the whole
    cycle is in the onsets only. Cost O(S K (N P + L M) + E L P) for E events.

    Parameters
    ----------
    fitted, X : estimator or Personalization, Cohort or arrays
        Warps and events, and the recordings they were found in.

    Returns
    -------
    Effects

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(4, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> separate_effects(model, truth.cohort)
    Effects(4 subjects, 2 atoms, 0 warps each, amplitude in 1 channels)
    """
    found, cohort = as_personalization(fitted), check_fitted_on(fitted, X)
    own_time = found.own_times
    samples = np.arange(own_time.shape[-1])
    cycles = mean_cycles(found, cohort)
    if warp := found.transform.warp_part(*cycles.shape[2:]):
        with jax.enable_x64(True):
            cycles = in_batches(lambda *some: read_cycles(warp[0], *some), cycles, own_time)
    curves = log_speed(own_time), own_time - samples, cycles
    return Effects(*curves, found.subjects, cohort.sfreq, found.clocks(cohort.sfreq))


def log_speed(own_time: Float[np.ndarray, "*batch L"]) -> Float[np.ndarray, "*batch L"]:
    """Return the logarithm of the local speed at each phase, from when people reach it."""
    with np.errstate(invalid="ignore"):
        return -np.log(np.maximum(np.gradient(own_time, axis=-1), SLOWEST))


def mean_cycles(found: Personalization, cohort: Cohort) -> Float[np.ndarray, "S K L P"]:
    """Return the mean cycle of every subject at its own pace, in signal units."""
    atoms = np.nan_to_num(found.personal_dictionary)
    length, events = atoms.shape[2], found.events
    rebuilt = rebuild(cohort, events, atoms, found.n_terms)
    left = [record.values - made for record, made in zip(cohort, rebuilt, strict=True)]
    columns = (events[name].to_numpy() for name in ("atom", "onset_sample", "amplitude"))
    rows = zip(found.positions, *columns, event_lengths(events, length), strict=True)
    moment, weight, sizes = np.zeros(atoms.shape), np.zeros(atoms.shape), np.zeros(atoms.shape[:2])
    for s, k, onset, z, duration in rows:
        rest = left[s][onset : onset + duration]
        seen = np.isfinite(rest)
        rest = np.where(seen, rest, 0)
        if duration != length:
            read = read_dilated(int(duration), length)
            rest, seen = read @ rest, read @ ~seen == 0
        # Each segment is its own atom plus the residual: other activations are subtracted.
        moment[s, k] += seen * z * (rest + z * atoms[s, k])
        weight[s, k] += seen * z**2
        sizes[s, k] += z
    size = sizes / np.where(found.n_activations > 0, found.n_activations, np.nan)
    unknown = np.full(atoms.shape, np.nan)
    mean = np.divide(moment, weight, out=unknown, where=weight > 0)
    return size[..., None, None] * mean
