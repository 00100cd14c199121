"""What fuzzing has found in federated messages: each case once raised something else."""

from dataclasses import replace

import numpy as np
import pytest
from federation import FaultyWire, double, make_cohort, split
from small_models import make

from percdl.estimators import container
from percdl.exceptions import FederationError, ModelFileError
from percdl.federated.agreement import propose
from percdl.federated.checkpoint import read_checkpoint
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.layout import Entry, Layout, exponent, layout_of
from percdl.federated.messages import Bounds, read_reply
from percdl.runtimes.messages import Reply

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A site that has taken part in a run, and the requests by kind."""
    wire = FaultyWire(make_sites(split(make_cohort()), tmp_path_factory.mktemp("sites")))
    model = make(
        "PerCDL", dtype="float32", population_rounds=1, personal_rounds=1, init="auto", tol=0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("percdl.federated.start.N_DRAWN", 2)
        FederatedPerCDL(model, secure=False).fit_over(wire, run="run")
    return wire.sites_[2], {request.kind: request for request in wire.asked}


def terms_with(request, **changed):
    return {**request.facts, "terms": {**request.facts["terms"], **changed}}


@pytest.mark.parametrize(
    "changed",
    [
        {"bounds": [10**400, 7]},
        {"bounds": [1024, 7]},
        {"bounds": [float("inf"), 7]},
        {"bounds": [7, -2000]},
        {"n_masks": 10**9},
        {"n_masks": float("inf")},
        {"n_masks": -1},
    ],
)
def test_terms_beyond_all_reason_are_refused(talk, changed):
    site, requests = talk
    request = requests["population"]
    with pytest.raises(FederationError, match="terms"):
        site.answer(replace(request, facts=terms_with(request, **changed), round=9))


@pytest.mark.parametrize("array", [np.array("x"), np.array("2020-01-01", "M8[D]"), np.zeros(1)])
def test_an_agreement_comes_with_its_own_arrays_only(talk, array):
    site, requests = talk
    arrays = {**requests["join"].arrays, "more": array}
    with pytest.raises(FederationError, match="other arrays than it names"):
        site.answer(replace(requests["join"], run="another", arrays=arrays))


@pytest.mark.parametrize("number", [10**400, -1, 10**6])
@pytest.mark.parametrize("name", ["round", "attempt"])
def test_rounds_are_counts(talk, name, number):
    site, requests = talk
    with pytest.raises(FederationError, match=rf"\({name}: "):
        site.answer(replace(requests["population"], **{name: number}))


@pytest.mark.parametrize("follows", [10**400, -1])
def test_a_round_follows_one_that_can_be(talk, follows):
    site, requests = talk
    request = requests["personal"]
    with pytest.raises(FederationError, match=r"\(follows: "):
        site.answer(replace(request, facts={**request.facts, "follows": follows}))


@pytest.mark.parametrize("kind", ["personal", "express"])
def test_only_a_population_round_follows_none(talk, kind):
    site, requests = talk
    request = requests["population"]
    with pytest.raises(FederationError, match="continues from another one"):
        site.answer(replace(request, kind=kind, round=9))


@pytest.mark.parametrize(
    "arrays",
    [
        {"dictionary": np.zeros((2, 16, 1), complex)},
        {"dictionary": np.zeros((2, 16, 1), "U3")},
        {"dictionary": np.full((2, 16, 1), 1e300)},
        {"move": np.zeros(12)},
        {"move": np.zeros(())},
        {"gauge": np.zeros((2, 2))},
        {"misfit": np.zeros((2, 1))},
    ],
    ids=str,
)
def test_a_broadcast_has_the_shapes_agreed_on(talk, arrays):
    site, requests = talk
    request = requests["personal"]
    with pytest.raises(FederationError, match="sent arrays of shapes"):
        site.answer(replace(request, arrays={**request.arrays, **arrays}, round=9))


@pytest.mark.parametrize("candidates", [np.zeros(()), np.zeros((1, 2, 16, 1), "U3"), np.zeros(3)])
def test_candidates_are_dictionaries_of_numbers(talk, candidates):
    site, requests = talk
    request = replace(requests["first"], arrays={"dictionaries": candidates}, round=9)
    with pytest.raises(FederationError, match=r"[Dd]ictionaries"):
        site.answer(request)


@pytest.mark.parametrize("bounds", [[2000, 7], [10**400, 7], [7, -2000]])
def test_a_site_that_tells_absurd_bounds_is_left_out(bounds):
    sent = {"signals": [["x"], [""], 50.0, []], "n_masks": 0, "bounds": bounds}
    with pytest.raises(ValueError, match="bounds"):
        read_reply(Reply("lyon", "join", "run-1", 0, 0, sent))


def test_sums_that_overflow_name_the_site():
    layout = Layout((Entry("objective", ()),))
    parts = {"lyon": np.array([1e308]), "nice": np.array([1.5e308])}
    with pytest.raises(FederationError, match=r"`objective` overflows.*site nice"):
        layout.add(parts)
    parts["nice"] = np.array([2.0])
    np.testing.assert_array_equal(layout.add(parts), [1e308])


@pytest.mark.parametrize("energy", [0.0, float("inf"), float("nan")])
def test_a_signal_without_measurable_energy_has_no_bounds(energy):
    with pytest.raises(FederationError, match="energy of the recordings"):
        exponent(energy)


def test_plausible_bounds_give_scales_that_are_numbers():
    settings = propose(double(), False, 2, 1).make_settings()
    for most in (960, -960):
        scales = layout_of("personal", settings, 1).scales(Bounds(most, abs(most)), settings)
        assert np.isfinite(scales).all()
        assert (scales > 0).all()


# A message but for a name that comes twice: readers do not agree on which one counts.
TWICE = (
    '{"kind": "join", "run": "a", "run": "run-1", "round": 0, "attempt": 0, "facts": {}, '
    '"site": "nord"}'
)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"kind": 1e999}', TWICE], ids=["deep", "endless", "twice"]
)
def test_a_text_that_is_no_message_is_refused(text):
    app = pytest.importorskip("flwr.app")
    from percdl.runtimes.flower.wire import read_reply, read_request

    said = app.ConfigRecord({"json": text})
    records = app.RecordDict({"said": said, "arrays": app.ArrayRecord({})})
    for read in (read_request, read_reply):
        with pytest.raises(FederationError):
            read(records)


def test_an_array_with_a_malformed_header_is_refused():
    app = pytest.importorskip("flwr.app")
    from percdl.runtimes.flower.wire import read_request, to_records
    from percdl.runtimes.messages import Request

    records = to_records(Request("keys", "run-1", 1, 0, {}, {"x": np.ones(2)}))
    data = records.array_records["arrays"]["x"].data.replace(b"(2,)", b"(2, ")
    odd = app.Array("float64", (2,), "numpy.ndarray", data)
    records.array_records["arrays"]["x"] = odd
    with pytest.raises(FederationError, match="arrays of the message cannot be read"):
        read_request(records)


def test_a_checkpoint_of_terms_that_cannot_be_is_refused(tmp_path):
    path = tmp_path / "checkpoint"
    model = double("PopCDL", population_rounds=1, personal_rounds=0)
    federation = FederatedPerCDL(model, checkpoint=path).fit(split(make_cohort()))
    content, arrays = container.read(path, container.FEDERATION)
    content["terms"]["n_masks"] = 3  # of one channel
    container.write(path, container.FEDERATION, content, arrays)
    with pytest.raises(ModelFileError, match=r"(?s)damaged.*n_masks is 3 for 1 channels"):
        read_checkpoint(path, federation.propose_terms())
