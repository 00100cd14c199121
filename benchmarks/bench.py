"""The speed and the memory of PerCDL in one table: ``make bench``.

On a CPU every figure is a ratio of two things measured in this run, so it hardly depends on the
machine; on a GPU some are seconds. Figures are added to ``history.csv`` and to the page
``docs/benchmarks.md``. A figure that is worse than the last one of the same kind of machine is
not added, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

# Also as a file: ``python benchmarks/bench.py``.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import Absent, cohorts, gpu, history, limit, probe
from benchmarks.cohorts import Problem
from benchmarks.history import Figure, Row
from benchmarks.origin import ROOT, commit, machine_kind
from benchmarks.timing import exponent, fit_seconds, follow, say, warm_seconds
from percdl.experiments.study import as_printed

MOST_PLAIN, MOST_DEFAULT, MOST_EXPONENT, MOST_MEMORY = 3.5, 6.0, 1.05, 1.0
# The README example, in warm fits: with nothing compiled, with an earlier process's programs on
# disk, and `personalize` of two other people.
MOST_FIRST, MOST_STORED, MOST_PERSONALIZE = 25.0, 4.0, 1.0
N_INIT = N_PERSO = 5
HISTORY, PAGE = ROOT / "benchmarks" / "history.csv", ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Sizes:
    """How much is measured; None: all there is."""

    trials: int | None = None
    records: int | None = None
    repeats: int = 3
    subjects: tuple[int, ...] = (128, 512, 2048, 8192)
    samples: tuple[int, ...] = (500, 2000, 8000, 16_000)
    samples_subjects: int = 32
    memory: tuple[int, ...] = (512, 2048, 8192)
    gpu_records: int = cohorts.N_BEAT_RECORDS


QUICK = Sizes(8, 64, 1, (64, 128), (500, 1000), 16, (128, 256), 512)


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be measured here, and why."""

    name: str
    reason: str


def against_the_limit(problem: Problem, repeats: int) -> Iterator[Figure]:
    """Compare warm fits with the correlations they cannot avoid, timed in turn."""
    batches = limit.make_batches(problem.cohort)
    rounds = {"algorithm__population_rounds": N_INIT, "algorithm__personal_rounds": N_PERSO}
    for kind, changes, most in (
        ("plain", as_printed(), MOST_PLAIN),
        ("default", {}, MOST_DEFAULT),
    ):
        say(f"{problem.name}, {kind}: first fit")
        fit_seconds(problem, **rounds, **changes)
        fits, limits = [], []
        for _ in follow(range(1, repeats + 1), f"{problem.name}, {kind}: warm fit"):
            fits.append(fit_seconds(problem, **rounds, **changes))
            limits.append(limit.limit_seconds(batches, problem.options["init"], *rounds.values()))
        fit, floor = float(np.median(fits)), float(np.median(limits))
        yield Figure(
            f"{problem.name}, {kind}: warm fit / limit",
            fit / floor,
            most,
            f"{len(problem.cohort)} recordings, {fit:.2f} s / {floor:.3f} s, median of {repeats}",
        )


def growth_in_subjects(sizes: tuple[int, ...]) -> Iterator[Figure]:
    """Time warm fits of the first S subjects of one synthetic cohort."""
    whole = cohorts.synthetic(max(sizes))
    times = [
        warm_seconds(Problem("synthetic", whole.cohort[:n], whole.options))
        for n in follow(sizes, "growth in S")
    ]
    yield _growth("subjects S", sizes, times, "N = 500")


def growth_in_samples(sizes: tuple[int, ...], n_subjects: int) -> Iterator[Figure]:
    """Time warm fits of ever longer recordings of the same number of subjects."""
    times = [warm_seconds(cohorts.synthetic(n_subjects, n)) for n in follow(sizes, "growth in N")]
    yield _growth("samples N", sizes, times, f"S = {n_subjects}, equal density of activations")


def _growth(what: str, sizes: tuple[int, ...], times: list[float], setting: str) -> Figure:
    seconds = ", ".join(f"{n}: {t:.2f} s" for n, t in zip(sizes, times, strict=True))
    detail = f"{setting}; {seconds}"
    return Figure(f"growth in {what}: exponent", exponent(sizes, times), MOST_EXPONENT, detail)


def growth_of_memory(sizes: tuple[int, ...]) -> Iterator[Figure | Missing]:
    """Compare what each more subject adds to the peak memory, beyond its recording, with that."""
    name = "memory beyond the data, per subject / data"
    if not probe.can_measure_memory():
        yield Missing(name, "this system does not report the peak memory of a fit")
        return
    whole = cohorts.synthetic(max(sizes))
    values = np.stack([record.values[:, 0] for record in whole.cohort])
    with tempfile.TemporaryDirectory() as folder:
        extra = [
            probe.fit_memory(values[:n], whole.options["init"], Path(folder))
            for n in follow(sizes, "memory, S")
        ]
    slope = float(np.polyfit(sizes, extra, 1)[0])
    megabytes = ", ".join(f"{n}: {e / 2**20:.0f} MiB" for n, e in zip(sizes, extra, strict=True))
    detail = f"a fit takes, beyond the data, {megabytes}; data {values.nbytes / 2**20:.0f} MiB"
    yield Figure(name, slope / values[0].nbytes, MOST_MEMORY, detail)


