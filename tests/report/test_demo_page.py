import pytest

pytest.importorskip("jinja2")

from percdl.report.demo import Comparison, Outcome, render_page


def comparison(name="PerCDL"):
    outcome = Outcome(name, 0.1234, 2.5e-5, 0.987, 4.26, b"\x89PNG")
    return Comparison(64, 500, 7, 0.36, 0.0612, (outcome,))


def test_numbers_reach_the_page():
    page = render_page(comparison())
    for text in ("64 synthetic subjects", "0.123", "2.5e-05", "98.7%", "4.3", "0.061", "seed 7"):
        assert text in page


def test_pictures_are_inside():
    assert "data:image/png;base64,iVBORw==" in render_page(comparison())


def test_the_page_suits_light_and_dark():
    assert "prefers-color-scheme: dark" in render_page(comparison())
