"""One table of this library and its peers: ``python -m benchmarks.landscape``.

Figures are those of the claims, as ``docs/benchmarks.md`` has them. Every figure becomes an
error, lower is better, so that tasks can be compared by the ratio of errors. Writes
``docs/landscape.md`` and ``docs/images/landscape.png``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURE = DOCS / "landscape.md", DOCS / "images" / "landscape.png"


class Row(NamedTuple):
    """A task, a peer and both figures, as they are printed; seconds are theirs over ours."""

    claim: str
    task: str
    metric: str
    peer: str
    ours: str
    theirs: str
    seconds: str = "-"

    @property
    def ratio(self) -> float:
        """Our error over theirs; shares of what is found count what is missed."""
        ours, theirs = float(self.ours), float(self.theirs)
        if self.metric in ("cycles found", "F1"):
            ours, theirs = 1 - ours, 1 - theirs
        return ours / theirs


SHAPE, FEW = "common shape, 256 people", "common shape, 16 people"
WAVES = "waves of the ECG, LUDB"
ROWS = [
    Row("peers", SHAPE, "distance", "Euclidean mean, true segments", "0.039", "0.105", "0"),
    Row("peers", SHAPE, "distance", "tslearn DBA, true segments", "0.039", "0.082", "0.77"),
    Row("peers", SHAPE, "distance", "tslearn soft-DTW, true segments", "0.039", "0.052", "0.48"),
    Row("peers", SHAPE, "distance", "fdasrsf, true segments", "0.039", "0.052", "29"),
    Row("peers", FEW, "distance", "fdasrsf, true segments", "0.164", "0.118"),
    Row("peers", FEW, "distance", "tslearn soft-DTW, true segments", "0.164", "0.147"),
    Row("detectors", "gait, 0.0094 false", "cycles found", "gaitmap BarthDtw", "0.985", "0.899"),
    Row("detectors", "gait, 0.004 false", "cycles found", "alphacsc", "0.981", "0.965"),
    Row("detectors", "gait, 0.012 false", "cycles found", "alphacsc", "0.986", "0.979"),
    Row("detectors", "gait, 0.033 false", "cycles found", "alphacsc", "0.986", "0.991"),
    Row("ludb", f"{WAVES}: QRS", "F1", "NeuroKit2 dwt", "0.997", "0.998"),
    Row("ludb", f"{WAVES}: P", "F1", "NeuroKit2 dwt", "0.976", "0.988"),
    Row("ludb", f"{WAVES}: T", "F1", "NeuroKit2 dwt", "0.980", "0.897"),
    Row("ludb", f"{WAVES}: QRS onset", "s.d., ms", "NeuroKit2 dwt", "9.9", "46"),
    Row("ludb", f"{WAVES}: P onset", "s.d., ms", "NeuroKit2 dwt", "11.2", "24"),
    Row("ludb", f"{WAVES}: T end", "s.d., ms", "NeuroKit2 dwt", "30.7", "29.5"),
]
TEXT = """\
# Landscape

PerCDL beside tools that solve a part of the same problem, on the same data. *Ratio* is our error
over theirs (distance, standard deviation, or the share that is missed): below 1, PerCDL is
better. PerCDL is better in {better} of {total} rows. Ratios are of the figures as printed.

![Ratio of errors for each task and peer](images/landscape.png)

| task | metric | peer | ours | theirs | ratio | their seconds over ours | claim |
|---|---|---|---|---|---|---|---|
{rows}

How to read it:

- *Common shape*: the peers get the recordings cut at the true onsets, PerCDL gets them raw. With
  few people the peers are closer to the truth.
- *Gait*: false positives per cycle are the same in both columns. alphacsc has the best of several
  settings in each column, chosen with the annotation in view.
- *ECG*: model and settings of PerCDL come from other records of the same data set, and so do the
  places of its landmarks. NeuroKit2 runs as it is, on any ECG.
- Seconds are only given where both were timed in the same run.

Data, versions and conditions of each row: [Benchmarks](benchmarks.md). Which tool for which task:
[Related methods](related.md). This page is written by `python -m benchmarks.landscape`.
"""


def render() -> str:
    """Return the page."""
    lines = [
        f"| {r.task} | {r.metric} | {r.peer} | {r.ours} | {r.theirs} | {r.ratio:.2f} "
        f"| {r.seconds} | `{r.claim}` |"
        for r in ROWS
    ]
    better = sum(r.ratio < 1 for r in ROWS)
    return TEXT.format(rows="\n".join(lines), better=better, total=len(ROWS))


def draw() -> None:
    """Draw one line per row: ratios below 1 blue circles, above 1 orange squares."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained")
    ax = figure.add_subplot()
    for place, row in enumerate(ROWS):
        look = {"color": "#0072B2", "marker": "o"} if row.ratio < 1 else {}
        look = look or {"color": "#D55E00", "marker": "s"}
        ax.plot([1, row.ratio], [place, place], color="0.8", zorder=1)
        ax.plot(row.ratio, place, linestyle="none", markersize=8, **look)
    ax.axvline(1, color="black", linewidth=1)
    ax.set_xscale("log")
    ax.set_xticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    ax.minorticks_off()
    ax.set_yticks(range(len(ROWS)), [f"{row.task} | {row.peer}" for row in ROWS], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("error of PerCDL / error of the peer (left of 1: PerCDL is better)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    draw()
