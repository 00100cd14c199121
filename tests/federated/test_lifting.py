"""Faults between a masked answer and the lifting of its veil, in whole runs."""

from dataclasses import replace

import numpy as np
import pytest
from federation import FaultyWire
from keyed_sites import byte_p_value
from listening import ROUNDS, RUN, cohorts, overhear
from small_models import make

from percdl.exceptions import FederationError
from percdl.federated.consent import Consent
from percdl.federated.coordinator import collect_seeds
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.messages import question_of
from percdl.federated.secure_sum import veil
from percdl.runtimes.messages import Request

SMALLEST_P = 1e-6
SEED = "0" * 64


def four_sites():
    parts = cohorts()
    paris = parts.pop("paris")
    return {**parts, "paris": paris[:2], "tours": paris[2:]}


def at_the_end(site, request):
    """Sites that do not receive the end keep their keys, and can be asked more."""
    return request.kind == "finish"


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A run that nothing happens in, but for its end."""
    with pytest.MonkeyPatch.context() as patch:
        return overhear(tmp_path_factory.mktemp("quiet"), patch, four_sites(), lose=at_the_end)


def dictionary_of(run):
    return run[1].model_.dictionary_


@pytest.mark.parametrize("n_lost", [1, 3])
def test_sites_lost_after_they_answered_are_stood_in_for(quiet, n_lost, tmp_path, monkeypatch):
    lost = sorted(four_sites())[:n_lost]

    def lose(site, request):
        return request.kind == "release" and site in lost

    _, federation = overhear(tmp_path, monkeypatch, four_sites(), lose=lose)
    np.testing.assert_array_equal(federation.model_.dictionary_, dictionary_of(quiet))
    rounds = federation.audit_[federation.audit_["kind"].isin(ROUNDS)]
    assert [sorted(sites) for sites in rounds["unlifted"]] == [lost] * len(rounds)
    assert not any(rounds["dropped"])
    before = quiet[1].audit_.set_index("round").loc[rounds["round"], "bytes_up"]
    for now, then in zip(rounds["bytes_up"], before, strict=True):
        assert now["tours"] > then["tours"]


def test_a_late_reply_stays_hidden(tmp_path, monkeypatch):
    late_round = []

    def delay(site, request):
        if site == "nice" and request.kind == "personal" and not late_round:
            late_round.append(request)
            return True
        return False

    wire, federation = overhear(tmp_path, monkeypatch, four_sites(), delay=delay, lose=at_the_end)
    (request,) = late_round
    round, everyone = request.round, sorted(four_sites())
    # Heard are all terms of the sum that was given up, and the sum over the others.
    given_up, others = wire.masked(round, 0), wire.masked(round, 1)
    assert sorted(given_up) == everyone
    assert sorted(others) == [site for site in everyone if site != "nice"]
    seeds = wire.seeds(round, 1)
    total = sum(y - veil(bytes.fromhex(seeds[site]), y.size) for site, y in others.items())
    # No veil was lifted off the first, and none will be.
    assert not wire.seeds(round, 0)
    assert byte_p_value(sum(given_up.values()) - total) > SMALLEST_P
    facts = {**request.facts, "question": question_of(request), "lost": {}}
    del facts["follows"]
    for site in others:
        with pytest.raises(FederationError, match=f"Site {site} has released its seed in round"):
            wire.sites_there[site].answer(Request("release", RUN, round, 0, facts))
    rounds = federation.audit_[federation.audit_["kind"].isin(ROUNDS)]
    assert rounds["dropped"].map(len).sum() == 1


def test_all_veils_are_asked_for_again_if_no_site_answers(quiet, tmp_path, monkeypatch):
    asked = []

    def lose(site, request):
        asked.append(request.kind == "release")
        return request.kind == "release" and sum(asked) <= 4

    _, federation = overhear(tmp_path, monkeypatch, four_sites(), lose=lose)
    np.testing.assert_array_equal(federation.model_.dictionary_, dictionary_of(quiet))
    assert federation.audit_["attempt"].max() == 1


def test_a_site_may_insist_on_all_members(tmp_path, monkeypatch):
    def lose(site, request):
        return site == "nice" and request.kind == "personal"

    consent = {"lyon": Consent(all_members=True)}
    with pytest.raises(FederationError, match="lyon takes part in sums over all members only"):
        overhear(tmp_path, monkeypatch, four_sites(), lose=lose, consent=consent)


def test_terms_do_not_change_in_a_run(quiet):
    """Else a coordinator could make a site believe that others had never been members."""
    wire = quiet[0]
    _, request, _ = wire.replies("release")[0]
    terms = {**request.facts["terms"], "members": ["lyon", "nice", "paris"]}
    facts = {**request.facts, "terms": terms, "roster": terms["members"]}
    changed = Request("release", RUN, 99, 0, facts, request.arrays)
    with pytest.raises(FederationError, match="terms of run overheard have changed since site ly"):
        wire.sites_there["lyon"].answer(changed)


class Crash(Exception):
    """The coordinator's machine is gone."""


