"""Requests and replies over Flower: what is asked arrives, what goes wrong is told by site."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from percdl.exceptions import FederationError
from percdl.runtimes.messages import Failure, InProcessWire, Reply, Request, Wire

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

from flower_grid import LocalGrid
from flwr.app import ConfigRecord, Error, Message, RecordDict

from percdl.runtimes.flower.connection import make_bundle
from percdl.runtimes.flower.wire import (
    KINDS,
    FlowerWire,
    make_client_app,
    read_reply,
    read_request,
    refusal_records,
    to_records,
)

SAID = {"site": "north", "kind": "join", "run": "r", "round": 1, "attempt": 0, "facts": {}}
NODES = {"north": 11, "south": 22, "west": 33}


def doubling(site):
    """Return a site that doubles what it is given."""

    def answer(request):
        arrays = {name: 2 * array for name, array in request.arrays.items()}
        return Reply(
            site, request.kind, request.run, request.round, request.attempt, request.facts, arrays
        )

    return answer


def make_wire(answers=None, **meddle):
    answers = {site: doubling(site) for site in NODES} | (answers or {})
    apps = {NODES[site]: make_client_app(answer) for site, answer in answers.items()}
    grid = LocalGrid(apps, {NODES[site]: way for site, way in meddle.items()})
    return grid, FlowerWire(grid, NODES, poll=0.0)


def request(kind="population", value=1.0, **changes):
    asked = Request(kind, "run-1", 3, 1, {"n": [1, None, "ä"]}, {"x": np.full((2, 3), value)})
    return replace(asked, **changes)


def ask_all(wire, timeout=0.0, **changes):
    return wire.ask({site: request(**changes) for site in NODES}, timeout)


def test_it_is_a_wire():
    assert isinstance(make_wire()[1], Wire)


@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_as_without_flower(kind):
    _, wire = make_wire()
    plain = InProcessWire({site: doubling(site) for site in NODES})
    ours, theirs = ask_all(wire, kind=kind), ask_all(plain, kind=kind)
    assert ours.keys() == theirs.keys()
    for site in NODES:
        np.testing.assert_array_equal(ours[site].arrays["x"], theirs[site].arrays["x"])
        assert replace(ours[site], arrays={}) == replace(theirs[site], arrays={})


ARRAYS = st.sampled_from([np.float64, np.int64, np.uint64]).flatmap(
    lambda dtype: np_st.arrays(dtype, np_st.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), ARRAYS, max_size=3), st.sampled_from(KINDS)
)
def test_messages_come_through_to_the_bit(arrays, kind):
    sent = Request(kind, "run", 2, 0, {"a": {"b": [1.5, True]}}, arrays)
    told = Reply("site", kind, "run", 2, 0, {"a": 1}, arrays)
    for message, got in [
        (sent, read_request(to_records(sent))),
        (told, read_reply(to_records(told))),
    ]:
        assert replace(got, arrays={}) == replace(message, arrays={})
        assert got.arrays.keys() == arrays.keys()
        for name, array in arrays.items():
            assert got.arrays[name].dtype == array.dtype
            assert got.arrays[name].tobytes() == array.tobytes()


def test_sites_are_those_connected():
    grid, wire = make_wire()
    assert wire.sites() == ("north", "south", "west")
    del grid.apps[22]
    grid.apps[99] = make_client_app(doubling("stranger"))
    assert wire.sites() == ("north", "west")
    answers = ask_all(wire)
    assert answers["south"] == Failure("south", "not connected")
    assert {m.metadata.dst_node_id for m in grid.sent} == {11, 33}


def test_a_refusal_is_told_in_its_own_words():
    def refuse(_):
        raise FederationError("fewer than 5 subjects here.")

    _, wire = make_wire({"south": refuse})
    answers = ask_all(wire)
    assert answers["south"] == Failure("south", "fewer than 5 subjects here.")
    assert isinstance(answers["north"], Reply)


def test_an_unforeseen_error_keeps_its_text_at_the_site(caplog):
    def break_down(_):
        raise ValueError("/home/clinic/patient_17.csv is odd")

    grid, wire = make_wire({"west": break_down})
    seen = []
    grid.meddle[33] = lambda message: seen.append(message) or [message]
    answers = ask_all(wire)
    assert answers["west"] == Failure("west", "internal error; the log of the site has more.")
    crossed = str(seen[0].content.config_records["said"]["json"])
    assert "patient" not in crossed
    assert "Traceback" not in crossed
    assert "patient_17" in caplog.text  # the site itself can read what happened


def test_a_late_reply_never_counts():
    grid, wire = make_wire()
    grid.late = {22}
    first = ask_all(wire, value=1.0)
    assert first["south"] == Failure("south", "no answer within 0 s")
    grid.release()
    grid.late = set()
    second = ask_all(wire, value=5.0, attempt=2)
    assert second["south"].attempt == 2
    np.testing.assert_array_equal(second["south"].arrays["x"], 10.0)


def test_a_reply_given_twice_counts_once():
    _, wire = make_wire(north=lambda message: [message, message])
    answers = ask_all(wire)
    assert sorted(answers) == sorted(NODES)
    assert isinstance(answers["north"], Reply)


def test_a_site_that_dies_is_told_by_the_message_it_left_unanswered():
    def unavailable(message):
        # As the SuperLink answers for a node it lost: the reply is not from that node.
        error = Message(Error(5, "Node Unavailable"), reply_to=grid.sent[-1])
        error.metadata.__dict__["_src_node_id"] = 1
        return [error]

    grid, wire = make_wire()
    grid.meddle[33] = unavailable
    answers = ask_all(wire)
    assert answers["west"].why == "code 5 of Flower: Node Unavailable"
    assert isinstance(answers["south"], Reply)


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"said": ConfigRecord({"json": "not JSON"})}),
        RecordDict({"said": ConfigRecord({"json": "[1]"})}),
        RecordDict({"said": ConfigRecord({"json": json.dumps({"kind": "join"})})}),
        RecordDict({"said": ConfigRecord({"json": json.dumps(SAID | {"round": "1"})})}),
        RecordDict({"said": ConfigRecord({"json": json.dumps(SAID | {"kind": "shell"})})}),
        RecordDict({"said": ConfigRecord({"json": json.dumps(SAID)})}),
    ],
)
def test_what_cannot_be_read_is_no_reply(content):
    grid, wire = make_wire()
    grid.meddle[11] = lambda _: [Message(content, reply_to=grid.sent[-1])]
    answer = wire.ask({"north": request()}, 0.0)["north"]
    assert isinstance(answer, Failure)
    assert answer.why.startswith("malformed answer: ")


def test_a_site_cannot_answer_for_another():
    _, wire = make_wire({"south": doubling("north")})
    assert ask_all(wire)["south"] == Failure("south", "answered as 'north'")


def test_a_site_answers_nothing_but_the_protocol():
    grid, _ = make_wire()
    grid.push_messages([Message(to_records(request()), 11, "query.shell")])
    grid.push_messages([Message(to_records(request()), 11, "train")])
    grid.push_messages([Message(RecordDict(), 11, "query.join")])
    *wrong, empty = grid.pull_messages([m.metadata.message_id for m in grid.sent])
    assert all(message.has_error() for message in wrong)
    assert read_reply(empty.content) == "the message holds no readable text."


def test_messages_do_not_outlive_their_round():
    grid, wire = make_wire()
    ask_all(wire, timeout=12.0)
    assert {message.metadata.ttl for message in grid.sent} == {42.0}
    assert {message.metadata.group_id for message in grid.sent} == {"3"}


def test_a_refusal_needs_no_arrays():
    assert read_reply(refusal_records("no")) == "no"


# Flower itself uses a name that its library of patterns deprecates.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_the_bundle_holds_no_code():
    bundle = make_bundle()
    assert bundle == make_bundle()
    assert b".py" not in bundle.content.replace(b"pyproject.toml", b"")
