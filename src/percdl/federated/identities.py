"""Keys of sites: Ed25519 keys that sign, and X25519 keys of one run that make masks.

Private keys never leave the disk of the site.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from percdl.exceptions import FederationError
from percdl.federated.messages import check_name, frame
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
    """Name of a site and its private key (Ed25519)."""

    site: str
    key: Any = field(repr=False)

    @classmethod
    def generate(cls, site: str) -> Identity:
        """Make a new identity in memory."""
        check_name("site", site)
        return cls(site, asymmetric("ed25519").Ed25519PrivateKey.generate())

    @property
    def public(self) -> str:
        """The public key as hexadecimal digits, as in the manifest of a run."""
        return self.key.public_key().public_bytes_raw().hex()

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text, 64 bytes."""
        return self.key.sign(text)

    def commit(self, content: str) -> str:
        """Return a checksum of some content that only this site can compute."""
        return expand(self.key.private_bytes_raw(), frame("commitment", content)).hex()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``SITE.key``, readable by this account only, and ``SITE.pub``."""
        private, public = folder / f"{self.site}.key", folder / f"{self.site}.pub"
        refuse_existing(private, public)
        write_private(private, self.key)
        parts = crypto("hazmat.primitives.serialization")
        form = parts.PublicFormat.SubjectPublicKeyInfo
        replace_file(public, self.key.public_key().public_bytes(parts.Encoding.PEM, form))
        return private, public

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read ``SITE.key``; the file name is the name of the site."""
        check_name("site", path.stem)
        return cls(path.stem, read_private(path, asymmetric("ed25519").Ed25519PrivateKey))


def read_public(path: Path) -> str:
    """Read ``SITE.pub``; return the public key as hexadecimal digits."""
    load = crypto("hazmat.primitives.serialization").load_pem_public_key
    return _read_key(path, load, asymmetric("ed25519").Ed25519PublicKey).public_bytes_raw().hex()


class RunKeys:
    """Key of a site for one run (X25519), in a file or in memory."""

    def __init__(self, key: Any):
        self._key = key

    @classmethod
    def at(cls, path: Path) -> RunKeys:
        """Read the key of a run; make a new one if there is none."""
        kind = asymmetric("x25519").X25519PrivateKey
        if not path.exists():
            write_private(path, kind.generate())
        return cls(read_private(path, kind))

    @property
    def public(self) -> str:
        """The public key, as hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def shared_with(self, public: str) -> bytes:
        """Return the secret shared with the owner of another public key."""
        key = asymmetric("x25519").X25519PublicKey.from_public_bytes(bytes.fromhex(public))
        try:
            return self._key.exchange(key)
        except ValueError as error:  # a point of small order: anyone could compute the secret
            raise FederationError("A site has announced a weak key.") from error


def verify(public: str, signature: bytes, text: bytes, who: str) -> None:
    """Raise `FederationError` if the owner of a public key has not signed a text."""
    key = asymmetric("ed25519").Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    try:
        key.verify(signature, text)
    except crypto("exceptions").InvalidSignature as error:
        why = "the message was changed, or not signed with the key in the manifest"
        raise FederationError(f"The signature of {who} is not valid: {why}.") from error


def refuse_existing(*paths: Path) -> None:
    """Raise if a file exists: keys are never overwritten."""
    for path in filter(Path.exists, paths):
        raise FederationError(f"{path} exists and is not overwritten. Use it, or move it away.")


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
        what = f"Run `chmod 600 {path}`; if others use this machine, make a new key"
        raise FederationError(f"The private key {path} can be read or changed by others. {what}.")


def read_private(path: Path, kind: type) -> Any:
    """Read a private key that only this account can read."""
    check_key_file(path)
    load = crypto("hazmat.primitives.serialization").load_pem_private_key
    return _read_key(path, lambda content: load(content, password=None), kind)


def _read_key(path: Path, load: Any, kind: type) -> Any:
    try:
        key = load(path.read_bytes())
    except (ValueError, TypeError, crypto("exceptions").UnsupportedAlgorithm) as error:
        raise FederationError(f"{path} is not a key, or it is damaged ({error}).") from error
    if not isinstance(key, kind):
        kinds = f"{type(key).__name__}, not {kind.__name__}"
        raise FederationError(f"{path} holds a key of another kind ({kinds}).")
    return key