@pytest.mark.parametrize("gone", [None, "nice"])
def test_a_coordinator_lost_after_the_veils_goes_on_with_the_same_sites(
    quiet, gone, tmp_path, monkeypatch
):
    """It knows the sum, and forgot: asked of fewer sites, it would know one site's."""
    lifted = []

    def crash(site, request):
        lifted.extend([site] * (request.kind == "release"))
        if len(lifted) == 2 * len(four_sites()):
            raise Crash
        return False

    path = tmp_path / "checkpoint"
    with pytest.raises(Crash):
        overhear(tmp_path, monkeypatch, four_sites(), delay=crash, checkpoint=path)
    again = {"resume": path, "lose": lambda site, request: site == gone}
    if gone is None:
        _, federation = overhear(tmp_path, monkeypatch, four_sites(), **again)
        np.testing.assert_array_equal(federation.model_.dictionary_, dictionary_of(quiet))
    else:
        with pytest.raises(
            FederationError, match=r"released its seed in round .* for another roster"
        ):
            overhear(tmp_path, monkeypatch, four_sites(), **again)


# The two questions by themselves.


def test_whom_others_stand_in_for():
    backups = {
        site: {other: f"{site}-{other}" for other in "abc" if other != site} for site in "abc"
    }
    asked = []

    def ask(lost):
        asked.append(lost)
        return {
            site: {site: f"of-{site}", **{of: f"of-{of}" for of in sent}}
            for site, sent in lost.items()
            if site != "b"
        }

    assert collect_seeds(backups, ask) == {site: f"of-{site}" for site in "abc"}
    assert asked == [{"a": {}, "b": {}, "c": {}}, {"a": {"b": "b-a"}, "c": {"b": "b-c"}}]
    assert collect_seeds(backups, lambda lost: {}) == {}


def lie_once(kind, what):
    """Return a script in which site nice answers the first question of a kind otherwise."""
    lied = []

    def script(request, reply):
        if reply.site != "nice" or request.kind != kind or lied:
            return reply
        lied.append(request)
        return replace(reply, facts={**reply.facts, **what})

    return script


def dropped_for(script, tmp_path):
    """Return why nice was left out, or replaced, in a run of four sites."""
    wire = FaultyWire(make_sites(four_sites(), tmp_path), script)
    model = make("PopCDL", dtype="float64", population_rounds=1, personal_rounds=0)
    audit = FederatedPerCDL(model).fit_over(wire).audit_
    sent = [{**a, **b} for a, b in zip(audit["dropped"], audit["unlifted"], strict=True)]
    return next(why["nice"] for why in sent if why)


@pytest.mark.parametrize(
    "seeds", [None, {}, {"nice": SEED, "lyon": SEED}, {"nice": "0"}, {"nice": 7}, "nice"]
)
def test_seeds_that_were_not_asked_for_are_refused(seeds, tmp_path):
    why = dropped_for(lie_once("release", {"seeds": seeds}), tmp_path)
    assert "seeds" in why


@pytest.mark.parametrize(
    "backups", [None, {}, {"lyon": SEED}, {"lyon": SEED, "nice": SEED, "paris": SEED, "x": SEED}]
)
def test_backups_must_be_for_all_others(backups, tmp_path):
    why = dropped_for(lie_once("population", {"backups": backups}), tmp_path)
    assert "backups" in why
