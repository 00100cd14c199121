"""A real browser, and what a page says and asks for while it is open."""

import shutil
from pathlib import Path

import numpy as np
import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Pictures of the pages, kept to be looked at.
ARTEFACTS = Path(__file__).resolve().parents[1] / "build" / "screenshots"


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no browser: install chromium (Debian: apt-get install chromium)")
    with driver.sync_playwright() as running:
        # Without its own sandbox, which root and containers cannot have.
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page, and all that it said and asked for while it was open."""

    def __init__(self, page):
        self.page, self.complaints, self.requests = page, [], []
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss())
        )
        page.on("request", lambda asked: self.requests.append(asked.url))

    def ask(self, script: str, argument=None):
        """Return the value of an expression, or of a function applied to the argument."""
        return self.page.evaluate(script, argument)

    def wait_for(self, chart: str) -> None:
        """Wait until a chart shows what was asked for; those far from the screen take a while."""
        self.page.wait_for_selector(f"#{chart}:not([data-stale])", state="attached")

    def curve(self, chart: str, name: str, axis: str = "y") -> np.ndarray:
        """Return a curve of a chart, as it is drawn; gaps are NaN."""
        self.wait_for(chart)
        values = self.ask(
            """([chart, name, axis]) => {
                const trace = document.getElementById(chart).data.find((t) => t.name === name);
                return Array.from(trace[axis], (v) => (Number.isNaN(v) ? null : v));
            }""",
            [chart, name, axis],
        )
        return np.array([np.nan if v is None else v for v in values], float)

    def column(self, label: str) -> list[str]:
        """Return the cells of a column of the table of people, from the top."""
        heads = self.page.locator("#people thead th > button:first-child").all_inner_texts()
        at = [head.strip() for head in heads].index(label) + 1
        return self.page.locator(f"#people tbody tr :nth-child({at})").all_inner_texts()

    def keep(self, name: str, **options) -> None:
        """Keep a picture of the page."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.png", **options)


def faults(page):
    """Return the serious faults that axe-core finds, each with the first elements."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not there")
    found = axe.Axe().run(page).response["violations"]
    return [
        (fault["id"], [node["html"][:120] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
