"""Make the picture of ``live.md``: ``python -m docs.make_live_image``.

The share of events that are settled, by the lag beyond one cycle, as the claim `live` measures it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.claims.live import BEYOND_CYCLE, Run, beats, follow, gait
from percdl.plotting.style import COLORS

IMAGE = Path(__file__).resolve().parent / "images" / "live_lag.png"
LATEST = 4.0


def main() -> None:
    """Stream recordings of two kinds, and draw the lags of each."""
    kinds = {
        "swings (gait, atom 0.7 s)": gait("0.7s"),
        "beats (LUDB, 0.68 s)": beats(),
    }
    draw({name: [follow(model, one) for one in some] for name, (model, some) in kinds.items()})


def draw(runs: dict[str, list[Run]]) -> None:
    """Draw the distributions of the lags."""
    _, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    looks = zip(runs.items(), COLORS, ("-", "--"), strict=False)
    for (name, own), color, line in looks:
        beyond = np.sort(np.concatenate([run.lag - run.cycle for run in own]))
        share = np.arange(1, len(beyond) + 1) / len(beyond)
        ax.step(beyond, share, where="post", label=name, color=color, ls=line, lw=2)
    ax.axvline(BEYOND_CYCLE, color="0.4", lw=1)
    ax.annotate(
        "one cycle and half a second", (BEYOND_CYCLE, 0.04), (4, 0), textcoords="offset points"
    )
    ax.set(
        xlim=(-1.2, LATEST),
        ylim=(0, 1.02),
        xlabel="lag after the end of the event, beyond one cycle (s)",
        ylabel="share of events settled",
    )
    ax.legend(loc="lower right", bbox_to_anchor=(1, 0.12))
    plt.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
