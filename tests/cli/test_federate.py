"""``percdl federate``: keys, files of options, what is refused before anything starts."""

import json
import os
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from commands import MODEL, READ, contents, events_of, refused, run, write_walks

from percdl.cli.federate_config import read_server_file, read_site_file

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'percdl[federated]'")

SERVER = """
[server]
run = "trial"
folder = "server"
port = {port}
authority = "keys/ca.crt"
certificate = "keys/server.crt"
key = "keys/server.key"
wait = 0.0

[sites]
lyon = "keys/lyon.nodepub"
nice = "keys/nice.nodepub"

[model]
n-atoms = 2
atom-length = 16
penalty = 0.3
transformation = "warp"
"""
SITE = """
[site]
name = "lyon"
server = "127.0.0.1:{port}"
folder = "own"
authority = "keys/ca.crt"
node = "keys/lyon.node"
identity = "keys/lyon.key"
registered = "keys"
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
    for name in ("lyon", "nice"):
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
    (tmp_path / "server.toml").write_text(SERVER.format(port=port))
    (tmp_path / "site.toml").write_text(SITE.format(port=port))
    return tmp_path


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_keys_are_for_their_owner_only(made):
    private = {"ca.key", "server.key", "lyon.key", "lyon.node", "nice.key", "nice.node"}
    for path in (made / "keys").iterdir():
        readable = stat.S_IMODE(path.stat().st_mode) & 0o077
        assert (readable == 0) == (path.name in private), path
    assert len(contents(made / "keys")) == 12


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


def test_node_key_is_as_ssh_writes_it(made):
    from cryptography.hazmat.primitives import serialization

    keys = made / "keys"
    private = serialization.load_ssh_private_key((keys / "lyon.node").read_bytes(), None)
    public = serialization.load_ssh_public_key((keys / "lyon.nodepub").read_bytes())
    assert private.public_key() == public
    assert private.curve.name == "secp384r1"


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
    plan = read_server_file(place / "server.toml")
    assert plan.folder == place / "server"
    assert plan.sites["nice"] == place / "keys" / "nice.nodepub"
    assert (plan.model.values["n_atoms"], plan.model.values["penalty"]) == (2, 0.3)
    own = read_site_file(place / "site.toml")
    assert own.data.data == [str(place / "walks")]
    assert own.node == place / "keys" / "lyon.node"


SERVER_FAULTS = [
    ('run = "trial"', "", "[server]: run: Field required"),
    ('run = "trial"', 'run = "a/b"', "is not a valid name for a run"),
    ("wait = 0.0", "waits = 0.0", "[server]: there is no key 'waits'"),
    ("wait = 0.0", 'wait = "long"', "[server]: wait = 'long': Input should be a valid number"),
    ("[model]", "[modelx]", "has 'modelx'"),
    ("[sites]", "[sites", "is not a TOML file"),
    ("n-atoms = 2", "n-atoms = 0", "[model], n-atoms: '0' must be an integer of at least 1"),
    (
        "n-atoms = 2",
        'n-atoms = "auto"',
        "server.toml is not possible in a federation: `PerCDL(",
    ),
    ("atom-length = 16", 'atom-length = "1.0s"', "must be a number of samples"),
    ('= "warp"', '= "bend"', "'bend' must be warp"),
    ("keys/ca.crt", "keys/nobody.crt", "no file"),
    ("keys/nice.nodepub", "keys/mars.nodepub", "no file"),
    ("wait = 0.0", "min-sites = 3", "[sites] lists 2, and min-sites is 3"),
    ("wait = 0.0", "min-sites = 1", "min_sites=1"),
    ("wait = 0.0", 'init = "none.percdl"', "There is no model file"),
]


@pytest.mark.parametrize(("old", "new", "expected"), SERVER_FAULTS)
def test_a_server_file_is_checked_before_anything_starts(place, old, new, expected):
    path = change(place / "server.toml", old, new)
    assert expected in refused("federate", "server", path)
    assert not list((place).rglob("superlink*"))
    assert not (place / "server" / "trial").exists()


SITE_FAULTS = [
    ('name = "lyon"', "", "[site]: name: Field required"),
    ('name = "lyon"', 'name = "paris"', "must hold paris.pub"),
    ('name = "lyon"', 'name = "a b"', "is not a valid name for a site"),
    ("min-subjects = 2", "min-subject = 2", "[site]: there is no key 'min-subject'"),
    ("keys/lyon.node", "keys/none.node", "no file"),
    ("keys/lyon.node", "keys/lyon.nodepub", "others"),
    ("keys/lyon.node", "keys/ca.key", "is not a key"),
    ('registered = "keys"', "", "secure sums need `identity` and `registered`"),
    ('data = "walks"', 'data = "elsewhere"', "elsewhere"),
    ('data = "walks"', "", "no recordings were given"),
    ('channels = "x"', 'channels = "y"', "y"),
    ("sfreq = 50.0", "sfreq = -50.0", "sfreq"),
    ("sfreq = 50.0", 'sfreq = "fast"', "[data]: sfreq = 'fast': Input should be a valid number"),
]


@pytest.mark.parametrize(("old", "new", "expected"), SITE_FAULTS)
def test_a_site_is_checked_before_it_connects(place, old, new, expected):
    path = change(place / "site.toml", old, new)
    assert expected in refused("federate", "site", path)
    assert not list(place.rglob("supernode.log"))


def test_keys_that_others_can_read_are_refused(place):
    for command, key in (("site", "lyon.node"), ("site", "lyon.key"), ("server", "server.key")):
        path = place / "keys" / key
        path.chmod(0o644)
        message = refused("federate", command, place / f"{command}.toml")
        assert "can be read or changed by others" in message
        assert f"chmod 600 {path}" in message
        path.chmod(0o600)


def test_wrong_paths(tmp_path):
    for command in ("server", "site"):
        assert "cannot be read" in refused("federate", command, tmp_path / "none.toml")
    assert contents(tmp_path) == []


def test_an_occupied_port_is_reported(place):
    plan = read_server_file(place / "server.toml")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", plan.port))
        taken.listen()
        message = refused("federate", "server", place / "server.toml")
        assert f"cannot listen on 127.0.0.1:{plan.port}" in message
        change(place / "site.toml", 'folder = "own"', f'folder = "own"\nport = {plan.port}')
        change(place / "site.toml", f":{plan.port}", f":{free_port()}")
        assert f"127.0.0.1:{plan.port}" in refused("federate", "site", place / "site.toml")
    assert not list(place.rglob("superlink.log"))


def test_runs_are_not_mixed_up(place):
    assert "no run to resume" in refused("federate", "server", place / "server.toml", "--resume")
    earlier = place / "server" / "trial"
    earlier.mkdir(parents=True)
    (earlier / "model.percdl").write_bytes(b"of last year")
    assert "holds an earlier run" in refused("federate", "server", place / "server.toml")
    (earlier / "checkpoint.percdl").write_bytes(b"half way")
    assert "--resume continues" in refused("federate", "server", place / "server.toml")
    assert (earlier / "model.percdl").read_bytes() == b"of last year"


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
def test_folders_of_sites_and_servers_are_closed_to_others(place):
    assert run("federate", "site", place / "site.toml", "--check").exit_code == 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", read_server_file(place / "server.toml").port))
        taken.listen()
        refused("federate", "server", place / "server.toml")
    for folder in (place / "own", place / "server", place / "server" / "trial"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_site_can_be_checked_alone(place):
    result = run("federate", "site", place / "site.toml", "--check", "--json")
    assert result.exit_code == 0, result.output
    start = next(event for event in events_of(result) if event["event"] == "start")
    assert (start["subjects"], start["connected"]) == (4, False)
    assert not list(place.rglob("supernode.log"))


@pytest.mark.parametrize(
    ("line", "doubt"),
    [
        ("min-subjects = 10", "4 recordings, fewer than `min-subjects = 10`"),
        ('agreement = "9f2c..."', "not a checksum of 64 digits"),
    ],
)
def test_a_check_tells_what_a_site_itself_would_refuse(place, line, doubt):
    text = (place / "site.toml").read_text()
    path = place / "doubtful.toml"
    kept = [row for row in text.splitlines() if not row.startswith(line.split()[0])]
    path.write_text("\n".join(kept).replace("[site]", f"[site]\n{line}"))
    result = run("federate", "site", path, "--check", "--json")
    assert result.exit_code == 0, result.output
    assert any(doubt in str(event) for event in events_of(result))


def test_a_server_that_cannot_prove_itself_is_not_joined(place):
    keys = place / "keys"
    (place / "other").mkdir()
    assert run("federate", "keys", "--ca", "--folder", place / "other").exit_code == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.crt", keys / "server.key")
    code = (
        "import socket, ssl, sys\n"
        "c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain(*sys.argv[1:3])\n"
        "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)\n"
        "for _ in range(2):\n"
        "    try: c.wrap_socket(s.accept()[0], server_side=True)\n"
        "    except ssl.SSLError: pass\n"
    )
    command = [sys.executable, "-c", code, keys / "server.crt", keys / "server.key"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        path = change(place / "site.toml", "127.0.0.1:", "127.0.0.1:99")
        path.write_text(SITE.format(port=port).replace("keys/ca.crt", "other/ca.crt"))
        assert "does not prove its identity" in refused("federate", "site", path, "--check")
        path.write_text(SITE.format(port=port))
        result = run("federate", "site", path, "--check", "--json")
        assert result.exit_code == 0, result.output
        server.kill()


def test_terms_have_a_checksum(place):
    result = run("federate", "server", place / "server.toml", "--terms", "--json")
    (printed,) = events_of(result)
    assert printed["terms"]["parameters"]["n_atoms"] == 2
    change(place / "server.toml", "penalty = 0.3", "penalty = 0.4")
    (other,) = events_of(run("federate", "server", place / "server.toml", "--terms", "--json"))
    assert len(printed["checksum"]) == 64
    assert printed["checksum"] != other["checksum"]
    assert contents(place / "server") == [] if (place / "server").exists() else True


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
    assert all(row["dropped"] == 0 and row["bytes_up"] > 0 for row in done["summary"])
    lines = [json.loads(line) for line in (out / "audit.jsonl").read_text().splitlines()]
    assert lines[0]["kind"] == "join"
    assert lines[-1]["kind"] == "finish"
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


def test_help_needs_no_flower(tmp_path):
    code = (
        "import sys; sys.argv = ['percdl', 'federate', '--help']\n"
        "from percdl.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'flwr', 'jax', 'cryptography', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    paths = os.pathsep.join(path for path in sys.path if path and Path(path).is_dir())
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout
