"""Timing or amplitude? What people do at another pace, and what they do otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator

from percdl.analysis.fitted import as_personalization, check_fitted_on
from percdl.estimators.personalization import Personalization, in_batches
from percdl.signals import Cohort
from percdl.signals.reconstruction import rebuild

if TYPE_CHECKING:
    from percdl.estimators.base import BaseCDL

# Where a warp stands still to rounding, it is taken to go on this slowly.
SLOWEST = 1e-9


@dataclass(frozen=True, eq=False)
class Effects:
    """Everyone's timing and amplitude along the cycle, on the clock that all share.

    Sample u of the common clock is the phase that the common atom has at its sample u, so the
    curves of different people are about the same phase at the same place.

    Attributes
    ----------
    timing : array (S, K, C, L)
        Logarithm of the local speed psi' in each phase: 0 at the pace of the population,
        log 2 = 0.69 where a person is twice as fast, -0.69 where half as fast. C = 1 warp for
        all channels, one for each, or none where the transform warps no time.
    delay : array (S, K, C, L)
        How much later a person reaches each phase than the population does, in samples from
        the onset on; negative where earlier. Speed is the slope of it:
        ``timing = -log(1 + d delay / du)``.
    amplitude : array (S, K, L, P)
        The mean observed cycle, in units of the signals, with the timing undone.
    subjects : tuple of str
        Who they are, in order. NaN for those without the atom.
    sfreq : float
        Samples per second.
    """

    timing: Float[np.ndarray, "S K C L"]
    delay: Float[np.ndarray, "S K C L"]
    amplitude: Float[np.ndarray, "S K L P"]
    subjects: tuple[str, ...]
    sfreq: float

    def __repr__(self) -> str:
        """Say what there is: the arrays are long."""
        n_subjects, n_atoms, n_warps, _ = self.timing.shape
        return (
            f"Effects({n_subjects} subjects, {n_atoms} atoms, {n_warps} warps each, amplitude "
            f"in {self.amplitude.shape[3]} channels)"
        )

    @property
    def delay_seconds(self) -> Float[np.ndarray, "S K C L"]:
        """The delay in seconds."""
        return self.delay / self.sfreq


def separate_effects(fitted: BaseCDL | Personalization, X: Any) -> Effects:
    """Separate how fast people run through their cycle from what the cycle is.

    A person's cycle is ``A_s(psi_s(t))``: a shape on the common clock, run through at a pace of
    one's own. The warps of the fit give the pace. The recordings give the shape: everyone's mean
    cycle, read at ``psi_s^-1``. What the common atom cannot express, and the strength of the
    cycles, are in the shape; so a group can differ in one, in the other, or in both.

    Parameters
    ----------
    fitted : PerCDL, PopCDL, IndCDL, or what ``personalize`` returns
        Warps and events.
    X : Cohort or arrays
        The recordings they were found in.

    Returns
    -------
    Effects
        For `compare_groups`: ``effects.timing[:, k, 0]`` and ``effects.amplitude[:, k]``.

    Notes
    -----
    *Speed as a logarithm*: twice as fast and half as fast are then equally far from the common
    pace, and a mean over people favours neither.

    *The mean cycle* is the least-squares one, ``sum_j z_j y_j / sum_j z_j^2`` over a person's
    segments with activations z_j (missing samples left out), times the mean activation. Where
    activations overlap, what the others explain is subtracted from a segment first. A sample
    that is missing in all segments stays NaN.

    *What cannot be told apart*: a warp explains all it can. A bump that comes and goes where
    another one stands may be fitted as a change of pace. Ends of a warp are fixed, so a shift of
    the whole cycle is in the onsets and in neither curve.

    Cost O(S K (N P + L M) + E L P) for E events.

    Examples
    --------
    >>> from percdl import PopCDL, make_synthetic
    >>> truth = make_synthetic(4, random_state=0)
    >>> model = PopCDL(2, 50, 1.0, init=truth.dictionary).fit(truth.cohort)
    >>> separate_effects(model, truth.cohort)
    Effects(4 subjects, 2 atoms, 0 warps each, amplitude in 1 channels)
    """
    found, cohort = as_personalization(fitted), check_fitted_on(fitted, X)
    own_time = invert_warps(found.warps)
    samples = np.arange(own_time.shape[-1])
    with np.errstate(invalid="ignore"):
        timing = -np.log(np.maximum(np.gradient(own_time, axis=-1), SLOWEST))
    cycles = mean_cycles(found, cohort)
    amplitude = _read(found, cycles, own_time) if own_time.shape[2] else cycles
    return Effects(timing, own_time - samples, amplitude, found.subjects, cohort.sfreq)


def invert_warps(warps: Float[np.ndarray, "S K C L"]) -> Float[np.ndarray, "S K C L"]:
    """Return when each person reaches each phase, ``psi^-1(u)``, in samples.

    Exact at the samples of psi; monotone cubic between.

    >>> psi = np.array([0.0, 2.0, 3.0, 3.5, 4.0])
    >>> invert_warps(psi[None, None, None])[0, 0, 0, [0, 2, 3, 4]]
    array([0., 1., 2., 4.])
    """
    samples = np.arange(warps.shape[-1], dtype=float)
    inverse = np.full(warps.shape, np.nan)
    for at in np.argwhere(np.isfinite(warps).all(-1)):
        # A warp may stand still to rounding; its inverse still needs one answer.
        moved = np.maximum.accumulate(warps[tuple(at)])
        psi = (moved + SLOWEST * samples) / (1 + SLOWEST)
        inverse[tuple(at)] = PchipInterpolator(psi, samples)(samples)
    return inverse


def mean_cycles(found: Personalization, cohort: Cohort) -> Float[np.ndarray, "S K L P"]:
    """Return everyone's mean cycle at their own pace, in units of the signals."""
    atoms = np.nan_to_num(found.personal_dictionary)
    rebuilt = rebuild(cohort, found.events, atoms)
    position = {subject: s for s, subject in enumerate(cohort.subjects)}
    of = np.array([position[subject] for subject in found.events["subject"]], int)
    atom, onset, amplitude = (
        found.events[name].to_numpy() for name in ("atom", "onset_sample", "amplitude")
    )
    cycles = np.full(atoms.shape, np.nan)
    order = np.lexsort((atom, of))
    changes = np.flatnonzero(np.diff(of[order]) | np.diff(atom[order])) + 1
    for rows in np.split(order, changes) if len(order) else []:
        s, k = int(of[rows[0]]), int(atom[rows[0]])
        rest = cohort[s].values - rebuilt[s]
        cycles[s, k] = _average(onset[rows], amplitude[rows], atoms[s, k], rest)
    return cycles


def _average(
    onsets: np.ndarray, amplitudes: np.ndarray, atom: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Return the mean of what each event, and the rest of the recording, has in its window."""
    z = np.asarray(amplitudes, float)[:, None, None]
    window = onsets[:, None] + np.arange(len(atom))
    segments = rest[window] + z * atom
    seen = np.isfinite(segments)
    weight = np.sum(z**2 * seen, axis=0)
    moment = np.sum(z * np.where(seen, segments, 0), axis=0)
    return z.mean() * np.divide(moment, weight, out=np.full(atom.shape, np.nan), where=weight > 0)


def _read(found: Personalization, cycles: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return cycles read at the given times, in samples, as the warp reads atoms."""
    import jax

    from percdl.algorithm.programs import read_cycles

    warp = found.transform.warp_part(*cycles.shape[2:])
    assert warp is not None
    with jax.enable_x64(True):
        return in_batches(lambda *some: read_cycles(warp[0], *some), cycles, at)
