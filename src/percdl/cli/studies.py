"""``percdl datasets``, ``demo`` and ``reproduce``: commands without recordings of your own."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from percdl.cli.options import OpenPage, Seed, argument, option
from percdl.cli.output import Output, fail, prepare_folder, require_packages, writing
from percdl.exceptions import PerCDLError
from percdl.experiments import study
from percdl.experiments.study import CATALOG, Entry, Ledger, Scale, Study, find

if TYPE_CHECKING:
    from percdl.report.demo import Comparison

N_TIMES = 500
RESULTS = Path("percdl-results")
HEADINGS = ("", "distance", "squared error", "onsets found", "seconds")


def datasets(
    output: Output,
    download: Annotated[str | None, option("Download gait or ptbxl, if not there yet.")] = None,
    data_home: Annotated[Path | None, option("Folder to search and download to.")] = None,
) -> None:
    """List the public datasets, their location on this computer and their licences.

    percdl datasets --download gait

    The folder in PERCDL_DATA is searched first, then the user's cache folder.
    """
    from percdl.datasets import gait, ptbxl
    from percdl.datasets.downloads import ENVIRONMENT_VARIABLE
    from percdl.exceptions import DatasetError

    known = {"gait": (gait.SOURCE, gait.find_gait), "ptbxl": (ptbxl.SOURCE, ptbxl.find_ptbxl)}
    if download is not None and download not in known:
        fail(f"--download {download} must be one of {', '.join(known)}.")
    if download is not None:
        folder = known[download][1](data_home, download=True)
        output.done(f"{download}: {folder}", dataset=download, folder=folder)
        return
    for name, (source, locate) in known.items():
        try:
            folder = locate(data_home, download=False)
        except DatasetError:
            named = data_home or os.environ.get(ENVIRONMENT_VARIABLE)
            if named and not Path(named).expanduser().is_dir():
                raise  # a misspelled folder is not a missing dataset
            folder = None
        about = {key: getattr(source, key) for key in ("size", "licence", "citation")}
        output.event("dataset", name=name, title=source.name, folder=folder, **about)
        where = folder or f"not on this computer; percdl datasets --download {name}"
        output.say(
            f"{name}: {source.name}, {source.size}, {source.licence}\n  folder: {where}\n"
            f"  Python: percdl.load_{name}()\n  cite:   {source.citation}"
        )


def demo(
    out: Annotated[Path, option("Folder for the page and the pictures.")] = Path("percdl-demo"),
    subjects: Annotated[int, option("Number of subjects.", min=2)] = 64,
    seed: Seed = 0,
    open_page: OpenPage = False,
) -> None:
    """Fit PopCDL, IndCDL and PerCDL to a synthetic cohort and compare them with the true atoms.

    The settings are those of the paper's synthetic experiment. All three models start from the
    atoms of the first subject.
    """
    import pandas as pd
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
    table = pd.DataFrame(comparison.rows(), columns=list(HEADINGS))
    console.print(table.to_string(index=False))
    console.print(
        f"{subjects} subjects, {N_TIMES} samples each, seed {seed}. Distances are between atoms "
        "of unit norm. The gauge floor is the distance that remains with the true warps. The "
        "first run includes compilation time."
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


def reproduce(
    labels: Annotated[
        list[str],
        argument("LABEL...", f"`all`, or labels: {', '.join(entry.label for entry in CATALOG)}."),
    ],
    scale: Annotated[Scale, option("Minutes on two cores (small), or full size.")] = Scale.SMALL,
    out: Annotated[Path, option("Folder for figures, numbers and a page.")] = RESULTS,
    fresh: Annotated[bool, option("Repeat results already in the folder.", "--fresh")] = False,
) -> None:
    """Reproduce figures and tables of the paper.

    Each label gets a folder with its figure (PNG, SVG), its numbers (CSV, JSON) and lines
    `paper | ours | settings`. A page shows all labels in the folder. Finished labels are kept,
    and an interrupted label continues where it stopped.
    """
    from rich.console import Console

    entries = list(CATALOG) if "all" in labels else [find(label) for label in labels]
    prepare_folder(out, "--out")
    require_packages(("matplotlib", "jinja2"), "reproduce", "reproduce draws pictures")
    console = Console(highlight=False)
    try:
        failed = [entry.label for entry in entries if not _one(entry, scale, out, fresh, console)]
    except KeyboardInterrupt:
        console.print("Stopped. Results so far are kept. Without --fresh, the next run continues.")
        raise
    console.print(f"Page: {study.write_page(out)}", soft_wrap=True)
    if failed:
        fail(f"not reproduced: {', '.join(failed)}. The reasons are above.")


def _one(entry: Entry, scale: Scale, out: Path, fresh: bool, console: Any) -> bool:
    """Reproduce one label and print its lines; return False if that is not possible."""
    console.print(f"[bold]{entry.label}[/bold]  {entry.title}")
    rows = entry.ledger_in(out, scale)
    if fresh:
        entry.summary_in(out).unlink(missing_ok=True)
        rows.unlink(missing_ok=True)
    stored = study.finished(entry, scale, out)
    if stored is not None:
        console.print("  kept from an earlier run; --fresh repeats it")
    else:
        status, handler = console.status("starting"), logging.Handler(logging.INFO)
        handler.emit = lambda record: status.update(record.getMessage())
        study.logger.setLevel(logging.INFO)
        study.logger.addHandler(handler)
        try:
            with status:
                result = entry.load()(Study(scale, Ledger(rows)))
        except (PerCDLError, ImportError) as error:
            console.print(f"  cannot be reproduced here: {error}", markup=False)
            return False
        finally:
            study.logger.removeHandler(handler)
        stored = study.write(entry, scale, result, out)
        rows.unlink(missing_ok=True)
    for line in stored.lines:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    return True
