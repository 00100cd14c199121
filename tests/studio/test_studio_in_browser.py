"""The studio as people use it, in a real browser."""

import time

import numpy as np
import pandas as pd
import pytest
from browser import faults

from percdl import load
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
    assert page.input_value("#group") == "group"
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
    page.wait_for_url("**/model?file=by%20hand.percdl")
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    assert load(folder / "by hand.percdl").n_atoms_ == 2

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

    page.click("[data-export=personalize]")
    page.wait_for_selector("#written li", timeout=400_000)
    with page.expect_download() as waiting:
        page.click("#written a:has-text('events')")
    got = pd.read_csv(waiting.value.path())
    assert len(got) == len(load(folder / "again.percdl").events_)
    script = (folder / "percdl-studio.sh").read_text()
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
    page.click("[data-edit=undo]")
    saved("No corrections")
    page.click("[data-move=whole]")
    assert sorted(events_in(seen)) == sorted(before)

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

    again = open_model(visit)  # what was saved is shown
    assert "1 correction in" in again.page.inner_text("#corrected")
    assert any(np.isclose(row["onset"], at) for at in events_in(again))
    page.focus("#signal-frame")
    for _ in range(2):
        page.keyboard.press("Control+z")
    saved("No corrections")


def test_an_event_cannot_be_put_on_another(visit):
    seen = open_model(visit)
    page = seen.page
    page.click("[data-edit=next]")
    page.select_option("#click", "add")
    at = page.evaluate("() => document.getElementById('signal')._fullLayout.shapes[0].x0")
    box = page.locator("#signal .nsewdrag").first.bounding_box()
    low, high = page.evaluate("() => document.getElementById('signal')._fullLayout.xaxis.range")
    middle = box["x"] + box["width"] * (at + 0.1 - low) / (high - low)
    page.mouse.click(middle, box["y"] + 20)
    page.wait_for_selector("#problem:not([hidden])")
    assert "must not overlap" in page.inner_text("#problem")
    assert page.is_disabled("[data-edit=undo]")


def test_two_sides_are_compared(visit):
    seen = open_model(visit)
    seen.page.select_option("#first", "person:Ada")
    seen.page.select_option("#second", "person:Bo")
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
