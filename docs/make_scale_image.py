"""Make the picture of ``scale.md``: ``python -m docs.make_scale_image``.

Simulated seconds of a round, from the parameters in ``benchmarks/scale_model.json``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.scale_model import CORES, PERSONAL, Measured, hospitals, million
from percdl.plotting.style import COLORS

IMAGE = Path(__file__).resolve().parent / "images" / "scale_model.png"
N_MACHINES = (1, 2, 5, 10, 20, 50, 100, 200)
N_SITES = (3, 10, 30, 100, 300, 1000)
LINES = ("-o", "--s")


def main() -> None:
    """Simulate fits of many sizes, and draw the seconds of a personal round."""
    measured = Measured.read()
    _, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    places = {"one file server, 10 Gbit/s": False, "a disk of 0.5 GB/s in each machine": True}
    for look, (name, own) in enumerate(places.items()):
        runs = [million(measured, n, own) for n in N_MACHINES]
        _draw(axes[0], N_MACHINES, [run.seconds_of_round(PERSONAL) for run in runs], look, name)
    ways = {"the sites add (relay)": False, "the server adds": True}
    for look, (name, adds) in enumerate(ways.items()):
        runs = [hospitals(measured, n, adds) for n in N_SITES]
        times = [run.seconds_of_round(PERSONAL + 1) for run in runs]
        _draw(axes[1], N_SITES, times, look + 2, name)
    axes[0].set(
        title="a million people, Dask",
        xlabel=f"machines of {CORES} cores",
        ylabel="seconds of a personal round",
    )
    axes[1].set(title="hospitals of 1,000 people", xlabel="hospitals")
    plt.savefig(IMAGE, dpi=110)


def _draw(ax: Axes, sizes: tuple[int, ...], times: list[float], look: int, name: str) -> None:
    ax.loglog(sizes, times, LINES[look % 2], color=COLORS[look], label=name, lw=2, ms=5)
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    ax.set_yticks([1, 10, 100], ["1", "10", "100"])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend()


if __name__ == "__main__":
    main()
