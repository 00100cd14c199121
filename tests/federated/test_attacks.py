"""Attacks of servers that lie and of single bad sites: each is refused, or learns nothing.

The numbers are those of the table in docs/federated/threat_model.md. The board itself is attacked
in test_transcript.py.
"""

from dataclasses import replace

import numpy as np
import pytest
import toy
from federation import cohort_of, double, make_cohort, run_scripted, split
from small_models import SFREQ, make

from percdl import Algorithm, Cohort, Free, Huber, L0Coder, L1Coder, PerCDL, TimeWarp
from percdl.algorithm.exchange import Broadcast
from percdl.estimators import start
from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.consent import Consent, check_manifest
from percdl.federated.consent import sign as consent_to
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.manifest import MOST, Manifest, Terms, check_sizes
from percdl.federated.messages import parse
from percdl.federated.privacy import Privacy
from percdl.federated.rounds import OwnRounds, contradiction, explain_away, forms
from percdl.federated.site import describe
from percdl.steps.dictionary import normalize

CAREFUL = Consent(min_subjects=3, allow_plain=True)
SHORT = {"population_rounds": 1, "personal_rounds": 1}


def with_a_rare_atom(n_rare=1):
    """Return six recordings; the second atom occurs in the first of them only."""
    rng = np.random.default_rng(1)
    arrays = [0.02 * rng.standard_normal((120, 1)) for _ in range(6)]
    for x in arrays:
        x[10:26] += toy.patterns()[0]
        x[50:66] += toy.patterns()[0]
    for x in arrays[:n_rare]:
        x[80:96] += toy.patterns()[1]
    return cohort_of(arrays)


def sums_sent(folder, model, cohorts, consent, monkeypatch, privacy=None):
    """Run a federation; return all sums of its sites as they would leave, by kind."""
    sent = []
    run_round = OwnRounds.run_round

    def listen(self, kind, broadcast):
        sent.append((kind, run_round(self, kind, broadcast)))
        return sent[-1][1]

    monkeypatch.setattr(OwnRounds, "run_round", listen)
    sites = make_sites(cohorts, folder, consent)
    federation = FederatedPerCDL(model, privacy=privacy)
    models, errors, _ = run_scripted(sites, federation.propose("run", sites))
    assert not errors
    return sent, models


@pytest.mark.parametrize("least", [1, 3])
def test_a_pattern_of_one_person_stays_at_its_site(least, tmp_path, monkeypatch):
    """Attack 4: an honest run, and an atom that only one person has."""
    consent = replace(CAREFUL, min_subjects=least)
    cohorts = {"a": with_a_rare_atom(), "b": with_a_rare_atom()}
    sent, models = sums_sent(tmp_path, double(**SHORT), cohorts, consent, monkeypatch)
    assert {kind for kind, _ in sent} == {"population", "personal", "express"}
    for kind, sums in sent:
        arrays = [x for x in vars(sums).values() if np.ndim(x) and np.size(x)]
        assert any(x[1].any() for x in arrays) == (least == 1), kind
        assert sums.counts[0] > 0
    first = double().init[1]
    stayed = abs(np.vdot(models["a"].dictionary_[1], first / np.linalg.norm(first)))
    assert (stayed > 1 - 1e-12) == (least == 3)


@pytest.mark.parametrize("name", ["PopCDL", "PerCDL"])
@pytest.mark.parametrize("persons", [("a", "a", "a", "b", "c", "d"), tuple("abcdef")])
def test_several_recordings_of_a_person_are_one_person(persons, name, tmp_path, monkeypatch):
    """Three recordings have the second atom: of one person, or of three."""
    cohort = with_a_rare_atom(3).with_visits(persons)
    sent, _ = sums_sent(
        tmp_path, double(name, **SHORT), {"a": cohort, "b": cohort}, CAREFUL, monkeypatch
    )
    for kind, sums in sent:
        arrays = [x for x in vars(sums).values() if np.ndim(x) and np.size(x)]
        assert any(x[0].any() for x in arrays)
        assert any(x[1].any() for x in arrays) == (len({*persons}) == 6), kind


