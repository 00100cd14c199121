"""A site: what it does with blocks of subjects, and what it asks its programs."""

import numpy as np
import pytest
import toy
from numpy.testing import assert_array_equal

from percdl.algorithm import local
from percdl.algorithm.chunks import Shape
from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.local import Site
from percdl.algorithm.programs import Prepared
from percdl.signals import Cohort
from percdl.transforms import Compose, Gain, Shift


def site(n_subjects=3, settings=None, block_rows=16, **options):
    cohort = Cohort.from_arrays(toy.recordings(0, [40] * n_subjects))
    shape = Shape(16, 2**20, block_rows)
    return Site(cohort, settings or toy.settings(), shape, resident=False, **options)


@pytest.mark.parametrize(
    ("most", "sizes"), [(15, [1] * 5), (16, [1] * 5), (31, [1] * 5), (32, [2, 2, 1]), (512, [5])]
)
def test_blocks_are_searched_together_as_long_as_they_are_few(monkeypatch, most, sizes):
    many = site(80)
    assert [block.rows for block in many.blocks] == [16] * 5
    monkeypatch.setattr(local, "SEARCHED_ROWS", most)
    together = []

    def personalize(blocks, broadcast, dictionary):
        together.append(list(blocks))
        return [Sums(1.0, 1.0, 1.0, 1.0, np.ones(2)) for _ in blocks]

    monkeypatch.setattr(many, "_personalize", personalize)
    sums = many.personal_round(Broadcast(toy.first_guess(0)))
    assert [len(blocks) for blocks in together] == sizes
    assert [block for blocks in together for block in blocks] == many.blocks
    assert sums.objective == 5


def test_as_many_are_searched_together_as_fill_a_program():
    assert local.SEARCHED_ROWS == 512


@pytest.mark.parametrize("refused", [range(48), range(16), range(20, 21)])
def test_recordings_that_would_get_worse_keep_what_they_had(monkeypatch, refused):
    """In every chunk, not only in the one of each shape that is always chosen from."""
    many, broadcast = site(48, block_rows=48), Broadcast(toy.patterns())
    assert len(many.chunks) == 3
    many.population_round(broadcast)
    before = [np.array(many.coded[index].objective) for index in range(3)]
    rows = np.arange(48).reshape(3, 16)
    answers = iter(~np.isin(rows, refused))
    monkeypatch.setattr(local.coding, "no_worse", lambda *given: next(answers))
    many.personal_round(broadcast)
    for index, old in enumerate(before):
        kept = np.isin(rows[index], refused)
        same = np.isclose(many.coded[index].objective, old, rtol=1e-4)
        assert_array_equal(same, kept)


def test_a_site_of_some_of_a_cohort_counts_as_the_whole():
    own = site()
    assert (own.unit, own.n_masks) == (1.0, 0)
    other = site(unit=4.0, n_masks=2, settings=toy.settings(penalty=1.6, delta=8.0))
    assert (other.unit, other.n_masks) == (4.0, 2)
    assert (other.settings.penalty, other.settings.delta) == (0.1, 2.0)


@pytest.mark.parametrize(
    ("transform", "expected"),
    [(toy.WARP, (2, 0)), (Shift(), (2, 0)), (Compose(toy.WARP, Gain()), (2, 1))],
    ids=str,
)
def test_without_a_gauge_nothing_is_mixed(transform, expected):
    found = site(settings=toy.settings(transform))._no_mixing(toy.first_guess(0))
    assert found.shape == expected
    assert not found.any()


@pytest.mark.parametrize("gauge", [None, np.full((2, 1, toy.LENGTH), 3.0)])
@pytest.mark.parametrize("mixing", [None, np.full((2, 1), 4.0)])
def test_a_gauge_is_handed_on_where_there_is_one(monkeypatch, gauge, mixing):
    asked, nothing = [], Prepared(*[np.zeros(0)] * 5)
    monkeypatch.setattr(local.programs, "prepare", lambda *given: asked.append(given) or nothing)
    own = site(settings=toy.settings(Compose(toy.WARP, Gain())))
    broadcast = Broadcast(toy.first_guess(0), gauge=gauge, mixing_gauge=mixing)
    own._prepare(broadcast, broadcast.dictionary, own.blocks[0], None)
    *_, warp, mixture, recenters = asked[0]
    assert recenters is (gauge is not None)
    assert warp.shape == (2, 1, toy.LENGTH)
    assert_array_equal(warp, 0 if gauge is None else 3)
    assert_array_equal(mixture, 0 if mixing is None else 4)
