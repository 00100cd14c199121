"""A studio that everyone can use: by keyboard alone, on a phone, with axe-core in both themes."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from browser import faults

from percdl import load
from percdl.signals import read_corrections

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


class Keyboard:
    """Hands that have no mouse: every control is reached by the tab key, and is then in view."""

    window: ClassVar = {}

    def __init__(self, page):
        self.page = page

    def go_to(self, selector):
        """Press the tab key until a control has the focus; none on the way is covered."""
        for _ in range(400):
            self.page.keyboard.press("Tab")
            there, covered = self.page.evaluate(
                """selector => {
                    const own = document.activeElement;
                    const { x, y, width, height } = own.getBoundingClientRect();
                    const inside = (at, end) => Math.min(Math.max(at, 1), end - 1);
                    const middle = [inside(x + width / 2, innerWidth),
                                    inside(y + height / 2, innerHeight)];
                    const top = document.elementFromPoint(...middle);
                    const isSeen = own === document.body || own.contains(top)
                        || top.contains(own) || own.labels?.[0]?.contains(top);
                    const [lower, upper] = [own, top].map((one) => one.outerHTML.slice(0, 120));
                    return [own.matches(selector), isSeen ? "" : `${upper} covers ${lower}`];
                }""",
                selector,
            )
            assert covered == ""
            if there:
                return
        pytest.fail(f"{selector} cannot be reached")

    def press(self, selector):
        self.go_to(selector)
        self.page.keyboard.press("Enter")

    def write(self, selector, text):
        self.go_to(selector)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    def choose(self, selector, label):
        self.go_to(selector)
        self.page.keyboard.type(label)

    def pick_time(self):
        """Begin a landmark."""
        self.press("#mark-new")

    def select_event(self):
        """Select an event of the recording."""
        self.go_to("#signal-frame")
        self.page.keyboard.press("n")


class Touch(Keyboard):
    """Hands on a phone: taps, and the keys of the phone in fields."""

    window = PHONE

    def go_to(self, selector):
        target = self.page.locator(selector)
        target.tap()
        assert self.page.evaluate("() => document.documentElement.scrollWidth") <= 390

    def press(self, selector):
        self.go_to(selector)

    def choose(self, selector, label):
        self.page.locator(selector).tap()
        self.page.keyboard.press("Escape")
        self.page.select_option(selector, label=label)

    def tap(self, chart, share):
        """Tap on a chart, at a share of its width."""
        area = self.page.locator(f"#{chart} .nsewdrag").first
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        self.page.touchscreen.tap(box["x"] + share * box["width"], box["y"] + 20)

    def pick_time(self):
        """Tap on the common atom."""
        self.tap("overview-atom", 0.5)

    def select_event(self):
        """Tap on the first event of the recording."""
        onset, low, high = self.page.evaluate(
            """() => {
                const { data, _fullLayout } = document.getElementById("signal");
                const [first] = data.find(({ name }) => name.startsWith("start of")).x;
                return [first, ..._fullLayout.xaxis.range];
            }"""
        )
        self.tap("signal", (onset + 0.1 - low) / (high - low))


@pytest.mark.parametrize("kind", [Keyboard, Touch])
def test_from_files_to_an_exported_model(visit, folder, kind):
    seen = visit(**kind.window)
    page, hands = seen.page, kind(seen.page)
    name = f"by_{kind.__name__.lower()}"
    hands.write("#n_atoms", "2")
    hands.write("#atom_length", "16")
    hands.write("#penalty", "0.3")
    hands.press("#fit summary")
    hands.choose("#transformation", "nothing")
    hands.write("#name", name)
    hands.press("#start")
    page.wait_for_function(
        "() => location.pathname === '/model' || document.querySelector('#problem').textContent",
        timeout=400_000,
    )
    assert "/model?file=" in page.url, page.inner_text("#problem")
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    model = load(folder / f"{name}.percdl")
    assert model.n_atoms_ == 2

    hands.pick_time()
    hands.write("#mark-time", "0.1")
    hands.write("#mark-name", "middle")
    hands.press("#mark-save")
    page.wait_for_selector("#picker", state="hidden")
    (mark,) = load(folder / f"{name}.percdl").marks_
    assert (mark.name, mark.time) == ("middle", 0.1)

    hands.select_event()
    hands.press("[data-edit=remove]")
    page.wait_for_selector("#refit:enabled")
    removed = read_corrections(folder / f"{name}.corrections.tsv")
    assert removed["action"].tolist() == ["remove"]

    hands.press("[data-export=personalize]")
    page.wait_for_selector("#written a:has-text('events')")
    with page.expect_download() as waiting:
        hands.press("#written a[href*=events]")
    named = ["subject", "onset_sample"]
    found, left = (
        {*map(tuple, table[named].to_numpy())}
        for table in (model.events_, pd.read_csv(waiting.value.path()))
    )
    ((who, onset),) = found - left
    assert removed["subject"].tolist() == [who]
    np.testing.assert_allclose(removed["onset"], onset / model.sfreq_)
    assert faults(page) == []
    seen.keep(f"studio_{name}")


def test_keys_move_by_ten_samples_and_name_the_atom(visit, folder):
    page = visit("&model=walks.percdl").page
    page.wait_for_selector("#people tbody tr")
    page.wait_for_selector("html[data-ready=yes]")
    events = load(folder / "walks.percdl").events_
    events["room"] = events.groupby("subject")["onset_sample"].diff() - 16
    event = events[events["room"] >= 10].iloc[0]
    at = (events.loc[events["subject"] == event["subject"], "onset_sample"]).tolist()
    page.fill("#search", event["subject"])
    page.locator("#people tbody tr").first.click()
    page.wait_for_function(
        "who => document.getElementById('who').textContent === who", arg=event["subject"]
    )
    page.focus("#signal-frame")
    for key in ("p",) * (len(at) + 1) + ("n",) * at.index(event["onset_sample"]):
        page.keyboard.press(key)
    view = page.inner_text("#range")
    # Its own digit changes nothing, and the other relabels it.
    keys = ("Shift+ArrowLeft", f"{event['atom'] + 1}", f"{2 - event['atom']}")
    for key in keys:
        page.keyboard.press(key)
    assert page.inner_text("#range") == view
    file = folder / "walks.corrections.tsv"
    relabelled = f"atom{1 - event['atom']}"
    for _ in range(300):  # the page saves on its own, some time later
        if file.exists() and relabelled in file.read_text():
            break
        page.wait_for_timeout(200)
    kept = read_corrections(file).query("action == 'keep'")
    np.testing.assert_allclose(kept["onset"], (event["onset_sample"] - 10) / 50)
    assert kept["trial_type"].tolist() == [relabelled]
    for _ in range(2):
        page.click("[data-edit=undo]")
    page.wait_for_function("() => document.getElementById('refit').disabled")


@pytest.fixture
def nameless(folder):
    """A model that does not name its recordings."""
    model = load(folder / "walks.percdl")
    model.settings_ = None
    model.save(folder / "nameless.percdl")
    return "nameless.percdl"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_while_a_model_opens(visit, nameless, scheme):
    page = visit(f"&model={nameless}", color_scheme=scheme).page
    page.wait_for_selector("#problem")
    assert faults(page) == []
    page.route("**/api/open", lambda route: None)  # recordings that take for ever
    page.reload()
    page.wait_for_selector("html[data-ready=yes]")
    assert "Reading" in page.inner_text("#stage")
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_in_problems(visit, folder, scheme):
    seen = visit(color_scheme=scheme)
    page = seen.page
    page.fill("#atom_length", "100000")
    page.click("#start")
    page.wait_for_selector("#close-progress:enabled")
    assert page.inner_text("#stage") == "Failed."
    assert faults(page) == []
    seen.keep(f"studio_failed_{scheme}")
    page.goto(page.url + "model?file=missing.percdl")
    assert page.inner_text("h1") == "This cannot be shown"
    assert faults(page) == []
    assert "404" in seen.complaints.pop()


@pytest.fixture(scope="module")
def unreadable(serve, tmp_path_factory):
    """The address of a studio in a folder without recordings."""
    with serve(tmp_path_factory.mktemp("empty")) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_without_recordings(visit, unreadable, scheme):
    page = visit(address=unreadable, color_scheme=scheme).page
    page.click("#start")
    page.wait_for_selector("#problem:not([hidden])")
    assert "CSV" in page.inner_text("#problem")
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_in_the_actions(visit, scheme):
    seen = visit("&model=walks.percdl", color_scheme=scheme)
    page = seen.page
    page.wait_for_selector("#people tbody tr")
    page.click("#mark-new")
    page.click("[data-edit=next]")
    page.click("summary:has-text('Keys')")
    page.select_option("#second", "everyone")
    page.wait_for_function("() => document.querySelectorAll('#compare-numbers tr').length > 1")
    page.fill("#live-source", "Ada.csv")
    page.select_option("#live-person", "Ada")
    page.click("#live-start")
    page.wait_for_function("() => document.getElementById('live-signal').data?.[0]?.x.length")
    assert faults(page) == []
    page.locator("#live").scroll_into_view_if_needed()
    seen.keep(f"studio_actions_{scheme}")
    page.click("#live-stop")
    page.wait_for_selector("#close-progress:enabled")
