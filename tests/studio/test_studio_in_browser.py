"""The studio as people use it, in a real browser."""

import re
import shutil
import time

import numpy as np
import pandas as pd
import pytest
from browser import ARTEFACTS, faults
from commands import MODEL as FIT
from commands import READ, run

from percdl import Cohort, load
from percdl.analysis import estimate_uncertainty
from percdl.estimators.suspects import KINDS
from percdl.signals import read_corrections

MODEL = "&model=walks.percdl"


def open_model(visit, **window):
    seen = visit(MODEL, **window)
    seen.page.wait_for_selector("#people tbody tr")
    seen.page.wait_for_selector("html[data-ready=yes]")
    return seen


def events_in(seen):
    return seen.ask(
        """() => document.getElementById("signal").data
            .filter((t) => t.name.startsWith("start of")).flatMap((t) => t.x)"""
    )


def click_at(page, seconds):
    """Click on the recording at a time that is in view."""
    box = page.locator("#signal .nsewdrag").first.bounding_box()
    low, high = page.evaluate("() => document.getElementById('signal')._fullLayout.xaxis.range")
    at = box["x"] + box["width"] * (seconds - low) / (high - low)
    page.mouse.click(at, box["y"] + 20)


def is_in_view(page, selector):
    """Return whether a whole element is in the window, without scrolling to it."""
    return page.evaluate(
        """selector => {
            const box = document.querySelector(selector).getBoundingClientRect();
            return box.height > 0 && box.top >= 0 && box.bottom <= window.innerHeight;
        }""",
        selector,
    )


