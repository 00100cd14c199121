"""A server that lies: it asks for more rounds than agreed, or for sums over too few subjects."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from federation import FaultyWire, double, make_cohort, split

from percdl.exceptions import FederationError
from percdl.federated import start
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.site import agreed_rounds
from percdl.federated.store import Store

SUMS = ("first", "population", "personal", "express")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A site that has taken part in a whole run of plain sums, and all it was asked."""
    wire = FaultyWire(make_sites(split(make_cohort()), tmp_path_factory.mktemp("sites")))
    model = double(population_rounds=1, personal_rounds=1, init="auto", tol=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "N_DRAWN", 2)
        FederatedPerCDL(model, secure=False).fit_over(wire, run="run")
    return wire.sites_[2], wire.asked


def last(asked, kind):
    return next(request for request in reversed(asked) if request.kind == kind)


def test_an_honest_run_takes_the_agreed_number_of_rounds(whole):
    _, asked = whole
    agreement = FederatedPerCDL(
        double(population_rounds=1, personal_rounds=1, init="auto", tol=0)
    ).propose_terms()
    agreed = agreed_rounds(agreement, agreement.make_settings())
    assert agreed == Counter(first=6, population=1, personal=2, express=1)
    assert Counter(request.kind for request in asked if request.kind in SUMS) == agreed


@pytest.mark.parametrize("kind", SUMS)
def test_a_round_more_than_agreed_is_refused(whole, kind):
    site, asked = whole
    question = last(asked, kind)
    before = site.answer(replace(question, attempt=1))  # a repetition is none
    other = {name: np.roll(x, 1) for name, x in question.arrays.items()}
    for lie in (
        replace(question, round=99),  # the same sum once more, perhaps over other sites
        replace(question, arrays=other),  # another sum in the place of the first
        replace(question, round=99, arrays=other),
    ):
        with pytest.raises(FederationError, match=f"agreed number of rounds of kind '{kind}'"):
            site.answer(lie)
        line = json.loads((site.folder / "run" / "log.jsonl").read_text().splitlines()[-1])
        assert (line["asked"], line["round"]) == (kind, lie.round)
        assert "agreed number of rounds" in line["refused"]
    # A new process knows as much.
    again = replace(site).answer(replace(question, attempt=2))
    np.testing.assert_array_equal(again.arrays["sums"], before.arrays["sums"])
    with pytest.raises(FederationError, match="agreed number of rounds"):
        replace(site).answer(replace(question, round=99))


def test_a_round_out_of_turn_is_taken_from_those_agreed_on(tmp_path):
    """A server that asks the same of fewer sites, for the difference, does not end its run."""
    sites = make_sites(split(make_cohort()), tmp_path)
    wire = FaultyWire(sites)

    def script(request, reply):
        if (request.kind, request.round, reply.site) == ("population", 3, "sud"):
            fewer = {**request.facts, "roster": ["nord", "sud"]}
            sites[2].answer(replace(request, round=50, facts=fewer))
        return reply

    wire.script = script
    federation = FederatedPerCDL(double("PopCDL", tol=0), secure=False)
    dropped = federation.fit_over(wire).audit_.query("kind == 'population'")["dropped"]
    assert "agreed number of rounds" in dropped.iloc[-1]["sud"]
    assert not any(dropped.iloc[:-1])


def test_malformed_questions_are_not_counted(tmp_path):
    wire = FaultyWire(make_sites(split(make_cohort()), tmp_path))

    def script(request, reply):
        if request.kind == "population" and reply.site == "sud":
            for _ in range(3):
                with pytest.raises(FederationError, match="a dictionary of shape"):
                    wire.sites_[2].answer(replace(request, round=request.round + 10, arrays={}))
        return reply

    wire.script = script
    federation = FederatedPerCDL(double("PopCDL", tol=0), secure=False)
    assert not any(federation.fit_over(wire).audit_["dropped"])


def test_of_processes_that_answer_at_once_the_first_ones_count(tmp_path):
    store = Store(tmp_path, "run")
    store.folder.mkdir()

    def spend(index):
        try:
            Store(tmp_path, "run").spend_round(3, "population", index, "a")
        except FederationError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(spend, range(20)))
    assert sum(answered) == 3
    assert [spend(index) for index in range(20)] == answered
    with pytest.raises(FederationError, match="round 99 would be one more"):
        store.spend_round(3, "population", 99, "a")
    store.spend_round(1, "personal", 9, "d")


@pytest.mark.parametrize("kind", [*SUMS, "release"])
def test_no_message_is_answered_with_sums_over_too_few_subjects(whole, kind):
    site, asked = whole
    if kind == "release":
        facts = {**last(asked, "first").facts, "question": "0" * 64, "lost": {}}
        question = replace(last(asked, "first"), kind="release", facts=facts, arrays={})
    else:
        question = last(asked, kind)
    careful = replace(site, consent=Consent(min_subjects=7, allow_plain=True))
    with pytest.raises(FederationError, match=r"Site sud.* than 7 recordings,.*`min_subjects`"):
        careful.answer(question)
    log = (site.folder / "run" / "log.jsonl").read_text().splitlines()
    assert "`min_subjects`" in json.loads(log[-1])["refused"]


def test_first_dictionaries_are_tried_on_as_many_subjects_as_the_site_insists_on(
    whole, tmp_path, monkeypatch
):
    site, asked = whole
    join = next(request for request in asked if request.kind == "join")
    question = next(request for request in asked if request.kind == "first")
    sums = {}
    for picked, least in ((6, 1), (1, 6), (1, 1)):
        monkeypatch.setattr(start, "MOST_RECORDINGS", picked)
        consent = Consent(min_subjects=least, allow_plain=True)
        again = replace(site, consent=consent, folder=tmp_path / f"{picked}-{least}")
        again.answer(join)
        sums[picked, least] = again.answer(question).arrays["sums"]
    np.testing.assert_array_equal(sums[1, 6], sums[6, 1])
    assert (sums[1, 1] != sums[1, 6]).any()
