"""FederatedPerCDL: its arguments, its results, its files, and the first dictionary."""

import os
import stat
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federation import cohort_of, double, make_cohort, run_scripted, split

from percdl import Algorithm, Custom, Huber, PerCDL, PopCDL, load, make_synthetic
from percdl.estimators.hyperparameters import Motif
from percdl.exceptions import FederationError, InvalidParameterError, NoActivationWarning
from percdl.federated.board import Board
from percdl.federated.consent import Consent
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.manifest import Invitation, Manifest
from percdl.federated.messages import parse
from percdl.federated.rounds import FederatedRounds
from percdl.steps.initialization import draw_shapes


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture(scope="module")
def federation(cohort, tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    fitted = FederatedPerCDL(double()).fit(split(cohort), folder=folder)
    return fitted, folder


def test_the_model_has_no_subjects(federation, cohort, tmp_path):
    model = federation[0].model_
    assert model.subjects_ == ()
    assert model.params_.shape == (0, 2, 3)
    assert model.n_activations_.shape == (0, 2)
    assert len(model.events_) == 0
    assert model.warps_.shape == (0, 2, 1, 16)
    model.save(tmp_path / "model.percdl")
    again = load(tmp_path / "model.percdl")
    np.testing.assert_array_equal(again.dictionary_, model.dictionary_)
    assert again.events_.dtypes.to_dict() == model.events_.dtypes.to_dict()
    found = again.personalize(cohort[:2])
    np.testing.assert_array_equal(found.params, model.personalize(cohort[:2]).params)
    assert 0 < again.score(cohort) < 1


def test_a_site_keeps_its_own_results(federation, cohort):
    fitted, folder = federation
    for site, own in split(cohort).items():
        place = folder / site / fitted.run_
        model = load(place / "model.percdl")
        assert model.subjects_ == own.subjects
        np.testing.assert_array_equal(model.params_, fitted.local_models_[site].params_)
        assert len(pd.read_csv(place / "events.csv")) == len(model.events_) > 0
        assert model.objective_ == fitted.model_.objective_
        assert fitted.local_models_[site].recordings_ == own


def test_a_report_for_the_site(cohort, tmp_path, monkeypatch):
    seen = {}

    def write_report(model, path, *rest, **options):
        seen[path] = model.subjects_
        return path

    monkeypatch.setattr("percdl.report.cohort.write_report", write_report)
    sites = [replace(s, write_report=True) for s in make_sites(split(cohort), tmp_path)]
    manifest = FederatedPerCDL(double("PopCDL")).propose("run", sites)
    run_scripted(sites, manifest)
    assert seen == {s.folder / "run" / "report.html": s.cohort.subjects for s in sites}


def test_the_log_of_a_run(federation):
    audit = federation[0].audit_
    kinds = ["join", *["population"] * 2, *["personal"] * 3, "express", "finish"]
    for _, own in audit.groupby("site"):
        assert list(own["asked"]) == kinds
        assert list(own["slot"]) == list(range(len(kinds)))
        assert (own["received"] > 2 * own["sent"]).all()


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
def test_others_cannot_read_the_files_of_a_run(cohort, tmp_path):
    """Posts, ledger and logs; what was learned lies in a folder that is closed."""
    before = os.umask(0o022)
    try:
        FederatedPerCDL(double("PopCDL")).fit(split(cohort), folder=tmp_path / "new", run="run")
    finally:
        os.umask(before)
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    rights = {path: stat.S_IMODE(path.stat().st_mode) for path in made}
    assert {rights[path] for path in made if path.is_dir()} == {0o700}
    results = {"model.percdl", "common.percdl", "events.csv"}
    kept = [p for p in made if p.is_file() and p.name not in results and p.suffix != ".pub"]
    assert {rights[path] for path in kept} == {0o600}
    assert {"ledger.jsonl", "log.jsonl", "000001.post", "nord.key"} <= {p.name for p in kept}


def test_keys_are_deleted_at_the_end(federation):
    fitted, folder = federation
    assert not list(folder.glob(f"*/{fitted.run_}/run.key"))
    assert not list(folder.glob(f"*/{fitted.run_}/state.percdl"))


def test_a_run_that_is_over_stays_as_it_was(federation, cohort):
    """The same terms give its result, and other ones under its name are refused."""
    fitted, folder = federation
    site = make_sites(split(cohort), folder)[0]
    terms = FederatedPerCDL(double()).propose(fitted.run_, make_sites(split(cohort), folder))
    found = site.take_part(terms, Board(terms))
    np.testing.assert_array_equal(found.params_, fitted.local_models_[site.name].params_)
    other = terms.model_copy(update={"secure": False})
    with pytest.raises(FederationError, match="has signed another manifest"):
        site.take_part(other, Board(other))


def test_secure_from_three_sites_on(cohort):
    two = split(cohort, ("a", "b"), (4, 6))
    assert not FederatedPerCDL(double("PopCDL")).fit(two).secure_
    assert FederatedPerCDL(double("PopCDL")).fit(split(cohort)).secure_


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (PopCDL(n_atoms="auto", atom_length=50, penalty=0.01), "n_atoms='auto'"),
        (PopCDL(n_atoms=1, atom_length="auto", penalty=0.01), "atom_length='auto'"),
        (PopCDL(2, ["100s", "60s"], penalty=0.01), r"atom_length=\['100s', '60s'\]"),
        (PopCDL(1, 50, penalty="auto"), "percdl suggest"),
        (PopCDL(1, 50, penalty="10%"), "penalty='10%'"),
        (PopCDL(1, 50, penalty=0.01, loss=Huber()), "Agree on `Huber"),
        (PopCDL(1, 50, penalty=0.01, init=Motif("P01", 3)), "depends on the recordings"),
        (PopCDL(2, 50, penalty=0.01, init=[Motif("P01", 3)] * 2), "depends on the recordings"),
        (
            PerCDL(1, 50, transformation=Custom(lambda atom, a: atom, 1), penalty=0.01),
            "never on code",
        ),
        (
            PopCDL(1, 50, penalty=0.01, algorithm=Algorithm(population_rounds=-1)),
            "population_rounds=-1",
        ),
    ],
)
def test_what_cannot_be_agreed_on(model, why, cohort):
    with pytest.raises(InvalidParameterError, match=why):
        FederatedPerCDL(model).fit(split(cohort))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"min_subjects": 0}, "min_subjects"),
        ({"secure": "perhaps"}, "secure"),
        ({"model": 3}, "must be a PerCDL, PopCDL or IndCDL"),
    ],
)
def test_arguments_out_of_range(options, why, cohort):
    with pytest.raises(InvalidParameterError, match=why):
        FederatedPerCDL(**{"model": double(), **options}).fit(split(cohort))
    for X in (cohort, {"a": cohort}):
        with pytest.raises(InvalidParameterError, match="two or more sites"):
            FederatedPerCDL(double()).fit(X)