@pytest.mark.parametrize("least", [1, 3])
def test_noise_without_a_budget_replaces_no_people(least, tmp_path, monkeypatch):
    """A manifest with differential privacy does not switch the groups off: its noise may be 0."""
    consent = replace(CAREFUL, min_subjects=least)
    cohorts = {"a": with_a_rare_atom(), "b": with_a_rare_atom()}
    model = double(weighting="subjects", centering="off", **SHORT)
    privacy = Privacy(noise_multiplier=0.0, clip=1e9)
    sent, _ = sums_sent(tmp_path, model, cohorts, consent, monkeypatch, privacy)
    assert {kind for kind, _ in sent} == {"population", "personal"}
    for kind, sums in sent:
        arrays = [x for x in vars(sums).values() if np.ndim(x) and np.size(x)]
        assert any(x[0].any() for x in arrays)
        assert any(x[1].any() for x in arrays) == (least == 1), kind


def test_one_activation_in_the_federation_is_not_seen(tmp_path, monkeypatch):
    """Attack 1: a first dictionary with a Nyquist tone, so that one window is left to code."""
    cohort = with_a_rare_atom()
    tone = 0.3 * (-1.0) ** np.arange(16)[:, None]
    loud = cohort_of([x.values * (3 if i == 0 else 1) for i, x in enumerate(cohort)])
    model = double("PopCDL", init=toy.patterns() + tone, penalty=8.0, **SHORT)
    cohorts = {"a": loud, "b": cohort, "c": cohort}
    for least in (1, 3):
        consent = replace(CAREFUL, min_subjects=least)
        with pytest.MonkeyPatch.context() as patch:
            sent, _ = sums_sent(tmp_path / str(least), model, cohorts, consent, patch)
        seen = [sums for _, sums in sent if sums.counts.any()]
        assert bool(seen) == (least == 1)
        if least == 1:  # one person's window is the whole sum
            assert sum(sums.counts.sum() for _, sums in sent[:3]) <= 3
        else:
            assert not any(sums.moment.any() for _, sums in sent)


def test_first_dictionaries_are_tried_on_enough_people(tmp_path, monkeypatch):
    """Attack 8: as many as the site insists on, for each atom."""
    cohort = with_a_rare_atom()
    sites = make_sites(dict.fromkeys("abc", cohort), tmp_path)
    manifest = FederatedPerCDL(double("PopCDL", init="auto")).propose("run", sites)
    terms = Terms(manifest, {}, describe(cohort, manifest))
    sums = {}
    for picked, least in ((6, 1), (1, 6), (1, 1), (6, 3)):
        monkeypatch.setattr(start, "MOST_RECORDINGS", picked)
        own = OwnRounds(cohort, terms, least)
        (sums[picked, least],) = own.try_dictionaries(toy.patterns()[None])
    assert sums[1, 6].signal == sums[6, 1].signal > sums[1, 1].signal
    assert sums[6, 1].counts[1] > 0
    assert sums[6, 3].counts[1] == 0
    assert not sums[6, 3].moment[1].any()


def sign(folder, members, cohort, consent, run="run", privacy=None):
    """Let the first member sign a manifest: nothing else happens yet."""
    options = {"weighting": "subjects", "centering": "off"} if privacy else {}
    site, *others = make_sites(dict.fromkeys(members, cohort), folder, consent)
    manifest = FederatedPerCDL(double(**options), privacy=privacy).propose(run, [site, *others])
    check_manifest(site.name, site.identity.public, cohort, consent, manifest)
    consent_to(site.folder, site.name, manifest, cohort, consent)


def other_people():
    """Return recordings of people with other names."""
    values = {f"other {i}": x.values for i, x in enumerate(make_cohort(seed=4))}
    return Cohort.from_arrays(list(values.values()), sfreq=SFREQ, subjects=list(values))


