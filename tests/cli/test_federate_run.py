"""``percdl federate server`` and ``site`` at work in one process, without Flower's programs."""

import json
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import pytest
from commands import events_of, refused, run, write_walks

import percdl
from percdl.cli import federate_site
from percdl.cli.federate_config import read_server_file, read_site_file
from percdl.cli.federate_server import make_federation
from percdl.cli.output import Output
from percdl.runtimes.messages import InProcessWire, Request

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

from flower_grid import LocalGrid

from percdl.runtimes.flower import connection
from percdl.runtimes.flower.processes import EndedError
from percdl.runtimes.flower.wire import make_client_app

SITES = ("lyon", "nice")
SERVER = """
[server]
run = "trial"
folder = "server"
port = 8000
authority = "keys/ca.crt"
certificate = "keys/server.crt"
key = "keys/server.key"
wait = 0.0
secure = false

[sites]
lyon = "keys/lyon.nodepub"
nice = "keys/nice.nodepub"

[model]
n-atoms = 2
atom-length = 16
penalty = 0.3
depth = 1
width = 3
population-rounds = 2
personal-rounds = 2
realign = false
multistart = false
"""
SITE = """
[site]
name = "{site}"
server = "127.0.0.1:9"
folder = "{site}.own"
authority = "keys/ca.crt"
node = "keys/{site}.node"
require-secure = false
report = false
retry = 0.0

[data]
data = "{site}"
channels = "x"
sfreq = 50.0
"""


@pytest.fixture
def place(tmp_path):
    """Files of a server and two sites."""
    keys = tmp_path / "keys"
    run("federate", "keys", "lyon", "--ca", "--server", "127.0.0.1", "--folder", keys)
    run("federate", "keys", "nice", "--folder", keys)
    (tmp_path / "server.toml").write_text(SERVER)
    for seed, site in enumerate(SITES):
        write_walks(tmp_path / site, seed)
        (tmp_path / f"{site}.toml").write_text(SITE.format(site=site))
    return tmp_path


def own_sites(place, folder="."):
    """Return the sites as their files describe them, by name; what they keep is in a folder."""
    plans = [read_site_file(place / f"{site}.toml") for site in SITES]
    plans = [
        plan.model_copy(update={"folder": place / folder / plan.folder.name}) for plan in plans
    ]
    return {plan.name: federate_site.make_site(plan) for plan in plans}


@dataclass(frozen=True)
class Heard(InProcessWire):
    """A wire that keeps what lyon is asked."""

    asked: list = field(default_factory=list)

    def ask(self, requests, timeout):
        self.asked.append(requests["lyon"])
        return InProcessWire.ask(self, requests, timeout)


def fit_over(place, wire):
    """Return the model of the server's file, without the command."""
    federation = make_federation(read_server_file(place / "server.toml"))
    return federation.set_params(checkpoint=None, audit=None).fit_over(wire, run="trial").model_


@pytest.fixture
def linked(place, monkeypatch):
    """Let the server find these sites on its link; return those that it finds."""
    found = own_sites(place)
    numbers = {site: 10 + i for i, site in enumerate(SITES)}

    class OwnLink:
        def admit(self, keys):
            assert keys.keys() == set(SITES)
            return numbers

        def open_run(self):
            apps = {numbers[site]: make_client_app(one.answer) for site, one in found.items()}
            return nullcontext(LocalGrid(apps))

    monkeypatch.setattr(
        connection, "running_link", lambda listening, folder: nullcontext(OwnLink())
    )
    return found


def server(place, *options):
    return run("federate", "server", place / "server.toml", *options)


def test_the_command_learns_what_the_estimator_does(place, linked):
    result = server(place, "--json")
    assert result.exit_code == 0, result.output
    printed = events_of(result)
    assert [event["event"] for event in printed] == ["sites", "start", *["round"] * 4, "done"]
    assert [row["site"] for row in printed[-1]["summary"]] == list(SITES)
    wire = Heard({name: site.answer for name, site in own_sites(place, "again").items()})
    model = fit_over(place, wire)
    learned = percdl.load(place / "server" / "trial" / "model.percdl")
    np.testing.assert_array_equal(learned.dictionary_, model.dictionary_)
    assert learned.objective_ == model.objective_
    assert not (place / "server" / "trial" / "checkpoint.percdl").exists()


def check_told(result, place):
    """Hold the table that people see against the log of the rounds."""
    assert result.exit_code == 0, result.output
    assert "2 of 2 sites: lyon, nice" in result.output
    lines = (place / "server" / "trial" / "audit.jsonl").read_text().splitlines()
    rounds = [json.loads(line) for line in lines]
    sent = sum(line["bytes_up"].get("lyon", 0) for line in rounds)
    (row,) = [line.split() for line in result.output.splitlines() if line.startswith("lyon ")]
    assert row[:4] == ["lyon", str(len(rounds)), "0", str(sent)]


def test_an_interrupted_run_goes_on_to_the_same_end(place, linked, monkeypatch):
    check_told(server(place), place)
    whole = percdl.load(place / "server" / "trial" / "model.percdl")
    path = place / "server.toml"
    path.write_text(SERVER.replace('"trial"', '"second"'))

    def stop(self, n_rounds):
        def report(phase, index, objective):
            if (phase, index) == ("personal", 0):
                raise KeyboardInterrupt

        return nullcontext(report)

    with monkeypatch.context() as patch:
        patch.setattr(Output, "rounds", stop)
        message = refused("federate", "server", path, code=130)
    assert f"Continue with: percdl federate server {path} --resume" in message
    result = server(place, "--resume")
    assert result.exit_code == 0, result.output
    resumed = percdl.load(place / "server" / "second" / "model.percdl")
    np.testing.assert_array_equal(resumed.dictionary_, whole.dictionary_)
    assert resumed.objective_ == whole.objective_


def test_too_few_sites_are_waited_for_and_then_told(place, linked):
    del linked["nice"]
    change = SERVER.replace("wait = 0.0", "wait = 0.1")
    (place / "server.toml").write_text(change)
    message = refused("federate", "server", place / "server.toml")
    assert "1 of 2 sites: lyon" in message
    assert "1 site(s) came within 0.1 s, and 2 are needed. Check their logs" in message


def test_a_penalty_above_all_energy_ends_with_a_code_of_its_own(place, linked):
    (place / "server.toml").write_text(SERVER.replace("penalty = 0.3", "penalty = 1e9"))
    result = server(place)
    assert result.exit_code == 3, result.output
    assert "Every activation is zero" in result.output


@dataclass
class OwnNode:
    """Stands in for a SuperNode: it ends by itself some times, then brings requests."""

    requests: list
    ends: list
    replies: list = field(default_factory=list)

    def serve(self, answer, done):
        if self.ends:
            raise EndedError(self.ends.pop())
        assert not done()
        for request in self.requests:
            try:
                self.replies.append(answer(request))
            except percdl.exceptions.FederationError:
                self.replies.append(None)
        assert done()


def test_a_site_tells_what_it_sends_and_leaves_after_the_run(place, monkeypatch):
    wire = Heard({name: site.answer for name, site in own_sites(place, "before").items()})
    fit_over(place, wire)
    odd = Request("join", "other", 0, 0, {"agreement": {}}, {})
    there = OwnNode([odd, *wire.asked], ["supernode ended with code 1: no server."])
    monkeypatch.setattr(federate_site, "LINGER", -1.0)
    monkeypatch.setattr(connection, "running_node", lambda *where: nullcontext(there))
    result = run("federate", "site", place / "lyon.toml", "--json")
    assert result.exit_code == 0, result.output
    printed = events_of(result)
    warned = [event["message"] for event in printed if event["event"] == "warning"]
    assert any("no server. Next try in 0 s." in text for text in warned)
    assert any(text.startswith("join of run other, refused: ") for text in warned)
    kinds = [request.kind for request in wire.asked]
    assert [event["kind"] for event in printed if event["event"] == "answer"] == kinds
    sent = (place / "lyon.own" / "sent.jsonl").read_text().splitlines()
    refusal, *replies = there.replies
    assert refusal is None
    for line, kind, reply in zip(map(json.loads, sent), kinds, replies, strict=True):
        shapes = {name: list(array.shape) for name, array in reply.arrays.items()}
        assert {name: array["shape"] for name, array in line["arrays"].items()} == shapes
        assert line["kind"] == kind
    assert (place / "lyon.own" / "trial" / "model.percdl").is_file()


def test_a_site_that_stays_is_never_done(place):
    path = place / "lyon.toml"
    for stay in (False, True):
        door = federate_site._Door(lambda request: None, read_site_file(path), Output())
        assert not door.is_done()
        door._finished = -1e9
        assert door.is_done() is not stay
        path.write_text(path.read_text().replace("report = false", "report = false\nstay = true"))
