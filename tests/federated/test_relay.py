"""The board over HTTPS: strangers are not served, posts arrive as they were sent."""

import threading
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'percdl[federated]'")

import socket
import ssl

import anyio
import httpx
from cryptography import x509
from federation import double, make_cohort, split

from percdl.exceptions import FederationError
from percdl.federated import relay
from percdl.federated.board import Board, WaitedError
from percdl.federated.certificates import (
    make_authority,
    make_server_certificate,
    read_end,
    renew_server_certificate,
)
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.manifest import Invitation
from percdl.federated.messages import Head, Post, pack, unpack, write_post
from percdl.federated.relay import (
    Relayed,
    look_at_server,
    make_app,
    make_server,
)
from percdl.signals.files import hold, release


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


def listen(place, port):
    return "127.0.0.1", port, place / "server.crt", place / "server.key"


@pytest.fixture
def served(place, manifest):
    """A board behind a server with TLS; yields it and its address."""
    board = Board(manifest)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_server(make_app(board, hold=0.2), *listen(place, port))
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
            invited = Invitation(address, authority.read_text(), manifest)
            return stack.enter_context(Relayed(invited, site.identity, patience))

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


@given(st.dictionaries(st.text(), st.binary()))
def test_a_message_holds_the_posts_that_were_packed(posts):
    assert unpack(pack(posts)) == posts


@given(st.binary())
def test_any_message_can_be_unpacked(content):
    """Junk gives junk, which no signature fits."""
    assert sum(map(len, unpack(content).values())) <= len(content)


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


def test_a_second_process_of_a_site_does_not_end_the_run(
    served, connect, tmp_path, manifest, sites
):
    """Somewhere else, with the same key: its posts are refused, and those of the first count."""
    board, address = served
    connect(address, sites[0]).post(make_post(sites[0], manifest))
    twin = replace(sites[0], folder=tmp_path)
    with pytest.raises(WaitedError, match="posted another message in slot 0"):
        twin.take_part(manifest, connect(address, twin))
    assert board.missing(1) == manifest.sites  # it has not told the others that the site leaves


def test_a_second_process_in_the_same_folder_is_refused(sites, manifest, tmp_path):
    site = replace(sites[0], folder=tmp_path)
    (tmp_path / manifest.run).mkdir()
    held = hold(tmp_path / manifest.run)
    with pytest.raises(FederationError, match="Another process takes part in run run"):
        site.take_part(manifest, Board(manifest))
    release(held)
    assert not list(tmp_path.rglob("*.post"))


def test_a_post_that_is_too_long_is_refused(served, connect, sites, manifest, monkeypatch):
    monkeypatch.setattr(relay, "MOST_BYTES", 1000)
    with pytest.raises(FederationError, match="too long"):
        connect(served[1], sites[0]).post(make_post(sites[0], manifest, numbers=b"x" * 5000))


def test_slots_open_one_after_the_other(served, connect, sites, manifest):
    """A member cannot fill the disk of the server with posts of the future."""
    way = connect(served[1], sites[0])
    way.post(make_post(sites[0], manifest, slot=1))  # as a site that refuses before others join
    for slot in (2, 3, 10**5):
        with pytest.raises(FederationError, match=f"Slot {slot} of run run is not open yet"):
            way.post(make_post(sites[0], manifest, slot=slot))


def test_those_who_wait_do_not_keep_others_from_posting(served, place, sites, manifest):
    """More readers wait than a server has threads, and a post arrives at once."""
    board, address = served
    text = relay.signed_request(manifest.run, "GET", 0)
    headers = {"authorization": f"nord {sites[0].identity.sign(text).hex()}"}
    context = ssl.create_default_context(cafile=place / "ca.crt")
    limits = httpx.Limits(max_connections=200)
    with httpx.Client(base_url=f"https://{address}", verify=context, limits=limits) as client:
        readers = [
            threading.Thread(target=client.get, args=["/posts/0"], kwargs={"headers": headers})
            for _ in range(60)
        ]
        for reader in readers:
            reader.start()
        connect_and_post(address, place, sites[0], manifest)
        for reader in readers:
            reader.join()
    assert board.missing(0) == ["ouest", "sud"]