def test_two_runs_with_other_members_are_refused(tmp_path):
    """Attack 2: their difference would be the sums of the site that only one of them has."""
    cohort = make_cohort()
    sign(tmp_path, "abcv", cohort, CAREFUL, "one")
    sign(tmp_path, "abcv", cohort, CAREFUL, "two")  # the same members
    with pytest.raises(FederationError, match="difference of the totals would show the sums of v"):
        sign(tmp_path, "abc", cohort, CAREFUL, "three")
    sign(tmp_path, "abc", other_people(), CAREFUL, "four")
    sign(tmp_path, "abc", cohort, replace(CAREFUL, other_members=True), "five")


def test_two_runs_with_one_more_person_are_refused(tmp_path):
    cohort = make_cohort()
    sign(tmp_path, "abc", cohort[:6], CAREFUL, "one")
    with pytest.raises(FederationError, match="differ by 1 from those of run one"):
        sign(tmp_path, "abc", cohort[:7], CAREFUL, "two")
    with pytest.raises(FederationError, match="differ by 2 from those of run one"):
        sign(tmp_path, "abc", cohort[:4], CAREFUL, "two")
    sign(tmp_path, "abc", cohort[:9], CAREFUL, "two")


def test_other_processing_does_not_make_people_new(tmp_path):
    """Attack 2, with recordings that were changed a little between the runs."""
    cohort = make_cohort()
    sign(tmp_path, "abcv", cohort, CAREFUL, "one")
    changed = cohort_of([1.0001 * x.values for x in cohort])
    sign(tmp_path, "abcv", changed, CAREFUL, "two")
    with pytest.raises(FederationError, match="would show the sums of v"):
        sign(tmp_path, "abc", changed, CAREFUL, "three")
    with pytest.raises(FederationError, match="differ by 1 from those of run one"):
        sign(tmp_path, "abcv", changed[:9], CAREFUL, "three")


def test_more_recordings_of_one_person_are_refused(tmp_path):
    """The difference of the totals would be over that person."""
    cohort = make_cohort().with_visits([*"abcdefgggg"])
    with pytest.raises(FederationError, match="has fewer than 8 people"):
        sign(tmp_path, "abc", cohort, replace(CAREFUL, min_subjects=8))
    sign(tmp_path, "abc", cohort[:7], CAREFUL, "one")
    with pytest.raises(FederationError, match="differ by 1 from those of run one"):
        sign(tmp_path, "abc", cohort, CAREFUL, "two")


def test_another_manifest_of_the_same_run_is_refused(tmp_path):
    sign(tmp_path, "abc", make_cohort(), CAREFUL)
    sign(tmp_path, "abc", make_cohort(), CAREFUL)  # the same again: after a crash
    with pytest.raises(FederationError, match="has signed another manifest of run run"):
        sign(tmp_path, "abcd", make_cohort(), replace(CAREFUL, other_members=True))


def test_the_budget_of_privacy_holds_over_all_runs(tmp_path):
    """Attack 6: twelve runs with an epsilon of 1 each."""
    consent, privacy = replace(CAREFUL, max_epsilon=1.0), Privacy(epsilon=0.5)
    cohort = make_cohort()
    for run in ("one", "two"):  # 0.5 and 0.5 are 0.72, not 1: squares add up
        sign(tmp_path, "abc", cohort, consent, run, privacy)
    sign(tmp_path, "abc", cohort, consent, "three", privacy)
    with pytest.raises(FederationError, match=r"allows an epsilon of 1 at .*4 run\(s\)"):
        sign(tmp_path, "abc", cohort, consent, "four", Privacy(epsilon=0.9))
    sign(tmp_path, "abc", other_people(), consent, "five", Privacy(epsilon=0.9))


