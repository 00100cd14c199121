"""Who a site is: an Ed25519 key, whose public half all sites know beforehand; key files."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from percdl.exceptions import FederationError
from percdl.signals.extras import require
from percdl.signals.files import PRIVATE, replace_file

ASYMMETRIC = "cryptography.hazmat.primitives.asymmetric"
# Names of runs and sites become names of folders and files at the sites.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def primitives(module: str) -> Any:
    """Import a part of `cryptography`, or say how to install it."""
    return require(module, "A secure sum", "federated")


def frame(*parts: bytes | str | int) -> bytes:
    """Write parts one after the other, each behind its length: no two lists give the same bytes.

    >>> frame("a", "bc") == frame("ab", "c")
    False
    """
    raw = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in raw)


def expand(secret: bytes, info: bytes) -> bytes:
    """Derive 32 bytes from a secret (HKDF-SHA256), which say nothing of it nor of one another."""
    hashes = primitives("cryptography.hazmat.primitives.hashes")
    kdf = primitives("cryptography.hazmat.primitives.kdf.hkdf")
    return kdf.HKDF(hashes.SHA256(), length=32, salt=None, info=info).derive(secret)


@dataclass(frozen=True)
class Identity:
    """Who a site is: its name, and the key it is registered by.

    Attributes
    ----------
    site : str
    key : Ed25519PrivateKey
    """

    site: str
    key: Any = field(repr=False)

    @classmethod
    def generate(cls, site: str) -> Identity:
        """Make a new identity, kept nowhere yet.

        >>> Identity.generate("lyon")
        Identity(site='lyon')
        """
        check_name("site", site)
        return cls(site, primitives(f"{ASYMMETRIC}.ed25519").Ed25519PrivateKey.generate())

    @property
    def public(self) -> Any:
        """The public half, an ``Ed25519PublicKey``: what other sites register."""
        return self.key.public_key()

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``SITE.key``, which nobody else may read, and ``SITE.pub``, which all may.

        Raises
        ------
        FederationError
            Where one of them exists: a lost key cannot be made again.
        """
        private, public = folder / f"{self.site}.key", folder / f"{self.site}.pub"
        for path in (private, public):
            if path.exists():
                raise FederationError(
                    f"Site {self.site} has a key at {path}, which is not overwritten. Use it, or "
                    "move it away and have the new one registered by all sites."
                )
        write_private(private, self.key)
        serialization = primitives("cryptography.hazmat.primitives.serialization")
        content = self.public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        replace_file(public, content)
        return private, public

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Read ``SITE.key``; the name of the site is that of the file."""
        check_name("site", path.stem)
        kind = primitives(f"{ASYMMETRIC}.ed25519").Ed25519PrivateKey
        return cls(path.stem, read_private(path, kind))


def read_registered(folder: Path) -> dict[str, Any]:
    """Read the public keys ``SITE.pub`` of a folder, by site.

    These files decide whom a site trusts: they must come from the sites themselves, on a way
    that the coordinator has no hand in.
    """
    serialization = primitives("cryptography.hazmat.primitives.serialization")
    kind = primitives(f"{ASYMMETRIC}.ed25519").Ed25519PublicKey
    keys = {}
    for path in sorted(folder.glob("*.pub")):
        check_name("site", path.stem)
        key = _parse(path, serialization.load_pem_public_key, kind)
        twin = next((site for site, other in keys.items() if other == key), None)
        if twin is not None:
            raise FederationError(
                f"Sites {twin} and {path.stem} have the same public key in {folder}: one of them "
                "could speak for both. Get each key from its own site."
            )
        keys[path.stem] = key
    if not keys:
        raise FederationError(
            f"There are no public keys SITE.pub in {folder}. Put those of all sites there, your "
            "own among them."
        )
    return keys


def check_name(kind: str, name: str) -> str:
    """Return a name of a run or of a site, if it can be one of a file as well."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise FederationError(
            f"{name!r} is no name for a {kind}: use up to 64 letters, digits, dots, dashes and "
            "underscores, beginning with a letter or a digit."
        )
    return name


def write_private(path: Path, key: Any) -> None:
    """Write a private key as PEM, for the eyes of this user only."""
    serialization = primitives("cryptography.hazmat.primitives.serialization")
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    replace_file(path, content, PRIVATE)


def check_key_file(path: Path) -> None:
    """Raise where there is no private key, or others can read it, as ssh does."""
    if not path.is_file():
        raise FederationError(f"There is no key at {path}. Make one with `percdl federate keys`.")
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise FederationError(
            f"The private key {path} can be read or changed by others. Take their rights away "
            f"with `chmod 600 {path}`; if others use this machine, make a new key."
        )


def read_private(path: Path, kind: type) -> Any:
    """Read a private key that nobody else can."""
    check_key_file(path)
    serialization = primitives("cryptography.hazmat.primitives.serialization")

    def load(content: bytes) -> Any:
        return serialization.load_pem_private_key(content, password=None)

    return _parse(path, load, kind)


def _parse(path: Path, load: Any, kind: type) -> Any:
    unsupported = primitives("cryptography.exceptions").UnsupportedAlgorithm
    try:
        key = load(path.read_bytes())
    except (ValueError, TypeError, unsupported) as error:
        raise FederationError(
            f"{path} is not a key in PEM, or it is damaged ({error})."
        ) from error
    if not isinstance(key, kind):
        raise FederationError(
            f"{path} holds a key of another kind ({type(key).__name__}, not {kind.__name__})."
        )
    return key