def first_result() -> Iterator[Figure]:
    """Compare the first calls of new processes with a warm fit of the README example."""
    with tempfile.TemporaryDirectory() as folder:
        cold, stored = (
            probe.first_fits("readme", Path(folder))
            for _ in follow(("empty cache", "filled cache"), "README example")
        )
    for name, found, call, most in (
        ("first fit, nothing compiled", cold, "first", MOST_FIRST),
        ("first fit, programs stored", stored, "first", MOST_STORED),
        ("personalize two others", cold, "personalize", MOST_PERSONALIZE),
    ):
        yield Figure(
            f"README example, {name} / warm fit",
            found[call] / found["warm"],
            most,
            f"{found[call]:.2f} s / {found['warm']:.2f} s",
        )
    programs = cold["programs"]
    name = "README example, personalize two others: compiled"
    yield Figure(name, programs, 0, "JAX's count", "programs")


def on_a_gpu(n_records: int) -> Iterator[Figure | Missing]:
    """Time fits of synthetic records of 12 leads on the GPU that JAX finds."""
    if not gpu.is_there():
        yield Missing("beats: warm fit", gpu.NO_GPU)
        return
    yield gpu.first_fit()
    for found in gpu.measure(cohorts.beats(n_records)):
        yield from gpu.figures_of(found)


# The figures by the name that restricts `make bench` to them.
GROUPS: dict[str, Callable[[Sizes], Iterator[Figure | Missing]]] = {
    "gait": lambda sizes: _or_reason(cohorts.gait, sizes.trials, sizes.repeats),
    "ecg": lambda sizes: _or_reason(cohorts.ecg, sizes.records, sizes.repeats),
    "subjects": lambda sizes: growth_in_subjects(sizes.subjects),
    "samples": lambda sizes: growth_in_samples(sizes.samples, sizes.samples_subjects),
    "memory": lambda sizes: growth_of_memory(sizes.memory),
    "readme": lambda _: first_result(),
    "gpu": lambda sizes: on_a_gpu(sizes.gpu_records),
}
SPEED = ("gait", "ecg", "subjects", "samples", "memory")


def _or_reason(
    load: Callable[[int | None], Problem], count: int | None, repeats: int
) -> Iterator[Figure | Missing]:
    try:
        problem = load(count)
    except Absent as reason:
        yield Missing(f"{load.__name__}: warm fit / limit", str(reason))
        return
    yield from against_the_limit(problem, repeats)


def measure(names: list[str], sizes: Sizes) -> list[Figure]:
    """Measure groups of figures and print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "what", "figure", "target", "holds", "measured", title="PerCDL, speed and memory"
    )
    found = []
    for figure in (figure for name in names for figure in GROUPS[name](sizes)):
        if isinstance(figure, Missing):
            table.add_row(figure.name, "skipped", "", "", figure.reason)
            continue
        say(f"-> {figure.name}: {figure.value:.2f}")
        target = "" if figure.most is None else f"<= {figure.most:g}"
        holds = {None: "", True: "yes", False: "no"}[figure.holds]
        table.add_row(figure.name, f"{figure.value:.2f}", target, holds, figure.detail)
        found.append(figure)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return found


def record(figures: list[Figure], accept: bool) -> list[tuple[Row, Row]]:
    """Add figures to the history and to the page; return those that are worse than before."""
    today, version, machine = date.today().isoformat(), commit(), machine_kind()
    new = [
        Row(today, version, machine, f.name, float(f"{f.value:.4g}"), f.unit, f.detail)
        for f in figures
    ]
    rows = history.parse(HISTORY.read_text(encoding="utf-8"))
    worse = [] if accept else history.find_worse(rows, new)
    rejected = [row for _, row in worse]
    rows = history.append(rows, [row for row in new if row not in rejected])
    HISTORY.write_text(history.dump(rows), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(history.update_page(page, history.render(rows)), encoding="utf-8")
    return worse


def main(arguments: list[str] | None = None) -> int:
    """Measure, compare and record; return the exit status."""
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__)
    known = ", ".join(GROUPS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {known}")
    parser.add_argument("--quick", action="store_true", help="small sizes; nothing is recorded")
    parser.add_argument("--accept", action="store_true", help="record figures that are worse")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in GROUPS]
    if unknown:
        parser.error(f"no figures {', '.join(unknown)}; there are {known}")
    names = chosen.names or (["gpu"] if gpu.is_there() else [*SPEED, "readme"])
    figures = measure(names, QUICK if chosen.quick else Sizes())
    if chosen.quick:
        return 0
    worse = record(figures, chosen.accept)
    for last, row in worse:
        print(f"Worse: {row.figure}, {row.value:.3g} after {last.value:.3g} at {last.commit}.")
    if worse:
        print("These were not recorded; `make bench ACCEPT=1` records them.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
