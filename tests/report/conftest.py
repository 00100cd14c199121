"""A real browser, and pages for it to open."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from percdl import Algorithm, Cohort, PerCDL, TimeWarp, make_synthetic

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Pictures of the pages, kept to be looked at.
ARTEFACTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
GROUPS = ("patient", "healthy", "patient", "patient", "healthy")


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

    def curve(self, chart: str, name: str, axis: str = "y") -> np.ndarray:
        """Return a curve of a chart, as it is drawn; gaps are NaN."""
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
        heads = self.page.locator("#people thead th").all_inner_texts()
        at = [head.strip() for head in heads].index(label) + 1
        return self.page.locator(f"#people tbody tr :nth-child({at})").all_inner_texts()

    def keep(self, name: str, **options) -> None:
        """Keep a picture of the page."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTEFACTS / f"{name}.png", **options)


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Visit]]:
    """Open a file in a window of its own; no visit may complain or fetch anything."""
    opened = []

    def open_file(path: Path, fragment: str = "", **window) -> Visit:
        context = chromium.new_context(**{"viewport": {"width": 1400, "height": 1000}, **window})
        seen = Visit(context.new_page())
        opened.append((context, seen, path))
        seen.page.goto(path.as_uri() + fragment)
        seen.page.wait_for_selector("html[data-ready=yes]")
        return seen

    yield open_file
    for context, seen, path in opened:
        context.close()
        assert seen.complaints == []
        fetched = {url for url in seen.requests if not url.startswith(("data:", "blob:"))}
        assert {url.partition("#")[0] for url in fetched} == {path.as_uri()}


def people(n_subjects: int) -> Cohort:
    """Return a synthetic cohort of three groups."""
    made = make_synthetic(n_subjects, 500, depth=1, width=3, noise_std=0.05, random_state=1).cohort
    return Cohort.from_arrays(
        [record.values for record in made],
        sfreq=100,
        subjects=[f"S{i:04d}" for i in range(n_subjects)],
        groups=[GROUPS[i % len(GROUPS)] for i in range(n_subjects)],
        channels=["gyro"],
        units="deg/s",
    )


@pytest.fixture(scope="session", autouse=True)
def few_permutations():
    """Pages are tested here, not the tests they show."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("percdl.report.people.N_PERMUTATIONS", 200)
        yield


@pytest.fixture(scope="session")
def cohort150() -> Cohort:
    return people(150)


@pytest.fixture(scope="session")
def model150(cohort150) -> PerCDL:
    """A model of two atoms, fitted to 150 recordings."""
    model = PerCDL(
        2,
        50,
        transformation=TimeWarp(1, 3),
        penalty=1.0,
        algorithm=Algorithm(
            population_rounds=2, personal_rounds=2, realign=False, multistart=False
        ),
        random_state=0,
    )
    return model.fit(cohort150)


@pytest.fixture(scope="session")
def report150(model150, tmp_path_factory) -> Path:
    return model150.report(tmp_path_factory.mktemp("report") / "150.html", title="Gait of many")


@pytest.fixture(scope="session")
def report400(model150, tmp_path_factory) -> Path:
    return model150.report(tmp_path_factory.mktemp("report") / "400.html", people(400))