def wait_until(holds):
    """Wait for what a page asked for and the server has yet to do."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_from_files_to_a_marked_and_exported_model_by_clicks(visit, folder):
    seen = visit()
    page = seen.page
    assert page.input_value("#time") == "t"
    assert page.input_value("#metadata_subject") == "subject"
    assert page.input_value("#group") == "group"
    assert page.input_value("#person") == "person"
    assert "4 of 4 files" in page.inner_text("#chosen-files")
    page.uncheck("#channels input[value=other]")
    page.wait_for_function("() => document.getElementById('preview').data.length === 1")
    page.locator("#candidates button").first.click()
    assert page.input_value("#atom_length").endswith("s")
    seen.keep("studio_setup", full_page=True)
    page.fill("#n_atoms", "2")
    page.fill("#atom_length", "16")
    page.fill("#penalty", "0.3")
    page.click("#fit summary")
    page.select_option("#transformation", "identity")
    page.fill("#name", "by hand")
    page.click("#start")
    page.wait_for_selector("#progress")
    assert is_in_view(page, "#stage")
    page.wait_for_url("**/model?file=by%20hand.percdl")
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    assert load(folder / "by hand.percdl").n_atoms_ == 2
    # The table of people is read: their ages are shown, and two visits have a retest error.
    ages = dict(zip(seen.column("Subject"), seen.column("age"), strict=True))
    assert ages == {"Ada": "61", "Bo": "61", "Cy": "47", "Di": "47"}
    page.select_option("#first", "recording:Ada")
    page.select_option("#second", "recording:Bo")
    page.wait_for_function(
        """() => document.querySelectorAll("#compare-numbers th")[1]?.textContent === "Ada"
            && document.querySelectorAll("#compare-numbers th")[2].textContent === "Bo" """
    )
    assert "No one was recorded twice" not in page.inner_text("#compare-words")

    # A click as the chart reports it; the tests of the report click with the mouse.
    page.evaluate(
        "() => document.getElementById('overview-atom').emit('plotly_click', {points: [{x: 0.1}]})"
    )
    page.fill("#mark-name", "middle")
    page.click("#mark-save")
    page.wait_for_selector("#picker", state="hidden")
    (mark,) = load(folder / "by hand.percdl").marks_
    assert mark.name == "middle"

    page.click("[data-edit=next]")
    page.click("[data-edit=remove]")
    page.wait_for_selector("#refit:enabled")
    page.fill("#refit-name", "again")
    page.click("#refit")
    page.wait_for_url("**/model?file=again.percdl", timeout=400_000)
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    before, after = (load(folder / f"{name}.percdl").events_ for name in ("by hand", "again"))
    (removed,) = read_corrections(folder / "by hand.corrections.tsv").to_dict("records")
    own = [t[t["subject"] == removed["subject"]]["onset_seconds"] for t in (before, after)]
    near = [np.abs(onsets - removed["onset"]) < removed["duration"] / 4 for onsets in own]
    assert [found.sum() for found in near] == [1, 0]

    (kept,) = load(folder / "again.percdl").marks_
    assert (kept.name, kept.time) == ("middle", pytest.approx(mark.time, abs=0.02))

    page.click("[data-export=personalize]")
    page.wait_for_selector("#written li", timeout=400_000)
    with page.expect_download() as waiting:
        page.click("#written a:has-text('events')")
    got = pd.read_csv(waiting.value.path())
    assert len(got) == len(load(folder / "again.percdl").events_)
    page.click("[data-export=report]")
    page.wait_for_selector("#written a:has-text('.html')", timeout=400_000)
    script = (folder / "percdl-studio.sh").read_text()
    assert re.search(r"percdl report .*--person=person", script)
    assert "percdl fit --channels=x --time=t" in script
    assert "percdl mark --name=middle" in script


def test_events_are_removed_added_moved_relabelled_and_restored(visit, folder):
    seen = open_model(visit)
    page, file = seen.page, folder / "walks.corrections.tsv"
    before = events_in(seen)

    def saved(text):
        page.wait_for_function(
            "text => document.getElementById('corrected').textContent.includes(text)", arg=text
        )

    page.click("[data-edit=next]")
    page.click("[data-edit=remove]")
    saved("1 correction in")
    assert len(events_in(seen)) <= len(before) - 1
    assert read_corrections(file)["action"].tolist() == ["remove"]
    who = page.inner_text("#who")
    for button in ("#next", "#previous"):  # undo is still there after a look at someone else
        page.click(button)
        page.wait_for_function(
            "([who, is]) => (document.getElementById('who').textContent === who) === is",
            arg=[who, button == "#previous"],
        )
    page.click("[data-edit=undo]")
    saved("No corrections")
    page.click("[data-move=whole]")
    assert sorted(events_in(seen)) == sorted(before)

    page.click("summary:has-text('Keys')")
    listed = page.locator("details:has-text('Keys') kbd").all_inner_texts()
    assert {"n", "]", "k"} < {*listed}
    page.focus("#signal-frame")
    for key in ("n", "]", "k"):  # the next event, a sample later, with the other atom
        page.keyboard.press(key)
    events = load(folder / "walks.percdl").events_
    own = events[events["subject"] == page.inner_text("#who")]

    def as_pressed():
        (row,) = read_corrections(file).to_dict("records")
        (moved,) = own[np.isclose(own["onset_seconds"] + 1 / 50, row["onset"])].to_dict("records")
        return row["action"] == "keep" and row["trial_type"] == f"atom{1 - moved['atom']}"

    saved("1 correction in")
    wait_until(as_pressed)
    (row,) = read_corrections(file).to_dict("records")
    seen.keep("studio_correct")

    page.reload()  # what was saved is shown, and can be undone
    page.wait_for_selector("html[data-ready=yes]")
    assert "1 correction in" in page.inner_text("#corrected")
    assert any(np.isclose(row["onset"], at) for at in events_in(seen))
    page.focus("#signal-frame")
    for _ in range(2):
        page.keyboard.press("Control+z")
    saved("No corrections")
    assert sorted(events_in(seen)) == sorted(before)

    page.click("[data-move=whole]")  # a click adds one event, though the view changes
    page.click("[data-edit=next]")
    page.click("[data-edit=remove]")
    page.click("[data-move=whole]")
    (gone,) = {*before} - {*events_in(seen)}
    page.select_option("#click", "add")
    click_at(page, gone)
    page.wait_for_function(
        "() => document.getElementById('chosen-event').textContent.includes('by hand')"
    )
    page.click("[data-move=whole]")
    np.testing.assert_allclose(sorted(events_in(seen)), sorted(before), atol=1.1 / 50)
    for _ in range(2):
        page.click("[data-edit=undo]")
    saved("No corrections")


def test_a_correction_is_of_the_person_on_the_screen_while_another_is_fetched(visit, folder):
    page = open_model(visit).page
    who = page.inner_text("#who")
    held = []
    page.route("**/api/person", lambda route: held.append(route))
    page.click("[data-edit=next]")
    with page.expect_request("**/api/person"):
        page.click("#next")
    page.focus("#signal-frame")
    page.keyboard.press("Delete")
    page.wait_for_function(
        "() => document.getElementById('corrected').textContent.includes('1 correction in')"
    )
    assert page.inner_text("#who") == who
    held[0].continue_()
    page.wait_for_function("who => document.getElementById('who').textContent !== who", arg=who)
    corrections = read_corrections(folder / "walks.corrections.tsv")
    assert corrections["subject"].tolist() == [who]


def test_landmarks_are_placed_moved_and_removed_by_keyboard(visit, folder):
    seen = open_model(visit)
    page = seen.page

    def saved():
        page.wait_for_selector("#picker", state="hidden")
        return {mark.name: mark.time for mark in load(folder / "walks.percdl").marks_}

    def begin():
        page.focus("#mark-new")
        page.keyboard.press("Enter")
        page.wait_for_selector("#picker:not([hidden])")
        assert page.evaluate("() => document.activeElement.id") == "mark-time"

    begin()
    page.fill("#mark-time", "0.1")
    page.fill("#mark-name", "first")
    assert "percdl mark 'walks.percdl' --name 'first'" in page.inner_text("#mark-command")
    page.keyboard.press("Enter")
    assert saved() == {"first": 0.1}
    begin()  # another name is offered, so that the first stays
    page.keyboard.press("Enter")
    assert saved() == {"first": 0.1, "landmark": 0.16}
    begin()
    assert page.input_value("#mark-name") == "landmark 2"
    page.fill("#mark-time", "0.2")
    page.fill("#mark-name", "first")
    assert page.inner_text("#mark-moves").strip() == "Moves the landmark first."
    seen.keep("studio_landmarks")
    page.keyboard.press("Enter")
    assert saved() == {"landmark": 0.16, "first": 0.2}
    name = "landmark to first"
    numbers = rf"{name}: (\d+) ms \((\d+) to (\d+) in 90 % of (\d+) recordings\)"
    middle, low, high, n = re.match(numbers, page.inner_text("#marks li:last-child")).groups()
    taken = []
    for row in page.locator("#people tbody tr").all():
        who = row.locator("td, th").first.inner_text().split()[-1]
        row.click()
        page.wait_for_function("id => document.getElementById('who').textContent === id", arg=who)
        own = page.locator("#numbers div", has_text=name)
        taken.append(int(own.locator("dd").inner_text().removesuffix(" ms")))
    assert int(n) == len(taken)
    said = [int(low), int(middle), int(high)]
    np.testing.assert_allclose(said, np.quantile(taken, (0.05, 0.5, 0.95)), atol=1)
    for n_left in (1, 0):
        page.locator("#marks button").first.click()
        page.wait_for_function(
            "n => document.querySelectorAll('#marks button').length === n", arg=n_left
        )
        assert len(saved()) == n_left
    assert page.inner_text("#marks") == ""


def onsets(table, subject):
    return table.loc[table["subject"] == subject, "onset_sample"].tolist()


def test_what_is_downloaded_and_exported_are_the_events_on_the_screen(visit, folder):
    def download(button):
        with page.expect_download() as waiting:
            page.click(button)
        return pd.read_csv(waiting.value.path())

    page = open_model(visit).page
    found = load(folder / "walks.percdl").events_
    pd.testing.assert_series_equal(
        download("#download-all")["onset_sample"], found["onset_sample"]
    )
    who = page.inner_text("#who")
    page.click("[data-edit=next]")
    page.click("[data-edit=remove]")
    own, everyone = download("#download"), download("#download-all")
    assert {*own["subject"]} == {who}
    assert len(own) == len(onsets(found, who)) - 1
    assert {*own["onset_sample"]} < {*onsets(found, who)}
    assert onsets(everyone, who) == own["onset_sample"].tolist()
    assert len(everyone) == len(found) - 1

    page.click("[data-export=personalize]")
    page.wait_for_selector("#written li")
    exported = download("#written a:has-text('events')")
    assert onsets(exported, who) == own["onset_sample"].tolist()
    page.click("[data-export=person]")
    page.wait_for_selector(f"#written a:has-text('walks_{who}.html')")
    assert f"<h1>{who}</h1>" in (folder / f"percdl-results/walks_{who}.html").read_text("utf-8")
    page.click("[data-edit=undo]")
    page.wait_for_function("() => document.getElementById('refit').disabled")


def test_a_model_is_not_replaced_by_another(visit, folder):
    before = (folder / "walks.percdl").read_bytes()
    shutil.copy(folder / "walks.percdl", folder / "model.percdl")
    seen = visit()
    page = seen.page
    (folder / "model.percdl").unlink()
    assert page.input_value("#name") == "model-2"
    page.fill("#name", "walks")
    with page.expect_response("**/api/run"):
        page.click("#start")
    page.wait_for_selector("#problem:not([hidden])")
    assert "walks.percdl already" in page.inner_text("#problem")
    (refusal,) = seen.complaints
    assert "400" in refusal
    seen.complaints.clear()
    assert (folder / "walks.percdl").read_bytes() == before


def test_an_event_cannot_be_put_on_another(visit):
    seen = open_model(visit)
    page = seen.page
    page.click("[data-edit=next]")
    page.select_option("#click", "add")
    at = page.evaluate("() => document.getElementById('signal')._fullLayout.shapes[0].x0")
    click_at(page, at + 0.1)
    page.wait_for_selector("#problem:not([hidden])")
    assert "must not overlap" in page.inner_text("#problem")
    assert is_in_view(page, "#problem")
    seen.keep("studio_problem")
    page.select_option("#click", "select")
    page.click("#who")  # about something else
    assert not page.is_visible("#problem")
    assert page.is_disabled("[data-edit=undo]")


def test_everyone_is_compared_with_the_group_that_was_chosen(visit, folder):
    seen = open_model(visit)
    group = pd.read_csv(folder / "subjects.csv")["group"][0]
    for name, expected in ((group, group), ("", "healthy")):
        seen.page.select_option("#reference", name)
        seen.page.wait_for_function(
            """name => document.querySelector("#departure-figure h3")?.textContent
                === `Departure from ${name}`""",
            arg=expected,
        )
        seen.page.wait_for_selector("html[data-ready=yes]")
        assert load(folder / "walks.percdl").settings_["reference"] == (name or None)
        assert seen.page.input_value("#reference") == name
    seen.page.locator("#comparison").screenshot(path=ARTEFACTS / "studio_reference.png")


def choose_sides(page, first, second):
    """Choose what to compare, and wait for the comparison."""
    page.select_option("#first", first)
    with page.expect_response("**/api/compare"):
        page.select_option("#second", second)
    page.wait_for_function("() => document.querySelectorAll('#compare-numbers tr').length > 1")


def test_two_sides_are_compared(visit):
    seen = open_model(visit)
    choose_sides(seen.page, "recording:Ada", "recording:Bo")
    seen.page.wait_for_function(
        """() => document.getElementById('compare-words').textContent
            .includes('No one was recorded twice')"""
    )
    heads = seen.page.locator("#compare-numbers th").all_inner_texts()
    assert heads[1:3] == ["Ada", "Bo"]
    seen.keep("studio_compare", full_page=True)


def test_a_recording_is_watched_while_it_is_made(visit, folder):
    header, *rows = (folder / "Ada.csv").read_text().splitlines()
    growing = folder / "now.csv"
    growing.write_text(header + "\n" + "\n".join(rows[: len(rows) // 2]) + "\n")
    seen = open_model(visit)
    page = seen.page
    page.fill("#live-source", "now.csv")
    page.select_option("#live-person", "Ada")
    page.click("#live-start")

    def wait_for(n_samples):
        page.wait_for_function(
            "([n, rate]) => Math.round((document.getElementById('live-signal').data?.[0]?.x"
            ".at(-1) ?? -1) * rate) === n - 1",
            arg=[n_samples, load(folder / "walks.percdl").sfreq_],
        )

    wait_for(len(rows) // 2)
    with growing.open("a") as file:
        file.write("\n".join(rows[len(rows) // 2 :]) + "\n")
    wait_for(len(rows))
    seen.keep("studio_live", full_page=True)
    page.click("#live-stop")
    page.wait_for_selector("#written li")
    events = pd.read_csv(folder / "percdl-results/walks_now_live.tsv", sep="\t")
    of_fit = load(folder / "walks.percdl").events_
    assert events["sample"].tolist() == of_fit.query("subject == 'Ada'")["onset_sample"].tolist()
    assert f"{len(events)} events" in page.inner_text("#live-words")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_every_screen(visit, width, scheme):
    window = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    for name, seen in (("setup", visit(**window)), ("model", open_model(visit, **window))):
        seen.keep(f"studio_{name}_{width}_{scheme}", full_page=True)
        assert seen.ask("() => document.documentElement.scrollWidth") <= width
        assert faults(seen.page) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_problem_is_shown_where_the_user_is_and_can_be_closed(visit, width, scheme):
    seen = visit(viewport={"width": width, "height": 700}, color_scheme=scheme)
    page = seen.page
    page.fill("#name", "")
    page.click("#start")
    page.wait_for_selector("#problem")
    assert "Give the model a name" in page.inner_text("#problem")
    assert is_in_view(page, "#problem")
    assert faults(page) == []
    seen.keep(f"studio_message_{width}_{scheme}")
    page.click("[data-close=problem]")
    assert not page.is_visible("#problem")


def test_a_file_that_cannot_be_read_has_no_preview(visit, folder):
    (folder / "bad.csv").write_text("t,x,other\n0,1,2\n0.02,one,2\n")
    seen = visit()
    page = seen.page
    page.wait_for_function("() => document.getElementById('preview').data?.length")
    page.select_option("#preview-file", "bad.csv")
    note = "() => document.getElementById('preview-note').textContent"
    page.wait_for_function(f"() => ({note})().includes('bad.csv')")
    assert page.evaluate("() => document.getElementById('preview').data ?? null") is None
    assert page.locator("#candidates button").count() == 0
    (refused,) = seen.complaints
    assert "400" in refused
    seen.complaints.clear()


def test_files_with_semicolons_and_decimal_commas_are_read_with_units(visit, folder):
    file = folder / "euro.csv"
    table = pd.read_csv(folder / "Ada.csv")
    table.to_csv(file, sep=";", decimal=",", index=False)
    page = visit().page
    page.select_option("#preview-file", "euro.csv")
    page.wait_for_function(
        "() => document.getElementById('preview-note').textContent.startsWith('euro: ')"
    )
    assert page.input_value("#time") == "t"
    page.click("#text summary")
    page.fill("#units", "g")
    page.press("#units", "Tab")
    page.wait_for_function(
        "() => document.getElementById('preview').layout.yaxis.title.text.endsWith('(g)')"
    )
    page.click("#no-files")
    page.check("#files input[value='euro.csv']")
    page.click("#suggest")
    page.wait_for_selector("#close-progress:enabled")
    assert page.inner_text("#stage") == "Done."
    *_, line = (folder / "percdl-studio.sh").read_text().splitlines()
    assert "--units=g '--delimiter=;' --decimal=, " in line


def test_a_model_of_python_says_how_to_see_its_people(visit, folder):
    model = load(folder / "walks.percdl")
    model.settings_ = None
    model.save(folder / "python.percdl")
    page = visit("&model=python.percdl").page
    page.wait_for_selector("#problem")
    assert "percdl report python.percdl" in page.inner_text("#problem")
    assert not page.is_visible("#follow")


def test_an_empty_folder_says_what_to_put_into_it(visit):
    page = visit().page
    found = {"recordings": [], "models": [], "job": None, "more": False}
    page.route("**/api/files", lambda route: route.fulfill(json=found))
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")
    assert "CSV" in page.inner_text("#chosen-files")
    page.click("#suggest")
    page.wait_for_selector("#problem")
    assert "CSV" in page.inner_text("#problem")


def test_warnings_are_shown_without_advice_in_python(visit):
    page = visit().page
    texts = [" ".join([one.found, one.advice, one.code]) for one in KINDS.values()]
    messages = [{"event": "warning", "message": text} for text in texts]
    page.route("**/api/run", lambda route: route.fulfill(json={"job": 0}))
    news = {"line": "percdl suggest", "messages": messages, "known": len(messages), "code": 3}
    page.route("**/api/news", lambda route: route.fulfill(json=news))
    page.click("#suggest")
    page.wait_for_selector("#close-progress:enabled")
    assert page.locator("#said p").all_inner_texts() == [
        f"{one.found} {one.advice}" for one in KINDS.values()
    ]


def test_a_command_that_is_stopped_while_it_starts_did_not_fail(visit):
    page = open_model(visit).page
    page.fill("#live-source", "never.csv")
    page.click("#live-start")
    page.wait_for_selector("#progress")
    page.click("#stop")
    page.wait_for_selector("#close-progress:enabled")
    assert page.inner_text("#stage") == "Stopped."
    assert "Traceback" not in page.inner_text("#problem")
    page.click("#close-progress")
    assert not page.is_visible("#progress")


def test_pages_say_only_what_holds_on_paper_and_touch_screens(visit):
    page = open_model(visit, has_touch=True).page
    assert not page.is_visible("text=Drag to zoom")
    page.emulate_media(media="print")
    assert page.is_visible("#compare")
    assert not page.is_visible("#live")


def test_the_first_page_works_by_keyboard(visit):
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the fit"
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.id") == "start":
            break
    else:
        pytest.fail("the button that fits cannot be reached")


@pytest.fixture
def visits(folder):
    """The name of a model of the walks as those of three persons, two of them in one group."""
    table = "name,kind,who\nAda,slow,p\nBo,slow,p\nCy,slow,q\nDi,fast,r\n"
    (folder / "visits.csv").write_text(table)
    walks = [f"{name}.csv" for name in ("Ada", "Bo", "Cy", "Di")]
    named = ["--metadata-subject", "name", "--group", "kind", "--person", "who"]
    table = ["--metadata", "visits.csv", *named]
    result = run("fit", *walks, *READ, *FIT, *table, "--out", "visits.percdl")
    assert result.exit_code == 0, result.output
    return "visits.percdl"


def test_bands_are_of_people_and_of_the_errors_of_a_person(client, visits, folder):
    asked = {"file": visits, "atom": 0, "channel": 0}
    wait_until(lambda: client.ask("open", file=visits).json()["ready"])
    group, one = client.ask("compare", first="group:slow", second="recording:Di", **asked).json()[
        "curves"
    ]
    assert (group["name"], one["name"]) == ("slow, 2 people, 3 recordings", "Di")
    model = load(folder / visits)
    size = model.events_.query("atom == 0")["amplitude"].median()
    ada, bo, cy, di = size * model.personal_dictionary_[:, 0, :, 0]
    people = np.array([(ada + bo) / 2, cy])
    near = {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(group["atoms"]["mean"], people.mean(0), **near)
    np.testing.assert_allclose(
        group["atoms"]["high"], (people.mean(0) + people.std(0, ddof=1)), **near
    )
    walks = [pd.read_csv(folder / f"{name}.csv")["x"] for name in model.subjects_]
    cohort = Cohort.from_arrays(walks, sfreq=model.sfreq_, subjects=model.subjects_)
    half, speed = estimate_uncertainty(model, cohort).half_widths(3, 0)
    np.testing.assert_allclose(one["atoms"]["mean"], di, **near)
    np.testing.assert_allclose(one["atoms"]["high"], di + size * half[:, 0], **near)
    ends = np.log(one["speeds"]["high"]) - np.log(one["speeds"]["low"])
    np.testing.assert_allclose(ends, 2 * speed[0], rtol=1e-2, atol=1e-4)


def test_groups_persons_and_visits_are_compared_by_clicks(visit, visits):
    page = visit(f"&model={visits}").page
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    drawn = """id => document.getElementById(id).data
        .filter((t) => t.showlegend !== false).map((t) => t.name)"""
    for first, second, names in (
        ("recording:Ada", "recording:Bo", ["Ada", "Bo"]),
        ("person:p", "recording:Di", ["p, 2 recordings", "Di"]),
        ("group:slow", "everyone", ["slow, 2 people, 3 recordings", "everyone else"]),
        ("group:slow", "recording:Cy", ["slow, 1 person, 2 recordings", "Cy"]),
    ):
        choose_sides(page, first, second)
        for chart in ("compare-atoms", "compare-speeds"):
            page.wait_for_function(f"([id, names]) => `${{({drawn})(id)}}` === `${{names}}`",
                                   arg=[chart, names])  # fmt: skip
            page.wait_for_selector(f"#{chart}:not([data-stale])", state="attached")
            assert page.locator(f"#{chart} .legendtext").all_text_contents() == names
    heads = page.locator("#compare-numbers th")
    heads.filter(has_text="retest error").locator("button").click()
    assert "unchanged person" in page.inner_text("#bubble")
    page.keyboard.press("Escape")
    before = page.evaluate("() => document.getElementById('compare-atoms').data.at(-1).y")
    page.select_option("#atom", "1")  # the comparison follows
    page.wait_for_function(
        "y => `${document.getElementById('compare-atoms').data.at(-1).y}` !== `${y}`", arg=before
    )
    assert faults(page) == []