def connect_and_post(address, place, site, manifest):
    authority = (place / "ca.crt").read_text()
    with Relayed(Invitation(address, authority, manifest), site.identity, 5.0) as way:
        way.post(make_post(site, manifest))


@pytest.fixture
def lying(place):
    """A function that serves an application with TLS; returns its address."""
    stopped = []

    def serve(app):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = make_server(app, *listen(place, port))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while thread.is_alive() and not server.started:
            time.sleep(0.05)
        stopped.append((server, thread))
        return f"localhost:{port}"

    yield serve
    for server, thread in stopped:
        server.should_exit = server.force_exit = True
        thread.join()


def endless(part, pause, n_parts=10_000):
    """Return an application that answers with a body that does not end, or late."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(n_parts):
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await anyio.sleep(pause)
        await send({"type": "http.response.body", "body": b""})

    return app


def test_a_body_without_end_is_not_read(lying, connect, sites, manifest, monkeypatch):
    monkeypatch.setattr(relay, "_MOST_MORE", 1000)
    way = connect(lying(endless(b"x" * 10_000, 0)), sites[0])
    with pytest.raises(FederationError, match="sends more than"):
        way.post(make_post(sites[0], manifest))


def test_a_server_that_drips_is_left(lying, connect, sites, manifest, monkeypatch):
    monkeypatch.setattr(relay, "_HOLD", 0.2)
    way = connect(lying(endless(b"x", 0.05)), sites[0], patience=0.3)
    with pytest.raises(WaitedError, match="too slow"):
        way.read(0)


def test_a_look_at_a_server_tells_how_far_its_clock_is_ahead(served, lying, place, tmp_path):
    authority = (place / "ca.crt").read_text()
    assert abs(look_at_server(served[1], authority)) < 5
    assert look_at_server("localhost:1", authority) is None
    with pytest.raises(FederationError, match="not a relay of percdl"):
        look_at_server(lying(endless(b"<html>", 0, n_parts=1)), authority)
    with pytest.raises(FederationError, match="sends more than"):
        look_at_server(lying(endless(b"{" * 100, 0)), authority)
    make_authority(tmp_path)
    with pytest.raises(FederationError, match="does not prove its identity"):
        look_at_server(served[1], (tmp_path / "ca.crt").read_text())
    with pytest.raises(FederationError, match="not a certificate in PEM"):
        look_at_server(served[1], "junk")


def test_a_renewed_certificate_serves_the_same_sites(place, tmp_path):
    """The same key and names, a later end; the authority that sites know has signed it."""
    for path in place.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
        (tmp_path / path.name).chmod(path.stat().st_mode)
    load = x509.load_pem_x509_certificate
    before = load((tmp_path / "server.crt").read_bytes())
    renew_server_certificate(tmp_path)
    after = load((tmp_path / "server.crt").read_bytes())
    assert after.serial_number != before.serial_number
    assert after.public_key() == before.public_key()
    names = [
        c.extensions.get_extension_for_class(x509.SubjectAlternativeName) for c in (before, after)
    ]
    assert names[0] == names[1]
    assert read_end(tmp_path / "server.crt") >= before.not_valid_after_utc
    after.verify_directly_issued_by(load((place / "ca.crt").read_bytes()))


def test_a_board_on_disk_survives_a_restart(tmp_path, sites, manifest):
    posts = {site.name: make_post(site, manifest) for site in sites}
    board = Board(manifest, tmp_path)
    for post in posts.values():
        board.post(post)
    assert Board(manifest, tmp_path).look(0) == posts
    assert np.size(list(tmp_path.iterdir())) == 3
