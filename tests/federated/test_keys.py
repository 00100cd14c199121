"""Keys of sites: files that others cannot read, announcements that cannot be forged."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from keyed_sites import RUN, announce, identity, names, registered, run_keys
from keyed_sites import check as check_with

from percdl.exceptions import FederationError, MissingPackageError
from percdl.federated.identities import (
    Claims,
    Identity,
    RunKeys,
    read_registered,
    signed_text,
)

SITES = names(4)
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
    signature = read.key.sign(b"text")
    read_registered(tmp_path)["lyon"].verify(signature, b"text")
    assert read.site == "lyon"


def test_files_are_pem(tmp_path):
    private, public = Identity.generate("lyon").write(tmp_path)
    RunKeys.generate("lyon", RUN, tmp_path / "run.key")
    assert private.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----\n")
    assert (tmp_path / "run.key").read_text().startswith("-----BEGIN PRIVATE KEY-----\n")


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
def test_others_cannot_read_private_keys(tmp_path):
    before = os.umask(0)
    try:
        _, public = Identity.generate("lyon").write(tmp_path)
        keys = RunKeys.generate("lyon", RUN, tmp_path / "run.key")
        keys.claim("use", "content")
    finally:
        os.umask(before)
    assert {rights(path) for path in tmp_path.iterdir() if path != public} == {0o600}
    assert len(list(tmp_path.iterdir())) == 5  # with the lock of the claims


@pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666])
def test_keys_that_others_can_read_are_refused(mode, tmp_path):
    private, _ = Identity.generate("lyon").write(tmp_path)
    RunKeys.generate("lyon", RUN, tmp_path / "run.key")
    for path in (private, tmp_path / "run.key"):
        path.chmod(mode)
    with pytest.raises(
        FederationError, match=r"lyon\.key can be read or changed by others.*chmod"
    ):
        Identity.read(private)
    with pytest.raises(FederationError, match=r"run\.key can be read or changed by others"):
        RunKeys.read("lyon", RUN, tmp_path / "run.key")


@pytest.mark.parametrize("kept", ["lyon.key", "lyon.pub"])
def test_keys_are_not_overwritten(kept, tmp_path):
    (tmp_path / kept).write_text("mine")
    with pytest.raises(FederationError, match=rf"{kept} exists and is not overwritten"):
        Identity.generate("lyon").write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [kept]
    assert (tmp_path / kept).read_text() == "mine"


def test_the_key_of_a_run_is_not_overwritten(tmp_path):
    RunKeys.generate("lyon", RUN, tmp_path / "run.key")
    before = (tmp_path / "run.key").read_bytes()
    with pytest.raises(FederationError, match=r"run\.key exists and is not overwritten"):
        RunKeys.generate("lyon", RUN, tmp_path / "run.key")
    assert (tmp_path / "run.key").read_bytes() == before


def test_a_key_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(source, target):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        Identity.generate("lyon").write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_key_of_a_run_is_read_back(tmp_path):
    keys = RunKeys.generate("lyon", RUN, tmp_path / "run.key")
    read = RunKeys.read("lyon", RUN, tmp_path / "run.key")
    other = run_keys("nice")
    assert read.public == keys.public
    assert read.shared_with(other.public) == other.shared_with(keys.public)
    assert read.derive(b"occasion") == keys.derive(b"occasion")


def test_missing_keys_are_named(tmp_path):
    with pytest.raises(FederationError, match=r"no key at .*lyon\.key.*percdl federate keys"):
        Identity.read(tmp_path / "lyon.key")
    with pytest.raises(FederationError, match=r"no public keys SITE\.pub"):
        read_registered(tmp_path)


def test_files_that_hold_no_such_key_are_refused(tmp_path):
    private = tmp_path / "lyon.key"
    for content in (b"", b"no key", generate_ec()):
        private.write_bytes(content)
        private.chmod(0o600)
        with pytest.raises(FederationError, match=r"lyon\.key (is not a key|holds a key of anot)"):
            Identity.read(private)
    (tmp_path / "nice.pub").write_text("no key")
    with pytest.raises(FederationError, match=r"nice\.pub is not a key"):
        read_registered(tmp_path)


def test_a_key_is_registered_for_one_site(tmp_path):
    _, public = Identity.generate("lyon").write(tmp_path)
    (tmp_path / "nice.pub").write_bytes(public.read_bytes())
    with pytest.raises(FederationError, match="Sites lyon and nice have the same public key"):
        read_registered(tmp_path)


def generate_ec():
    """A key of the kind that Flower's nodes have, mistaken for that of a site."""
    return generate_private_key(SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.mark.parametrize("site", ["", "../lyon", "a b", "a/b", ".lyon", "é", "x" * 65, "a\n"])
def test_names_must_do_for_files(site):
    with pytest.raises(FederationError, match="not a valid name for a site"):
        Identity.generate(site)
    with pytest.raises(FederationError, match="not a valid name for a site"):
        RunKeys.generate(site, RUN)


def test_secrets_are_not_shown(tmp_path):
    keys, who = run_keys("lyon"), identity("lyon")
    shown = repr(keys) + repr(who) + str(keys) + str(who)
    for secret in (keys._key, who.key):
        assert secret.private_bytes_raw().hex() not in shown


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingPackageError, match=r"A secure sum .*percdl\[federated\]"):
        Identity.generate("lyon")


