"""A coordinator that was lost goes on from its checkpoint, to the same end bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from federation import FaultyWire, double, make_cohort, split

from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.estimator import FederatedPerCDL, make_sites


class Crashed(Exception):
    """Stands for kill -9."""


class CrashingWire(FaultyWire):
    """Loses its coordinator when so many requests have been carried, before or after them."""

    n_asked, before = 10**6, True

    def ask(self, requests, timeout):
        if self.before and len(self.asked) == self.n_asked:
            raise Crashed
        answers = super().ask(requests, timeout)
        if len(self.asked) > self.n_asked:
            raise Crashed
        return answers


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture(scope="module")
def whole(cohort):
    return {
        secure: FederatedPerCDL(double(), secure=secure).fit(split(cohort))
        for secure in (False, True)
    }


def crash(cohort, folder, n_asked, before, **options):
    """Run until the crash; return the checkpoint."""
    wire = CrashingWire(make_sites(split(cohort), folder))
    wire.n_asked, wire.before = n_asked, before
    path = folder / "checkpoint"
    model = options.pop("model", None) or double()
    with pytest.raises(Crashed):
        FederatedPerCDL(model, checkpoint=path, **options).fit_over(wire, run="run")
    return path


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after the sites answered"])
@pytest.mark.parametrize("n_asked", [2, 5])
def test_the_same_end(cohort, whole, tmp_path, n_asked, before, secure):
    path = crash(cohort, tmp_path, n_asked, before, secure=secure)
    resumed = FederatedPerCDL(double(), secure=secure).fit(
        split(cohort), folder=tmp_path, resume=path
    )
    assert resumed.run_ == "run"
    np.testing.assert_array_equal(resumed.model_.dictionary_, whole[secure].model_.dictionary_)
    assert list(resumed.model_.history_["objective"]) == list(
        whole[secure].model_.history_["objective"]
    )
    for site, local in resumed.local_models_.items():
        np.testing.assert_array_equal(local.params_, whole[secure].local_models_[site].params_)
    assert not resumed.audit_["afresh"].any()


def test_the_first_dictionary_is_found_again(cohort, tmp_path, monkeypatch):
    monkeypatch.setattr("percdl.federated.start.N_DRAWN", 3)
    model = double("PopCDL", init="auto", population_rounds=1, personal_rounds=0)
    path = crash(cohort, tmp_path, 4, True, model=model)
    resumed = FederatedPerCDL(model).fit(split(cohort), folder=tmp_path, resume=path)
    wire = CrashingWire(make_sites(split(cohort), tmp_path / "again"))
    again = FederatedPerCDL(model).fit_over(wire, run="run")
    np.testing.assert_array_equal(resumed.model_.dictionary_, again.model_.dictionary_)


def test_other_terms_are_not_gone_on_with(cohort, tmp_path):
    path = crash(cohort, tmp_path, 3, True)
    for model, options, name in (
        (double(penalty=0.2), {}, "parameters"),
        (double(), {"min_subjects_per_site": 2}, "min_subjects_per_site"),
        (double(init=np.ones((2, 16, 1))), {}, "init"),
    ):
        with pytest.raises(InvalidParameterError, match=f"with another `{name}`"):
            FederatedPerCDL(model, **options).fit(split(cohort), resume=path)


def test_what_is_no_checkpoint(cohort, tmp_path):
    path = tmp_path / "x"
    with pytest.raises(ModelFileError, match="is not a checkpoint of a federated fit"):
        FederatedPerCDL(double()).fit(split(cohort), resume=path)
    path.write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match="or it is damaged"):
        FederatedPerCDL(double()).fit(split(cohort), resume=path)
    double("PopCDL").fit(cohort).save(path)
    with pytest.raises(ModelFileError, match="is a PerCDL model file, not"):
        FederatedPerCDL(double()).fit(split(cohort), resume=path)


def crash_at_the_end(cohort, folder):
    """Run until the sites have received the end, and the coordinator is lost; return its wire."""

    class LastWire(CrashingWire):
        def ask(self, requests, timeout):
            answers = super().ask(requests, timeout)
            if self.asked[-1].kind == "finish":
                raise Crashed
            return answers

    wire = LastWire(make_sites(split(cohort), folder))
    federation = FederatedPerCDL(double(), checkpoint=folder / "checkpoint")
    with pytest.raises(Crashed):
        federation.fit_over(wire, run="run")
    return wire


def test_keys_are_deleted_at_the_end(cohort, tmp_path):
    wire = crash_at_the_end(cohort, tmp_path)
    assert not list(tmp_path.rglob("run.key"))
    # Nobody makes it take part in that run again: with no key, with a new one, without masks.
    question = next(request for request in wire.asked if request.kind == "population")
    for request in (
        replace(question, attempt=99),
        next(request for request in wire.asked if request.kind == "keys"),
    ):
        with pytest.raises(FederationError, match="over at site nord, and its key"):
            wire.sites_[0].answer(request)
    plain = {**question.facts, "terms": {**question.facts["terms"], "secure": False}}
    with pytest.raises(FederationError, match="masked sums only"):
        wire.sites_[0].answer(replace(question, facts=plain))


def test_a_coordinator_lost_after_the_end_knows_it(cohort, whole, tmp_path):
    crash_at_the_end(cohort, tmp_path)
    resumed = FederatedPerCDL(double()).fit(
        split(cohort), folder=tmp_path, resume=tmp_path / "checkpoint"
    )
    assert list(resumed.audit_["kind"]) == ["finish"]
    assert not resumed.audit_["dropped"].any()
    model, expected = resumed.model_, whole[True].model_
    np.testing.assert_array_equal(model.dictionary_, expected.dictionary_)
    assert list(model.history_["objective"]) == list(expected.history_["objective"])
    assert (model.objective_, model.stop_reason_) == (expected.objective_, expected.stop_reason_)
