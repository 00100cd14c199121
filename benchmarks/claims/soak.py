"""Two hours' worth of work in one process: memory, programs, handles and files do not grow.

Two hours are 7,200 operations: one per second, more than a laboratory needs of one process. They
run as fast as the machine can. The first quarter warms up: compiled programs are kept on purpose,
and their number is limited; after that nothing should grow.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.claims._claim import Claim, at_most, beside, is_quick
from benchmarks.stress.soak import WARM, Holdings, slope, soak
from benchmarks.timing import say

N_OPERATIONS = 7200
# Bytes: a megabyte in a hundred operations, and a twentieth from the second quarter to the last.
MOST_SLOPE, MOST_SHARE = 1e6 / 100, 0.05
# Late ones meet a rare shape; the shapes there are can be counted.
MOST_LATE_SHARE = 0.02


def claims() -> Iterator[Claim]:
    """Work, and compare what is held after the warm-up with what is held at the end."""
    n_operations = 40 if is_quick() else N_OPERATIONS
    samples: list[tuple[int, Holdings]] = []
    for done, held in soak(n_operations, every=max(1, n_operations // 72)):
        say(f"{done} operations, {held.memory / 2**20:.0f} MB, {held.programs} programs")
        samples.append((done, held))
    warm = samples[len(samples) // WARM :]
    counts, memory = [done for done, _ in warm], [held.memory for _, held in warm]
    quarter = len(warm) // 3
    first, last = statistics.median(memory[:quarter]), statistics.median(memory[-quarter:])
    growth = slope(counts, memory)
    detail = f"{n_operations} operations, {last / 2**20:.0f} MB at the end"
    yield at_most("growth of the memory, bytes per operation", growth, MOST_SLOPE, detail)
    yield at_most(
        "memory, the last quarter over the second, less one", last / first - 1, MOST_SHARE
    )
    begin, end = samples[len(samples) // 2][1], samples[-1][1]
    late = (end.programs - begin.programs) / begin.programs
    detail = f"{begin.programs} halfway, {end.programs} at the end"
    yield at_most("programs compiled in the second half, share", late, MOST_LATE_SHARE, detail)
    for name in ("files", "threads", "children", "leftovers"):
        most = max(getattr(held, name) for _, held in warm)
        grown = most - getattr(warm[0][1], name)
        yield at_most(f"{name} beyond those after the warm-up", grown, 0, f"{most} at most")
    arrays = [held.arrays for _, held in warm]
    yield at_most("device arrays, growth per operation", slope(counts, arrays), 1e-3)
    yield beside("compiled programs at the end", str(end.programs))
