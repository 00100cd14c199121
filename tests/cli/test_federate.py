"""``percdl federate``: keys, files of options, what is refused before anything starts."""

import os
import socket
import ssl
import stat
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from commands import MODEL, PLAIN, READ, contents, events_of, refused, run, write_walks
from typer.testing import CliRunner

from percdl.cli import app
from percdl.cli.federate_config import read_federation_file, read_site_file
from percdl.cli.output import Output

FEDERATION = """
[federation]
run = "trial"
server = "127.0.0.1:{port}"
authority = "keys/ca.crt"
min-subjects = 2

[members]
lyon = "keys/lyon.pub"
nice = "keys/nice.pub"
paris = "keys/paris.pub"

[model]
n-atoms = 2
atom-length = 16
penalty = 0.3
transformation = "warp"
"""
SITE = """
[site]
identity = "keys/lyon.key"
folder = "own"
min-subjects = 2

[data]
data = "walks"
channels = "x"
sfreq = 50.0
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys of two sites and a server, recordings, and both files."""
    folder = tmp_path_factory.mktemp("federation")
    keys = folder / "keys"
    assert run("federate", "keys", "--ca", "--server", "hub.test", "--folder", keys).exit_code == 0
    for name in ("lyon", "nice", "paris"):
        assert run("federate", "keys", name, "--folder", keys).exit_code == 0
    write_walks(folder / "walks")
    return folder


@pytest.fixture
def place(made, tmp_path):
    """The same in a folder of the test's own, with a port that is free."""
    for name in ("keys", "walks"):
        (tmp_path / name).mkdir()
        for path in (made / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
            (tmp_path / name / path.name).chmod(path.stat().st_mode)
    port = free_port()
    (tmp_path / "federation.toml").write_text(FEDERATION.format(port=port))
    (tmp_path / "site.toml").write_text(SITE)
    return tmp_path


def invite(place, name="invitation.toml"):
    """Write the invitation; return its path and what was printed."""
    out = place / name
    result = run("federate", "invite", place / "federation.toml", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    return out, events_of(result)[-1]


def join(place, *more):
    return ["federate", "join", place / "invitation.toml", "--site", place / "site.toml", *more]


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_keys_are_for_their_owner_only(made):
    private = {"ca.key", "server.key", "lyon.key", "nice.key", "paris.key"}
    for path in (made / "keys").iterdir():
        readable = stat.S_IMODE(path.stat().st_mode) & 0o077
        assert (readable == 0) == (path.name in private), path
    assert len(contents(made / "keys")) == 10


def test_certificate_holds_for_its_hosts_and_no_others(made):
    keys = made / "keys"
    for host, good in (("hub.test", True), ("localhost", True), ("other.test", False)):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(keys / "server.crt", keys / "server.key")
        client = ssl.create_default_context(cafile=keys / "ca.crt")
        assert shake_hands(server, client, host) is good


def shake_hands(server, client, host):
    """Return whether a client takes a server for a host; no network needed."""
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(one, other, server_side=True),
        client.wrap_bio(other, one, server_hostname=host),
    ]
    done = [False, False]
    for _ in range(10):
        for i, end in enumerate(ends):
            try:
                end.do_handshake()
                done[i] = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
    return all(done)


@pytest.mark.parametrize("what", [["lyon"], ["--ca"], ["--server", "hub.test"], ["new", "--ca"]])
def test_keys_are_never_overwritten(place, what):
    before = {path: path.read_bytes() for path in (place / "keys").iterdir()}
    message = refused("federate", "keys", *what, "--folder", place / "keys")
    assert "exists and is not overwritten" in message
    assert {path: path.read_bytes() for path in (place / "keys").iterdir()} == before


def test_keys_say_what_they_need(tmp_path):
    assert "name what to make" in refused("federate", "keys", "--folder", tmp_path)
    assert "no ca.key" in refused("federate", "keys", "--server", "a", "--folder", tmp_path)
    assert "is not a valid name for a site" in refused(
        "federate", "keys", "a b", "--folder", tmp_path
    )
    assert contents(tmp_path) == []


def test_paths_are_those_beside_the_file(place, monkeypatch):
    monkeypatch.chdir("/")
    plan = read_federation_file(place / "federation.toml")
    assert plan.members["nice"] == place / "keys" / "nice.pub"
    site = read_site_file(place / "site.toml")
    assert site.data.data == [str(place / "walks")]
    assert site.min_subjects == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("keys/nice.pub", "keys/mars.pub", "no file"),
        ("keys/nice.pub", "keys/lyon.pub", "same key"),
        ("keys/nice.pub", "keys/ca.crt", "is not a key"),
        ("atom-length = 16", 'atom-length = "1s"', "must be a number of samples"),
        ("penalty = 0.3", 'penalty = "auto"', "depends on the recordings"),
        ("penalty = 0.3", "penalty = 0.3\nsolver-steps = 100000000", "at most 1000"),
        ('run = "trial"', 'run = "../x"', "not a valid name for a run"),
        ("min-subjects = 2", "min-subjects = 2\nepsilon = 1.0", "public first dictionary"),
        ("min-subjects = 2", "min-sites = 2", "there is no key 'min-sites'"),
    ],
)
def test_a_federation_is_checked_before_it_is_offered(place, old, new, expected):
    change(place / "federation.toml", old, new)
    out = place / "x.toml"
    message = refused("federate", "invite", place / "federation.toml", "--out", out)
    assert expected in message
    assert not out.exists()


