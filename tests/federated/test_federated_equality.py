"""A federated fit is the fit in one place, to rounding: whatever the sites, masked or not."""

import numpy as np
import pytest
import toy
from federation import (
    LENGTHS,
    NAMES,
    ROUNDING,
    SIZES,
    assert_same_as_central,
    assert_same_bits,
    cohort_of,
    double,
    make_cohort,
    split,
)
from small_models import assert_same_table, spaced_recordings

from percdl import (
    Cohort,
    Compose,
    Huber,
    L0Coder,
    L1Coder,
    Rotation,
    TimeWarp,
    find_corrections,
)
from percdl.exceptions import FederationError
from percdl.federated.estimator import FederatedPerCDL


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture(scope="module")
def central(cohort):
    return double().fit(cohort)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "masked"])
def test_three_sites(cohort, central, secure):
    federation = FederatedPerCDL(double(), secure=secure).fit(split(cohort))
    assert federation.secure_ == secure
    assert_same_as_central(federation, central)


@pytest.mark.filterwarnings("ignore::percdl.exceptions.SuspectRecordingWarning")
def test_corrections_count_at_their_site(cohort, central):
    """They stay there: nothing but the recordings knows of them."""
    events = central.events_
    second = (events["subject"] == cohort.subjects[1]) & (events["atom"] == 1)
    table = find_corrections(events, events[~second], duration=toy.LENGTH / cohort.sfreq)
    corrected = cohort.correct(table)
    model = double().fit(corrected)
    assert model.n_activations_[1, 1] < central.n_activations_[1, 1]
    assert_same_as_central(FederatedPerCDL(double()).fit(split(corrected)), model)


def test_a_dozen_sites_some_with_one_subject():
    sizes = [1 + i % 3 for i in range(12)]
    lengths = [97 + 7 * i % 31 for i in range(sum(sizes))]
    cohort = make_cohort(5, lengths)
    sites = split(cohort, [f"site{i:02d}" for i in range(12)], sizes)
    federation = FederatedPerCDL(double(population_rounds=1, personal_rounds=1)).fit(sites)
    assert len(federation.sites_) == 12
    assert_same_as_central(federation, double(population_rounds=1, personal_rounds=1).fit(cohort))


def test_a_site_where_an_atom_never_occurs():
    arrays = spaced_recordings(3, LENGTHS)
    rng = np.random.default_rng(0)
    for x in arrays[:1]:  # the first site has one recording, of the first atom only
        x[:] = 0.02 * rng.standard_normal(x.shape)
        x[10:26] += toy.patterns()[0]
        x[50:66] += toy.patterns()[0]
    cohort = cohort_of(arrays)
    model = double().fit(cohort)
    assert model.n_activations_[0, 1] == 0
    federation = FederatedPerCDL(double()).fit(split(cohort))
    assert_same_as_central(federation, model)
    assert np.isnan(federation.local_models_[NAMES[0]].params_[0, 1]).all()


CASES = {
    "PopCDL": {"name": "PopCDL"},
    "IndCDL": {"name": "IndCDL"},
    "no prior": {"transformation": TimeWarp(1, 3, prior=None)},
    "as printed": {"centering": "paper"},
    "uncentred": {"centering": "off"},
    "searches": {"realign": True, "multistart": True},
    "one window for all": {"realign": True, "personal_windows": False},
    "subjects": {"weighting": "subjects"},
    "robust": {"update": "robust"},
    "overlap": {"coder": L1Coder(n_steps=20)},
    "durations": {"coder": L0Coder(stretch=2.0)},
    "kinds": {"atom_length": [16, 12]},
    "kinds and durations": {"atom_length": [16, 12], "coder": L0Coder(stretch=1.2)},
    "baselines": {"coder": L0Coder(baseline="line", polarity="person")},
    "sparse": {"coder": L0Coder(signed=True, min_gap="0.1s", max_activations=3)},
    "relative": {"loss": "relative"},
    "huber": {"loss": Huber(0.5)},
}


@pytest.mark.filterwarnings("ignore:Activations are as short")
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_models_and_options(options, cohort):
    """By sites, by a server and in one place; afterwards every cycle is described alike, too."""
    central = double(**options).fit(cohort)
    by_sites, by_server = (
        FederatedPerCDL(double(**options), aggregate=who).fit(split(cohort))
        for who in ("sites", "server")
    )
    assert_same_as_central(by_sites, central)
    for site, model in by_sites.local_models_.items():
        assert_same_bits(model, by_server.local_models_[site])
    pair = by_sites.model_.cycles(cohort), central.cycles(cohort)
    assert_same_table(*pair, **ROUNDING)


@pytest.mark.parametrize("gap", [slice(None), slice(0, 1)], ids=["all channels", "one channel"])
@pytest.mark.parametrize(
    "transform",
    [Rotation(), pytest.param(Compose(Rotation(), TimeWarp(1, 3)), marks=pytest.mark.slow)],
    ids=["rotation", "composed"],
)
def test_a_gap_at_one_site_of_two_channels(gap, transform):
    arrays = toy.recordings(4, LENGTHS[:6], n_channels=2)
    arrays[5][40:60, gap] = np.nan
    cohort = cohort_of(arrays)
    options = {
        "init": toy.first_guess(0, 2),
        "transformation": transform,
        "population_rounds": 1,
        "personal_rounds": 1,
    }
    federation = FederatedPerCDL(double(**options)).fit(split(cohort, sizes=(1, 2, 3)))
    assert_same_as_central(federation, double(**options).fit(cohort))


def test_lengths_that_are_padded_otherwise():
    cohort = make_cohort(6, (97, 250, 128, 190, 60, 300))
    federation = FederatedPerCDL(double("PopCDL")).fit(split(cohort, sizes=(1, 2, 3)))
    assert_same_as_central(federation, double("PopCDL").fit(cohort))


def test_the_order_of_sites_is_no_matter(cohort):
    sites = split(cohort)
    pair = [
        FederatedPerCDL(double()).fit(dict(order)).model_
        for order in (sites.items(), reversed(sites.items()))
    ]
    np.testing.assert_array_equal(pair[0].dictionary_, pair[1].dictionary_)


def test_names_of_subjects_may_be_the_same_at_two_sites(cohort):
    arrays = [r.values for r in cohort]
    ends = np.cumsum(SIZES)
    sites = {
        name: cohort_of(arrays[end - size : end])
        for name, size, end in zip(NAMES, SIZES, ends, strict=True)
    }
    federation = FederatedPerCDL(double()).fit(sites)
    assert federation.local_models_["sud"].subjects_[0] == "0"
    np.testing.assert_allclose(
        federation.model_.dictionary_, double().fit(cohort).dictionary_, atol=1e-9
    )


def test_processing_beyond_resampling_must_agree(cohort):
    half = Cohort.from_arrays(
        [np.repeat(r.values, 2, axis=0) for r in cohort[:4]], sfreq=100
    ).resample(50)
    sites = {"a": half, "b": cohort[4:]}
    assert FederatedPerCDL(double("PopCDL")).fit(sites).model_.processing_ == ()
    sites["a"] = half.bandpass(1, 20)
    with pytest.raises(FederationError, match="must agree on processing: site a has"):
        FederatedPerCDL(double("PopCDL")).fit(sites)
