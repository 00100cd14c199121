"""On a GPU, 21,799 records of 12 leads and 1000 samples are fitted within half a second.

For comparison, 100,000 records are timed; for both, how busy the device is, and how far the
programs are from its peaks: the bytes and flops that the compiler counts, at the speeds of a plain
copy and of a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import Absent, gpu
from benchmarks.claims._claim import Claim, beside, is_quick, of_figure
from benchmarks.cohorts import N_BEAT_RECORDS
from benchmarks.gpu import Measurement, measure, problems
from benchmarks.roofline import peaks

N_MANY = 100_000


def claims() -> Iterator[Claim]:
    """Time the fits on the device that JAX finds, and their steps."""
    if not gpu.is_there():
        raise Absent(gpu.NO_GPU)
    top = peaks()
    figure = f"{top.flops / 1e12:.1f} Tflop/s, {top.bytes / 1e12:.2f} TB/s"
    yield beside("peaks of the device in float32, measured", figure)
    if not is_quick():
        yield of_figure(gpu.first_fit())
    for problem in problems(*((512,) if is_quick() else (N_BEAT_RECORDS, N_MANY))):
        for found in measure(problem):
            yield from _report(found)


def _report(found: Measurement) -> Iterator[Claim]:
    name = f"{found.problem} ({found.n_recordings} records), {found.kind}"
    if found.problem == "beats" and found.n_recordings <= N_BEAT_RECORDS:
        yield from map(of_figure, gpu.figures_of(found))
    else:
        detail = f"{found.device}, cold {found.cold:.2f} s"
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
