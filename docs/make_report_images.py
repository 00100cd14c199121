"""Make the pictures of the report page: ``python docs/make_report_images.py``.

Writes a report on 150 walks and one on 500 ECGs (real recordings, see docs/datasets.md) to
``build/``, opens them in a browser and keeps what it shows. Needs the extras plot, stats and test,
and chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from percdl import Algorithm, Cohort, PerCDL, PopCDL, TimeWarp, load_gait
from percdl.datasets import load_ptbxl_balanced

ROOT = Path(__file__).resolve().parents[1]
IMAGES, BUILD = ROOT / "docs" / "images" / "report", ROOT / "build"
COLUMNS = ["Age", "Gender", "WalkingSpeed", "Sensor"]
PERSON = "195-2"


def main() -> None:
    """Fit, report, and take pictures."""
    for folder in (IMAGES, BUILD):
        folder.mkdir(parents=True, exist_ok=True)
    gait, ecg = report_gait(), report_ecg()
    with sync_playwright() as running:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        # The table of people takes the height of the window.
        wide = browser.new_page(viewport={"width": 1400, "height": 2100})
        show(wide, gait, f"#subject={PERSON}")
        keep(wide, "gait_overview", "#overview")
        keep(wide, "gait_people", "#subjects")
        keep(wide, "gait_groups", "#comparison")
        page = browser.new_page(viewport={"width": 900, "height": 1200})
        page.goto((BUILD / "person.html").as_uri())
        keep(page, "person", "main")
        night = browser.new_page(viewport={"width": 1400, "height": 2800}, color_scheme="dark")
        show(night, ecg, "")
        night.check("#all-channels")
        keep(night, "ecg_people", "#subjects")
        night.select_option("#channel", "10")
        keep(night, "ecg_groups", "#comparison")
        phone = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True,
                                    has_touch=True).new_page()  # fmt: skip
        show(phone, gait, f"#subject={PERSON}")
        phone.locator("#signal-frame").scroll_into_view_if_needed()
        keep(phone, "phone", None)
        browser.close()


def report_gait() -> Path:
    """Report the angular velocity of the right foot of 150 walkers, by group."""
    data = load_gait(channels={"RRY": "rotation of the right foot"})
    cohort = data.cohort.zscore()
    # Keep the windows: people are compared sample by sample.
    start = PopCDL(1, 100, penalty=0.01, random_state=0).fit(cohort).dictionary_
    model = PerCDL(
        1,
        100,
        TimeWarp(4, 15),
        penalty=0.01,
        init=start,
        algorithm=Algorithm(realign=False, solver_steps=10),
        random_state=0,
    ).fit(cohort)
    return describe_gait(model, cohort, data.metadata[COLUMNS])


def describe_gait(model: PerCDL, cohort: Cohort, metadata: pd.DataFrame) -> Path:
    """Write the report, and the page of one walker."""
    model.person_page(BUILD / "person.html", PERSON, cohort, metadata=metadata)
    title = "Gait of 150 walkers"
    return model.report(BUILD / "gait.html", cohort, metadata=metadata, title=title)


def report_ecg() -> Path:
    """Report 500 ECGs of 12 leads, a hundred of each diagnostic superclass."""
    cohort = load_ptbxl_balanced(n_per_class=100).cohort.bandpass(0.5, 40)
    start = PopCDL(1, 65, penalty=0.5, random_state=0).fit(cohort).dictionary_
    model = PerCDL(
        1,
        65,
        TimeWarp(4, 7, per_channel=True),
        penalty=0.5,
        init=start,
        algorithm=Algorithm(realign=False),
        random_state=0,
    ).fit(cohort)
    return model.report(BUILD / "ecg.html", title="ECG of 500 patients")


def show(page: Page, report: Path, fragment: str) -> None:
    """Open a report and wait until it is drawn."""
    page.goto(report.as_uri() + fragment)
    page.wait_for_selector("html[data-ready=yes]")
    page.add_style_tag(content=".bar { position: static !important; }")


def keep(page: Page, name: str, part: str | None) -> None:
    """Save a part of the page, or the window, in few colours."""
    file = IMAGES / f"{name}.png"
    if part is None:
        page.screenshot(path=file)
    else:
        page.locator(part).screenshot(path=file)
    Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)


if __name__ == "__main__":
    main()
