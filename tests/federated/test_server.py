"""A server that adds: the same bits as sites that add, and what it can and cannot do."""

from dataclasses import replace

import numpy as np
import pytest
from federation import Crash, assert_same_bits, double, make_cohort, run_scripted, split
from keyed_sites import byte_p_value

from percdl.exceptions import InvalidParameterError
from percdl.federated.board import SERVER
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.messages import Question, parse, read_post
from percdl.federated.privacy import Privacy
from percdl.federated.rounds import OwnRounds

TRUSTING = Consent(1, trust_server=True)
SHORT = {"population_rounds": 1, "personal_rounds": 1}


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


def prepare(cohort, folder, model=None, consent=TRUSTING, **options):
    sites = make_sites(split(cohort), folder, consent)
    federation = FederatedPerCDL(model or double(**SHORT), aggregate="server", **options)
    return sites, federation.propose("run", sites)


def ask(posts):
    """Return the question of the server."""
    return parse(Question, posts[SERVER], "")


def changed(posts, **changes):
    """Return what a site reads, with another answer of the server."""
    question = ask(posts)
    changes["arrays"] = question.arrays | changes.get("arrays", {})
    return {**posts, SERVER: question.model_copy(update=changes).model_dump_json().encode()}


@pytest.mark.parametrize("secure", [True, False])
def test_a_server_that_adds_gives_the_same_bits(cohort, secure):
    """Models and options of all kinds are compared in test_federated_equality.py."""
    fits = [
        FederatedPerCDL(double(), secure=secure, aggregate=who).fit(split(cohort))
        for who in ("sites", "server")
    ]
    by_sites, by_server = (fit.local_models_ for fit in fits)
    for site, model in by_sites.items():
        assert_same_bits(model, by_server[site])
    objectives = [model.objective_ for model in by_server.values()]
    assert np.isclose(sum(objectives), fits[0].model_.objective_, rtol=1e-9)
    assert fits[1].model_.objective_ == 0  # only the server knows it


def test_sites_get_the_dictionary_and_no_totals(cohort, tmp_path):
    seen = []

    def on_read(site, slot, posts):
        seen.append((slot, posts))
        return posts

    _, errors, _ = run_scripted(*prepare(cohort, tmp_path), on_read=on_read)
    assert not errors
    known = {"dictionary", "move", "gauge", "misfit", "precision"}
    for slot, posts in seen:
        assert ask(posts).arrays.keys() <= known
        assert (posts.keys() == {SERVER}) == (slot > 0)


def test_a_site_consents_to_it_or_refuses(cohort, tmp_path):
    sites, manifest = prepare(cohort, tmp_path, consent=replace(TRUSTING, trust_server=False))
    _, errors, _ = run_scripted(sites, manifest)
    assert all("computes every dictionary itself" in str(error) for error in errors.values())
    with pytest.raises(InvalidParameterError, match="needs a public first dictionary"):
        prepare(cohort, tmp_path, double(init="auto"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "population"}, "more population rounds than the manifest has"),
        ({"kind": "join"}, "more join rounds than the manifest has"),
        ({"kind": "finish", "why": "Because."}, "for a reason that is unknown"),
        ({"slot": 1}, "of another run or slot"),
        ({"run": "other"}, "of another run or slot"),
        ({"arrays": {"dictionary": np.zeros((2, 9, 1))}}, "Finite numbers and a dictionary"),
        ({"arrays": {"dictionary": np.full((2, 16, 1), np.inf)}}, "numbers that are not finite"),
        ({"arrays": {"dictionary": np.full((2, 16, 1), "x")}}, "answer cannot be read"),
        ({"arrays": {"more": np.zeros(3)}}, "Finite numbers and a dictionary"),
    ],
)
def test_what_a_server_cannot_ask(cohort, tmp_path, changes, why):
    """It may ask for as many rounds as the manifest has, each with one dictionary."""

    def on_read(site, slot, posts):
        return changed(posts, **changes) if slot >= 1 else posts

    sites, manifest = prepare(cohort, tmp_path)
    _, errors, _ = run_scripted(sites, manifest, on_read=on_read)
    assert any(why in str(error) for error in errors.values()), errors


def test_two_dictionaries_in_one_round_give_noise(cohort, tmp_path):
    """Masks depend on the question, so they do not cancel over sites that were asked two."""

    def on_read(site, slot, posts):
        if (site, slot) != ("sud", 1):
            return posts
        return changed(posts, arrays={"dictionary": ask(posts).arrays["dictionary"][::-1]})

    sites, manifest = prepare(cohort, tmp_path)
    _, errors, board = run_scripted(sites, manifest, on_read=on_read)
    assert any("another history" in str(error) for error in errors.values())
    for slot in (1, 2):
        posts = [read_post(post, manifest.verify) for post in board.posts(slot).values()]
        total = sum(np.frombuffer(post.numbers, np.uint64) for post in posts)
        assert (byte_p_value(total) > 1e-6) == (slot == 2)


@pytest.mark.parametrize("junk", [b"", b"{}", b"{}\n", b"\xff\n", b"x" * 99])
def test_answers_that_are_junk_are_refused(cohort, tmp_path, junk):
    sites, manifest = prepare(cohort, tmp_path)
    answer = {SERVER: junk}
    _, errors, _ = run_scripted(
        sites, manifest, on_read=lambda site, slot, posts: {**posts, **answer}
    )
    assert any("answer cannot be read" in str(error) for error in errors.values())


def test_a_crash_is_made_up_for(cohort, tmp_path):
    def on_read(site, slot, posts):
        if slot == 2:
            raise Crash
        return posts

    model = double(**SHORT)
    sites, manifest = prepare(cohort, tmp_path, model)
    run_scripted(sites, manifest, on_read=on_read, folder=tmp_path / "board")
    models, errors, board = run_scripted(sites, manifest, folder=tmp_path / "board")
    assert not errors
    assert board.is_over
    whole = FederatedPerCDL(model).fit(split(cohort)).local_models_
    for site, found in models.items():
        np.testing.assert_array_equal(found.dictionary_, whole[site].dictionary_)
        np.testing.assert_array_equal(found.params_, whole[site].params_)


def test_noisy_sums_for_a_server(cohort, tmp_path):
    """With differential privacy the server denoises what it adds; as many releases as agreed."""
    model = double(weighting="subjects", realign=False, multistart=False, **SHORT)
    privacy = Privacy(noise_multiplier=0.0, clip=np.inf)
    fits = [
        FederatedPerCDL(model, aggregate=who, privacy=privacy).fit(split(cohort))
        for who in ("sites", "server")
    ]
    first, second = (fit.model_.dictionary_ for fit in fits)
    np.testing.assert_array_equal(first, second)


def test_poison_ends_the_run_without_a_name(cohort, tmp_path, monkeypatch):
    """Attack 9 comes back in part: the server sees that sums are wrong, and not whose."""
    run_round = OwnRounds.run_round

    def lie(self, kind, broadcast):
        sums = run_round(self, kind, broadcast)
        return replace(sums, moment=-100 * sums.moment) if len(self._cohort) == 3 else sums

    monkeypatch.setattr(OwnRounds, "run_round", lie)
    sites, manifest = prepare(cohort, tmp_path, double("PopCDL"))
    _, errors, _ = run_scripted(sites, manifest)
    told = [str(e) for e in errors.values() if "cannot tell which site" in str(e)]
    assert told
    assert not any("ouest" in why for why in told)
