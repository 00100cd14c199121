"""The studio stays fluid: many people, and a recording that is far too long for a page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.claims._claim import Claim, at_most, is_quick, skipped
from benchmarks.claims.report import BROWSERS
from percdl import make_synthetic

# Twice the two seconds that a person waits gladly: other programs run on the machine too.
MOST_SECONDS, MOST_MS = 4.0, 100.0
N_PEOPLE, N_SAMPLES = (20, 10_000) if is_quick() else (2000, 10_000_000)
FIT = "--sfreq 100 --n-atoms 2 --atom-length 50 --penalty 0.05 --depth 1 --width 3"
ROUNDS = "--population-rounds 2 --personal-rounds 2 --no-realign --no-multistart"
# Times each interaction is tried; the figure is their median.
N_TRIES = 9
# Clicks, and waits until everything that follows on the screen is drawn.
CLICK = """([button, changed]) => new Promise((done) => {
    const began = performance.now();
    const place = document.querySelector(changed);
    const seen = new MutationObserver(() => {
        seen.disconnect();
        requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    });
    seen.observe(place, { childList: true, characterData: true, subtree: true });
    document.querySelector(button).click();
})"""


def claims() -> Iterator[Claim]:
    """Open two folders in a browser and time what a person does."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        yield skipped("The studio in a browser", "no browser here")
        return
    for name, write, clicks in (
        (f"{N_PEOPLE:,} people", _write_people, {"another person": ("#next", "#who")}),
        (
            f"a recording of {N_SAMPLES:,} samples",
            _write_long,
            {
                "zooming in": ("[data-move=in]", "#range"),
                "moving": ("[data-move=right]", "#range"),
            },
        ),
    ):
        with TemporaryDirectory() as folder:
            write(Path(folder))
            command = f"fit . {FIT} {ROUNDS} --out model.percdl".split()
            fit = [sys.executable, "-m", "percdl", *command]
            # The standard output of a claim holds its figures alone.
            subprocess.run(fit, cwd=folder, check=True, stdout=sys.stderr)
            with _serving(Path(folder)) as address:
                yield from _visit(browser, f"{address}&model=model.percdl", name, clicks)


def _write_people(folder: Path) -> None:
    made = make_synthetic(N_PEOPLE, noise_std=0.05, depth=1, width=3, random_state=0).cohort
    for i, record in enumerate(made):
        np.savez(folder / f"P{i:04d}.npz", values=record.values)


def _write_long(folder: Path) -> None:
    made = make_synthetic(20, noise_std=0.05, depth=1, width=3, random_state=0).cohort
    values = np.concatenate([record.values for record in made])
    np.savez(folder / "long.npz", values=np.resize(values, (N_SAMPLES, 1)).astype("float32"))


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    from percdl.cli.studio_command import make_studio
    from percdl.studio.server import listen

    server, address = listen(make_studio(folder), 0)
    before = os.getcwd()
    os.chdir(folder)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield address
    finally:
        os.chdir(before)
        server.stop()
        thread.join()


def _visit(browser: str, address: str, name: str, clicks: Any) -> Iterator[Claim]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        window = running.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = window.new_page()
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("html[data-ready=yes]", timeout=600_000)
        first = time.perf_counter() - began
        yield at_most(f"Seconds until the first picture, {name}", first, MOST_SECONDS)
        page.wait_for_selector("#people tbody tr", timeout=1_200_000)
        page.wait_for_selector("html[data-ready=yes]", timeout=600_000)
        whole = time.perf_counter() - began
        page.evaluate("() => document.getElementById('who').scrollIntoView()")
        page.wait_for_selector("#signal:not([data-stale])")
        for what, (button, changed) in clicks.items():
            taken = [page.evaluate(CLICK, [button, changed]) for _ in range(N_TRIES)]
            detail = f"everything was there after {whole:.0f} s"
            yield at_most(f"Milliseconds for {what}, {name}", np.median(taken), MOST_MS, detail)
        window.close()