@pytest.mark.parametrize("epsilon", [0.5, 1e-6])
def test_a_manifest_does_not_choose_the_delta_of_a_budget(epsilon, tmp_path):
    """With a delta near 1, any sums have a small epsilon."""
    consent, privacy = replace(CAREFUL, max_epsilon=1.0), Privacy(epsilon=epsilon, delta=0.9)
    with pytest.raises(FederationError, match="an epsilon of 1 at a delta of 1e-05"):
        sign(tmp_path, "abc", make_cohort(), consent, privacy=privacy)
    agreed = Privacy(epsilon=0.5, delta=1e-3)
    with pytest.raises(FederationError, match="would spend"):
        sign(tmp_path, "abc", make_cohort(), replace(consent, max_epsilon=0.5), privacy=agreed)
    wider = replace(consent, max_epsilon=0.5, max_delta=1e-3)
    sign(tmp_path, "abc", make_cohort(), wider, privacy=agreed)


def test_noise_without_a_budget_counts_as_nothing_later(tmp_path):
    privacy = Privacy(epsilon=0.5)
    sign(tmp_path, "abc", make_cohort(), CAREFUL, "one", privacy)
    consent = replace(CAREFUL, max_epsilon=1e9)
    with pytest.raises(FederationError, match=r"2 run\(s\) would spend inf"):
        sign(tmp_path, "abc", make_cohort(), consent, "two", privacy)


def test_a_damaged_ledger_ends_everything(tmp_path):
    sign(tmp_path, "abc", make_cohort(), CAREFUL)
    path = tmp_path / "a" / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FederationError, match="does not tell of all earlier runs"):
        sign(tmp_path, "abc", make_cohort(), CAREFUL, "two")


@pytest.mark.parametrize("n_lines", [0, 1])
def test_a_ledger_that_was_deleted_or_rolled_back_ends_everything(n_lines, tmp_path):
    for run in ("one", "two"):
        sign(tmp_path, "abc", make_cohort(), CAREFUL, run)
        (tmp_path / "a" / run / "000000.post").touch()
    path = tmp_path / "a" / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:n_lines]))
    with pytest.raises(
        FederationError, match=f"posts of run {('one', 'two')[n_lines]} are beside"
    ):
        sign(tmp_path, "abc", make_cohort(), CAREFUL, "three")


def test_noise_is_shared_by_members_only(tmp_path):
    """Attack 7: a share of the noise needs masks over all members, whose number is fixed."""
    model = double(weighting="subjects", centering="off")
    sites = make_sites(dict.fromkeys("abc", make_cohort()), tmp_path)
    privacy = Privacy(epsilon=1.0, shared_by=3)  # a member knows its own share
    with pytest.raises(InvalidParameterError, match="masked sums over more members than that"):
        FederatedPerCDL(model, privacy=privacy).propose("run", sites)
    privacy = Privacy(epsilon=1.0, shared_by=2)
    with pytest.raises(InvalidParameterError, match="masked sums over more members than that"):
        FederatedPerCDL(model, secure=False, privacy=privacy).propose("run", sites)
    manifest = FederatedPerCDL(model, privacy=privacy).propose("run", sites)
    assert manifest.secure
    facts = manifest.model_dump()
    facts["privacy"]["shared_by"] = 3  # written by hand, and invited to
    with pytest.raises(FederationError, match="masked sums over more members than that"):
        parse(Manifest, facts, "An invitation")


@pytest.mark.parametrize("name", sorted(MOST))
def test_terms_that_would_keep_a_site_busy_are_refused(name, tmp_path):
    """Attack 10: such terms are neither proposed nor signed."""
    sites = make_sites(split(make_cohort()), tmp_path)
    with pytest.raises(InvalidParameterError, match="a site accepts at most"):
        FederatedPerCDL(excessive(name)).propose("run", sites)


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
    sites = make_sites(split(make_cohort()), tmp_path)
    manifest = FederatedPerCDL(double("PopCDL")).propose("run", sites)
    facts = manifest.model_dump()
    facts["parameters"]["n_restarts"] = 10**8
    with pytest.raises(InvalidParameterError, match="a site accepts at most"):
        parse(Manifest, facts, "").make_model()


