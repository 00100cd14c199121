"""The report as its readers meet it, in a real browser."""

import shlex
from copy import copy

import numpy as np
import pandas as pd
import pytest
from commands import run

pytest.importorskip("plotly")

from percdl import Algorithm, Cohort, IndCDL, PerCDL, PopCDL, TimeWarp, load
from percdl.analysis.effects import log_speed
from percdl.estimators.cycles import find_cycles
from percdl.estimators.landmarks import personal_times
from percdl.exceptions import SuspectRecordingWarning
from percdl.report.people import gather_people
from percdl.report.words import Words
from percdl.signals.reconstruction import rebuild

# Among few people, one explained worse stands out.
pytestmark = pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
OF_A_PERSON = ("signal", "subject-atom", "subject-warp", "subject-speed", "subject-departure",
               "plane")  # fmt: skip


def choose(seen, subject):
    seen.page.fill("#search", subject)
    seen.page.locator("#people tbody tr").first.click()
    seen.page.wait_for_function(
        "id => document.getElementById('who').textContent === id", arg=subject
    )
    seen.page.fill("#search", "")


def download(seen, button):
    with seen.page.expect_download() as waiting:
        seen.page.click(button)
    # pandas below 3.1 may read a last digit wrong; Python does not.
    exact = {"subject": str, "onset_seconds": float, "amplitude": float}
    return pd.read_csv(waiting.value.path(), converters=exact), waiting.value


@pytest.mark.parametrize("size", [60, 400])
def test_a_page_opens_in_silence_and_alone(visit, request, size):
    seen = visit(request.getfixturevalue(f"report{size}"))
    assert seen.page.get_attribute("#people", "aria-rowcount") == f"{size + 1}"
    assert f"{size} recordings" in seen.page.inner_text("#shown")
    seen.keep(f"report_{size}", full_page=True)


def test_choosing_a_person_changes_all_pictures(visit, report60):
    seen = visit(report60)

    def pictures():
        for chart in OF_A_PERSON:
            seen.wait_for(chart)
        return [seen.ask("id => document.getElementById(id).innerHTML", id) for id in OF_A_PERSON]

    before = pictures()
    choose(seen, "S0059")
    for chart, old, new in zip(OF_A_PERSON, before, pictures(), strict=True):
        assert old != new, f"{chart} stayed as it was"
    assert seen.page.url.endswith("#subject=S0059")


def test_the_point_of_the_chosen_person_stands_out(visit, report60):
    seen = visit(report60)
    for subject in ("S0059", "S0003"):
        choose(seen, subject)
        seen.wait_for("plane")
        marked = seen.ask(
            """() => [...document.querySelectorAll("#plane .point.chosen")]
                .map((point) => point.__data__).map(({ x, y }) => [x, y])"""
        )
        (place,) = marked
        named = seen.ask(
            """([x, y]) => document.getElementById("plane").data.flatMap((t) =>
                t.text.filter((_, i) => t.x[i] === x && t.y[i] === y))""",
            place,
        )
        assert named == [subject]


def test_search_filter_and_sorting(visit, report60):
    seen = visit(report60)
    seen.page.fill("#search", "s0007")
    assert seen.column("Subject") == ["S0007"]
    (group,) = seen.column("Group")
    seen.page.fill("#search", "no such person")
    assert seen.page.is_visible("#none")
    seen.page.fill("#search", "s0007" + group)  # two cells: a word is looked for within one
    assert seen.page.is_visible("#none")
    seen.page.fill("#search", "")
    seen.page.select_option("#filter", "healthy")
    assert set(seen.column("Group")) == {"healthy"}
    assert len(seen.column("Group")) == 24
    seen.page.select_option("#filter", "")
    for label in ("Error", "Deviation"):
        seen.page.click(f"#people thead button:text-is('{label}')")
        falling = seen.column(label)
        numbers = [float(x) for x in falling]
        assert len(numbers) == 60
        assert numbers == sorted(numbers, reverse=True)
        seen.page.click(f"#people thead button:text-is('{label}')")
        assert seen.column(label) == falling[::-1]


