"""Pages that everyone can use: axe-core, keyboard, narrow screens, dark mode, paper."""

import re
import unicodedata
import zlib

import numpy as np
import pytest
from browser import faults

pytest.importorskip("plotly")

WINDOWS = {
    "wide": {"viewport": {"width": 1280, "height": 1000}},
    "dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
    "phone in the dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}
every_window = pytest.mark.parametrize("window", WINDOWS)


@pytest.fixture(scope="session")
def report20(model60, cohort60, tmp_path_factory):
    """A page that axe reads in seconds, with all that there can be on one."""
    return model60.report(tmp_path_factory.mktemp("report") / "20.html", cohort60[:20])


@pytest.fixture(scope="session")
def person_page(model60, tmp_path_factory):
    return model60.person_page(tmp_path_factory.mktemp("person") / "page.html", "S0002")


@every_window
def test_axe_finds_no_serious_fault_in_the_report(visit, report20, window):
    seen = visit(report20, **WINDOWS[window])
    assert faults(seen.page) == []
    seen.keep(f"report_{window.replace(' ', '_')}", full_page=True)


@every_window
def test_axe_finds_no_serious_fault_in_the_page_of_a_person(chromium, person_page, window):
    context = chromium.new_context(**WINDOWS[window])
    page = context.new_page()
    page.goto(person_page.as_uri())
    assert faults(page) == []
    assert (
        page.evaluate("document.documentElement.scrollWidth")
        <= WINDOWS[window]["viewport"]["width"]
    )
    context.close()


def test_the_page_of_a_person_is_one_sheet_of_paper(chromium, person_page):
    page = chromium.new_page(color_scheme="dark")
    page.goto(person_page.as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    page.close()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1


def objects_of(printed):
    """Return the objects of a PDF of Chromium by number, as text, with their streams."""
    found = {}
    for number, content in re.findall(rb"(\d+) 0 obj\n(.*?)\nendobj", printed, re.DOTALL):
        head, _, stream = content.partition(b"stream\n")
        text = b"" if b"FlateDecode" not in head else zlib.decompressobj().decompress(stream)
        found[int(number)] = (head + text).decode("latin-1")
    return found


def glyphs_of(table):
    """Return the characters of the glyphs of a font, by their numbers."""
    signs, rows = {}, r"^<(\w{4})> (?:<(\w{4})> )?<(\w+)>$"
    for low, high, start in re.findall(rows, table, re.MULTILINE):
        first = bytes.fromhex(start).decode("utf-16-be")
        for i in range(int(high or low, 16) - int(low, 16) + 1):
            signs[int(low, 16) + i] = first[:-1] + chr(ord(first[-1]) + i)
    return signs


def drawing_of(objects):
    """Return what draws the only page."""
    (drawn,) = (text for text in objects.values() if "\nBT\n" in text)
    return drawn


def text_of(printed):
    """Return the text of a PDF of Chromium in the order of its drawing, without spaces."""
    objects = objects_of(printed)
    fonts = {}
    for page in objects.values():
        for name, number in re.findall(r"/(F\d+) (\d+) 0 R", page):
            table = re.search(r"/ToUnicode (\d+)", objects[int(number)])
            fonts[name] = glyphs_of(objects[int(table[1])]) if table else {}
    text, font = "", {}
    for name, glyphs in re.findall(r"/(F\d+) [\d.]+ Tf|<(\w+)> Tj", drawing_of(objects)):
        font = fonts[name] if name else font
        text += "".join(font[int(code, 16)] for code in re.findall("....", glyphs))
    return joined(text)


def joined(text):
    """Return text without spaces and ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_paper_a_person_is_first_described_in_words(chromium, person_page, scheme):
    page = chromium.new_page(color_scheme=scheme, viewport={"width": 703, "height": 1030})
    page.goto(person_page.as_uri())
    sentences, numbers = (
        [joined(text) for text in page.locator(one).all_inner_texts()]
        for one in (".first li", "table.numbers th, table.numbers td")
    )
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    text = text_of(printed)
    assert len(sentences) > 1
    assert text.index(sentences[0]) < text.index("Pictures") < text.index("Numbers")
    assert [one for one in numbers if one not in text] == []
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
    paint = re.search(r"([\d.]+ [\d.]+ [\d.]+) rg\n", drawing_of(objects_of(printed)))
    assert paint[1] == "1 1 1"  # the page is drawn first
    page.emulate_media(media="print")  # A4 between its margins is as wide as the window
    ends = page.locator("th, td, img, li, p").evaluate_all(
        "parts => parts.map((part) => part.getBoundingClientRect().right)"
    )
    assert max(ends) <= 703
    page.close()


def test_on_a_phone_no_column_of_a_person_is_cut(chromium, person_page):
    page = chromium.new_page(**WINDOWS["phone"])
    page.goto(person_page.as_uri())
    ends = page.locator("th, td").evaluate_all(
        "parts => parts.map((part) => part.getBoundingClientRect().right)"
    )
    assert max(ends) <= 390
    page.close()


def test_the_page_of_a_person_is_about_one(person_page, model60):
    text = person_page.read_text("utf-8")
    assert "<script" not in text
    assert text.count("not a diagnosis") == 1
    assert not any(name in text for name in model60.subjects_ if name != "S0002")


@every_window
def test_the_deviation_is_in_view(visit, report60, window):
    seen = visit(report60, **WINDOWS[window])
    table = seen.page.locator(".people").bounding_box()
    cell = seen.page.locator("#people thead th", has_text="Deviation").bounding_box()
    assert cell["x"] + cell["width"] <= table["x"] + table["width"] + 1


def luminance(color):
    """Return the relative luminance of #rrggbb (WCAG)."""
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("window", ["wide", "dark"])
def test_recording_and_reconstruction_differ_in_lightness(visit, report60, window):
    seen = visit(report60, **WINDOWS[window])
    colors = seen.ask(
        """() => ['recording', 'reconstruction'].map((name) =>
            document.getElementById('signal').data.find((t) => t.name === name).line.color)"""
    )
    dim, bright = sorted(luminance(color) for color in colors)
    assert (bright + 0.05) / (dim + 0.05) >= 3


def test_question_marks_answer_by_keyboard(visit, report60):
    seen = visit(report60, **WINDOWS["wide"])
    button = seen.page.locator("#people thead th", has_text="Deviation").locator(".why")
    button.focus()
    seen.page.keyboard.press("Enter")
    bubble = seen.page.locator("#bubble")
    assert "1 is as far as a typical member" in bubble.inner_text()
    assert button.get_attribute("aria-describedby") == "bubble"
    assert seen.column("Subject")[0] == "S0000"  # nothing was sorted
    seen.page.keyboard.press("Escape")
    assert not bubble.is_visible()
    assert button.get_attribute("aria-expanded") == "false"


def test_every_number_of_a_person_can_be_asked_about(visit, report60):
    seen = visit(report60, **WINDOWS["phone"])
    pairs = seen.page.locator("#numbers > div")
    for i in range(pairs.count()):
        name = pairs.nth(i).locator("dt").inner_text().split("\n")[0]
        if not name.startswith("Group"):
            pairs.nth(i).locator(".why").tap()
            assert seen.page.locator("#bubble").is_visible()
            box = seen.page.locator("#bubble").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390


def test_tool_bars_leave_legends_free(visit, report60):
    seen = visit(report60, **WINDOWS["wide"])
    boxes = seen.ask(
        """() => [...document.querySelectorAll('.chart')].flatMap((chart) => {
            const [bar, legend] = ['.modebar-group', '.legend'].map((x) => chart.querySelector(x));
            const boxes = [bar, legend].map((x) => x && x.getBoundingClientRect().toJSON());
            return boxes[0] && boxes[1] ? [boxes] : [];
        })"""
    )
    assert len(boxes) > 5
    for bar, legend in boxes:
        apart = bar["left"] >= legend["right"] or bar["top"] >= legend["bottom"]
        assert apart, (bar, legend)
    touched = visit(report60, **WINDOWS["phone"])
    assert touched.page.locator(".modebar-btn").count() == 0


def test_a_person_is_introduced_in_words(visit, report60):
    seen = visit(report60, **WINDOWS["wide"])
    first = seen.page.inner_text("#words")
    assert "How sure" in first
    seen.page.fill("#search", "S0059")
    seen.page.locator("#people tbody tr").first.click()
    seen.page.wait_for_function("() => document.getElementById('who').textContent === 'S0059'")
    assert seen.page.inner_text("#words") != first
    intro = seen.page.locator("#introduction a").first
    name = intro.inner_text()
    intro.click()
    seen.page.wait_for_function(
        """id => document.getElementById('who').textContent === id
            && document.getElementById('who').getBoundingClientRect().top < window.innerHeight""",
        arg=name,
    )


def test_settings_begin_with_a_sentence(visit, report60):
    seen = visit(report60, **WINDOWS["wide"])
    assert seen.page.inner_text("#sentence").startswith(
        "Two atoms of 0.5 s; each person's version"
    )
    assert not seen.page.locator("#about details .facts").is_visible()


def test_on_paper_the_controls_are_gone(visit, report60):
    seen = visit(report60, **WINDOWS["wide"])
    seen.page.emulate_media(media="print")
    for part in (".bar", "#search", ".why", ".modebar"):
        assert not seen.page.locator(part).first.is_visible()
    assert seen.page.locator("#words").is_visible()