def test_a_manifest_survives_an_invitation(cohort, tmp_path):
    sites = make_sites(split(cohort), tmp_path)
    manifest = FederatedPerCDL(double()).propose("run", sites)
    path = tmp_path / "invitation.toml"
    Invitation("host:8000", "PEM", manifest).write(path)
    again = Invitation.read(tomllib.loads(path.read_text()), path)
    assert again.manifest.digest == manifest.digest
    assert manifest.fingerprint in path.read_text()
    assert again.manifest.make_model().get_params()["transformation__width"] == 3
    arrays = {"parameter/init": (manifest.arrays["parameter/init"] + 1e-12).tolist()}
    changed = parse(Manifest, {**manifest.model_dump(), "arrays": arrays}, "")
    assert changed.digest != manifest.digest
    for field in ("run", "dataset", "members", "min_subjects", "secure", "privacy", "parameters"):
        facts = manifest.model_dump()
        changes = {
            "run": "x",
            "dataset": "y",
            "min_subjects": 2,
            "secure": False,
            "privacy": {"epsilon": 1.0},
        }
        facts[field] = changes.get(field, {})
        if field != "members":
            assert parse(Manifest, facts, "").digest != manifest.digest
    for junk in ({}, {"server": 3}, {"server": "a", "authority": "b", "manifest": "{"}):
        with pytest.raises(FederationError, match="is not an invitation"):
            Invitation.read(junk, path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": "0.0.1"}, "the manifest is for 0.0.1"),
        (
            {"members": {"nord": "0" * 64, "sud": "1" * 64, "est": "2" * 64}},
            "not a member with this key",
        ),
        ({"secure": False}, "masked sums only"),
        ({"dataset": "walks"}, "the manifest is for 'walks'"),
        ({"min_subjects": 7}, "fewer than 7 people"),
        ({"parameters": {}}, "unknown"),
    ],
)
def test_what_a_site_does_not_sign(change, why, cohort, tmp_path):
    consent = Consent(min_subjects=1)
    site = make_sites(split(cohort), tmp_path, consent)[0]
    manifest = FederatedPerCDL(double()).propose("run", make_sites(split(cohort), tmp_path))
    changed = manifest.model_copy(update=change)
    with pytest.raises(FederationError, match=why):
        site.take_part(changed, Board(changed))
    pinned = replace(site, consent=replace(consent, manifest="0" * 64))
    with pytest.raises(FederationError, match="has consented to 0000"):
        pinned.take_part(manifest, Board(manifest))


