"""One table of this library and its peers: ``python -m benchmarks.landscape``.

Figures are those of the claims, as ``docs/benchmarks.md``, ``docs/kinds.md`` and
``docs/segmentation.md`` have them. Every figure becomes an
error, lower is better, so that tasks can be compared by the ratio of errors. Writes
``docs/landscape.md`` and ``docs/images/landscape.png``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOUND = "cycles found"
# Metrics of which a part of 1 is missed.
SHARES = (FOUND, "F1", "sensitivity", "PPV")
DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, PICTURE = DOCS / "landscape.md", DOCS / "images" / "landscape.png"


class Row(NamedTuple):
    """A task, a peer and both figures, as they are printed; seconds are theirs over ours."""

    claim: str
    task: str
    data: str
    metric: str
    peer: str
    ours: str
    theirs: str
    seconds: str = "-"

    @property
    def ratio(self) -> float:
        """Our error over theirs; shares of what is found count what is missed."""
        ours, theirs = float(self.ours), float(self.theirs)
        if self.metric in SHARES:
            ours, theirs = 1 - ours, 1 - theirs
        return ours / theirs

    @property
    def title(self) -> str:
        """What the row compares, in the picture."""
        return f"{self.task} ({self.data}), {self.metric} | {self.peer}"


WALKS, WAVES = "150 walks", "LUDB, 50 records"
RPEAKS, PIECES = "MIT-BIH, 10 records", "MIT-BIH, one-minute pieces"
SHAPE, CYCLES = "common shape", "gait"
BARTH, BEST = "gaitmap BarthDtw", "best of eleven published"
MANY, FEW = "synthetic, 256 people", "synthetic, 16 people"
ROWS = [
    Row("peers", SHAPE, MANY, "distance", "Euclidean mean, true segments", "0.039", "0.105", "0"),
    Row("peers", SHAPE, MANY, "distance", "DBA, true segments", "0.039", "0.082", "0.77"),
    Row("peers", SHAPE, MANY, "distance", "soft-DTW, true segments", "0.039", "0.052", "0.48"),
    Row("peers", SHAPE, MANY, "distance", "fdasrsf, true segments", "0.039", "0.052", "29"),
    Row("peers", SHAPE, FEW, "distance", "fdasrsf, true segments", "0.164", "0.118"),
    Row("peers", SHAPE, FEW, "distance", "soft-DTW, true segments", "0.164", "0.147"),
    Row("detectors", f"{CYCLES}, 0.0094 false", WALKS, FOUND, BARTH, "0.985", "0.899"),
    Row("detectors", f"{CYCLES}, 0.004 false", WALKS, FOUND, "alphacsc", "0.981", "0.965"),
    Row("detectors", f"{CYCLES}, 0.012 false", WALKS, FOUND, "alphacsc", "0.986", "0.979"),
    Row("detectors", f"{CYCLES}, 0.033 false", WALKS, FOUND, "alphacsc", "0.986", "0.991"),
    Row("mitdb", "R peaks", RPEAKS, "sensitivity", "NeuroKit2", "0.9987", "0.997"),
    Row("mitdb", "R peaks", RPEAKS, "PPV", "NeuroKit2", "0.9990", "0.935"),
    Row("mitdb", "R peaks", RPEAKS, "sensitivity", "Pan-Tompkins", "0.9987", "0.996"),
    Row("mitdb", "R peaks", RPEAKS, "PPV", "Pan-Tompkins", "0.9990", "0.998"),
    Row("mitdb", "R peaks", RPEAKS, "mean error, ms", "NeuroKit2", "2.3", "0.7"),
    Row("mitdb", "R peaks", RPEAKS, "mean error, ms", "Pan-Tompkins", "2.3", "52"),
    Row("ludb", "waves: QRS", WAVES, "F1", "NeuroKit2 dwt", "0.997", "0.998"),
    Row("ludb", "waves: P", WAVES, "F1", "NeuroKit2 dwt", "0.979", "0.988"),
    Row("ludb", "waves: T", WAVES, "F1", "NeuroKit2 dwt", "0.986", "0.897"),
    Row("ludb", "waves: QRS onset", WAVES, "s.d., ms", "NeuroKit2 dwt", "9.9", "46"),
    Row("ludb", "waves: P onset", WAVES, "s.d., ms", "NeuroKit2 dwt", "14.7", "24"),
    Row("ludb", "waves: T end", WAVES, "s.d., ms", "NeuroKit2 dwt", "30.7", "29.5"),
    Row("kinds_mitdb", "beats of one class", PIECES, "F1", BEST, "0.989", "0.77"),
    Row("kinds_mitdb", "beats of 1 to 4 classes", PIECES, "F1", BEST, "0.916", "0.55"),
    Row("lengths", "lengths vary by 80 %", "generator of tsmd", "F1", BEST, "0.974", "0.69"),
]  # fmt: skip
TEXT = """\
# Landscape

