"""Make the picture of ``federated/privacy.md``: ``python -m docs.make_privacy``.

It draws what ``python -m benchmarks.claims privacy`` measures, in half an hour.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.claims.privacy import EPSILONS, SIZES, Point, measure, measure_real

IMAGES = Path(__file__).resolve().parent / "images"
# Position of "no noise" on the axis of epsilons.
NO_NOISE = 128.0
COLORS = ("#b0c4de", "#6a9bd1", "#2f6fb0", "#123c69")


def main() -> None:
    """Measure, and write the picture twice."""
    points = list(measure())
    figure, axes = plt.subplots(1, 3, figsize=(11.4, 3.4), layout="constrained")
    start, fits = points[0], points[1:]
    _draw(axes[0], fits, "distance")
    axes[0].axhline(start.distance, color="0.4", linestyle=":", linewidth=1.2)
    axes[0].annotate(
        f"{start.n_subjects} public recordings alone", (1, start.distance), (0, 4),
        textcoords="offset points", color="0.4", fontsize=8,
    )  # fmt: skip
    axes[0].set_ylabel("distance to the true atoms")
    axes[0].set_ylim(0, 1.15 * max(point.distance for point in points))
    _draw(axes[1], fits, "onsets")
    axes[1].set_ylabel("onsets within 2 samples (%)")
    axes[1].set_ylim(0, 100)
    axes[1].legend(loc="lower left", frameon=False, fontsize=8, title="subjects", title_fontsize=8)
    _draw_real(axes[2])
    for suffix in ("png", "svg"):
        figure.savefig(IMAGES / f"privacy.{suffix}", dpi=110)


def _draw_real(ax: Axes) -> None:
    """Draw the share of the improvement on real recordings: mean, and range over draws."""
    shares = list(measure_real())
    for name, color in (("gait", COLORS[1]), ("beats", COLORS[3])):
        own = [s for s in shares if s.name == name]
        epsilons, label = [s.epsilon for s in own], f"{name}, {own[0].n_subjects} people"
        ax.fill_between(
            epsilons, *zip(*(s.spread for s in own), strict=True), color=color, alpha=0.2
        )
        ax.plot(epsilons, [s.share for s in own], "o-", color=color, label=label, markersize=4)
    ax.set_xscale("log", base=2)
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons], fontsize=8)
    ax.set_xlabel("epsilon of the whole fit (delta 1e-5)")
    ax.set_ylabel("share of the exact fit's improvement")
    ax.set_ylim(-0.1, 1.1)
    ax.legend(loc="lower right", frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.3, linewidth=0.6)


def _draw(ax: Axes, fits: list[Point], name: str) -> None:
    """Draw one line per size of the cohort; fits without noise are drawn apart."""
    factor = 100 if name == "onsets" else 1
    for size, color in zip(SIZES, COLORS, strict=True):
        line = {p.epsilon: factor * getattr(p, name) for p in fits if p.n_subjects == size}
        seen = sorted(line.keys() - {math.inf})
        ax.plot(seen, [line[e] for e in seen], "o-", color=color, label=f"{size}", markersize=4)
        ax.plot(NO_NOISE, line[math.inf], "s", color=color, markersize=5)
    ax.set_xscale("log", base=2)
    noisy = [epsilon for epsilon in EPSILONS if epsilon < math.inf]
    ticks = [*noisy, NO_NOISE]
    ax.set_xticks(ticks, [f"{e:g}" for e in noisy] + ["no noise"], fontsize=8)
    ax.set_xlabel("epsilon of the whole fit (delta 1e-5)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.3, linewidth=0.6)


if __name__ == "__main__":
    main()
