"""On a GPU, 21,799 records of 12 leads and 1000 samples are fitted within half a second.

100,000 of them are timed beside; for both, how busy the device is, and how far the programs are
from its peaks: the bytes and flops that the compiler counts, at the speeds of a plain copy and
of a multiplication of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import jax

from benchmarks import Absent, probe
from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.cohorts import N_BEAT_RECORDS
from benchmarks.gpu import Measurement, measure, problems
from benchmarks.roofline import peaks

# Seconds of a warm fit, on one NVIDIA H200; share of a fit outside the compiled programs; seconds
# that the first fit of a new process takes beyond a warm one when the programs are stored.
MOST_SECONDS = {"plain": 0.2, "default": 0.45}
MOST_OUTSIDE = 0.25
MOST_BEYOND_WARM = 3.0
N_MANY = 100_000


def claims() -> Iterator[Claim]:
    """Time the fits on the device that JAX finds, and their steps."""
    if jax.default_backend() == "cpu":
        raise Absent("JAX finds no GPU here")
    top = peaks()
    figure = f"{top.flops / 1e12:.1f} Tflop/s, {top.bytes / 1e12:.2f} TB/s"
    yield beside("peaks of the device in float32, measured", figure)
    if not is_quick():
        yield _new_process()
    for problem in problems(*((512,) if is_quick() else (N_BEAT_RECORDS, N_MANY))):
        for found in measure(problem):
            yield from _report(found)


def _new_process() -> Claim:
    with TemporaryDirectory() as folder:
        probe.first_fits("beats", Path(folder))
        stored = probe.first_fits("beats", Path(folder))
    name = f"beats ({N_BEAT_RECORDS} records), default: first fit, programs stored, beyond warm, s"
    detail = f"{stored['first']:.2f} s, warm {stored['warm']:.2f} s"
    return at_most(name, stored["first"] - stored["warm"], MOST_BEYOND_WARM, detail)


def _report(found: Measurement) -> Iterator[Claim]:
    name = f"{found.problem} ({found.n_recordings} records), {found.kind}"
    detail = f"{found.device}, cold {found.cold:.2f} s"
    if found.problem == "beats" and found.n_recordings <= N_BEAT_RECORDS:
        yield at_most(f"{name}: warm fit, s", found.warm, MOST_SECONDS[found.kind], detail)
        yield at_most(f"{name}: share outside programs", found.outside, MOST_OUTSIDE)
    else:
        yield beside(f"{name}: warm fit, s", f"{found.warm:.3f} ({detail})")
    shares = ", ".join(f"{step} {share:.0%}" for step, share in found.shares.items())
    yield beside(f"{name}: share of each step", shares)
    speed = f"{found.n_recordings / found.warm:,.0f}"
    yield beside(f"{name}: records per second", speed)
    use = found.use
    parts = f"kernels {use.kernels:.3f}, copies {use.copies:.3f}"
    yield beside(f"{name}: device busy, traced", f"{use.share:.0%} of {use.total:.2f} s ({parts})")
    flops, moved = (
        sum(getattr(w, what) for w in found.work.values()) for what in ("flops", "bytes")
    )
    least = found.least_seconds
    figure = (
        f"{flops / 1e9:.0f} Gflop, {moved / 1e9:.0f} GB: {1e3 * least:.0f} ms at the peaks, "
        f"{least / use.kernels:.0%} of the time in kernels"
    )
    yield beside(f"{name}: work", figure)
