"""Damaged and forged model files, checkpoints and shards are refused, or load correctly."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.claims._claim import Claim, at_least, at_most, beside, is_quick
from benchmarks.stress.corpus import run_corpus

FAIR = ("rejected", "equal", "consistent")
# A file of a few kB is small beside what any opening of a file needs.
GRACE = 2**16


def claims() -> Iterator[Claim]:
    """Open the whole corpus, and count."""
    share, least = (0.1, 200) if is_quick() else (1.0, 2000)
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(run_corpus(Path(folder), share))
    counts = Counter(outcome.verdict for outcome in outcomes)
    signed = sum(outcome.signed for outcome in outcomes)
    yield at_least("damaged and forged files", len(outcomes), least)
    share_signed = signed / len(outcomes)
    yield at_least(
        "of these, share with a right checksum", share_signed, 0.5 if least > 200 else 0.3
    )
    for verdict, words in zip(FAIR, ("refused", "as before", "another valid one"), strict=True):
        yield beside(f"{words}", f"{counts[verdict]}")
    unfair = [outcome for outcome in outcomes if outcome.verdict not in FAIR]
    told = "; ".join(f"{outcome.name}: {outcome.verdict}" for outcome in unfair[:3])
    yield at_most("any other outcome", len(unfair), 0, told)
    other = [o for o in outcomes if not o.signed and o.verdict == "consistent"]
    yield at_most("changed without a right checksum, and loaded", len(other), 0)
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    yield at_most("seconds to open the slowest", slowest.seconds, 2, slowest.name)
    largest = max(outcomes, key=lambda outcome: outcome.n_bytes)
    yield beside("most memory to open one", f"{largest.n_bytes / 1e6:.2g} MB ({largest.name})")
    multiple = max(outcome.n_bytes / (outcome.size + GRACE) for outcome in outcomes)
    yield at_most("memory, as a multiple of the file and 64 kB", multiple, 8)
