"""The paper's two noise figures: PerCDL is lowest where the paper says so.

Impulses: the error of the clean signals' reconstruction at every share of impulses, against
both other models. Gaussian noise: the distance to the personal atoms, Euclidean and DTW, and
the same error at every level below 20 dB, against IndCDL, as in the paper; PopCDL is for
comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import follow
from percdl.experiments import Study, noise
from percdl.experiments.fits import select


def claims() -> Iterator[Claim]:
    """Fit the three models to all noisy cohorts, at the size of the paper."""
    yield from _impulses()
    yield from _gaussian()


def _impulses() -> Iterator[Claim]:
    rates, seeds = noise.PAPER_RATES, noise.IMPULSE_SEEDS
    if is_quick():
        rates, seeds = rates[-1:], seeds[:1]
    for rate in follow(rates, "share of impulses"):
        table = noise.summarize_impulses(
            noise.measure(Study(), seeds, impulse_rate=[rate], loss=list(noise.LOSSES))
        )
        for loss, name in noise.LOSSES.items():
            chosen = {"loss": loss, "impulse_rate": rate, "against": noise.CLEAN}
            errors = select(table, "method", "mean", **chosen)
            ours, other = errors["PerCDL"], min(errors["PopCDL"], errors["IndCDL"])
            label = f"{rate:.0%} impulses, {name}: PerCDL's error / the lowest other"
            detail = f"means {ours:.3g} / {other:.3g}, {len(seeds)} seeds"
            yield at_most(label, ours / other, 1, detail)


def _gaussian() -> Iterator[Claim]:
    seeds = range(1 if is_quick() else 10)
    noisy = [level for level in noise.PAPER_LEVELS if level < noise.NOISY]
    for level in follow(noisy[-1:] if is_quick() else noisy, "SNR in dB"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a single seed has no confidence limits
            table = noise.summarize_gaussian(
                noise.measure(Study(), seeds, snr_db=[level], penalty=[noise.FIXED])
            )
        for quantity in ("euclidean", "dtw", "error_clean"):
            ours, population, rival = (
                select(table, "method", "mean", quantity=quantity)[method]
                for method in noise.METHODS
            )
            label = f"{level} dB: {noise.QUANTITIES[quantity]}"
            detail = f"means {ours:.3g} / {rival:.3g}, {len(seeds)} seeds"
            yield at_most(f"{label}, PerCDL / IndCDL", ours / rival, 1, detail)
            yield beside(f"{label}, PopCDL / IndCDL", f"{population / rival:.3g}")
