"""FederatedPerCDL: its arguments, its results, its files, and the first dictionary."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federation import FaultyWire, cohort_of, double, make_cohort, split

from percdl import Algorithm, Custom, Huber, PerCDL, PopCDL, load, make_synthetic
from percdl.estimators.hyperparameters import Motif
from percdl.exceptions import FederationError, InvalidParameterError, NoActivationWarning
from percdl.federated.agreement import Agreement, propose
from percdl.federated.coordinator import Audit, Patience, convene
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.start import first_dictionary
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
    federation = FederatedPerCDL(double("PopCDL")).fit_over(FaultyWire(sites))
    assert seen == {s.folder / federation.run_ / "report.html": s.cohort.subjects for s in sites}


def test_the_log_of_a_run(federation):
    audit = federation[0].audit_
    kinds = ["join", "keys", *["population"] * 2, *["personal"] * 3, "express", "finish"]
    assert list(audit["kind"]) == kinds
    assert list(audit["round"]) == list(range(len(kinds)))
    objective = audit["objective"].dropna()
    assert set(objective) <= set(federation[0].model_.history_["objective"])
    assert all(set(up) == {"nord", "ouest", "sud"} for up in audit["bytes_up"])


def test_secure_from_three_sites_on(cohort):
    two = split(cohort, ("a", "b"), (4, 6))
    assert not FederatedPerCDL(double("PopCDL")).fit(two).secure_
    assert FederatedPerCDL(double("PopCDL")).fit(split(cohort)).secure_


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (PopCDL(n_atoms="auto", atom_length=50, penalty=0.01), "n_atoms='auto'"),
        (PopCDL(n_atoms=1, atom_length="auto", penalty=0.01), "atom_length='auto'"),
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
        ({"min_sites": 1}, "min_sites=1"),
        ({"min_subjects_per_site": 0}, "min_subjects_per_site=0"),
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"round_timeout": 0.0}, "greater than 0"),
        ({"secure": "perhaps"}, "secure='perhaps'"),
        ({"model": 3}, "must be a PerCDL, PopCDL or IndCDL"),
    ],
)
def test_arguments_out_of_range(options, why, cohort):
    with pytest.raises(InvalidParameterError, match=why):
        FederatedPerCDL(**{"model": double(), **options}).fit(split(cohort))
    with pytest.raises(InvalidParameterError, match="by site"):
        FederatedPerCDL(double()).fit(cohort)


def test_an_agreement_survives_the_wire():
    agreement = propose(double(), "auto", 2, 1)
    again = Agreement.from_message(agreement.model_dump(), agreement.arrays)
    assert again.digest == agreement.digest
    assert again.make_model().get_params()["transformation__width"] == 3
    changed = Agreement.from_message(
        agreement.model_dump(), {"parameter/init": agreement.arrays["parameter/init"] + 1e-12}
    )
    assert changed.digest != agreement.digest


def test_a_penalty_that_is_too_high(cohort):
    with pytest.warns(NoActivationWarning, match="Every activation is zero"):
        federation = FederatedPerCDL(double("PopCDL", penalty=1e6)).fit(split(cohort))
    assert "zero" in federation.model_.stop_reason_


def coordinator(sites, model):
    agreement = propose(model, "auto", 2, 1)
    return convene(
        FaultyWire(sites), "run", agreement, Patience(round_timeout=1.0, max_attempts=1), Audit()
    )


def test_first_dictionaries_are_found_by_sums(cohort, tmp_path):
    """It explains the recordings about as well as one made of their segments."""
    model = double("PopCDL", init="auto", random_state=0)
    found = first_dictionary(coordinator(make_sites(split(cohort), tmp_path), model))
    assert found.shape == (2, 16, 1)
    np.testing.assert_allclose((found**2).sum((1, 2)), 1)
    federated = double("PopCDL", init=found).fit(cohort)
    assert federated.objective_ < 1.02 * model.fit(cohort).objective_


def test_the_first_dictionary_does_not_depend_on_who_holds_what(cohort, tmp_path):
    model = double("PopCDL", init="auto", random_state=1)
    pair = [
        first_dictionary(
            coordinator(make_sites(split(cohort, sizes=sizes), tmp_path / place), model)
        )
        for sizes, place in (((1, 3, 6), "x"), ((4, 4, 2), "y"))
    ]
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