def test_downloaded_events_are_those_of_the_model(visit, report60, model60):
    seen, events = visit(report60), model60.events_
    everything, file = download(seen, "#download-all")
    assert file.suggested_filename == "events.csv"
    cycles = model60.cycles()
    np.testing.assert_allclose(everything.pop("quality"), cycles["quality"], rtol=5e-3)
    assert everything.pop("flagged").tolist() == cycles["flagged"].tolist()
    pd.testing.assert_frame_equal(
        everything, events.reset_index(drop=True), check_dtype=False, check_exact=True
    )
    choose(seen, "S0003")
    own, file = download(seen, "#download")
    assert file.suggested_filename == "events_S0003.csv"
    expected = events[events["subject"] == "S0003"].reset_index(drop=True)
    own = own.drop(columns=["quality", "flagged"])
    pd.testing.assert_frame_equal(own, expected, check_dtype=False, check_exact=True)


@pytest.fixture(scope="module")
def marked(model60, cohort60, tmp_path_factory):
    """A page of six people and a model with landmarks; one cycle is hidden by noise."""
    folder = tmp_path_factory.mktemp("marked")
    model60.save(folder / "model.percdl")
    model = load(folder / "model.percdl")
    model.mark("late <wave>", 1, 0.31).mark("early", 0, 0.12)
    arrays = [record.values.copy() for record in cohort60[:6]]
    onset = model.events_.query("subject == 'S0002'")["onset_sample"].iloc[1]
    arrays[2][onset : onset + 50] += np.random.default_rng(0).normal(size=(50, 1))
    cohort = Cohort.from_arrays(arrays, sfreq=100, subjects=cohort60.subjects[:6],
                                channels=cohort60.channels, units=cohort60.units)  # fmt: skip
    return model.report(folder / "page.html", cohort), model, cohort


def test_cycles_of_low_quality_stand_out(visit, marked):
    page, model, cohort = marked
    cycles = model.cycles(cohort)
    own = cycles[cycles["subject"] == "S0002"]
    poor = own[own["flagged"]]
    assert len(poor) > 0
    seen = visit(page, "#subject=S0002")
    drawn = seen.curve("signal", "flagged cycle", "x")
    np.testing.assert_allclose(drawn, poor["onset_seconds"])
    starts = [seen.curve("signal", f"start of atom {k}", "x") for k in sorted({*own["atom"]})]
    assert sum(map(len, starts)) == len(own) - len(poor)
    column = dict(zip(seen.column("Subject"), seen.column("Flagged (%)"), strict=True))
    assert float(column["S0002"]) == pytest.approx(100 * own["flagged"].mean(), abs=0.06)
    seen.page.click("[data-move=flagged]")
    low, high = seen.ask("document.getElementById('signal').layout.xaxis.range")
    assert low <= poor["onset_seconds"].iloc[0] <= high
    assert high - low < 5
    seen.keep("report_flagged", full_page=True)


def test_landmarks_are_drawn_on_common_and_personal_atoms(visit, marked):
    page, model, cohort = marked
    times = personal_times(model.marks_, find_cycles(model.personalize(cohort), cohort))
    seen = visit(page, "#subject=S0003")
    for k, name, shown, time, expected in (
        (1, "late <wave>", "late &lt;wave&gt;", 0.31, times[0, 3]),
        (0, "early", "early", 0.12, times[1, 3]),
    ):
        seen.page.select_option("#atom", str(k))
        assert seen.curve("overview-atom", shown, "x") == time, name
        (own,) = seen.curve("subject-atom", shown, "x")
        assert own == pytest.approx(expected, abs=1e-5)


