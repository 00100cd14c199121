"""Differential privacy over sites: what crosses, what is refused, what it comes to."""

import numpy as np
import pytest
import small_models
from federation import posts_of, run_scripted

from percdl import Cohort, TimeWarp
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.privacy import Privacy

TRUSTED = Privacy(noise_multiplier=0.0, clip=1e9)
OPTIONS = {"weighting": "subjects", "centering": "off"}


def make_cohorts():
    """Return three sites of four people each."""
    cohorts = {}
    for seed, site in enumerate(("lyon", "nice", "paris")):
        arrays = small_models.spaced_recordings(seed)
        names = [f"{site} {i}" for i in range(len(arrays))]
        cohorts[site] = Cohort.from_arrays(arrays, sfreq=small_models.SFREQ, subjects=names)
    return cohorts


# Fixed point leaves room for noise under masks.
@pytest.mark.parametrize(("secure", "most"), [(True, 1e-6), (False, 1e-11)])
def test_without_noise_a_federation_learns_what_it_learns_without_privacy(secure, most):
    warp = TimeWarp(1, 3, prior=None)  # its moments would not be released
    model = small_models.make("PerCDL", dtype="float64", transformation=warp, **OPTIONS)
    plain = FederatedPerCDL(model, secure=secure).fit(make_cohorts())
    private = FederatedPerCDL(model, secure=secure, privacy=TRUSTED).fit(make_cohorts())
    expected = plain.model_.dictionary_
    np.testing.assert_allclose(private.model_.dictionary_, expected, atol=most)


def test_what_sites_tell_on_joining_is_not_measured(tmp_path):
    model = small_models.make("PopCDL", weighting="subjects", population_rounds=1)
    sent = []
    for scale in (1.0, 64.0):
        cohorts = {
            name: Cohort.from_arrays([scale * r.values for r in cohort], sfreq=cohort.sfreq)
            for name, cohort in make_cohorts().items()
        }
        sites = make_sites(cohorts, tmp_path / str(scale))
        federation = FederatedPerCDL(model, secure=False, privacy=Privacy(epsilon=1.0))
        _, errors, board = run_scripted(sites, federation.propose("run", sites))
        assert not errors
        joined = [post.head.facts["holdings"] for _, post in posts_of(board, "join")]
        sent.append(joined)
        for _, post in posts_of(board, "population"):
            assert np.abs(np.frombuffer(post.numbers)).max() > 1
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("privacy", "message"),
    [(None, "noisy sums only"), (Privacy(epsilon=8.0), "would spend 8")],
)
def test_a_site_refuses_what_it_does_not_consent_to(tmp_path, privacy, message):
    model = small_models.make("PerCDL", **OPTIONS)
    consent = Consent(min_subjects=1, max_epsilon=4.0)
    sites = make_sites(make_cohorts(), tmp_path, consent)
    manifest = FederatedPerCDL(model, privacy=privacy).propose("run", sites)
    _, errors, _ = run_scripted(sites, manifest)
    assert message in str(errors["lyon"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weighting": "amplitude"}, "weighting"),
        ({"tol": 1e-3}, "tol"),
        ({"init": "auto"}, "public first dictionary"),
    ],
)
def test_models_that_would_tell_more_are_refused(changes, message):
    model = small_models.make("PerCDL", **{**OPTIONS, **changes})
    with pytest.raises(InvalidParameterError, match=message):
        FederatedPerCDL(model, privacy=Privacy(epsilon=1.0)).fit(make_cohorts())


def test_a_site_with_missing_samples_does_not_join():
    cohorts = make_cohorts()
    values = [record.values.copy() for record in cohorts["nice"]]
    values[0][3] = np.nan
    cohorts["nice"] = Cohort.from_arrays(values, sfreq=small_models.SFREQ)
    model = small_models.make("PerCDL", **OPTIONS)
    federation = FederatedPerCDL(model, secure=False, privacy=Privacy(epsilon=1.0))
    with pytest.raises(FederationError, match="with missing samples"):
        federation.fit(cohorts)
