"""Attacks of servers that lie and of single bad sites: each is refused, or learns nothing."""

from dataclasses import replace

import numpy as np
import pytest
import toy
from federation import FaultyWire, cohort_of, double, make_cohort, split

from percdl import Algorithm, Free, L1Coder, PerCDL
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.agreement import MOST
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.layout import layout_of

N_PEOPLE = 6


def with_a_rare_atom():
    """Return recordings of six people; the second atom occurs in the first of them only."""
    rng = np.random.default_rng(1)
    arrays = [0.02 * rng.standard_normal((120, 1)) for _ in range(N_PEOPLE)]
    for x in arrays:
        x[10:26] += toy.patterns()[0]
        x[50:66] += toy.patterns()[0]
    arrays[0][80:96] += toy.patterns()[1]
    return cohort_of(arrays)


def test_a_pattern_of_one_person_stays_at_its_site(tmp_path):
    """Attack 4: an honest run, and an atom that only one person has."""
    model = double(population_rounds=1, personal_rounds=1)
    sites = make_sites({"a": with_a_rare_atom(), "b": with_a_rare_atom()}, tmp_path)
    careful = [replace(s, consent=Consent(min_subjects=3, allow_plain=True)) for s in sites]
    for least, group in ((1, sites), (3, careful)):
        seen = {}

        def script(request, reply, seen=seen):
            if request.kind in ("population", "personal", "express"):
                seen[request.kind] = reply.arrays["sums"]
            return reply

        federation = FederatedPerCDL(model, secure=False)
        federation.fit_over(FaultyWire(group, script), run=f"run-{least}")
        settings = federation.propose_terms().make_settings()
        for kind, vector in seen.items():
            sums = layout_of(kind, settings, 0).unpack(vector)
            own = [x for x in vars(sums).values() if np.ndim(x) and np.size(x)]
            assert any(x[1].any() for x in own) == (least == 1), kind
            assert all(x[0].any() for x in (sums.counts, sums.weight) if x.size)
        first = double().init[1]
        stayed = abs(np.vdot(federation.model_.dictionary_[1], first / np.linalg.norm(first)))
        assert (stayed > 1 - 1e-12) == (least == 3)


@pytest.mark.parametrize("name", sorted(MOST))
def test_terms_that_would_keep_a_site_busy_are_refused(name):
    """Attack 10: such terms are not proposed."""
    with pytest.raises(InvalidParameterError, match="a site accepts at most"):
        FederatedPerCDL(excessive(name)).propose_terms()


def excessive(name):
    plain = double("PopCDL")
    if name == "n_steps":
        return plain.set_params(coder=L1Coder(n_steps=10**8))
    if name == "parameters per atom":
        return PerCDL(1, 10_001, Free(), 1.0, init="auto")
    if name in ("population_rounds", "personal_rounds", "solver_steps"):
        return plain.set_params(algorithm=Algorithm(**{name: 10**8}))
    return plain.set_params(init="auto", **{name: 10**8})


def test_a_site_refuses_such_terms_too(tmp_path):
    site = make_sites(split(make_cohort()), tmp_path)[0]
    agreement = FederatedPerCDL(double("PopCDL")).propose_terms()
    facts = agreement.model_dump()
    facts["parameters"]["n_restarts"] = 10**8
    with pytest.raises(InvalidParameterError, match="a site accepts at most"):
        site.conditions.read_agreement(facts, agreement.arrays)


@pytest.mark.parametrize("field", ["energy", "samples"])
def test_a_site_that_declares_too_much_is_named(field, tmp_path):
    """Attack 5: with such a bound, every sum would round to zero."""

    def script(request, reply):
        if request.kind != "join" or reply.site != "sud":
            return reply
        energy, samples = reply.facts["bounds"]
        lie = [energy + 70 * (field == "energy"), samples + 70 * (field == "samples")]
        return replace(reply, facts={**reply.facts, "bounds": lie})

    wire = FaultyWire(make_sites(split(make_cohort()), tmp_path), script)
    with pytest.raises(FederationError, match=f"Site sud declares {field} of 2"):
        FederatedPerCDL(double("PopCDL")).fit_over(wire)
