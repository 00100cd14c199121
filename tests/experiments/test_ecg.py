"""ECG: how records are prepared, and all labels on a few synthetic beats."""

from dataclasses import replace

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("tslearn")

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose

from percdl.datasets.ptbxl import PTBXL, SUPERCLASSES, as_leads
from percdl.experiments import Study, ecg, find
from percdl.experiments.ecg import neighbour_auc
from percdl.transforms import TimeWarp

# tslearn says on import that a format it can do without is not installed.
pytestmark = pytest.mark.filterwarnings("ignore:h5py not installed")
LEADS, N_TIMES, PERIOD, N_MEMBERS = ("II", "V1"), 600, 90, 12
FEATURES = ecg.WARPS, ecg.RICH
LABELS = ["ecg:errors", "ecg:classification", "fig:app:ecg_atoms", "fig:app:ecg_recon"]


def a_record(superclass, rng):
    """Return beats (N, 2) in mV whose T wave, in one lead, depends on the superclass."""
    time = (np.arange(N_TIMES) - rng.integers(PERIOD)) % PERIOD
    r_wave = np.exp(-0.5 * ((time - 30) / 2) ** 2)
    t_wave = np.exp(-0.5 * ((time - 55 - rng.uniform(-2, 2)) / 5) ** 2)
    size = (superclass - 2) / 4
    beats = np.stack([r_wave + 0.3 * t_wave, -0.8 * r_wave + size * t_wave], axis=1)
    return rng.uniform(0.5, 1.5) * beats + 0.01 * rng.standard_normal(beats.shape)


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    names = np.repeat(np.arange(5), N_MEMBERS)
    values = np.array([a_record(name, rng) for name in names])
    index = pd.Index(range(1, 1 + len(names)), name="ecg_id")
    labels = pd.DataFrame(names[:, None] == np.arange(5), index, list(SUPERCLASSES))
    folds = pd.Series(np.tile([*range(1, 9), 1, 2, 9, 10], 5), index)
    return PTBXL(as_leads(values, LEADS, 100, labels), pd.DataFrame(index=index), labels, folds)


@pytest.fixture(autouse=True, scope="module")
def few_and_fast(records):
    """Let the study see the synthetic records, with small warps and few rounds."""
    caches = (ecg.prepare, ecg.fit)
    small = TimeWarp(1, 2, per_channel=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ecg, "load_records", lambda n_members: records)
        patch.setattr(ecg, "n_per_class", lambda study: N_MEMBERS)
        one = replace(ecg.ALGORITHM, population_rounds=1, personal_rounds=1)
        patch.setattr(ecg, "ALGORITHM", one)
        patch.setattr(ecg, "WARP", small)
        patch.setattr(ecg, "FINE", small)
        few = {name: ecg.FEATURE_SETS[name] for name in FEATURES}
        patch.setattr(ecg, "FEATURE_SETS", few)
        for cached in caches:
            cached.cache_clear()
        yield
        for cached in caches:
            cached.cache_clear()


def test_processing_is_written_down_and_does_what_it_says(records):
    raw, filtered, compressed = (
        ecg.prepare(N_MEMBERS, x) for x in (ecg.RAW, ecg.FILTERED, ecg.COMPRESSED)
    )
    for cohort in (raw, filtered):
        assert_allclose([np.mean(r.values**2) for r in cohort], 1)
        assert cohort.processing[-1] == "scaled to unit power"
    assert "arcsinh" in compressed.processing[-1]
    expected = records.cohort.bandpass(*ecg.BAND, order=2)
    assert_allclose(ecg.KNEE * np.sinh(compressed[3].values), expected[3].values, atol=1e-9)


def test_the_first_beat_has_its_peak_where_it_is_said_to_be():
    beat = ecg.first_beat(ecg.prepare(N_MEMBERS, ecg.FILTERED))
    assert beat.shape == (1, ecg.LENGTH, len(LEADS))
    assert np.square(beat[0]).sum(1).argmax() == ecg.R_PEAK


def test_mean_amplitudes_are_in_the_order_of_the_subjects():
    model = ecg.fit("PerCDL", N_MEMBERS, ecg.COMPRESSED, ecg.WAVES)
    events = model.events_
    expected = [events.query("subject == @s")["amplitude"].mean() for s in model.subjects_]
    assert_allclose(ecg.mean_amplitudes(model), expected)


def test_richer_transforms_have_more_parameters():
    table = Study().sweep(ecg.measure_auc, n_members=[N_MEMBERS], features=list(FEATURES))
    # The size and sign of the T wave depend on the class: gains describe this, warps do not.
    assert table["auc"].iloc[1] > 0.8
    assert table["n_features"].tolist() == [4, 4 + 2 * ecg.WAVES.knots]


@pytest.mark.parametrize("label", LABELS)
def test_every_label_runs(label):
    result = find(label).load()(Study())
    assert result.lines
    assert all(len(table) for table in result.tables.values())
    assert result.figure.axes


@pytest.mark.parametrize("metric", ["euclidean", "dtw"])
def test_nearest_atoms_tell_what_can_be_told(metric):
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 40)
    shapes = rng.normal(size=(3, 9, 2))
    atoms = np.repeat(shapes, 40, axis=0) + 0.1 * rng.normal(size=(120, 9, 2))
    assert neighbour_auc(atoms, labels, metric) == {5: 1, 15: 1}
    assert neighbour_auc(5 * atoms, labels, metric) == {5: 1, 15: 1}
    atoms[0] = np.nan
    for value in neighbour_auc(atoms, rng.permutation(labels), metric).values():
        assert abs(value - 0.5) < 0.2
