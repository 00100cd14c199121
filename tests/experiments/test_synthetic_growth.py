"""fig:conv, fig:supp:synth_conv, Theorem 1 and the times, on cohorts of a few subjects."""

import pytest

pytest.importorskip("matplotlib")

import numpy as np
from numpy.testing import assert_allclose

from percdl import make_synthetic
from percdl.experiments import Study, computation_time, growth
from percdl.experiments.fits import FLOOR, LOOKS, MODELS, loglog_slope


class Reversed:
    """A fit that found the true atoms, in another order and at another scale."""

    def __init__(self, data):
        self.dictionary_ = 7 * data.dictionary[::-1]


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(growth.fits, "fit", lambda method, data: Reversed(data))
    return growth.measure_distances(Study(), (4,), (0,))


def test_all_methods_are_measured_on_the_same_cohorts(rows):
    assert len(rows) == len(MODELS) + 1
    assert set(rows["method"]) == {*MODELS, FLOOR}
    assert_allclose(rows.query("method != 'gauge floor'")["distance"], 0, atol=1e-7)
    floor = rows.query("S == 4 and method == 'gauge floor'")["distance"].item()
    assert floor == make_synthetic(4, random_state=0).gauge_floor()


def test_a_power_law_is_described_by_its_exponent():
    means = {size: 3 / size**0.5 for size in (1, 4, 16, 64, 256)}
    means[1] = 100.0  # off the law; too few subjects to count
    assert_allclose(growth.slope(means), -0.5)
    assert np.isnan(loglog_slope([1], [1]))


def test_the_picture_names_every_curve(rows):
    table, means = growth.mean_distances(rows)
    assert means.keys() == {*MODELS, FLOOR}
    ax = growth.draw_distances(table, 1).axes[0]
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(LOOKS)


def test_atoms_are_shown_in_the_order_of_the_truth(monkeypatch):
    monkeypatch.setattr(growth.fits, "fit", lambda method, data: Reversed(data))
    atoms = growth.measure_atoms(Study(), (2,), ("PopCDL",))
    truth = make_synthetic(2, 1000, random_state=0).dictionary
    for k, pattern in enumerate(truth[..., 0]):
        shown = atoms.query(f"atom == {k}")["value"].to_numpy()
        assert_allclose(shown, pattern / np.linalg.norm(pattern), atol=1e-12)
    assert len(growth.draw_atoms(atoms, (2,)).axes) == 2


def test_without_noise_the_estimate_of_the_theorem_is_the_truth():
    data = make_synthetic(5, random_state=0)
    assert growth.error_given_truth(data) < 1e-5


def test_the_error_of_the_theorem_falls_with_the_root_of_the_repetitions():
    rows = Study().sweep(growth.measure_theorem, S=(20, 180), p=(1, 4), seed=range(3))
    error = rows.groupby(["S", "p"])["error"].mean()
    assert_allclose(error[20, 1] / error[180, 1], 3, rtol=0.25)
    assert_allclose(error[20, 1] / error[20, 4], 2, rtol=0.25)


def test_times_stand_beside_those_of_the_paper(monkeypatch):
    def fit(name):
        return type("Fitted", (), {"subjects_": ["a", "b"]})()

    monkeypatch.setattr(computation_time, "_cases", lambda study: {"gait": fit})
    result = computation_time.computation_time(Study())
    expected = [f"{seconds} (150 recordings)" for seconds in ("26.86", "5.94", "48.37")]
    assert [line.paper for line in result.lines] == expected
    assert (result.tables[""]["subjects"] == 2).all()
