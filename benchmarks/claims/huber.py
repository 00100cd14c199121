"""Impulses as in the paper's fig:noise: Huber's loss against the squared loss.

S = 32, N = 1000, a quarter of the recordings with impulses of size 2 to 2.5 on a share of their
samples; the error is that of the clean signals' reconstruction, ``sum |x - x_hat|^2 / sum |x|^2``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.timing import follow
from percdl import Huber, IndCDL, PerCDL, PopCDL, TimeWarp, make_synthetic
from percdl.estimators.base import BaseCDL
from percdl.exceptions import NoActivationWarning
from percdl.experiments.fits import error_of_fit

RATES, COMPARED = (0.0, 0.05, 0.1, 0.15, 0.2), 0.1
# Not those on which the default delta was chosen, 0 to 9.
SEEDS = range(10, 20)
# No loss without impulses: less than the error that a fit may have in `recovery`.
MOST_RATIO, MOST_LOSS = 0.7, 5e-4
MODELS: dict[str, type[BaseCDL]] = {"PerCDL": PerCDL, "PopCDL": PopCDL, "IndCDL": IndCDL}


def claims() -> Iterator[Claim]:
    """Fit the three models with both losses at every rate."""
    rates, seeds = ((0.0, COMPARED), SEEDS[:1]) if is_quick() else (RATES, SEEDS)
    found = {
        (name, rate): np.array([_errors(name, rate, seed) for seed in seeds])
        for rate in follow(rates, "share of impulses")
        for name in MODELS
    }
    errors = {key: by_seed.mean(0) for key, by_seed in found.items()}
    for (name, rate), (squared, huber) in errors.items():
        yield beside(f"{name}, {rate:.0%} impulses", f"squared {squared:.3g}, Huber {huber:.3g}")
    for name in ("PerCDL", "IndCDL"):
        squared, huber = errors[name, COMPARED]
        detail = f"{huber:.3g} / {squared:.3g}, {len(seeds)} seeds"
        label = f"{name}, {COMPARED:.0%} impulses: error with Huber's / with the squared loss"
        yield at_most(label, huber / squared, MOST_RATIO, detail)
        # The median: a subject stuck in a bad minimum, with either loss, outweighs all others.
        squared, huber = np.median(found[name, 0.0], axis=0)
        label = f"{name}, no impulses: error that Huber's loss adds, median"
        yield at_most(label, huber - squared, MOST_LOSS, f"{huber:.3g} - {squared:.3g}")
    # What one atom for all cannot explain is the same with either loss: beyond that is the noise.
    (clean, _), (squared, huber) = errors["PopCDL", 0.0], errors["PopCDL", COMPARED]
    detail = f"({huber:.3g} - {clean:.3g}) / ({squared:.3g} - {clean:.3g})"
    label = f"PopCDL, {COMPARED:.0%} impulses: error beyond that of clean data, Huber / squared"
    yield at_most(label, (huber - clean) / (squared - clean), MOST_RATIO, detail)


def _errors(name: str, rate: float, seed: int) -> tuple[float, float]:
    """Return the errors of the clean reconstruction with the squared and with Huber's loss."""
    clean = make_synthetic(32, 1000, random_state=seed)
    noisy = make_synthetic(32, 1000, impulse_rate=rate, random_state=seed)
    options = {"n_atoms": 2, "atom_length": 50, "penalty": 1e-2, "progress": False}
    if name == "PerCDL":
        options["transformation"] = TimeWarp(3, 10)
    found = []
    for loss in ("squared", Huber()):
        model = MODELS[name](**options, loss=loss, init=clean.personal_dictionary[0])
        with warnings.catch_warnings():
            # IndCDL may lose an atom of a subject to the impulses: part of what is measured.
            warnings.simplefilter("ignore", NoActivationWarning)
            model.fit(noisy.cohort)
        found.append(error_of_fit(model, noisy.cohort, clean.cohort))
    return found[0], found[1]
