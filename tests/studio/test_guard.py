"""Only the person who started the studio has access, and only to files in its folder."""

import threading

import httpx
import pytest

from percdl.cli.studio_command import make_studio
from percdl.studio.server import listen

OUTSIDE = ["../secret.csv", "/etc/passwd", "walks/../../secret.csv", "a\0b"]


def test_without_the_token_nothing_is_answered(studio):
    base = studio.partition("/?")[0]
    for path in ("/", "/?token=wrong", "/model?file=walks.percdl", "/assets/setup.js",
                 "/file?name=subjects.csv"):  # fmt: skip
        answer = httpx.get(base + path)
        assert answer.status_code == 403, path
    assert httpx.post(f"{base}/api/files", json={}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},  # a name that was made to lead here
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},  # another port of this machine
    ],
)
def test_other_sites_are_refused_even_with_the_cookie(client, headers):
    assert client.post("/api/files", json={}, headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 403


def test_a_container_listens_for_others_but_answers_this_machine_only(folder):
    made = make_studio(folder)
    server, address = listen(made, 0, "0.0.0.0")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.listening.getsockname()[0] == "0.0.0.0"
        with httpx.Client(follow_redirects=True) as person:
            assert person.get(address).status_code == 200
            assert person.get(address, headers={"host": "10.0.0.7:8000"}).status_code == 403
        assert httpx.get(address.partition("?")[0]).status_code == 403
    finally:
        server.stop()
        thread.join()


def test_the_cookie_stays_with_the_studio(studio):
    answer = httpx.get(studio)
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 303
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "token" not in answer.headers["location"]


def test_pages_forbid_foreign_content(client):
    for path in ("/", "/model?file=walks.percdl", "/assets/setup.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", OUTSIDE)
def test_files_outside_the_folder_are_refused(client, name):
    questions = [
        ("columns", {"name": name}),
        ("preview", {"options": {"sfreq": 50}, "file": name}),
        ("person", {"file": name, "s": 0}),
        ("run", {"command": "fit", "options": {"data": [name], "out": "x.percdl"}}),
        ("run", {"command": "fit", "options": {"data": ["Ada.csv"], "out": name}}),
        ("run", {"command": "personalize", "options": {"model": name, "data": ["Ada.csv"]}}),
    ]
    for about, question in questions:
        answer = client.ask(about, **question)
        assert answer.status_code == 400, (about, question)
        assert "problem" in answer.json()
    assert client.get("/file", params={"name": name}).status_code in (403, 404)


def test_a_link_that_leads_out_is_refused(client, folder):
    link = folder / "link.csv"
    link.symlink_to(folder.parent / "secret.csv")
    assert client.ask("columns", name="link.csv").status_code == 400
    for several in (".", "*.csv"):
        options = {"data": [several], "out": "x.percdl"}
        assert client.ask("run", command="fit", options=options).status_code == 400
    assert client.get("/file", params={"name": "link.csv"}).status_code == 403


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", {}),
        ("federate", {}),
        ("fit", {"dask": "tcp://evil.example:1", "data": ["Ada.csv"]}),
        ("fit", {"config": "options.toml", "data": ["Ada.csv"]}),
        ("fit", {"channels": ["x\n--dask=tcp://evil.example:1"], "time": "t\n", "data": ["."]}),
    ],
)
def test_only_known_commands_and_options_are_run(client, command, options):
    assert client.ask("run", command=command, options=options).status_code == 400


def test_a_value_is_never_taken_for_an_option(folder):
    from percdl.cli.studio_command import make_studio

    project = make_studio(folder).project
    (folder / "--dask=x.csv").write_text("t,x\n0,1\n")
    options = {"data": ["--dask=x.csv"], "time": "--out", "channels": ["--debug", "x"]}
    made = project.make_arguments("fit", options)
    assert made == ["fit", "--time=--out", "--channels=--debug,x", "--", "--dask=x.csv"]


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("columns", {}),
        ("person", {"file": "walks.percdl", "s": "0"}),
        ("person", {"file": "walks.percdl", "s": -1}),
        ("news", {"job": 999, "known": 0}),
        ("compare", {"file": "walks.percdl", "first": "person:Eve", "second": "everyone",
                     "atom": 0, "channel": 0}),
        ("compare", {"file": "walks.percdl", "first": 3, "second": "everyone", "atom": 0,
                     "channel": 0}),
        ("compare", {"file": "walks.percdl", "first": "everyone", "second": "everyone",
                     "atom": 99, "channel": 0}),
        ("run", {"command": "fit", "options": []}),
        ("nothing", {}),
    ],
)  # fmt: skip
def test_questions_that_make_no_sense_get_an_answer_that_says_so(client, name, question):
    assert client.ask(name, **question).status_code in (400, 404)


def test_long_questions_are_refused(client):
    assert client.ask("columns", name="x" * 41_000_000).status_code == 413