@pytest.mark.parametrize(
    ("name", "kind", "terms"),
    [
        ("PerCDL", "personal", {"n_atoms": 10, "atom_length": 5000}),
        ("PopCDL", "first", {"n_atoms": 10, "atom_length": 5000, "n_restarts": 100}),
    ],
)
def test_posts_that_no_one_could_send_are_not_computed(name, kind, terms, tmp_path):
    """Attack 10: each term is below its ceiling, and all of them together are not."""
    cohort = make_cohort()
    sites = make_sites(dict.fromkeys("abc", cohort), tmp_path)
    manifest = FederatedPerCDL(double(name, init="auto", **terms)).propose("run", sites)
    with pytest.raises(FederationError, match=f"sums of a {kind} round would have .* MB"):
        check_sizes(Terms(manifest, {}, describe(cohort, manifest)))


@pytest.mark.parametrize("field", ["energy", "samples"])
def test_a_site_that_declares_too_much_is_named(field, tmp_path, monkeypatch):
    """Attack 5: with such a bound, every sum would round to zero."""
    from percdl.federated import site as module

    describe = module.describe

    def lie(cohort, manifest):
        own = describe(cohort, manifest)
        bounds = own.bounds._replace(**{field: getattr(own.bounds, field) + 70})
        return own.model_copy(update={"bounds": bounds}) if len(cohort) == 6 else own

    monkeypatch.setattr(module, "describe", lie)
    with pytest.raises(FederationError, match=f"Site sud declares {field} of 2"):
        FederatedPerCDL(double("PopCDL")).fit(split(make_cohort()))


@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("name", ["PopCDL", "PerCDL"])
def test_a_site_that_poisons_is_named(name, consistent, monkeypatch):
    """Attack 9: a quarter of the people, with another pattern.

    Sums that contradict each other are noticed in the same round. Others promise an objective,
    which the next round does not reach.
    """
    run_round = OwnRounds.run_round
    wrong = np.random.default_rng(0).standard_normal((2, 16, 1))

    def lie(self, kind, broadcast):
        sums = run_round(self, kind, broadcast)
        if len(self._cohort) != 3 or kind == "express":
            return sums
        size = 0.5
        if sums.moment.size:
            margin = (sums.moment.shape[1] - 16) // 2
            bad = np.pad(wrong, ((0, 0), (margin, margin), (0, 0)))
            sums = replace(sums, moment=size * bad * sums.weight.mean())
        if sums.gram.size:
            sums = replace(sums, transported=size * wrong * sums.gram.max())
        if consistent:
            settings = self._terms.settings
            linear, square = forms(sums, broadcast.dictionary, settings)
            scale = np.divide(square, linear, out=np.ones(2), where=linear != 0)[:, None, None]
            parts = {"moment": sums.moment, "transported": sums.transported}
            parts = {name: scale * x for name, x in parts.items() if x.size}
            sums = replace(sums, **parts)
            explained = explain_away(sums, broadcast, settings)
            sums = replace(sums, objective=sums.energy - explained)
        return sums

    monkeypatch.setattr(OwnRounds, "run_round", lie)
    why = "above what the sums before promised" if consistent else "not what its other sums say"
    with pytest.raises(FederationError, match=rf"{why}.* Site ouest has the largest gap"):
        FederatedPerCDL(double(name)).fit(split(make_cohort()))


def louder(sums, factor):
    names = "signal", "energy", "objective", "moment", "transported", "weight", "gram"
    return replace(sums, **{name: factor * getattr(sums, name) for name in names})


def crowded(sums, n_people, n_activations):
    counts = np.full(2, float(n_activations))
    return replace(sums, n_warps=np.full(2, float(n_people)), counts=counts)


