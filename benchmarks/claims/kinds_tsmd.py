"""Several kinds of pattern of different lengths, and a drifting baseline: the generator of tsmd.

Settings of its studies: amplitude 4, four fundamentals, noise 0.1, sparsity 0.8 with fluctuation
0.5. *Motifs*: 2, 3, 5 and 10 patterns, ten times each, as many lengths between 70 and 150
samples. *Walk*: one pattern of 100 samples, twenty times, plus a random walk of steps 0 to 10.
Event F1 at overlap 0.5, mean over the motifs. Like their methods, ours is given the number of
motifs and the lengths (theirs: shortest, mean or longest). Ours is `PopCDL` with an atom of each
length and a straight line per window (`baseline="line"`), and `judge_events` on all activations
together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_least, beside, is_quick, skipped
from benchmarks.claims._tsmd import draw_mask, event_f1, run_methods, scorer
from benchmarks.motifs import METHODS
from percdl import Cohort, L0Coder, PopCDL
from percdl.analysis import judge_events

NOISE, LENGTH, SHORTEST, LONGEST = 0.1, 100, 70, 150
SETTINGS = [(n, 0) for n in (2, 3, 5, 10)] + [(1, walk) for walk in (0, 1, 2, 3, 5, 10)]


def claims() -> Iterator[Claim]:
    """Compare with the best method of tsmd at each setting."""
    scorer()
    try:
        from tsmd.tools.synthetic_signal import SignalGenerator
    except ImportError as error:
        raise Absent("tsmd needs plotly for its generator: pip install plotly") from error
    seeds = range(1 if is_quick() else 5)
    for n_motifs, walk in SETTINGS:
        lengths = np.linspace(SHORTEST, LONGEST, n_motifs).astype(int)
        lengths = np.array([LENGTH]) if n_motifs == 1 else lengths
        made = [simulate(SignalGenerator, lengths, walk, seed) for seed in seeds]
        ours = [event_f1(truth, find_kinds(values, lengths)) for values, truth in made]
        name = f"{n_motifs} motif(s), walk {walk}: event F1"
        figure = f"ours {np.mean(ours):.3f}"
        try:
            arguments = [arguments_of(lengths)] * len(made)
            found, _ = run_methods([x for x, _ in made], arguments, list(METHODS))
        except Absent as reason:
            yield beside(name, figure)
            yield skipped(f"{name}, methods of tsmd", reason)
            continue
        theirs = {
            method: float(np.mean([event_f1(t, m) for (_, t), m in zip(made, masks, strict=True)]))
            for method, masks in found.items()
        }
        detail = ", ".join(f"{method} {score:.3f}" for method, score in theirs.items())
        least = max(theirs.values())
        yield at_least(f"{name}, less the best", np.mean(ours) - least, 0, f"{figure}; {detail}")


def simulate(
    generator: Any, lengths: np.ndarray, walk: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a signal of the generator, and the mask of each motif."""
    np.random.seed(seed)  # the generator draws from it
    n_times = 20 if len(lengths) == 1 else 10
    return generator(
        len(lengths), motif_length=lengths, motif_amplitude=4, motif_fundamental=4,
        sparsity=0.8, sparsity_fluctuation=0.5, noise_amplitude=NOISE, walk_amplitude=walk,
        min_rep=n_times, max_rep=n_times,
    ).generate()  # fmt: skip


def find_kinds(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the mask of each atom."""
    model = PopCDL(
        len(lengths), [int(n) for n in lengths] if len(lengths) > 1 else int(lengths[0]),
        coder=L0Coder(baseline="line"), random_state=0, progress=False,
    )  # fmt: skip
    events = model.fit(Cohort.from_arrays([values[:, None]])).events_
    judged = judge_events(events.assign(atom=0), break_rate=1.0)
    events = events[judged["probability"] > 0.5]
    n_samples = events.get("duration_samples", np.full(len(events), lengths[0]))
    onset = events["onset_sample"].to_numpy()
    return draw_mask(events["atom"].to_numpy(), onset, onset + n_samples, len(values))


def arguments_of(lengths: np.ndarray) -> dict[str, Any]:
    """Return the arguments that the study gives to its methods."""
    return {
        "n_patterns": len(lengths), "wlen": int(lengths.mean()), "distance_name": "UnitEuclidean",
        "radius": float(np.mean(3 * lengths * NOISE)),
        "wlen_for_persistence": int(lengths.min()),
    }  # fmt: skip