def test_an_invitation_has_a_fingerprint(place):
    path, done = invite(place)
    assert len(done["checksum"]) == 64
    assert done["fingerprint"] in path.read_text()
    assert done["fingerprint"].replace("-", "") == done["checksum"][:32]
    change(place / "federation.toml", "penalty = 0.3", "penalty = 0.4")
    assert invite(place, "other.toml")[1]["checksum"] != done["checksum"]
    plan = place / "federation.toml"
    assert "files that are read" in refused("federate", "invite", plan, "--out", plan)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("keys/lyon.key", "keys/mars.key", "no key at"),
        ("keys/lyon.key", "keys/ca.key", "not"),
        ("min-subjects = 2", "min-subjects = 50", "fewer than 50 people"),
        ("min-subjects = 2", "min-sites = 4", "sums over 4 sites or more"),
        ("min-subjects = 2", "max-epsilon = 1.0\nmin-subjects = 2", "noisy sums only"),
        ("min-subjects = 2", 'manifest = "f21f-9297"', "consented to f21f-9297"),
        ("min-subjects = 2", 'dataset = "runs"', "holds data set 'runs'"),
        ("min-subjects = 2", 'person = "name"', "`person` needs a column 'name'"),
        ('data = "walks"', 'data = "runs"', "runs"),
    ],
)
def test_a_site_is_checked_before_it_connects(place, old, new, expected):
    invite(place)
    change(place / "site.toml", old, new)
    assert expected in refused(*join(place, "--check"))


def test_people_with_several_recordings_are_counted_once(place):
    invite(place)
    names = sorted(path.stem for path in (place / "walks").iterdir())
    table = pd.DataFrame({"subject": names, "name": ["Ada", *names[1:-1], "Ada"]})
    table.to_csv(place / "people.csv", index=False)
    change(place / "site.toml", "min-subjects = 2", f"min-subjects = {len(names)}")
    assert run(*join(place, "--check")).exit_code == 0
    change(place / "site.toml", "[data]", 'person = "name"\n\n[data]\nmetadata = "people.csv"')
    assert f"fewer than {len(names)} people" in refused(*join(place, "--check"))


def test_control_characters_are_shown_as_text(capsys):
    """Names and reasons of others cannot rewrite the fingerprint on a terminal."""
    Output().say("\x1b[2J lyon\u202e\nn\u00eemes")
    assert capsys.readouterr().out == "\\x1b[2J lyon\\u202e\nn\u00eemes\n"


def test_keys_that_others_can_read_are_refused(place):
    invite(place)
    (place / "keys" / "lyon.key").chmod(0o644)
    assert "can be read or changed by others" in refused(*join(place, "--check"))


def test_a_site_can_be_checked_alone(place):
    invite(place)
    result = run(*join(place, "--check"))
    assert result.exit_code == 0, result.output
    assert "No data was sent" in result.output
    assert "no server answers" in result.output
    assert "paris: key" in result.output
    assert not (place / "own" / "ledger.jsonl").exists()


def test_a_fingerprint_must_be_compared(place):
    invite(place)
    message = refused(*join(place), code=1)  # no one answers the question
    assert "same fingerprint" in message
    assert not (place / "own" / "ledger.jsonl").exists()


def test_questions_make_the_file_of_a_site(place, monkeypatch):
    """Answers are paths as in the shell, wherever the file of the site is."""
    invite(place)
    (place / "site.toml").unlink()
    monkeypatch.chdir(place / "walks")
    change(place / "federation.toml", "min-subjects = 2", 'min-subjects = 2\ndataset = "walks"')
    invite(place)
    answers = "../keys/lyon.key\n.\n50\n2\n"
    arguments = [str(argument) for argument in join(place, "--check")]
    result = CliRunner().invoke(app, arguments, input=answers, env=PLAIN)
    assert result.exit_code == 0, result.output
    assert "Folder of the recordings of data set walks: " in result.output
    plan = read_site_file(place / "site.toml")
    assert plan.dataset == "walks"
    assert (plan.min_subjects, plan.data.sfreq) == (2, 50.0)
    assert plan.identity.samefile(place / "keys" / "lyon.key")


def test_a_damaged_invitation_is_refused(place):
    path, _ = invite(place)
    change(path, '"members": {', '"membres": {')
    assert "is not an invitation" in refused(*join(place, "--check"))


def test_a_relay_needs_its_files(place):
    path, _ = invite(place)
    keys = place / "keys"
    options = ["--certificate", keys / "none.crt", "--key", keys / "server.key"]
    assert "no file" in refused("federate", "relay", path, *options)
    options = ["--certificate", keys / "server.crt", "--key", keys / "none.key"]
    assert "no key at" in refused("federate", "relay", path, *options)