# What a key was used for.


def test_the_first_claim_counts(tmp_path):
    path = tmp_path / "uses"
    assert [Claims(path).claim("a", content) for content in ("1", "2", "1")] == ["1"] * 3
    assert Claims(path).claim("b", "2") == "2"


def test_damaged_claims_are_refused(tmp_path):
    path = tmp_path / "uses"
    Claims(path).claim("a", "111")
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], b"[]", b'{"a": 1}'):
        path.write_bytes(damaged)
        with pytest.raises(FederationError, match="uses is damaged"):
            Claims(path).claim("a", "222")


def test_claims_at_the_same_time_agree(tmp_path):
    def claim(index):
        return [Claims(tmp_path / "uses").claim(f"use-{i}", f"by-{index}") for i in range(20)]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(claim, range(8)))
    assert all(answer == answers[0] for answer in answers)


# Announcements.


def check(announcements, run=RUN, own=None):
    return check_with(announcements, registered(SITES), run, own)


@given(st.permutations(announce(SITES)))
def test_announcements_are_accepted_in_any_order(announcements):
    roster = check(announcements, own=run_keys(SITES[1]))
    assert roster.sites == tuple(SITES)
    assert roster.publics == {site: run_keys(site).public for site in SITES}
    assert roster.digest == check(announce(SITES)).digest


@given(st.data())
def test_no_bit_can_be_changed(data):
    announcements = announce(SITES)
    victim = data.draw(st.sampled_from(announcements))
    name = data.draw(st.sampled_from(["public", "signature"]))
    raw = bytearray.fromhex(victim[name])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    victim[name] = raw.hex()
    with pytest.raises(FederationError, match=f"site {victim['site']} .* is not valid"):
        check(announcements)


def test_a_key_of_the_coordinator_is_found_out():
    """It has no registered key of a site, so it signs with one of its own."""
    forged = run_keys("site-01", draw=1).announce(
        Identity("site-01", Identity.generate("server").key)
    )
    with pytest.raises(FederationError, match="site site-01 in run run-1 is not valid"):
        check([announce(SITES)[0], forged, *announce(SITES)[2:]])


def test_an_announcement_is_for_one_run_and_one_site():
    old = announce(SITES, run="run-0")
    with pytest.raises(FederationError, match="is for another run"):
        check(old)
    relabelled = [{**a, "run": RUN} for a in old]
    with pytest.raises(FederationError, match="is not valid"):
        check(relabelled)
    taken = {**announce(SITES)[0], "site": "site-01"}
    with pytest.raises(FederationError, match=r"site site-01 .* is not valid"):
        check([taken, *announce(SITES)[2:]])


def test_unknown_sites_are_refused():
    with pytest.raises(FederationError, match="Site site-04 is not registered here"):
        check(announce(names(5)))


def test_a_site_announces_once():
    twice = run_keys("site-00", draw=1).announce(identity("site-00"))
    with pytest.raises(FederationError, match="site-00 has announced two keys"):
        check([*announce(SITES), twice])


def test_two_sites_do_not_share_a_key():
    public = run_keys("site-00").public
    signature = identity("site-01").key.sign(signed_text("site-01", RUN, public))
    stolen = {"site": "site-01", "run": RUN, "public": public.hex(), "signature": signature.hex()}
    with pytest.raises(FederationError, match="site-00 and site-01 have announced the same key"):
        check([announce(SITES)[0], stolen, *announce(SITES)[2:]])


@pytest.mark.parametrize("point", HIDE_NOTHING)
def test_keys_that_hide_nothing_are_refused(point):
    public = point.to_bytes(32, "little")
    with pytest.raises(FederationError, match="site-03 has announced a weak key"):
        check([*announce(SITES[:3]), signed(public)])
    with pytest.raises(ValueError, match="shared key"):
        run_keys("site-00").shared_with(public)


def signed(public):
    """A key that the last site has signed, whatever it is."""
    site = SITES[3]
    signature = identity(site).key.sign(signed_text(site, RUN, public))
    return {"site": site, "run": RUN, "public": public.hex(), "signature": signature.hex()}


def test_a_site_looks_for_its_own_key():
    own = run_keys("site-00")
    check(announce(SITES), own=own)
    for others in (
        announce(SITES[1:]),
        # Made before, say, in a try that was interrupted: its signature fits.
        [*announce(SITES[:1], draw=1), *announce(SITES[1:])],
    ):
        with pytest.raises(
            FederationError, match=r"left out or exchanged the key that site site-00"
        ):
            check(others, own=own)


def test_fewer_than_three_sites_are_refused():
    with pytest.raises(FederationError, match="3 sites or more, and there are 2"):
        check(announce(SITES[:2]))