@pytest.mark.parametrize("run", ["../elsewhere", "/tmp/x", "a b", "", "."])
def test_a_run_with_a_path_for_a_name_is_refused(run, cohort, tmp_path):
    sites = make_sites(split(cohort), tmp_path)
    federation = FederatedPerCDL(double())
    with pytest.raises(FederationError, match="not a valid name for a run"):
        federation.propose(run, sites)
    facts = {**federation.propose("run", sites).model_dump(), "run": run}
    with pytest.raises(FederationError, match=r"Not a manifest \(run: "):
        parse(Manifest, facts, "Not a manifest")


def test_a_penalty_that_is_too_high(cohort):
    with pytest.warns(NoActivationWarning, match="Every activation is zero"):
        federation = FederatedPerCDL(double("PopCDL", penalty=1e6)).fit(split(cohort))
    assert "zero" in federation.model_.stop_reason_


def find_first(cohort, model, sizes=(1, 3, 6)):
    """Return the first dictionary that sites of some sizes find."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        before = FederatedRounds.first_dictionary
        keep = lambda self: found.append(before(self)) or found[-1]  # noqa: E731
        patch.setattr(FederatedRounds, "first_dictionary", keep)
        FederatedPerCDL(model).fit(split(cohort, sizes=sizes), run="run")
    assert all(np.array_equal(found[0], other) for other in found)
    return found[0]


def test_first_dictionaries_are_found_by_sums(cohort):
    """It explains the recordings about as well as one made of their segments."""
    model = double("PopCDL", init="auto", random_state=0)
    found = find_first(cohort, model)
    assert found.shape == (2, 16, 1)
    np.testing.assert_allclose((found**2).sum((1, 2)), 1)
    federated = double("PopCDL", init=found).fit(cohort)
    assert federated.objective_ < 1.02 * model.fit(cohort).objective_


def test_the_first_dictionary_does_not_depend_on_who_holds_what(cohort):
    model = double("PopCDL", init="auto", random_state=1)
    pair = [find_first(cohort, model, sizes) for sizes in ((1, 3, 6), (4, 4, 2))]
    np.testing.assert_allclose(pair[0], pair[1], atol=1e-9)


def test_shapes_are_smooth_and_at_unit_norm():
    shapes = draw_shapes(40, 50, 3, np.random.default_rng(0))
    np.testing.assert_allclose((shapes**2).sum((1, 2)), 1)
    rough = np.abs(np.diff(shapes, axis=1)).max((1, 2)) / np.abs(shapes).max((1, 2))
    assert (rough < 0.7).all()
    assert np.linalg.matrix_rank(shapes.reshape(40, -1)) == 40


@pytest.mark.slow
def test_as_good_as_from_segments():
    truth = make_synthetic(12, random_state=0)
    model = PerCDL(2, 50, penalty=1e-2, random_state=0)
    central = model.fit(truth.cohort).objective_
    federation = FederatedPerCDL(model).fit(split(truth.cohort, sizes=(2, 4, 6)))
    energy = sum(np.sum(r.values**2) for r in truth.cohort)
    assert federation.model_.objective_ - central < 0.002 * energy


def test_two_channels_need_the_same_names(cohort):
    other = cohort_of([np.zeros((120, 2)) + np.arange(120)[:, None]])
    with pytest.raises(FederationError, match=r"must agree on channels: site a .* and site b"):
        FederatedPerCDL(double("PopCDL")).fit({"a": cohort, "b": other})