def test_a_click_on_the_common_atom_gives_the_command_of_a_landmark(visit, marked, tmp_path):
    page, model, _ = marked
    seen = visit(page)
    assert not seen.page.is_visible("#picker")
    seen.page.select_option("#atom", "1")
    box = seen.page.locator("#overview-atom .nsewdrag").first.bounding_box()
    seen.page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.2 * box["height"])
    seen.page.locator("#overview-atom .hovertext, #overview-atom .hoverlayer g").first.wait_for()
    said = seen.page.locator("#overview-atom .hoverlayer").text_content()
    assert "of the people pass here" in said
    assert "common atom" not in said  # the name of the curve, which says that few pass
    seen.page.mouse.down()
    seen.page.mouse.up()
    seen.page.wait_for_selector("#picker:not([hidden])")
    seen.page.fill("#mark-name", "the wave's top")
    words = shlex.split(seen.page.inner_text("#mark-command"))
    model.save(tmp_path / "m.percdl")
    words[words.index("MODEL.percdl")] = tmp_path / "m.percdl"
    result = run(*words[1:])
    assert result.exit_code == 0, result.output
    placed = next(m for m in load(tmp_path / "m.percdl").marks_ if m.name == "the wave's top")
    assert placed.atom == 1
    assert placed.time == pytest.approx(float(seen.page.input_value("#mark-time")))
    first, last = seen.ask("document.getElementById('overview-atom').layout.xaxis.range")
    assert placed.time == pytest.approx(first + 0.4 * (last - first), abs=0.011)
    seen.page.fill("#mark-time", "0.25")
    assert "--at 0.2500 " in seen.page.inner_text("#mark-command")


def test_what_is_drawn_is_what_was_found(visit, report60, model60, cohort60):
    seen = visit(report60, "#subject=S0004")
    assert seen.page.inner_text("#who") == "S0004"
    own = model60.events_[model60.events_["subject"] == "S0004"]
    is_healthy = np.array(cohort60.groups) == "healthy"
    for k in range(2):
        seen.page.select_option("#atom", str(k))
        size = own[own["atom"] == k]["amplitude"].median()
        healthy = size * model60.personal_dictionary_[is_healthy, k, :, 0]
        edge = np.nanmean(healthy, 0) + 2 * np.nanstd(healthy, 0, ddof=1)
        drawn = seen.curve("subject-atom", "healthy, 2 standard deviations")
        np.testing.assert_allclose(drawn, edge, atol=2e-3 * np.ptp(edge))
        for name, atom in {"personal atom": model60.personal_dictionary_[4, k, :, 0],
                           "common atom": model60.dictionary_[k, :, 0]}.items():  # fmt: skip
            drawn = seen.curve("subject-atom", name)
            np.testing.assert_allclose(drawn, size * atom, atol=1e-3 * np.ptp(size * atom))
        # Both warp charts are on the clock of the population.
        reached = model60.personalization_.own_times[4, k, 0]
        drawn = seen.curve("subject-warp", "this person")
        np.testing.assert_allclose(drawn, reached / 100, atol=1e-3)
        speed = np.exp(log_speed(reached))
        np.testing.assert_allclose(seen.curve("subject-speed", "local speed"), speed, rtol=2e-3)
    values = cohort60[4].values[:, 0]
    np.testing.assert_allclose(seen.curve("signal", "recording"), values,
                               atol=1e-3 * np.ptp(values))  # fmt: skip
    whole = rebuild(cohort60, model60.events_, model60.personal_dictionary_)
    rebuilt = whole[4][:, 0]
    np.testing.assert_allclose(seen.curve("signal", "reconstruction"), rebuilt,
                               atol=3e-3 * np.ptp(values))  # fmt: skip
    starts = seen.curve("signal", "start of atom 1", "x")
    np.testing.assert_allclose(starts, own[own["atom"] == 1]["onset_seconds"])


def test_the_parts_that_the_sentences_name_are_shaded(visit, report60, model60, cohort60):
    words = Words(gather_people(model60, cohort60))
    named = [s for s in range(60) if any(x.kind == "pace" for x in words.phases(s))]
    s = named[0]
    phases = words.phases(s)
    seen = visit(report60, f"#subject={cohort60.subjects[s]}")
    seen.page.select_option("#atom", str(phases[0].atom))
    shapes = seen.ask("document.getElementById('subject-speed').layout.shapes")
    assert shapes
    shown = [x for x in phases if x.atom == phases[0].atom]
    ends = [(x.start / 100, x.stop / 100) for x in shown]
    np.testing.assert_allclose([(shape["x0"], shape["x1"]) for shape in shapes], ends)
    texts = seen.page.inner_text("#words")
    for start, stop in ends:
        assert f"({start:.2f} to {stop:.2f} s in the picture)" in texts


