"""Markup in every name: pages show it as text."""

from urllib.parse import quote

import pandas as pd
import pytest
from browser import Visit
from commands import MODEL as FIT
from commands import run, write_walks

from percdl import load

MARKUP = "<img src=x onerror=alert(1)>"
SAFE = "_img_src_x_onerror_alert_1_"


@pytest.fixture
def odd_folder(tmp_path, monkeypatch):
    """The current folder: its name and all names in it (files, columns, cells) are markup."""
    place = write_walks(tmp_path / MARKUP)
    walks = [place / f"{name}.csv" for name in (MARKUP, "Bo", "Cy", "Di")]
    (place / "Ada.csv").rename(walks[0])
    for walk in walks:
        pd.read_csv(walk).rename(columns={"x": MARKUP, "t": f"t {MARKUP}"}).to_csv(
            walk, index=False
        )
    rows = [MARKUP, "Bo", "Cy", "Di"], [MARKUP, MARKUP, "b", "b"], [MARKUP, MARKUP, "q", "r"]
    names = "subject", f"group {MARKUP}", f"person {MARKUP}"
    table = pd.DataFrame(dict(zip(names, rows, strict=True)) | {f"age {MARKUP}": ["61"] * 4})
    table.to_csv(place / f"people {MARKUP}.csv", index=False)
    monkeypatch.chdir(place)
    about = "--metadata", f"people {MARKUP}.csv", "--group", names[1], "--person", names[2]
    read = "--channels", MARKUP, "--time", f"t {MARKUP}", "--units", MARKUP
    files = [walk.name for walk in walks]
    result = run("fit", *files, *read, *FIT, *about, "--out", f"{MARKUP}.percdl")
    assert result.exit_code == 0, result.output
    model = load(f"{MARKUP}.percdl").name_atoms([MARKUP, f"other {MARKUP}"])
    model.save(f"{MARKUP}.percdl")
    return place


@pytest.fixture
def odd_studio(serve, odd_folder):
    with serve(odd_folder) as address:
        yield address


def without(page, *selectors):
    """Return the elements that do not show markup as text; it made no image of any."""
    assert page.locator("img:not([src^=data])").count() == 0
    return [one for one in selectors if MARKUP not in page.text_content(one)]


def test_markup_in_the_names_of_a_folder_is_text(visit, odd_studio):
    seen = visit(address=odd_studio)
    page = seen.page
    page.select_option("#metadata", f"people {MARKUP}.csv")
    page.wait_for_function("() => document.querySelectorAll('#group option').length > 1")
    page.select_option("#preview-file", f"{MARKUP}.csv")
    page.wait_for_function("() => document.getElementById('preview').data?.length")
    assert without(page, "header", "#model-list", "#files", "#channels", "#time", "#preview-file",
                 "#metadata", "#group", "#preview-note", "#preview") == []  # fmt: skip
    page.fill("#name", MARKUP)  # a model that is there
    page.click("#start")
    page.wait_for_selector("#problem:not([hidden])")
    assert without(page, "#problem") == []
    (refused,) = seen.complaints
    assert "400" in refused
    seen.complaints.clear()


def test_markup_in_the_names_of_a_model_is_text(visit, chromium, odd_studio, odd_folder):
    seen = visit(f"&model={quote(MARKUP)}.percdl", odd_studio)
    page = seen.page
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    page.fill("#search", MARKUP)
    page.locator("#people tbody tr").first.click()
    page.click("[data-edit=next]")
    page.click("[data-edit=relabel]")
    page.wait_for_selector("#refit:enabled")
    page.click("#mark-new")
    page.fill("#mark-name", MARKUP)
    assert without(page, "#mark-command") == []
    page.click("#mark-save")
    page.wait_for_selector("#marks button")
    for first, second in ((f"group:{MARKUP}", "group:b"), (f"person:{MARKUP}", "everyone")):
        page.select_option("#first", first)
        with page.expect_response("**/api/compare"):
            page.select_option("#second", second)
        page.wait_for_function("() => document.querySelectorAll('#compare-numbers tr').length > 1")
        assert without(page, "#compare-numbers") == []
    page.select_option("#reference", MARKUP)
    page.wait_for_function(
        "markup => document.querySelector('#departure-figure h3')?.textContent.includes(markup)",
        arg=MARKUP,
    )
    page.wait_for_selector("html[data-ready=yes]")
    page.fill("#live-source", f"{MARKUP}.csv")
    page.select_option("#live-person", MARKUP)
    page.click("#live-start")
    page.wait_for_function("() => document.getElementById('live-signal').data?.[0]?.x.length")
    for chart in ("overview-atom", "signal", "subject-atom", "compare-atoms", "live-signal"):
        seen.wait_for(chart)
    page.click("#live-stop")
    page.wait_for_selector("#written a")
    for command, n_files in (("report", 2), ("person", 3), ("landmarks", 5)):
        page.click(f"[data-export={command}]")
        page.wait_for_selector(f"#written li:nth-child({n_files})")
    assert without(page, "h1", "#introduction", "#atom", "#channel", "#people", "#who", "#numbers",
                 "#marks", "#compare", "#live", "#corrected", "#about", "#written",
                 "#signal", "#overview-atom", "#live-signal") == []  # fmt: skip
    for name in ("", f"_{SAFE}"):
        written = Visit(chromium.new_page())
        written.page.goto((odd_folder / f"percdl-results/{MARKUP}{name}.html").as_uri())
        assert without(written.page, "h1" if name else "main") == []
        assert written.complaints == []
        written.page.close()
    page.goto(f"{odd_studio.partition('?')[0]}model?file={quote(MARKUP)}")
    assert without(page, "main") == []
    (missing,) = seen.complaints
    assert "404" in missing
    seen.complaints.clear()