LIES = {
    "other segments": lambda sums: replace(sums, moment=1.5 * sums.moment),
    "more people than activations": lambda sums: crowded(sums, 60, 6),
    "more people than recordings": lambda sums: crowded(sums, 500, 500),
    "fewer than none": lambda sums: crowded(sums, -60, 6),
    "more energy than declared": lambda sums: louder(sums, 8.0),
    "less energy than declared": lambda sums: louder(sums, 0.01),
}


@pytest.mark.parametrize("lie", LIES)
def test_totals_that_contradict_what_was_declared_are_noticed(lie, monkeypatch):
    """The objective follows from the other sums, so it shows nothing."""
    run_round = OwnRounds.run_round

    def change(self, kind, broadcast):
        sums = run_round(self, kind, broadcast)
        if len(self._cohort) != 6 or kind != ("population" if "segments" in lie else "personal"):
            return sums
        sums = LIES[lie](sums)
        explained = explain_away(sums, broadcast, self._terms.settings)
        return replace(sums, objective=sums.energy - explained)

    monkeypatch.setattr(OwnRounds, "run_round", change)
    with pytest.raises(FederationError, match=r"not what its other sums say.* Site sud has the"):
        FederatedPerCDL(double(**SHORT)).fit(split(make_cohort()))


@pytest.mark.parametrize("kind", ["population", "personal"])
def test_a_promise_is_compared_with_the_same_people(kind, tmp_path):
    """With the same atoms, the objective before the codes of a round is that of the last round."""
    cohort = with_a_rare_atom()
    sites = make_sites(dict.fromkeys("abc", cohort), tmp_path)
    model = double(transformation=TimeWarp(1, 3, prior=None))
    manifest = FederatedPerCDL(model).propose("run", sites)
    own = OwnRounds(cohort, Terms(manifest, {}, describe(cohort, manifest)), 3)
    atoms = normalize(toy.patterns())
    promised = own.run_round("population", Broadcast(atoms))
    for _ in range(10 if kind == "personal" else 0):  # until the parameters stay
        promised = own.run_round("personal", Broadcast(atoms))
    again = own.run_round(kind, Broadcast(atoms))
    assert again.objective_fitted == pytest.approx(promised.objective, rel=1e-6)
    everyone = OwnRounds(cohort, Terms(manifest, {}, describe(cohort, manifest)), 1)
    assert everyone.run_round("population", Broadcast(atoms)).objective < 0.9 * promised.objective


HONEST = {
    "PopCDL": {},
    "PerCDL": {"dtype": "float32"},
    "PerCDL, overlapping": {"coder": L1Coder()},
    "PerCDL, Huber": {"loss": Huber(0.1)},
    "PerCDL, relative": {"loss": "relative"},
    "PerCDL, baselines": {"coder": L0Coder(baseline="line", stretch=1.5)},
    "PerCDL, subjects": {"weighting": "subjects"},
}


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("name", HONEST)
def test_honest_sums_do_not_contradict_each_other(name, least, monkeypatch):
    """All identities hold for every site and round, also where people do not count."""
    seen = []
    run_round = OwnRounds.run_round

    def listen(self, kind, broadcast):
        sums = run_round(self, kind, broadcast)
        off = contradiction(sums, broadcast, self._terms, ["a"])
        hidden = self.runtime.results().counts.sum() - sums.counts.sum()
        seen.append((off / sums.signal, hidden))
        return sums

    monkeypatch.setattr(OwnRounds, "run_round", listen)
    cohorts = dict.fromkeys("abc", with_a_rare_atom())
    options = {"dtype": "float64", **HONEST[name]}
    model = make(name.split(",")[0], **SHORT, **options)
    FederatedPerCDL(model, min_subjects=least).fit(cohorts)
    assert max(off for off, _ in seen) < (1e-6 if "dtype" in HONEST[name] else 1e-12)
    assert any(hidden for _, hidden in seen) == (least == 3)