def test_the_keyboard_is_enough(visit, report60):
    seen = visit(report60)
    first = seen.page.inner_text("#who")
    seen.page.locator("#people tbody tr[tabindex='0']").focus()
    for _ in range(3):
        seen.page.keyboard.press("ArrowDown")
    seen.page.wait_for_function(
        "id => document.getElementById('who').textContent === id", arg="S0003"
    )
    assert seen.ask("document.activeElement.dataset.subject") == "3"
    seen.page.keyboard.press("Home")
    seen.page.wait_for_function(
        "id => document.getElementById('who').textContent === id", arg=first
    )
    seen.page.focus("#signal-frame")
    whole = seen.page.inner_text("#range")
    seen.page.keyboard.press("+")
    assert seen.page.inner_text("#range") == "1.3 to 3.8 s of 5.0 s"
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.inner_text("#range") == "2.5 to 5.0 s of 5.0 s"
    seen.page.keyboard.press("0")
    assert seen.page.inner_text("#range") == whole


def test_a_long_table_holds_the_rows_in_view_and_all_of_them_on_paper(visit, report400):
    seen = visit(report400, viewport={"width": 1400, "height": 2000})
    rows = seen.page.locator("#people tbody tr")
    assert rows.count() < 400
    (last, frame) = (part.bounding_box() for part in (rows.last, seen.page.locator(".people")))
    assert last["y"] + last["height"] >= frame["y"] + frame["height"] - 2
    widths = "() => [...document.querySelectorAll('#people thead th')].map((th) => th.offsetWidth)"
    before = seen.ask(widths)
    seen.page.locator("#people tbody tr[tabindex='0']").focus()
    seen.page.keyboard.press("End")
    seen.page.wait_for_function("() => document.getElementById('who').textContent === 'S0399'")
    last = seen.ask(
        """() => {
            const row = document.activeElement.getBoundingClientRect();
            const frame = document.querySelector(".people").getBoundingClientRect();
            const at = document.activeElement.getAttribute("aria-rowindex");
            return [at, row.bottom <= frame.bottom + 1];
        }"""
    )
    assert last == ["401", True]
    assert rows.count() < 400
    assert seen.ask(widths) == before
    seen.ask("() => document.querySelector('.people').scrollTo(0, 0)")
    seen.page.wait_for_selector("#people tbody tr[aria-rowindex='2']")
    seen.page.emulate_media(media="print")
    seen.page.wait_for_function(
        "() => document.querySelectorAll('#people tbody tr').length === 400"
    )


def test_another_person_does_not_move_the_page(visit, report60):
    seen = visit(report60, viewport={"width": 1000, "height": 700})  # the table is above
    seen.ask("() => document.getElementById('who').scrollIntoView()")
    bar, name = (seen.page.locator(part).bounding_box() for part in (".bar", "#who"))
    assert name["y"] >= bar["y"] + bar["height"]
    before = seen.ask("scrollY")
    seen.page.click("#next")
    seen.page.wait_for_function("() => document.getElementById('who').textContent === 'S0001'")
    assert seen.ask("scrollY") == before > 0


def test_going_to_a_part_of_the_page_keeps_the_person(visit, report60):
    seen = visit(report60, "#subject=S0004")
    seen.page.fill("#search", "no such person")
    for part in ("comparison", "overview", "subjects"):
        seen.page.click(f"nav a[href='#{part}']")
        seen.page.wait_for_function("part => location.hash === `#${part}`", arg=part)
    assert seen.page.inner_text("#who") == "S0004"
    seen.ask("() => { location.hash = 'subject=S0005'; }")
    seen.page.wait_for_function("() => document.getElementById('who').textContent === 'S0005'")


