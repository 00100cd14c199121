"""Identities of sites: registered Ed25519 keys, X25519 keys for one run, and rosters of both.

For each run a site makes an X25519 key. It announces the public half with a signature by its
registered key. Private halves never leave the disk of the site.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import TypeAdapter

from percdl.exceptions import FederationError
from percdl.federated.messages import Announcement, check_name, frame
from percdl.signals.extras import require
from percdl.signals.files import PRIVATE, replace_file

# With two sites, each could compute the values of the other from the total.
FEWEST_SITES = 3


def crypto(module: str) -> Any:
    """Import a module of `cryptography`, or say how to install it."""
    return require(f"cryptography.{module}", "A secure sum", "federated")


def asymmetric(kind: str) -> Any:
    """Import a kind of asymmetric keys of `cryptography`."""
    return crypto(f"hazmat.primitives.asymmetric.{kind}")


def expand(secret: bytes, info: bytes) -> bytes:
    """Derive 32 bytes from a secret for a purpose (HKDF-SHA256)."""
    sha256 = crypto("hazmat.primitives.hashes").SHA256()
    hkdf = crypto("hazmat.primitives.kdf.hkdf").HKDF
    return hkdf(sha256, length=32, salt=None, info=info).derive(secret)


@dataclass(frozen=True)
class Identity:
    """Name of a site and its registered private key (Ed25519)."""

    site: str
    key: Any = field(repr=False)

    @classmethod
    def generate(cls, site: str) -> Identity:
        """Make a new identity in memory."""
        check_name("site", site)
        return cls(site, asymmetric("ed25519").Ed25519PrivateKey.generate())

    @property
    def public(self) -> Any:
        """The public key, which the other sites register."""
        return self.key.public_key()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``SITE.key``, readable by this account only, and ``SITE.pub``."""
        private, public = folder / f"{self.site}.key", folder / f"{self.site}.pub"
        refuse_existing(private, public)
        write_private(private, self.key)
        parts = crypto("hazmat.primitives.serialization")
        form = parts.PublicFormat.SubjectPublicKeyInfo
        replace_file(public, self.public.public_bytes(parts.Encoding.PEM, form))
        return private, public

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read ``SITE.key``; the file name is the name of the site."""
        check_name("site", path.stem)
        return cls(path.stem, read_private(path, asymmetric("ed25519").Ed25519PrivateKey))


def read_registered(folder: Path) -> dict[str, Any]:
    """Read the public keys ``SITE.pub`` of a folder, by site.

    A site trusts these keys. They must come from the other sites directly, not through the
    coordinator.
    """
    load = crypto("hazmat.primitives.serialization").load_pem_public_key
    keys: dict[str, Any] = {}
    for path in sorted(folder.glob("*.pub")):
        key = _read_key(path, load, asymmetric("ed25519").Ed25519PublicKey)
        for twin in (site for site, other in keys.items() if other == key):
            raise FederationError(
                f"Sites {twin} and {path.stem} have the same public key in {folder}, so one "
                "could sign for both. Get each key from its own site."
            )
        keys[check_name("site", path.stem)] = key
    if not keys:
        raise FederationError(
            f"There are no public keys SITE.pub in {folder}. Put the keys of all sites there, "
            "your own included."
        )
    return keys


class RunKeys:
    """Key of a site for one run (X25519), and a record of its uses.

    With a path, the key is in that file and the record beside it; without, both are in memory.
    """

    def __init__(self, site: str, run: str, key: Any, path: Path | None = None):
        self.site, self.run, self._key = site, run, key
        self.claim = Claims(None if path is None else path.with_name(f"{path.name}.uses")).claim

    @classmethod
    def generate(cls, site: str, run: str, path: Path | None = None) -> RunKeys:
        """Make a key, and write it to a new file."""
        check_name("site", site)
        key = asymmetric("x25519").X25519PrivateKey.generate()
        if path is not None:
            refuse_existing(path)
            write_private(path, key)
        return cls(site, run, key, path)

    @classmethod
    def read(cls, site: str, run: str, path: Path) -> RunKeys:
        """Read the key of a run."""
        return cls(site, run, read_private(path, asymmetric("x25519").X25519PrivateKey), path)

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def announce(self, identity: Identity) -> dict[str, str]:
        """Return the public key signed by the site, as JSON data."""
        signature = identity.key.sign(signed_text(self.site, self.run, self.public)).hex()
        announced = {"site": self.site, "run": self.run, "public": self.public.hex()}
        return {**announced, "signature": signature}

    def shared_with(self, public: bytes) -> bytes:
        """Return the secret shared with the owner of another public key."""
        key = asymmetric("x25519").X25519PublicKey.from_public_bytes(public)
        return self._key.exchange(key)

    def derive(self, occasion: bytes) -> bytes:
        """Return 32 secret bytes for an occasion; only this site can compute them."""
        return expand(self._key.private_bytes_raw(), frame("percdl veil, version 1", occasion))


class Claims:
    """Record of the first content of each use, in a JSON file or in memory.

    Claims by several processes at once are safe: a lock file guards the record.
    """

    def __init__(self, path: Path | None = None):
        self.path = path
        self._memory: dict[str, str] = {}

    def claim(self, use: str, content: str, most: int | None = None) -> str | None:
        """Record a use if it is new; return the content that it was first recorded with.

        With ``most``, no more than this number of uses with the same content are recorded; the
        result is None for one more.
        """
        if self.path is None:
            return self._memory.setdefault(use, content)
        with FileLock(self.path.with_name(f"{self.path.name}.lock"), mode=PRIVATE):
            try:
                known = TypeAdapter(dict[str, str]).validate_json(self.path.read_bytes())
            except FileNotFoundError:
                known = {}
            except ValueError as error:
                raise FederationError(
                    f"{self.path} is damaged, so this site does not know what it has answered. "
                    "Nothing is sent. Restore the file, or start a new run."
                ) from error
            if use not in known:
                if most is not None and list(known.values()).count(content) >= most:
                    return None
                known[use] = content
                replace_file(self.path, json.dumps(known).encode(), PRIVATE)
        return known[use]


def signed_text(site: str, run: str, public: bytes) -> bytes:
    """Return the text that a site signs to announce the key of a run."""
    return frame("percdl key of a run, version 1", run, site, public)


@dataclass(frozen=True)
class Roster:
    """Three or more sites of a sum and their public keys for the run, by site."""

    run: str
    publics: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if len(self.publics) < FEWEST_SITES:
            raise FederationError(
                f"A secure sum needs {FEWEST_SITES} sites or more, and there are "
                f"{len(self.publics)} ({', '.join(self.sites)}): each of two sites could compute "
                "the values of the other from the total."
            )

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(sorted(self.publics))

    @cached_property
    def digest(self) -> bytes:
        """Checksum of sites and keys, 32 bytes; the order does not matter."""
        parts = [part for site in self.sites for part in (site, self.publics[site])]
        return hashlib.sha256(frame("percdl roster, version 1", self.run, *parts)).digest()

    def only(self, sites: Iterable[str]) -> Roster:
        """Return the roster of some of the sites."""
        asked = sorted(sites)
        if not set(asked) <= self.publics.keys() or len(set(asked)) != len(asked):
            raise FederationError(
                f"The roster {', '.join(asked)} names a site twice, or one that has not announced "
                f"a key for run {self.run}. Sites with a key: {', '.join(self.sites)}."
            )
        return Roster(self.run, {site: self.publics[site] for site in asked})


def check_announcements(
    announcements: Iterable[Announcement],
    registered: Mapping[str, Any],
    run: str,
    own: RunKeys | None = None,
) -> Roster:
    """Check the keys that sites have announced for a run, and return them.

    Each site checks all others itself, with registered keys that it did not get from the
    coordinator. A coordinator that exchanges or omits a key is therefore detected. ``own`` are the
    keys of the site that checks: they must be among those announced.
    """
    publics: dict[str, bytes] = {}
    for announcement in announcements:
        site, public = announcement.site, bytes.fromhex(announcement.public)
        _check_signature(announcement, public, registered, run)
        if site in publics:
            raise FederationError(f"Site {site} has announced two keys for run {run}.")
        for twin in (other for other, key in publics.items() if key == public):
            raise FederationError(f"Sites {twin} and {site} have announced the same key.")
        publics[site] = public
    if own is not None and publics.get(own.site) != own.public:
        raise FederationError(
            f"The coordinator left out or exchanged the key that site {own.site} announced for "
            f"run {run}. Do not take part: ask who runs the coordinator."
        )
    return Roster(run, publics)


def _check_signature(
    announcement: Announcement, public: bytes, registered: Mapping[str, Any], run: str
) -> None:
    """Raise if a registered site has not signed the key, or the key is weak."""
    site, signature = announcement.site, bytes.fromhex(announcement.signature)
    if site not in registered:
        raise FederationError(
            f"Site {site} is not registered here. Registered are {', '.join(sorted(registered))}. "
            "If it belongs to the federation, get its public key from that site."
        )
    try:
        registered[site].verify(signature, signed_text(site, run, public))
    except crypto("exceptions").InvalidSignature as error:
        raise FederationError(
            f"The signature of the key announced for site {site} in run {run} is not valid. The "
            "key was changed on the way, is for another run, or the site has a new key that is "
            "not registered here."
        ) from error
    try:  # with a point of small order, anyone could compute the shared secret
        RunKeys.generate(site, run).shared_with(public)
    except ValueError as error:
        raise FederationError(f"Site {site} has announced a weak key.") from error


def refuse_existing(*paths: Path) -> None:
    """Raise if a file exists: keys are never overwritten."""
    for path in paths:
        if path.exists():
            raise FederationError(
                f"{path} exists and is not overwritten. Use it, or move it away first."
            )


def write_private(path: Path, key: Any) -> None:
    """Write a private key as PEM, readable by this account only."""
    parts = crypto("hazmat.primitives.serialization")
    form = parts.Encoding.PEM, parts.PrivateFormat.PKCS8, parts.NoEncryption()
    replace_file(path, key.private_bytes(*form), PRIVATE)


def check_key_file(path: Path) -> None:
    """Raise if a private key is missing or other accounts can read it."""
    if not path.is_file():
        raise FederationError(f"There is no key at {path}. Make one with `percdl federate keys`.")
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FederationError(
            f"The private key {path} can be read or changed by others. Run `chmod 600 {path}`; "
            "if others use this machine, make a new key."
        )


def read_private(path: Path, kind: type, form: str = "pem") -> Any:
    """Read a private key that only this account can read, in the form PEM or OpenSSH."""
    check_key_file(path)
    load = getattr(crypto("hazmat.primitives.serialization"), f"load_{form}_private_key")
    return _read_key(path, lambda content: load(content, password=None), kind)


def _read_key(path: Path, load: Any, kind: type) -> Any:
    try:
        key = load(path.read_bytes())
    except (ValueError, TypeError, crypto("exceptions").UnsupportedAlgorithm) as error:
        raise FederationError(f"{path} is not a key, or it is damaged ({error}).") from error
    if not isinstance(key, kind):
        raise FederationError(
            f"{path} holds a key of another kind ({type(key).__name__}, not {kind.__name__})."
        )
    return key
