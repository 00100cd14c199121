"""``percdl demo``: the three models on a synthetic cohort with known atoms."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.errors import prepare_folder, require_packages, writing
from percdl.cli.options import OpenPage, Seed

if TYPE_CHECKING:
    from percdl.report.demo import Comparison

N_TIMES = 500
HEADINGS = ("distance to the\ntrue atoms", "squared\nrelative error", "onsets within\none sample")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the pictures.")] = Path(
        "percdl-demo"
    ),
    subjects: Annotated[int, typer.Option(min=2, help="Number of subjects.")] = 64,
    seed: Seed = 0,
    open_page: OpenPage = False,
) -> None:
    """Fit PopCDL, IndCDL and PerCDL to a synthetic cohort and compare them with the true atoms.

    The settings are those of the paper's synthetic experiment. All three models start from the
    atoms of the first subject.
    """
    from rich.console import Console

    prepare_folder(out, "--out")
    require_packages(("matplotlib", "jinja2"), "plot", "the demo draws pictures")
    from percdl.report.demo import render_page

    console = Console(highlight=False)
    comparison = _compare(subjects, seed, console)
    page = out / "index.html"
    with writing(out, "--out"):
        for outcome in comparison.outcomes:
            (out / f"{outcome.name.lower()}.png").write_bytes(outcome.picture)
        page.write_text(render_page(comparison), encoding="utf-8")
    _print_table(comparison, console)
    best = comparison.outcomes[-1]
    console.print(
        f"{best.name}: distance {best.distance:.3f} (gauge floor {comparison.gauge_floor:.3f}), "
        f"squared relative error {best.error:.1e}, {best.onsets:.1%} of the onsets found."
    )
    console.print(f"Page: {page}", soft_wrap=True)
    if open_page:
        typer.launch(page.resolve().as_uri())


def _compare(n_subjects: int, seed: int, console: Any) -> Comparison:
    """Make the cohort, fit the three models and compare them with the true atoms."""
    from percdl.analysis import normalized_reconstruction_error
    from percdl.datasets import make_synthetic, onset_accuracy
    from percdl.experiments.fits import fit
    from percdl.report.demo import Comparison, Outcome, draw_model

    data = make_synthetic(n_subjects, N_TIMES, random_state=seed)
    outcomes = []
    for name in ("PopCDL", "IndCDL", "PerCDL"):
        started = time.perf_counter()
        with console.status(f"Fitting {name} to {n_subjects} subjects"):
            model = fit(name, data)
        seconds = time.perf_counter() - started
        rebuilt = model.reconstruct(data.cohort)
        outcomes.append(
            Outcome(
                name=name,
                distance=data.distance_to_truth(model.dictionary_),
                error=normalized_reconstruction_error(data.cohort, rebuilt),
                onsets=onset_accuracy(model.events_, data.events, tolerance=1),
                seconds=seconds,
                picture=draw_model(model, data, rebuilt),
            )
        )
    return Comparison(
        n_subjects=n_subjects,
        n_times=N_TIMES,
        seed=seed,
        start_distance=data.distance_to_truth(data.personal_dictionary[0]),
        gauge_floor=data.gauge_floor(),
        outcomes=tuple(outcomes),
    )


def _print_table(comparison: Comparison, console: Any) -> None:
    from rich.table import Table

    table = Table(
        title=f"{comparison.n_subjects} subjects, {comparison.n_times} samples each, "
        f"seed {comparison.seed}",
        caption="Distances are between unit-norm atoms. The gauge floor is the distance that "
        "remains with the true warps. The first run includes compilation time.",
    )
    table.add_column("")
    for heading in (*HEADINGS, "seconds"):
        table.add_column(heading, justify="right")
    table.add_row("start", f"{comparison.start_distance:.3f}")
    for outcome in comparison.outcomes:
        table.add_row(*outcome.cells())
    table.add_row("gauge floor", f"{comparison.gauge_floor:.3f}")
    console.print(table)
