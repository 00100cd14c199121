"""Differential privacy over sites: what crosses, what is refused, what it comes to."""

import dataclasses

import numpy as np
import pytest
import small_models

from percdl import Cohort, TimeWarp
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.privacy import Privacy
from percdl.runtimes.messages import InProcessWire

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


def overhear(site, heard):
    """Return the site's answer, and keep what it said."""

    def answer(request):
        reply = site.answer(request)
        heard.append((request.kind, reply))
        return reply

    return answer


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
        heard = []
        cohorts = {
            name: Cohort.from_arrays([scale * r.values for r in cohort], sfreq=cohort.sfreq)
            for name, cohort in make_cohorts().items()
        }
        sites = make_sites(cohorts, tmp_path / str(scale))
        wire = InProcessWire({site.name: overhear(site, heard) for site in sites})
        privacy = Privacy(epsilon=1.0)
        FederatedPerCDL(model, secure=False, privacy=privacy).fit_over(wire)
        sent.append([reply.facts for kind, reply in heard if kind == "join"])
        sums = [reply.arrays["sums"] for kind, reply in heard if kind == "population"]
        assert all(np.abs(vector).max() > 1 for vector in sums)
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("privacy", "consent", "message"),
    [
        (None, Consent(max_epsilon=4.0), "noisy sums only"),
        (Privacy(epsilon=8.0), Consent(max_epsilon=4.0), "would spend 8"),
        (Privacy(epsilon=1.0, shared_by=3), Consent(), "shares the noise"),
    ],
)
def test_a_site_refuses_what_it_does_not_consent_to(tmp_path, privacy, consent, message):
    model = small_models.make("PerCDL", **OPTIONS)
    sites = [
        dataclasses.replace(site, consent=consent) for site in make_sites(make_cohorts(), tmp_path)
    ]
    wire = InProcessWire({site.name: site.answer for site in sites})
    with pytest.raises(FederationError, match=message):
        FederatedPerCDL(model, privacy=privacy).fit_over(wire)


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
    federation = FederatedPerCDL(model, secure=False, min_sites=3, privacy=Privacy(epsilon=1.0))
    with pytest.raises(FederationError, match="have missing samples"):
        federation.fit(cohorts)
