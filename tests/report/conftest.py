"""Pages for a browser to open."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import Visit

from percdl import Algorithm, Cohort, PerCDL, TimeWarp, make_synthetic

GROUPS = ("patient", "healthy", "patient", "patient", "healthy")


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Visit]]:
    """Open a file in a new window; no visit may log an error or fetch anything."""
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
def cohort60() -> Cohort:
    return people(60)


@pytest.fixture(scope="session")
def model60(cohort60) -> PerCDL:
    """A model of two atoms, fitted to 60 recordings."""
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
    return model.fit(cohort60)


@pytest.fixture(scope="session")
def report60(model60, tmp_path_factory) -> Path:
    return model60.report(tmp_path_factory.mktemp("report") / "60.html", title="Gait of many")


@pytest.fixture(scope="session")
def report400(model60, tmp_path_factory) -> Path:
    return model60.report(tmp_path_factory.mktemp("report") / "400.html", people(400))