@contextmanager
def answering(keys):
    """Run a server that answers as a relay does, an hour ahead; yields its port."""
    code = (
        "import http.server, ssl, sys, time\n"
        "class Handler(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response_only(200)\n"
        "        self.send_header('Date', self.date_time_string(time.time() + 3600))\n"
        "        self.end_headers(); self.wfile.write(b'{\"slot\": 0}')\n"
        "s = http.server.HTTPServer(('127.0.0.1', 0), Handler)\n"
        "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(*sys.argv[1:3])\n"
        "s.socket = c.wrap_socket(s.socket, server_side=True)\n"
        "print(s.server_port, flush=True); s.serve_forever()\n"
    )
    command = [sys.executable, "-c", code, keys / "server.crt", keys / "server.key"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def test_a_server_that_cannot_prove_itself_is_not_joined(place):
    (place / "other").mkdir()
    assert run("federate", "keys", "--ca", "--folder", place / "other").exit_code == 0
    with answering(place / "keys") as port:
        text = FEDERATION.format(port=port)
        (place / "federation.toml").write_text(text.replace("keys/ca.crt", "other/ca.crt"))
        invite(place)
        assert "does not prove its identity" in refused(*join(place, "--check"))
        (place / "federation.toml").write_text(text)
        invite(place)
        result = run(*join(place, "--check", "--json"))
        assert result.exit_code == 0, result.output
        events = events_of(result)
        assert next(e for e in events if e["event"] == "start")["connected"] is True
        clock = next(e for e in events if e["event"] == "warning")["message"]
        assert "clock of the server is +3" in clock


def test_a_full_disk_is_noticed_before_a_run(place, monkeypatch):
    invite(place)
    monkeypatch.setattr("percdl.cli.federate_site.LEAST_FREE", 2**62)
    assert "MB left" in refused(*join(place, "--check"))


def test_a_log_is_rotated(place, monkeypatch):
    monkeypatch.setattr("percdl.cli.output.LOG_BYTES", 300)
    monkeypatch.setattr("percdl.cli.output.LOG_FILES", 3)
    invite(place)
    for _ in range(3):
        assert run(*join(place, "--check", "--log", place / "log" / "site.log")).exit_code == 0
    files = sorted(path.name for path in (place / "log").iterdir())
    assert files == ["site.log", "site.log.1", "site.log.2"]
    assert (
        "Fingerprint"
        in (place / "log" / "site.log.1").read_text() + (place / "log" / "site.log").read_text()
    )


def test_a_certificate_is_renewed(place):
    keys = place / "keys"
    before = (keys / "server.crt").read_bytes()
    result = run("federate", "renew", "--folder", keys)
    assert result.exit_code == 0, result.output
    assert "Restart the relay" in result.output
    assert (keys / "server.crt").read_bytes() != before
    (keys / "ca.key").unlink()
    assert "only what was made here" in refused("federate", "renew", "--folder", keys)


def simulated(tmp_path, *more):
    folders = [tmp_path / name for name in ("lyon", "nice", "paris")]
    for seed, folder in enumerate(folders):
        write_walks(folder, seed=seed)
        for path in folder.glob("*.csv"):
            path.rename(path.with_name(f"{folder.name}-{path.name}"))
    out = tmp_path / "out"
    arguments = ["federate", "simulate", *folders, *READ, *MODEL, "--out", out, *more]
    return run(*arguments), out


def test_a_simulation_writes_model_log_and_what_sites_keep(tmp_path):
    result, out = simulated(tmp_path, "--json")
    assert result.exit_code == 0, result.output
    done = events_of(result)[-1]
    assert done["secure"] is True
    assert [row["site"] for row in done["summary"]] == ["lyon", "nice", "paris"]
    assert all(row["received"] > row["sent"] > 0 for row in done["summary"])
    asked = list(pd.read_csv(out / "audit.csv").query("site == 'nice'")["asked"])
    assert (asked[0], asked[-1]) == ("join", "finish")
    assert (out / "model.percdl").is_file()
    kept = [path for path in contents(out / "sites") if path.endswith("events.csv")]
    assert len(kept) == 3
    assert "not empty" in refused(
        "federate", "simulate", tmp_path / "lyon", tmp_path / "nice", *READ, *MODEL, "--out", out
    )


def test_a_simulation_needs_sites(walks, tmp_path):
    out = ["--out", tmp_path / "out"]
    message = refused("federate", "simulate", walks, *READ, *MODEL, *out)
    assert "name a folder for each site" in message
    absent = refused("federate", "simulate", walks, tmp_path / "niec", *READ, *MODEL, *out)
    assert "niec is not a folder" in absent
    twice = refused("federate", "simulate", walks, walks, *READ, *MODEL, *out)
    assert "two are named alike" in twice
    assert contents(tmp_path) == []


def test_help_is_fast(tmp_path):
    code = (
        "import sys; sys.argv = ['percdl', 'federate', '--help']\n"
        "from percdl.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'httpx', 'jax', 'cryptography', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    paths = os.pathsep.join(path for path in sys.path if path and Path(path).is_dir())
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