def test_every_control_can_be_reached_and_has_a_name(visit, report60):
    seen = visit(report60)
    nameless = seen.ask(
        """() => [...document.querySelectorAll("button, select, input")]
            .filter((e) => e.checkVisibility())
            .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.[0]?.textContent))
            .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    untold = "figure .chart:not([aria-label])"
    assert seen.page.locator(untold).count() == 0


def test_dragging_zooms_and_a_double_click_undoes_it(visit, report60):
    seen = visit(report60)
    seen.page.locator("#signal").scroll_into_view_if_needed()
    box = seen.page.locator("#signal .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    seen.page.mouse.move(box["x"] + 0.2 * box["width"], middle)
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    seen.page.mouse.up()
    seen.page.wait_for_function(
        "() => document.getElementById('range').textContent === '1.0 to 3.0 s of 5.0 s'"
    )
    seen.page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    seen.page.wait_for_function(
        "() => document.getElementById('range').textContent === '0.0 to 5.0 s of 5.0 s'"
    )


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A page of twelve people with three channels, one of them with a long recording."""
    rng = np.random.default_rng(3)
    bump = np.hanning(40)[:, None] * [1.0, -2.0, 0.5]
    arrays = []
    for s in range(12):
        values = 0.02 * rng.normal(size=(60_000 if s == 1 else 600, 3))
        for onset in range(20 + s, len(values) - 60, 97):
            values[onset : onset + 40] += bump
        arrays.append(values)
    arrays[1][30_000] = 9.0  # one sample that no picture may lose
    cohort = Cohort.from_arrays(
        arrays, sfreq=50, channels=["x", "y", "z"], units=["g", "g", "deg/s"],
        subjects=[f"w{s}" for s in range(12)],
    )  # fmt: skip
    model = PerCDL(
        1,
        40,
        transformation=TimeWarp(1, 2),
        penalty=1.0,
        algorithm=Algorithm(
            population_rounds=1,
            personal_rounds=1,
            realign=False,
            multistart=False,
            weighting="subjects",
        ),
        random_state=0,
    ).fit(cohort)
    return model.report(tmp_path_factory.mktemp("several") / "page.html"), cohort


def test_channels_are_drawn_one_by_one_or_all_together(visit, several):
    seen = visit(several[0])
    seen.page.select_option("#channel", "2")
    for chart in ("overview-atom", "subject-atom"):
        seen.wait_for(chart)
        assert "z (deg/s)" in seen.page.inner_text(f"#{chart}")
    seen.page.check("#all-channels")
    seen.wait_for("signal")
    drawn = seen.ask("document.getElementById('signal').data.map((t) => t.yaxis ?? 'y')")
    assert set(drawn) == {"y", "y2", "y3"}
    assert seen.page.locator("#signal .main-svg").first.bounding_box()["height"] > 300
    seen.keep("report_channels", full_page=True)


def test_long_recordings_are_drawn_by_extremes_until_looked_at_closely(visit, several):
    page, cohort = several
    seen = visit(page, "#subject=w1")
    values = cohort[1].values[:, 0]
    far = seen.curve("signal", "recording")
    assert len(far) < 4000
    np.testing.assert_allclose([far.min(), far.max()], [values.min(), values.max()], atol=0.02)
    for _ in range(9):
        seen.page.click("[data-move=in]")
    near, times = (seen.curve("signal", "recording", axis) for axis in "yx")
    samples = np.rint(times * 50).astype(int)
    assert (np.diff(samples) == 1).all()
    np.testing.assert_allclose(near, values[samples], atol=0.02)
    assert near.max() == far.max()


def test_where_cycles_are_many_neighbours_share_a_mark(visit, several):
    page, cohort = several
    seen = visit(page, "#subject=w1")
    onsets = download(seen, "#download")[0]["onset_seconds"].to_numpy()
    assert f"{len(onsets)} cycles" in seen.page.inner_text("#range")
    marks = seen.curve("signal", "start of a cycle", "x")
    assert len(marks) < len(onsets) / 2
    assert np.isclose(onsets[:, None], marks).any(0).all()
    share = cohort[1].duration / 40
    assert np.abs(onsets[:, None] - marks).min(1).max() <= share


def test_without_groups_there_is_nothing_to_compare_and_the_page_says_so(visit, several):
    seen = visit(several[0])
    assert seen.page.is_visible("#no-groups")
    assert not seen.page.is_visible("#filter")
    assert seen.page.is_visible("#plane")


@pytest.mark.parametrize("kind", [PopCDL, IndCDL], ids=lambda kind: kind.__name__)
def test_models_without_warps_show_none(kind, visit, cohort60, tmp_path):
    few = cohort60[:6]
    quick = Algorithm(population_rounds=1, personal_rounds=1, realign=False, weighting="subjects")
    model = kind(2, 50, penalty=1.0, algorithm=quick, random_state=0).fit(few)
    seen = visit(model.report(tmp_path / "page.html"))
    assert not seen.page.is_visible("#subject-warp")
    assert seen.page.is_visible("#subject-atom")


def test_one_person_alone_and_one_without_any_cycle(visit, model60, cohort60, tmp_path):
    quiet = np.random.default_rng(0).normal(size=(500, 1)) * 1e-3
    silent = Cohort.from_arrays([quiet], sfreq=100, subjects=["quiet"], channels=["gyro"],
                                units="deg/s", groups=["patient"])  # fmt: skip
    seen = visit(model60.report(tmp_path / "one.html", cohort60[:1]))
    assert seen.column("Subject") == ["S0000"]
    with pytest.warns(UserWarning, match="quiet"):
        page = model60.report(tmp_path / "two.html", cohort60[:3] + silent)
    seen = visit(page, "#subject=quiet")
    assert seen.page.is_visible(".no-atom")
    assert "quiet" in seen.page.inner_text("#warnings")
    assert seen.ask("document.getElementById('subject-atom').data.length") == 0
    own, _ = download(seen, "#download")
    assert len(own) == 0


def test_suspect_recordings_are_listed_and_marked(visit, model60, cohort60, tmp_path):
    arrays = [record.values for record in cohort60[:5]]
    arrays[2] = 100 * arrays[2]
    names = {"sfreq": 100, "channels": ["gyro"], "units": "deg/s"}
    cohort = Cohort.from_arrays(arrays, subjects=cohort60.subjects[:5], **names)
    large = cohort.subjects[2]
    with pytest.warns(SuspectRecordingWarning, match=f"larger .*: {large} "):
        page = model60.report(tmp_path / "page.html", cohort)
    seen = visit(page, f"#subject={large}")
    assert large in seen.page.inner_text("#suspects")
    assert "larger" in seen.page.inner_text("#suspect")
    suspects = set(model60.personalize(cohort).suspects["subject"])
    marked = seen.page.locator("#people .suspect:visible")
    assert set(marked.all_inner_texts()) == suspects
    choose(seen, min(set(cohort.subjects) - suspects))
    assert not seen.page.is_visible("#suspect")
    assert not visit(model60.report(tmp_path / "fit.html")).page.is_visible("#suspects")


def test_names_with_markup_are_shown_as_text(visit, model60, cohort60, tmp_path):
    nasty = [
        "<img src=x onerror=\"document.title='owned'\">",
        "</script><script>document.title='owned'</script>",
        '"><svg onload="document.title=\'owned\'">',
        "<a href='javascript:document.title=1'>click</a>",
        "' onmouseover='alert(1)",
        "{{ 7 * 7 }} ${7 * 7} &lt;b&gt;",
    ]
    groups = ["<b>bold</b>", "<script>alert(1)</script>"] * 3
    cohort = Cohort.from_arrays(
        [record.values for record in cohort60[:6]], sfreq=100, subjects=nasty, groups=groups,
        channels=["<i>gyro</i>"], units="<sub>s</sub>",
    )  # fmt: skip
    metadata = pd.DataFrame({"subject": nasty, "<u>note</u>": [f"<em>{n}</em>" for n in nasty]})
    title = "<h1>title</h1><script>document.title='owned'</script>"
    model = copy(model60)
    model.units_ = cohort.units
    page = model.report(tmp_path / "page.html", cohort, metadata=metadata, title=title)
    seen = visit(page)
    assert seen.page.title() == title
    assert sorted(seen.column("Subject")) == sorted(nasty)
    assert set(seen.column("<u>note</u>")) == {f"<em>{n}</em>" for n in nasty}
    assert seen.page.inner_text("header h1") == title
    for name in nasty:
        seen.page.locator("#people tbody tr", has_text=name).first.click()
        seen.page.wait_for_function(
            "id => document.getElementById('who').textContent === id", arg=name
        )
    assert set(groups) <= set(seen.page.inner_text("#group-atoms").splitlines())
    drawn = seen.page.inner_text("#overview-atom").replace(" ", "")  # or a new line
    assert "<i>gyro</i>(<sub>s</sub>)" in drawn
    # The buttons of Plotly's tool bars are links in its older versions.
    links = "section a:not(.modebar-btn)"
    ours = "h1, p, #introduction > a[href^='#subject=']"
    planted = f"img, header :not({ours}), {links}, section script, table b, [onload], [onerror]"
    assert seen.page.locator(planted).count() == 0
    everything, _ = download(seen, "#download-all")
    assert sorted(set(everything["subject"])) == sorted(nasty)
    assert seen.page.title() == title


def test_a_phone_shows_it_without_scrolling_sideways(visit, report60):
    seen = visit(report60, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    assert seen.ask("document.documentElement.scrollWidth <= window.innerWidth")
    seen.keep("report_phone", full_page=True)


def test_dark_light_and_paper(visit, report60):
    seen = visit(report60, color_scheme="dark")
    paint = "getComputedStyle(document.body).backgroundColor"
    wait_for_ink(seen, "> 200")
    assert brightness(seen.ask(paint)) < 60
    seen.keep("report_dark", full_page=True)
    seen.page.emulate_media(color_scheme="light")
    wait_for_ink(seen, "< 60")
    assert brightness(seen.ask(paint)) > 200
    seen.page.emulate_media(color_scheme="dark", media="print")
    wait_for_ink(seen, "< 60")
    assert brightness(seen.ask(paint)) > 200
    assert not seen.page.is_visible("nav")
    assert len(seen.page.pdf()) > 10_000
    seen.keep("report_paper", full_page=True)


def test_charts_fit_on_paper(visit, report60):
    seen = visit(report60, viewport={"width": 1280, "height": 900}, color_scheme="dark")
    seen.page.emulate_media(media="print")
    wait_for_ink(seen, "< 60")  # drawn for paper
    beyond = """([...parts]) => parts.filter((part) => {
        const card = part.closest(".card").getBoundingClientRect();
        return part.getBoundingClientRect().right > Math.min(card.right, 703);
    }).map((part) => part.closest(".chart").id)"""  # A4 between its margins has 703 pixels
    charts = seen.page.locator(".main-svg:first-child")
    assert charts.count() > 5
    assert charts.evaluate_all(beyond) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_titles_of_axes_are_not_cut(visit, report60, width):
    seen = visit(report60, viewport={"width": width, "height": 900})
    seen.page.wait_for_function("() => !document.querySelector('[data-stale]')")
    cut = """([...titles]) => titles.filter((title) => {
        const { height, top, bottom } = title.getBoundingClientRect();
        const chart = title.closest(".chart").getBoundingClientRect();
        return height && (top < chart.top || bottom > chart.bottom);
    }).map((title) => title.textContent)"""
    titles = seen.page.locator(".chart text[class^='y'][class$='title']")
    assert titles.count() > 5
    assert titles.evaluate_all(cut) == []


def wait_for_ink(seen, bound):
    """Wait until the texts of a chart are as bright, or as dark, as they should be."""
    fill = "getComputedStyle(document.querySelector('#signal .xtitle')).fill"
    seen.page.wait_for_function(f"() => Number({fill}.match(/\\d+/)[0]) {bound}")


def brightness(color: str) -> float:
    numbers = color[color.index("(") + 1 : color.index(")")].split(",")
    return sum(map(float, numbers[:3])) / 3
