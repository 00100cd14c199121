"""What a site refuses, whoever asks: terms it has not agreed to, malformed and plain questions."""

from dataclasses import replace

import numpy as np
import pytest
from federation import NAMES, FaultyWire, double, make_cohort, split

from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.agreement import Terms, propose
from percdl.federated.consent import Consent, describe
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.site import check_candidates
from percdl.runtimes.messages import Request
from percdl.transforms import Identity


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture
def three(cohort, tmp_path):
    return make_sites(split(cohort), tmp_path)


def fit(wire, **options):
    return FederatedPerCDL(double("PopCDL"), **options).fit_over(wire)


def request_to_join(**changes):
    agreement = propose(double("PopCDL"), "auto", 2, 1)
    facts = {"agreement": {**agreement.model_dump(), **changes}}
    return Request("join", "run", 0, 0, facts, agreement.arrays)


@pytest.mark.parametrize(
    ("changes", "consent", "why"),
    [
        ({"version": "0.0.1"}, Consent(), "and the coordinator 0.0.1"),
        ({"min_subjects_per_site": 4}, Consent(), "has fewer than 4 recordings"),
        ({}, Consent(min_subjects=4), "has fewer than 4 recordings"),
        ({}, Consent(min_sites=3), "over 3 sites or more, and `min_sites=2`"),
        ({"secure": False}, Consent(allow_plain=False), "masked sums only"),
        ({"surprise": 1}, Consent(), "not an agreement of percdl"),
        ({"secure": "maybe"}, Consent(), r"not an agreement of percdl \(secure"),
        ({}, Consent(agreement="0" * 64), "consented to other terms"),
        ({"model": "Trojan"}, Consent(), "model of the agreement is unknown"),
    ],
)
def test_what_a_site_does_not_agree_to(changes, consent, why, three):
    site = replace(three[1], consent=consent)
    with pytest.raises(FederationError, match=why):
        site.answer(request_to_join(**changes))


def test_a_site_agrees_to_a_run_once(three):
    three[0].answer(request_to_join())
    three[0].answer(request_to_join())  # a reply may have been lost
    with pytest.raises(FederationError, match="agreed to other terms of run run"):
        three[0].answer(request_to_join(min_sites=3))


def population_round(site, members):
    """Return a request of a coordinator that says who takes part, and wants no masks."""
    holdings = describe(site.cohort)
    agreement = propose(double("PopCDL"), "auto", 2, 1)
    whole = Terms.of(agreement, **dict(holdings), members=tuple(members), secure=False)
    facts = {"terms": whole.model_dump(mode="json"), "roster": list(members), "follows": None}
    (dictionary,) = agreement.arrays.values()
    return Request("population", "run", 2, 0, facts, {"dictionary": dictionary})


def test_a_site_with_three_keys_is_not_talked_into_plain_sums(three):
    careful = replace(three[0], consent=Consent())
    with pytest.raises(FederationError, match="masked sums only"):
        careful.answer(request_to_join(secure=False))
    careful.answer(request_to_join())
    question = population_round(careful, NAMES[:2])
    with pytest.raises(FederationError, match="masked sums only"):
        careful.answer(question)
    keys = {name: careful.registered[name] for name in NAMES[:2]}
    one_of_two = replace(careful, registered=keys)
    assert one_of_two.answer(question).arrays["sums"].dtype == np.float64
    with pytest.raises(FederationError, match="masked sums only"):  # as agreed: from three on
        one_of_two.answer(population_round(careful, NAMES))


def without(facts, name):
    return {key: value for key, value in facts.items() if key != name}


