"""Sites that fail: what the coordinator does, what its log says, and what the sites refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest
from federation import NAMES, FaultyWire, assert_same_as_central, double, make_cohort, split

from percdl import Cohort, load
from percdl.exceptions import FederationError
from percdl.federated.estimator import FederatedPerCDL, make_sites

FOUR = ("est", *NAMES)


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture
def four(cohort, tmp_path):
    return make_sites(split(cohort, FOUR, (2, 1, 3, 4)), tmp_path)


@pytest.fixture
def three(cohort, tmp_path):
    return make_sites(split(cohort), tmp_path)


def fit(wire, model=None, **options):
    return FederatedPerCDL(model or double("PopCDL"), **options).fit_over(wire)


def only(site, index, what):
    """Return a script that changes the answer of a site to one round, at its first attempt."""

    def script(request, reply):
        if (reply.site, request.round, request.attempt) == (site, index, 0):
            return what(reply)
        return reply

    return script


def vector(reply, change):
    return replace(reply, arrays={"sums": change(reply.arrays["sums"])})


def with_nan(x):
    return np.where(np.arange(len(x)) == 3, np.nan, x)


FAULTS = {
    "silent": (lambda reply: None, "did not answer"),
    "of another round": (lambda reply: replace(reply, round=1), "which was not asked"),
    "of another kind": (lambda reply: replace(reply, kind="personal"), "which was not asked"),
    "of another site": (lambda reply: replace(reply, site="est"), "in the name of 'est'"),
    "not finite": (lambda reply: vector(reply, with_nan), "not finite"),
    "too short": (lambda reply: vector(reply, lambda x: x[1:]), "sent arrays"),
    "of other numbers": (lambda r: vector(r, lambda x: x.astype(np.float32)), "float32"),
    "nameless": (lambda reply: replace(reply, arrays={}), "sent arrays {} where"),
    "too much": (
        lambda reply: replace(reply, arrays={**reply.arrays, "events": np.zeros(3)}),
        "sent arrays",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_answer_is_left_out_of_a_plain_sum(fault, three):
    spoil, why = FAULTS[fault]
    federation = fit(FaultyWire(three, only("sud", 3, spoil)), secure=False)
    rounds = federation.audit_.set_index(["round", "attempt"])
    assert rounds.loc[(3, 0), "dropped"].keys() == {"sud"}
    assert why in rounds.loc[(3, 0), "dropped"]["sud"]
    # It is counted again in the next round, and no site is asked twice.
    assert rounds.loc[(4, 0), "dropped"] == {}
    assert (federation.audit_["attempt"] == 0).all()


def test_a_plain_sum_is_over_those_who_answered(three, cohort):
    """A site that never answers a round might as well not be there."""
    wire = FaultyWire(three, lambda q, r: r if r.site != "sud" or q.kind == "join" else None)
    federation = fit(wire, secure=False)
    others = Cohort.concatenate(c for name, c in split(cohort).items() if name != "sud")
    central = double("PopCDL").fit(others)
    np.testing.assert_allclose(federation.model_.dictionary_, central.dictionary_, atol=1e-9)
    # It was asked three times in a row, and at the end.
    asked = federation.audit_[federation.audit_["roster"].map(lambda roster: "sud" in roster)]
    assert list(asked["kind"]) == ["join", "population", "population", "population", "finish"]


def test_a_masked_sum_is_repeated_by_the_survivors(four, cohort, tmp_path):
    script = only("sud", 3, lambda reply: None)
    federation = fit(FaultyWire(four, script), double())
    rounds = federation.audit_.set_index(["round", "attempt"])
    assert rounds.loc[(3, 0), "dropped"] == {"sud": "did not answer"}
    assert np.isnan(rounds.loc[(3, 0), "objective"])
    assert rounds.loc[(3, 1), "roster"] == ["est", "nord", "ouest"]
    assert rounds.loc[(4, 0), "roster"] == sorted(FOUR)
    # The same as plain sums without that one answer.
    again = make_sites(split(cohort, FOUR, (2, 1, 3, 4)), tmp_path / "again")
    plain = fit(FaultyWire(again, script), double(), secure=False)
    np.testing.assert_allclose(federation.model_.dictionary_, plain.model_.dictionary_, atol=1e-9)


def test_survivors_answer_again_without_computing_again(four, monkeypatch):
    wire = FaultyWire(four, only("sud", 2, lambda reply: None))
    calls = []
    from percdl.runtimes.in_process import InProcess

    before = InProcess.run_round
    monkeypatch.setattr(
        InProcess,
        "run_round",
        lambda self, kind, broadcast: calls.append(1) or before(self, kind, broadcast),
    )
    federation = fit(wire, double("PopCDL", population_rounds=1, personal_rounds=0))
    # Two rounds, the first of them asked twice: every site computes each once.
    assert (federation.audit_["kind"] == "population").sum() == 3
    assert len(calls) == 2 * len(four)


def test_the_masks_of_a_late_answer_hide_it(four):
    """An answer to an attempt that was given up does not fit into the next one."""
    late = {}

    def script(request, reply):
        if (reply.site, request.round) == ("sud", 2):
            late[request.attempt] = reply
            return None if request.attempt == 0 else replace(late[0], attempt=request.attempt)
        return reply

    federation = fit(FaultyWire(four, script))
    assert 1 not in late  # it is not on the roster of the second attempt
    assert federation.audit_.set_index(["round", "attempt"]).loc[(2, 1), "dropped"] == {}


def test_too_few_survivors_end_the_run(three, tmp_path):
    checkpoint, audit = tmp_path / "checkpoint", tmp_path / "audit.jsonl"
    wire = FaultyWire(three, lambda q, r: r if q.round < 4 or r.site != "sud" else None)
    with pytest.raises(FederationError, match=r"Round 4 .* over 3 sites .*sud: did not answer"):
        fit(wire, checkpoint=checkpoint, audit=audit)
    assert checkpoint.is_file()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["kind"] for line in lines[:3]] == ["join", "keys", "population"]
    # It is tried again with all sites, since survivors alone are too few.
    assert [line["attempt"] for line in lines if line["round"] == 4] == [0, 1, 2]
    assert all(line["dropped"] == {"sud": "did not answer"} for line in lines[-3:])


def test_a_failure_that_passes_is_waited_for(three):
    wire = FaultyWire(three, only("sud", 3, lambda reply: None))
    federation = fit(wire)  # masked, and two survivors are too few
    assert list(federation.audit_.query("round == 3")["attempt"]) == [0, 1]
    assert federation.audit_.query("round == 3 and attempt == 1")["dropped"].item() == {}


def test_a_site_that_was_away_begins_with_the_present_dictionary(four):
    wire = FaultyWire(four, away=lambda site, n_asked: site == "nord" and 4 <= n_asked < 8)
    federation = fit(wire, double())
    rounds = federation.audit_.set_index("round")
    assert rounds.loc[3, "roster"] == ["est", "ouest", "sud"]
    assert rounds.loc[5, "afresh"] == ["nord"]
    assert all(rounds.loc[i, "afresh"] == [] for i in rounds.index if i != 5)
    # It has results of its own in the end, by the dictionary of all.
    own = load(next(iter(four[1].folder.glob("*/model.percdl"))))
    assert own.subjects_ == four[1].cohort.subjects
    np.testing.assert_array_equal(own.dictionary_, federation.model_.dictionary_)


def test_a_site_that_missed_the_end_catches_up(four):
    wire = FaultyWire(four, away=lambda site, n_asked: site == "nord" and 4 <= n_asked < 13)
    fit(wire, double())
    own = load(next(iter(four[1].folder.glob("*/model.percdl"))))
    assert own.n_activations_.any()


def test_a_site_that_lives_for_one_message_only(cohort, tmp_path):
    """Flower starts a process for each message: all that is remembered lies on disk."""

    class Forgetful(FaultyWire):
        def ask(self, requests, timeout):
            self.sites_ = make_sites(split(cohort), tmp_path)
            return super().ask(requests, timeout)

    model = fit(Forgetful(make_sites(split(cohort), tmp_path)), double()).model_
    whole = FederatedPerCDL(double()).fit(split(cohort)).model_
    np.testing.assert_array_equal(model.dictionary_, whole.dictionary_)


def test_a_damaged_state_counts_as_none(four):
    def script(request, reply):
        if request.round == 4 and reply.site == "est":
            next(iter(four[0].folder.glob("*/round-000004.percdl"))).write_bytes(b"cut sh")
            four[0].rounds._last = None
        return reply

    federation = fit(FaultyWire(four, script), double())
    assert federation.audit_.set_index("round").loc[5, "afresh"] == ["est"]


def test_a_site_sends_no_sum_that_is_not_finite(three, monkeypatch):
    from percdl.federated.layout import Layout

    before = Layout.pack
    monkeypatch.setattr(Layout, "pack", lambda self, sums: with_nan(before(self, sums)))
    with pytest.raises(FederationError, match="The sum `signal` is not finite"):
        fit(FaultyWire(three))


def test_a_masked_sum_beyond_its_scale_is_not_sent(three, monkeypatch):
    def script(request, reply):
        if request.kind != "join":
            return reply
        return replace(reply, facts={**reply.facts, "bounds": [-60, 12]})

    with pytest.raises(
        FederationError, match="Site nord has recordings that the terms of the run do not"
    ):
        fit(FaultyWire(three, script))
    # Terms that cover them, and a sum far beyond: its site alone knows which, and by how much.
    monkeypatch.setattr("percdl.federated.layout.ROOM_ENERGY", -20)
    with pytest.raises(FederationError, match="A sum of site nord exceeds") as caught:
        fit(FaultyWire(three))
    assert "objective" not in str(caught.value)
    log = next(path for path in three[0].folder.glob("*/log.jsonl") if "size" in path.read_text())
    assert "objective is" in log.read_text()


def test_errors_that_name_subjects_stay_at_the_site(cohort, tmp_path):
    flat = Cohort.from_arrays([np.zeros(120)], sfreq=cohort.sfreq, subjects=["Mr Smith"])
    sites = make_sites({**split(cohort), "petit": flat}, tmp_path)
    federation = fit(FaultyWire(sites))
    why = federation.audit_.loc[0, "dropped"]["petit"]
    assert "InvalidRecordingError" in why
    assert "Smith" not in why
    assert "Smith" in next(iter(sites[-1].folder.glob("*/log.jsonl"))).read_text()


def test_recordings_that_change_during_a_run(cohort, tmp_path):
    sites = make_sites(split(cohort), tmp_path)
    wire = FaultyWire(sites)

    def script(request, reply):
        if request.round == 2 and len(sites[2].cohort) == 6:
            sites[2] = replace(sites[2], cohort=sites[2].cohort[:5])
        return reply

    wire.script = script
    with pytest.raises(FederationError, match="Site sud has other recordings than when it joined"):
        fit(wire)


def test_too_few_sites():
    cohort = make_cohort(lengths=(97, 110))
    with pytest.raises(FederationError, match=r"1 site\(s\) \(a\) have joined, and 2 are needed"):
        FederatedPerCDL(double("PopCDL")).fit({"a": cohort})
    with pytest.raises(FederationError, match=r"2 .* have joined, and 3 are needed"):
        FederatedPerCDL(double("PopCDL"), secure=True).fit({"a": cohort[:1], "b": cohort[1:]})


def test_no_site_can_be_reached(three):
    with pytest.raises(FederationError, match=r"0 site\(s\) \(none\) have joined"):
        fit(FaultyWire(three, away=lambda site, n_asked: True))


def test_an_answer_to_join_that_makes_no_sense(three):
    def script(request, reply):
        facts = {} if request.kind == "join" and reply.site == "sud" else reply.facts
        return replace(reply, facts=facts)

    federation = fit(FaultyWire(three, script))
    assert federation.sites_ == ("nord", "ouest")
    assert "cannot be read" in federation.audit_.loc[0, "dropped"]["sud"]
    assert not federation.secure_


def test_totals_that_overflow_end_the_run(three):
    huge = np.finfo(float).max

    def script(request, reply):
        if request.kind != "population":
            return reply
        return vector(reply, lambda x: np.where(np.arange(len(x)) == 0, huge, x))

    with pytest.raises(FederationError, match="`objective` overflows"):
        fit(FaultyWire(three, script), secure=False)


def test_with_all_sites_it_is_the_fit_in_one_place(three, cohort):
    wire = FaultyWire(three)
    federation = fit(wire, double())
    federation.local_models_ = {
        s.name: load(next(iter(s.folder.glob("*/model.percdl")))) for s in three
    }
    assert_same_as_central(federation, double().fit(cohort))
