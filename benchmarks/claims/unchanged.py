"""The results of three fixed fits in float64 do not change from one version to the next.

``benchmarks/reference/fits.npz`` holds the dictionaries and parameters of an earlier version, for
each kind of processor: rounding decides when a Gauss-Newton fit has converged, and in one of the
fits two kinds of processor decide differently. Entries without a kind are from a processor that
was not recorded. ``python -m benchmarks.claims.unchanged`` writes those of this kind again, after
an intended change of results.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.claims._claim import Claim, at_most, beside
from benchmarks.cohorts import beats
from percdl import Cohort, PerCDL, TimeWarp, make_synthetic

REFERENCE = Path(__file__).resolve().parents[1] / "reference" / "fits.npz"
MOST_DIFFERENCE = 1e-12
FIELDS = ("dictionary_", "params_")
PROCESSOR = f"{platform.machine()}/"


def fits() -> Iterator[tuple[str, PerCDL]]:
    """Yield three fitted models: blind, twelve leads, and unequal lengths with missing samples."""
    blind = PerCDL(2, 50, TimeWarp(3, 10), penalty=0.01, dtype="float64", random_state=0)
    yield "blind", blind.fit(make_synthetic(16, random_state=0).cohort)
    leads = beats(48, 400)
    yield "leads", leads.model(dtype="float64").fit(leads.cohort)
    missing = PerCDL(1, 40, TimeWarp(2, 6), 0.5, dtype="float64", random_state=0)
    yield "missing", missing.fit(_walks_with_gaps())


def claims() -> Iterator[Claim]:
    """Compare with the reference."""
    with np.load(REFERENCE) as reference:
        own = PROCESSOR if any(key.startswith(PROCESSOR) for key in reference) else ""
        for name, model in fits():
            change = {
                field: float(
                    np.abs(getattr(model, field) - reference[own + f"{name}/{field}"]).max()
                )
                for field in FIELDS
            }
            what = f"{name}: largest change of the dictionary"
            yield at_most(what, change["dictionary_"], MOST_DIFFERENCE)
            # The layers of a warp can be traded for each other, so parameters vary more.
            yield beside(f"{name}: largest change of a parameter", f"{change['params_']:.1e}")


def _walks_with_gaps() -> Cohort:
    """Return 40 recordings of a repeated wave, of 300 to 900 samples, a few of them missing."""
    rng = np.random.default_rng(7)
    arrays = []
    for n_times in rng.integers(300, 900, 40):
        phase = np.arange(n_times) / rng.uniform(44, 60) + rng.uniform()
        phase = phase + 0.05 * np.sin(2 * np.pi * phase)
        wave = np.stack([np.sin(2 * np.pi * phase), np.cos(4 * np.pi * phase)], axis=1)
        values = wave * np.sin(np.pi * (phase % 1))[:, None] ** 2
        values += 0.05 * rng.standard_normal(values.shape)
        start = rng.integers(0, n_times - 20)
        values[start : start + 20, rng.integers(2)] = np.nan
        arrays.append(values)
    return Cohort.from_arrays(arrays, sfreq=100)


if __name__ == "__main__":
    found = {
        PROCESSOR + f"{name}/{field}": getattr(model, field)
        for name, model in fits()
        for field in FIELDS
    }
    with np.load(REFERENCE) as reference:
        found = {**reference, **found}
    np.savez_compressed(REFERENCE, **found)  # pyright: ignore[reportArgumentType]
