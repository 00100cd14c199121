"""The report is one file of moderate size that a browser opens by itself."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import Absent
from benchmarks.claims._claim import Claim, at_most, beside, is_quick, skipped
from benchmarks.cohorts import present
from percdl import Algorithm, PerCDL, TimeWarp, load_gait, make_synthetic
from percdl.datasets import load_ptbxl_balanced
from percdl.exceptions import DatasetError

MEGABYTE = 1e6
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def claims() -> Iterator[Claim]:
    """Write reports, weigh them, and open them."""
    with TemporaryDirectory() as folder:
        for name, write, most in (
            ("150 walks", _report_gait, 15.0),
            ("500 ECGs of 12 leads", _report_ecg, None),
            ("2,000 people", _report_many, None),
        ):
            try:
                page = write(Path(folder) / f"{write.__name__}.html")
            except Absent as reason:
                yield skipped(f"Size of the report on {name}", reason)
                continue
            size = page.stat().st_size / MEGABYTE
            what = f"Size of the report on {name} (MB)"
            yield beside(what, f"{size:.1f}") if most is None else at_most(what, size, most)
            yield from _open(page, name)


def _report_gait(path: Path) -> Path:
    cohort = present(load_gait).cohort.zscore()
    model = PerCDL(
        1, 100, TimeWarp(4, 15), penalty=0.01, algorithm=Algorithm(realign=False), random_state=0
    )
    return model.fit(cohort[:12] if is_quick() else cohort).report(path)


def _report_ecg(path: Path) -> Path:
    try:
        data = load_ptbxl_balanced(n_per_class=2 if is_quick() else 100)
    except DatasetError as reason:
        raise Absent(str(reason)) from reason
    cohort = data.cohort.bandpass(0.5, 40)
    model = PerCDL(1, 65, TimeWarp(4, 7, per_channel=True), penalty=1.0, random_state=0)
    return model.fit(cohort).report(path)


def _report_many(path: Path) -> Path:
    cohort = make_synthetic(20 if is_quick() else 2000, random_state=0).cohort
    return PerCDL(2, 50, TimeWarp(2, 5), penalty=1.0, random_state=0).fit(cohort).report(path)


def _open(page: Path, name: str) -> Iterator[Claim]:
    """Open a page; it may neither ask for anything nor complain."""
    claim = f"Requests and complaints of the report on {name}"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        yield skipped(claim, "no browser here")
        return
    from playwright.sync_api import sync_playwright

    asked: list[str] = []
    with sync_playwright() as running:
        window = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = window.new_page()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: asked.append(message.text))
        tab.on("pageerror", lambda error: asked.append(str(error)))
        began = time.perf_counter()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        seconds = time.perf_counter() - began
        window.close()
    others = [url for url in asked if not url.startswith(("data:", "blob:", page.as_uri()))]
    yield at_most(claim, len(others), 0)
    yield beside(f"Seconds until the report on {name} is drawn", f"{seconds:.1f}")