PerCDL beside tools that solve a part of the same problem. *Ratio* is our error over theirs
(distance, standard deviation, or the share that is missed): below 1, PerCDL is better. PerCDL is
better in {better} of {total} rows. Ratios are of the figures as printed.

![Ratio of errors for each task and peer](images/landscape.png)

| task | data | metric | peer | ours | theirs | ratio | their seconds over ours | claim |
|---|---|---|---|---|---|---|---|---|
{rows}

How to read it:

- *Common shape*: the peers get the recordings cut at the true onsets, PerCDL gets them raw. With
  few people the peers are closer to the truth. DBA and soft-DTW are those of tslearn.
- *Gait*: false positives per cycle are the same in both columns. alphacsc has the best of several
  settings in each row, chosen with the annotation in view. Measured before warps had a prior.
- *R peaks* and *waves*: settings of PerCDL come from other records of the same data set; for waves
  the model and the places of the landmarks, too. NeuroKit2 and Pan-Tompkins (in NeuroKit2) run as
  they are, on any ECG.
- *Beats of classes* and *lengths*: the peers' figures are those that the study of `tsmd` published
  for its own pieces of MIT-BIH and its own draws of lengths that vary by 10 to 80 %; ours is the
  least over this range. Settings for beats come from other records of MIT-BIH.
- Seconds are only given where both were timed in the same run.

Versions and conditions of each row: [Benchmarks](benchmarks.md), [Kinds](kinds.md),
[Segmentation](segmentation.md). Which tool for which task:
[Related methods](related.md). This page is written by `python -m benchmarks.landscape`.
"""


def render() -> str:
    """Return the page."""
    lines = [
        f"| {r.task} | {r.data} | {r.metric} | {r.peer} | {r.ours} | {r.theirs} | {r.ratio:.2f} "
        f"| {r.seconds} | `{r.claim}` |"
        for r in ROWS
    ]
    better = sum(r.ratio < 1 for r in ROWS)
    return TEXT.format(rows="\n".join(lines), better=better, total=len(ROWS))


def draw() -> None:
    """Draw one line per row: ratios below 1 blue circles, above 1 orange squares."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.4), layout="constrained")
    ax = figure.add_subplot()
    for place, row in enumerate(ROWS):
        look = {"color": "#0072B2", "marker": "o"} if row.ratio < 1 else {}
        look = look or {"color": "#D55E00", "marker": "s"}
        ax.plot([1, row.ratio], [place, place], color="0.8", zorder=1)
        ax.plot(row.ratio, place, linestyle="none", markersize=8, **look)
    ax.axvline(1, color="black", linewidth=1)
    ax.set_xscale("log")
    ticks = ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"]
    ax.set_xticks([float(tick) for tick in ticks], ticks)
    ax.minorticks_off()
    ax.set_yticks(range(len(ROWS)), [row.title for row in ROWS], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("error of PerCDL / error of the peer (left of 1: PerCDL is better)")
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    draw()