def test_a_malformed_request_is_refused_by_name(three):
    wire = FaultyWire(three)
    fit(wire)
    asked = {request.kind: request for request in wire.asked}
    names = {
        "join": ["agreement"],
        "population": ["terms", "roster", "follows", "announcements"],
        "release": ["terms", "roster", "question", "lost", "announcements"],
        "finish": ["terms", "follows", "objective", "reason", "history"],
    }
    for kind, facts in names.items():
        request = replace(asked[kind], round=9)
        for name in facts:
            for value in ({"x": 1}, [None]):
                with pytest.raises(FederationError):
                    three[0].answer(replace(request, facts={**request.facts, name: value}))
            if name == "announcements":
                continue  # without them a key is missed, see `check_announcements`
            with pytest.raises(FederationError, match=rf"'{kind}' \(.*{name}: Field required"):
                three[0].answer(replace(request, facts=without(request.facts, name)))
    for kind in ("population", "finish"):
        with pytest.raises(FederationError, match="a dictionary of shape"):
            three[0].answer(replace(asked[kind], arrays={}, round=9))


@pytest.mark.parametrize("part", ["terms", "agreement"])
def test_a_malformed_part_is_refused(part, three):
    wire = FaultyWire(three)
    fit(wire)
    kind = {"terms": "population", "agreement": "join"}[part]
    request = next(request for request in wire.asked if request.kind == kind)
    whole = request.facts[part]
    for name in whole:
        for broken in (without(whole, name), {**whole, name: 7.5}):
            facts = {**request.facts, part: broken}
            with pytest.raises(FederationError):
                three[0].answer(replace(request, facts=facts, round=9))


def test_a_run_with_a_path_for_a_name_is_refused(three):
    with pytest.raises(FederationError, match="not a valid name for a run"):
        three[0].answer(replace(request_to_join(), run="../../etc"))


def test_what_a_site_does_not_answer(three):
    wire = FaultyWire(three)
    fit(wire)
    question = next(request for request in wire.asked if request.kind == "population")
    terms = question.facts["terms"]
    for change, why in (
        ({"roster": ["nord"]}, "over 2 or more of the members"),
        ({"roster": ["ouest", "sud"]}, "itself among them"),
        ({"roster": ["nord", "spy"]}, "of the members"),
        ({"terms": {**terms, "agreement": "0" * 64}}, "agreed to other terms"),
        # It is not talked out of its masks, be there two members all of a sudden.
        ({"terms": {**terms, "secure": False}}, "masked sums only"),
        ({"terms": {**terms, "secure": False, "members": NAMES[:2]}}, "masked sums only"),
    ):
        asked = replace(question, facts={**question.facts, **change}, round=9)
        with pytest.raises(FederationError, match=why):
            three[0].answer(asked)
    for arrays in (
        {},
        {"dictionary": np.ones((2, 3, 1))},
        {"dictionary": np.full((2, 16, 1), np.nan)},
    ):
        with pytest.raises(FederationError, match="Finite numbers and a dictionary of shape"):
            three[0].answer(replace(question, arrays=arrays, round=9))
    with pytest.raises(FederationError, match="has not joined run other"):
        three[0].answer(replace(question, run="other"))


@pytest.mark.parametrize(
    ("dictionaries", "why"),
    [
        (None, "must be an array"),
        (np.zeros((2, 16, 1)), r"must be an array \(1 to 24, \(2, 16, 1\)\)"),
        (np.zeros((0, 2, 16, 1)), "1 to 24"),
        (np.zeros((25, 2, 16, 1)), "1 to 24"),
        (np.full((1, 2, 16, 1), np.nan), "must hold finite numbers"),
    ],
)
def test_first_dictionaries_that_cannot_be_tried(dictionaries, why):
    settings = Settings(Identity(), 16, 2, 1, penalty=0.3)
    with pytest.raises(FederationError, match=why):
        check_candidates(dictionaries, settings, n_drawn=24)


@pytest.mark.parametrize(
    "sent", [{}, {"reason": "Bored."}, {"reason": 1, "history": None, "objective": "low"}]
)
def test_an_end_that_cannot_be_read(sent, three):
    wire = FaultyWire(three)
    fit(wire)
    request = wire.asked[-1]
    facts = {name: sent.get(name) for name in ("objective", "reason", "history")}
    with pytest.raises(FederationError, match=r"kind 'finish' .*same version"):
        three[0].answer(replace(request, facts={**request.facts, **facts}))
