"""Make the pictures of the page about the studio: ``python docs/make_studio_images.py``.

Writes 24 walks (real recordings, see docs/datasets.md) as CSV files to a temporary folder, fits a
model there, and keeps what the studio shows. Needs the extras studio and test, and chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from playwright.sync_api import Page, sync_playwright

from percdl import load_gait
from percdl.cli.studio_command import make_studio
from percdl.studio.server import listen

IMAGES = Path(__file__).resolve().parent / "images" / "studio"
FIT = "--channels foot_rotation --time t --zscore --metadata people.csv --group group"


def main() -> None:
    """Write, fit, serve, and take pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        folder = Path(place) / "walks"
        files = write_walks(folder)
        command = ["fit", *files, *FIT.split(), "--atom-length", "100", "--out", "walks.percdl"]
        subprocess.run([sys.executable, "-m", "percdl", *command], cwd=folder, check=True)
        os.chdir(folder)
        server, address = listen(make_studio(folder), 0)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        with sync_playwright() as running:
            path = shutil.which("chromium") or shutil.which("google-chrome")
            browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            show(page, address, "#preview .main-svg")
            page.uncheck("#channels input[value=foot_push]")
            page.check("#zscore")
            page.wait_for_timeout(3000)
            page.locator("#candidates button").first.click()
            keep(page, "setup", "#recordings")
            keep(page, "lengths", "#lengths")
            show(page, f"{address}&model=walks.percdl", "#people tbody tr")
            page.click("[data-edit=next]")
            page.wait_for_timeout(1000)
            keep(page, "correct", "#signal-frame")
            page.select_option("#first", "group:Healthy")
            page.select_option("#second", "group:Orthopedic")
            page.wait_for_timeout(3000)
            keep(page, "compare", "#compare")
            page.fill("#live-source", files[0])
            page.fill("#live-learn", "8s")
            page.click("#live-start")
            page.wait_for_selector("#live-rhythm .points path", timeout=300_000)
            page.wait_for_timeout(3000)
            keep(page, "live", "#live")
            page.click("#live-stop")
            page.wait_for_selector("#written li")
            browser.close()
        server.stop()
        thread.join()


def write_walks(folder: Path) -> list[str]:
    """Write some walks of healthy people and patients, and a table of them; return the files."""
    folder.mkdir()
    walks = load_gait(channels={"RRY": "foot_rotation", "RAX": "foot_push"}).cohort
    rows = []
    for group in ("Healthy", "Orthopedic"):
        some = [walk for walk in walks if walk.group == group][:12]
        for i, walk in enumerate(some):
            name = f"{group.lower()}{i + 1:02d}"
            table = pd.DataFrame(walk.values, columns=walks.channels).round(4)
            table.insert(0, "t", [n / walks.sfreq for n in range(len(table))])
            table.to_csv(folder / f"{name}.csv", index=False)
            rows.append((name, group))
    pd.DataFrame(rows, columns=["subject", "group"]).to_csv(folder / "people.csv", index=False)
    return [f"{name}.csv" for name, _ in rows]


def show(page: Page, address: str, drawn: str) -> None:
    """Open a page and wait until it is drawn."""
    page.goto(address)
    page.wait_for_selector(drawn, timeout=300_000)
    page.wait_for_selector("html[data-ready=yes]", timeout=300_000)


def keep(page: Page, name: str, part: str) -> None:
    """Keep a picture of a part of the page."""
    page.locator(part).screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
