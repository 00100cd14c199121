"""Groups compared, subjects ranked, profiled and placed in the plane."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_hex
from pictures import CLUSTERS, DEVIATION, FEATURES, GROUPS, PERSONAL, SUBJECTS, legend
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.manifold import MDS

from percdl.analysis import Cluster
from percdl.plotting import (
    plot_deviation_profile,
    plot_deviation_ranking,
    plot_embedding,
    plot_group_comparison,
)

CURVES = PERSONAL[:, 0, :, 0]
STROKE = np.array(GROUPS) == "stroke"


def looks(lines):
    return {(line.get_linestyle(), line.get_marker()) for line in lines}


def vertices(area):
    return np.concatenate([path.vertices for path in area.get_paths()])


# Group comparison


def test_means_are_those_of_the_groups():
    ax = plot_group_comparison(PERSONAL[:, 0], GROUPS, channel=0)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), CURVES[~STROKE].mean(0))
    np.testing.assert_allclose(ax.lines[1].get_ydata(), CURVES[STROKE].mean(0))
    assert legend(ax)[:2] == ["healthy (n = 3)", "stroke (n = 3)"]
    assert len(looks(ax.lines)) == 2


@pytest.mark.parametrize("band", ["ci", "sd"])
def test_bands_are_those_of_textbooks(band):
    ax = plot_group_comparison(CURVES, GROUPS, band=band)
    part = CURVES[~STROKE]
    if band == "sd":
        ends = part.mean(0) + part.std(0, ddof=1)
    else:
        ends = stats.t.interval(0.95, 2, part.mean(0), stats.sem(part))[1]
    assert vertices(ax.collections[0])[:, 1].max() == pytest.approx(ends.max())


def test_copies_of_recordings_make_no_band_narrower():
    names = range(len(CURVES))
    once, twice = (
        plot_group_comparison(np.tile(CURVES, (n, 1)), [*GROUPS] * n, persons=[*names] * n)
        for n in (1, 2)
    )
    assert legend(once) == legend(twice)
    for group in (0, 1):
        bands = (vertices(ax.collections[group]) for ax in (once, twice))
        np.testing.assert_allclose(*bands)


def test_a_matrix_is_one_channel():
    pictures = plot_group_comparison(CURVES, GROUPS), plot_group_comparison(PERSONAL[:, 0], GROUPS)
    first, second = (ax.lines[1].get_xydata() for ax in pictures)
    np.testing.assert_array_equal(first, second)


def test_significant_clusters_are_shaded_where_they_are():
    ax = plot_group_comparison(CURVES, GROUPS, CLUSTERS, sfreq=10.0)
    bar, shade, empty = ax.collections[3:]
    for area in (bar, shade):
        assert (vertices(area)[:, 0].min(), vertices(area)[:, 0].max()) == (0.15, 0.55)
    assert vertices(empty)[:, 0].min() == 0.85
    assert not len(empty.get_facecolor())
    assert [text.get_text() for text in ax.texts] == ["p = 0.01", "p = 0.4"]
    assert vertices(bar)[:, 1].max() < vertices(ax.collections[0])[:, 1].min()


def test_clusters_of_a_comparison_are_drawn_in_their_channel():
    runs = [
        Cluster(c, start, stop, 9.0, p) for c in (0, 1) for start, stop, p in CLUSTERS[: 2 - c]
    ]
    both = np.stack([CURVES, CURVES], axis=2)
    for channel in (0, 1):
        ax = plot_group_comparison(both, GROUPS, runs, channel=channel)
        assert len(ax.texts) == 2 - channel


def test_the_level_decides_what_is_shaded():
    assert len(plot_group_comparison(CURVES, GROUPS, CLUSTERS, alpha=0.5).collections) == 7
    assert len(plot_group_comparison(CURVES, GROUPS, CLUSTERS, alpha=0.001).collections) == 5


def test_who_has_no_curve_or_no_group_is_left_out():
    curves, groups = np.vstack([CURVES, CURVES[:2] + 100]), [*GROUPS, None, "stroke"]
    curves[-1] = np.nan
    with_them, without = (
        plot_group_comparison(curves, groups),
        plot_group_comparison(CURVES, GROUPS),
    )
    for first, second in zip(with_them.lines, without.lines, strict=True):
        np.testing.assert_array_equal(first.get_ydata(), second.get_ydata())


def test_groups_may_be_numbers():
    ax = plot_group_comparison(CURVES, [1, 1, 2, 2, 2, 1])
    assert legend(ax)[:2] == ["1 (n = 3)", "2 (n = 3)"]


# Deviation ranking


def ranked(ax):
    """Return the points of a ranking in order, as (rank, deviation)."""
    points = np.concatenate([line.get_xydata() for line in ax.lines])
    return points[np.argsort(points[:, 0])]


def test_subjects_stand_in_order_of_their_deviation():
    ax = plot_deviation_ranking(DEVIATION, GROUPS, reference="healthy", subjects=SUBJECTS)
    np.testing.assert_array_equal(ranked(ax)[:, 0], np.arange(1, 7))
    np.testing.assert_array_equal(ranked(ax)[:, 1], np.sort(DEVIATION)[::-1])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == list("cebfad")
    assert len(looks(ax.lines)) == 2
    for line, group in zip(ax.lines, ("healthy", "stroke"), strict=True):
        assert set(line.get_ydata()) == set(DEVIATION[np.array(GROUPS) == group])


def test_the_range_of_the_reference_is_shaded():
    healthy = DEVIATION[~STROKE]
    ax = plot_deviation_ranking(DEVIATION, GROUPS, reference="healthy")
    low, high = ax.patches[0].get_y(), ax.patches[0].get_y() + ax.patches[0].get_height()
    np.testing.assert_allclose([low, high], np.quantile(healthy, [0.025, 0.975]))


def test_nan_and_no_group_are_left_out():
    deviation = np.append(DEVIATION, [np.nan, 50.0])
    ax = plot_deviation_ranking(deviation, [*GROUPS, "stroke", None])
    np.testing.assert_array_equal(ranked(ax)[:, 1], np.sort(DEVIATION)[::-1])


def test_without_groups_there_is_nothing_to_explain():
    ax = plot_deviation_ranking(DEVIATION)
    assert ax.get_legend() is None
    np.testing.assert_array_equal(ranked(ax)[:, 1], np.sort(DEVIATION)[::-1])


def test_the_first_of_many_are_named():
    rng = np.random.default_rng(0)
    deviation, groups = rng.chisquare(5, 200), rng.choice(["x", "y", "z"], 200)
    names = [f"s{i}" for i in range(200)]
    ax = plot_deviation_ranking(deviation, groups, subjects=names, n_named=4)
    wanted = [names[s] for s in np.argsort(-deviation)[:4]]
    ranked = ax.texts[0].get_text().split("\n")
    assert ranked == [f"{rank}. {name}" for rank, name in enumerate(wanted, 1)]


# Deviation profile


def test_what_lies_beyond_the_threshold_is_filled():
    z = np.array([0.0, 4.0, 0.0, -1.0, -5.0, -1.0])
    ax = plot_deviation_profile(z, subject="Ada", threshold=2, sfreq=10.0)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), z)
    above, below = (vertices(area)[:, 1] for area in ax.collections)
    assert (above.min(), above.max()) == (2, 4)
    assert (below.min(), below.max()) == (-5, -2)
    assert sorted(line.get_ydata()[0] for line in ax.lines[1:]) == [-2, 0, 2]
    assert legend(ax) == ["Ada", "± 2 sd of the reference"]


def test_channels_differ_in_line_style():
    ax = plot_deviation_profile(FEATURES, channels=list("wxyz"))
    assert len({line.get_linestyle() for line in ax.lines[:4]}) == 4
    assert legend(ax)[:4] == list("wxyz")


# Embedding


def placed(ax):
    return np.concatenate([line.get_xydata() for line in ax.lines])


def test_by_default_points_are_principal_components():
    ax = plot_embedding(FEATURES, GROUPS)
    standard = (FEATURES - FEATURES.mean(0)) / FEATURES.std(0)
    pca = PCA(2).fit(standard)
    points = pca.transform(standard)
    np.testing.assert_allclose(ax.lines[0].get_xydata(), points[~STROKE], atol=1e-9)
    np.testing.assert_allclose(ax.lines[1].get_xydata(), points[STROKE], atol=1e-9)
    assert f"({pca.explained_variance_ratio_[0]:.0%} of variance)" in ax.get_xlabel()
    assert len(looks(ax.lines)) == 2
    assert len({to_hex(line.get_color()) for line in ax.lines}) == 2


def test_the_scale_of_a_feature_does_not_matter():
    scaled = plot_embedding(FEATURES * [1, 10, 100, 1000] + 5, GROUPS)
    np.testing.assert_allclose(placed(scaled), placed(plot_embedding(FEATURES, GROUPS)), atol=1e-9)


def test_incomplete_subjects_change_nothing_for_the_others():
    features = np.vstack([FEATURES, [np.nan, 1, 2, 3]])
    ax = plot_embedding(features, [*GROUPS, "healthy"], highlight=[6])
    np.testing.assert_allclose(placed(ax), placed(plot_embedding(FEATURES, GROUPS)), atol=1e-9)


def test_parameters_of_several_atoms_are_one_row():
    stacked = plot_embedding(FEATURES.reshape(6, 2, 2), GROUPS)
    np.testing.assert_array_equal(placed(stacked), placed(plot_embedding(FEATURES, GROUPS)))


def test_points_of_your_own_are_drawn_as_they_are():
    points = FEATURES[:, :2]
    ax = plot_embedding(FEATURES, GROUPS, embedding=points)
    np.testing.assert_array_equal(placed(ax), np.vstack([points[~STROKE], points[STROKE]]))
    assert ax.get_xlabel() == "dimension 1"


def test_an_estimator_is_fitted_but_not_touched():
    estimator = PCA(3)
    ax = plot_embedding(FEATURES, embedding=estimator)
    np.testing.assert_allclose(placed(ax), placed(plot_embedding(FEATURES)), atol=1e-9)
    assert not hasattr(estimator, "components_")
    plain = MDS(2, n_init=1, init="random", random_state=0)
    assert plot_embedding(FEATURES, embedding=plain).get_ylabel() == "dimension 2"


def test_highlighted_subjects_are_circled_and_named():
    ax = plot_embedding(FEATURES, GROUPS, highlight=["b"], subjects=SUBJECTS)
    np.testing.assert_array_equal(ax.lines[2].get_xydata()[0], ax.lines[0].get_xydata()[1])
    assert [text.get_text() for text in ax.texts] == ["b"]
