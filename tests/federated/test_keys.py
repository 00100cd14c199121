"""Keys of sites: files that others cannot read, signatures that cannot be forged."""

import os
import stat
import sys

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from keyed_sites import identity, run_keys

from percdl.exceptions import FederationError, MissingPackageError
from percdl.federated.identities import Identity, RunKeys, read_public, verify

P = 2**255 - 19
# All points of small order, and the ways to write them that X25519 reads alike.
HIDE_NOTHING = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
    2**255,
    2**255 + 1,
]


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


# Files.


def test_an_identity_is_read_back(tmp_path):
    private, public = Identity.generate("lyon").write(tmp_path)
    assert (private.name, public.name) == ("lyon.key", "lyon.pub")
    read = Identity.read(private)
    verify(read_public(public), read.sign(b"text"), b"text", "lyon")
    assert read.site == "lyon"


def test_files_are_pem(tmp_path):
    private, public = Identity.generate("lyon").write(tmp_path)
    RunKeys.at(tmp_path / "run.key")
    assert private.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----\n")
    assert (tmp_path / "run.key").read_text().startswith("-----BEGIN PRIVATE KEY-----\n")


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
def test_others_cannot_read_private_keys(tmp_path):
    before = os.umask(0)
    try:
        _, public = Identity.generate("lyon").write(tmp_path)
        RunKeys.at(tmp_path / "run.key")
    finally:
        os.umask(before)
    assert {rights(path) for path in tmp_path.iterdir() if path != public} == {0o600}
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666])
def test_keys_that_others_can_read_are_refused(mode, tmp_path):
    private, _ = Identity.generate("lyon").write(tmp_path)
    RunKeys.at(tmp_path / "run.key")
    for path in (private, tmp_path / "run.key"):
        path.chmod(mode)
    with pytest.raises(
        FederationError, match=r"lyon\.key can be read or changed by others.*chmod"
    ):
        Identity.read(private)
    with pytest.raises(FederationError, match=r"run\.key can be read or changed by others"):
        RunKeys.at(tmp_path / "run.key")


@pytest.mark.parametrize("kept", ["lyon.key", "lyon.pub"])
def test_keys_are_not_overwritten(kept, tmp_path):
    (tmp_path / kept).write_text("mine")
    with pytest.raises(FederationError, match=rf"{kept} exists and is not overwritten"):
        Identity.generate("lyon").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [kept]
    assert (tmp_path / kept).read_text() == "mine"


def test_a_key_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        Identity.generate("lyon").write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_key_of_a_run_is_made_once(tmp_path):
    keys = RunKeys.at(tmp_path / "run.key")
    again = RunKeys.at(tmp_path / "run.key")
    other = run_keys("nice")
    assert again.public == keys.public
    assert again.shared_with(other.public) == other.shared_with(keys.public)


def test_missing_keys_are_named(tmp_path):
    with pytest.raises(FederationError, match=r"no key at .*lyon\.key.*percdl federate keys"):
        Identity.read(tmp_path / "lyon.key")


def test_files_that_hold_no_such_key_are_refused(tmp_path):
    private = tmp_path / "lyon.key"
    for content in (b"", b"no key", generate_ec()):
        private.write_bytes(content)
        private.chmod(0o600)
        with pytest.raises(FederationError, match=r"lyon\.key (is not a key|holds a key of anot)"):
            Identity.read(private)
    (tmp_path / "nice.pub").write_text("no key")
    with pytest.raises(FederationError, match=r"nice\.pub is not a key"):
        read_public(tmp_path / "nice.pub")


def generate_ec():
    """A key of the kind that servers have, mistaken for that of a site."""
    return generate_private_key(SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize("site", ["", "../lyon", "a b", "a/b", ".lyon", "é", "x" * 65, "a\n"])
def test_names_must_do_for_files(site):
    with pytest.raises(FederationError, match="not a valid name for a site"):
        Identity.generate(site)


def test_secrets_are_not_shown(tmp_path):
    keys, who = run_keys("lyon"), identity("lyon")
    shown = repr(keys) + repr(who) + str(keys) + str(who)
    for secret in (keys._key, who.key):
        assert secret.private_bytes_raw().hex() not in shown


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingPackageError, match=r"A secure sum .*percdl\[federated\]"):
        Identity.generate("lyon")


@pytest.mark.parametrize("point", HIDE_NOTHING)
def test_keys_that_hide_nothing_are_refused(point):
    with pytest.raises(FederationError, match="weak key"):
        run_keys("site-00").shared_with(point.to_bytes(32, "little").hex())


def test_only_the_owner_of_a_key_signs(tmp_path):
    lyon, nice = Identity.generate("lyon"), Identity.generate("nice")
    verify(lyon.public, lyon.sign(b"text"), b"text", "lyon")
    for signature, text in ((nice.sign(b"text"), b"text"), (lyon.sign(b"text"), b"texu")):
        with pytest.raises(FederationError, match="signature of lyon is not valid"):
            verify(lyon.public, signature, text, "lyon")


def test_a_commitment_tells_nothing_without_the_key():
    lyon, nice = Identity.generate("lyon"), Identity.generate("nice")
    assert lyon.commit("data") == lyon.commit("data")
    assert len({lyon.commit("data"), lyon.commit("more"), nice.commit("data")}) == 3
