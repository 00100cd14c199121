"""The board over HTTPS: strangers are not served, posts arrive as they were sent."""

import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'percdl[federated]'")

import socket
import ssl

import httpx
from federation import double, make_cohort, split

from percdl.exceptions import FederationError
from percdl.federated import relay
from percdl.federated.board import Board, WaitedError
from percdl.federated.certificates import make_authority, make_server_certificate
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.messages import Head, Post, write_post
from percdl.federated.relay import Listening, Relayed, make_app, make_server, pack, unpack


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("relay")
    make_authority(folder)
    make_server_certificate(["localhost"], folder)
    return folder


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return make_sites(split(make_cohort()), tmp_path_factory.mktemp("sites"))


@pytest.fixture
def manifest(sites):
    return FederatedPerCDL(double("PopCDL")).propose("run", sites)


@pytest.fixture
def served(place, manifest):
    """A board behind a server with TLS; yields it and its address."""
    board = Board(manifest)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    at = Listening("127.0.0.1", port, place / "server.crt", place / "server.key")
    server = make_server(make_app(board, hold=0.2), at)
    thread = threading.Thread(target=server.run)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.05)
    yield board, f"localhost:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def connect(place, manifest):
    """A function that connects a site to an address; connections are closed in the end."""
    with ExitStack() as stack:

        def connect(address, site, patience=5.0, authority=place / "ca.crt"):
            way = Relayed(address, authority.read_text(), site.identity, manifest, patience)
            return stack.enter_context(way)

        yield connect


def make_post(site, manifest, slot=0, numbers=b"12345678"):
    head = Head(
        run=manifest.run, slot=slot, site=site.name, kind="join", chain=manifest.digest, facts={}
    )
    return write_post(Post(head, numbers), site.identity.sign)


def test_posts_arrive_as_they_were_sent(served, connect, sites, manifest):
    posts = {site.name: make_post(site, manifest) for site in sites}
    for site in sites:
        connect(served[1], site).post(posts[site.name])
    for site in sites:
        assert connect(served[1], site).read(0) == posts
    assert unpack(pack(posts), manifest) == posts


def test_a_missing_site_is_named(served, connect, sites, manifest):
    first = connect(served[1], sites[0], patience=0.5)
    first.post(make_post(sites[0], manifest))
    with pytest.raises(WaitedError, match="ouest, sud has not posted in slot 0"):
        first.read(0)


def test_a_server_that_is_away_is_waited_for(connect, sites, monkeypatch):
    monkeypatch.setattr(relay, "_RETRY", 0.1)
    away = connect("localhost:1", sites[0], patience=0.3)
    with pytest.raises(WaitedError, match="cannot be reached"):
        away.read(0)


def test_strangers_are_not_served(served, place, sites, manifest):
    board, address = served
    for site in sites:
        board.post(make_post(site, manifest))
    context = ssl.create_default_context(cafile=place / "ca.crt")
    with httpx.Client(base_url=f"https://{address}", verify=context) as client:
        for headers in ({}, {"authorization": "nord 00"}, {"authorization": "x" * 300}):
            assert client.get("/posts/0", headers=headers).status_code == 403
            assert client.post("/posts/0", headers=headers, content=b"x").status_code == 403
        assert client.get("/health").json() == {"slot": 0, "over": False}
        assert client.get("/docs").status_code == 404


def test_another_authority_is_not_trusted(served, connect, tmp_path, sites):
    make_authority(tmp_path)
    wrong = connect(served[1], sites[0], 0.1, tmp_path / "ca.crt")
    with pytest.raises(WaitedError, match=r"cannot be reached.*certificate"):
        wrong.read(0)


def test_a_refused_post_says_why(served, connect, sites, manifest):
    way = connect(served[1], sites[0])
    way.post(make_post(sites[0], manifest))
    with pytest.raises(FederationError, match="posted another message in slot 0"):
        way.post(make_post(sites[0], manifest, numbers=b"87654321"))


def test_a_post_that_is_too_long_is_refused(served, connect, sites, manifest, monkeypatch):
    monkeypatch.setattr(relay, "MOST_BYTES", 1000)
    with pytest.raises(FederationError, match="too long"):
        connect(served[1], sites[0]).post(make_post(sites[0], manifest, numbers=b"x" * 5000))


def test_a_board_on_disk_survives_a_restart(tmp_path, sites, manifest):
    posts = {site.name: make_post(site, manifest) for site in sites}
    board = Board(manifest, tmp_path)
    for post in posts.values():
        board.post(post)
    assert Board(manifest, tmp_path).read(0, 0) == posts
    assert np.size(list(tmp_path.iterdir())) == 3
