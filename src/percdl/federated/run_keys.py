"""The key of a site for one run, and what it was used for.

For each run a site makes an X25519 key, and announces its public half with the signature of its
registered key. Private halves never leave the disk of the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from percdl.exceptions import FederationError, InvalidParameterError
from percdl.federated.keys import (
    ASYMMETRIC,
    Identity,
    check_name,
    expand,
    frame,
    primitives,
    read_private,
    write_private,
)
from percdl.signals.files import append_private


class RunKeys:
    """The key of a site for one run, and what it was used for.

    Parameters
    ----------
    site, run : str
        Whose, and for which run.
    key : X25519PrivateKey
    path : Path, optional
        Where the key lies; what it was used for is written beside it.
    """

    def __init__(self, site: str, run: str, key: Any, path: Path | None = None):
        self.site, self.run = site, run
        self._key = key
        self._uses = Uses(None if path is None else path.with_name(f"{path.name}.uses"))

    @classmethod
    def generate(cls, site: str, run: str, path: Path | None = None) -> RunKeys:
        """Make a key, and write it to a file that must not exist.

        >>> keys = RunKeys.generate("lyon", "run-1")
        >>> sorted(keys.announce(Identity.generate("lyon")))
        ['public', 'run', 'signature', 'site']
        """
        check_name("site", site)
        key = primitives(f"{ASYMMETRIC}.x25519").X25519PrivateKey.generate()
        if path is not None:
            if path.exists():
                raise FederationError(
                    f"Site {site} has a key for a run at {path}, which is not overwritten. Go on "
                    "with it, or give the run another name."
                )
            write_private(path, key)
        return cls(site, run, key, path)

    @classmethod
    def read(cls, site: str, run: str, path: Path) -> RunKeys:
        """Read a key back, to go on with a run."""
        kind = primitives(f"{ASYMMETRIC}.x25519").X25519PrivateKey
        return cls(site, run, read_private(path, kind), path)

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def announce(self, identity: Identity) -> dict[str, str]:
        """Return the public half with the signature of the site, as JSON knows it."""
        if identity.site != self.site:
            raise InvalidParameterError(
                f"The key of site {self.site} cannot be signed by site {identity.site}."
            )
        signature = identity.key.sign(signed_text(self.site, self.run, self.public))
        return {
            "site": self.site,
            "run": self.run,
            "public": self.public.hex(),
            "signature": signature.hex(),
        }

    def shared_with(self, public: bytes) -> bytes:
        """Return the secret that only this site and the owner of another key can compute."""
        key = primitives(f"{ASYMMETRIC}.x25519").X25519PublicKey.from_public_bytes(public)
        return self._key.exchange(key)

    def derive(self, occasion: bytes) -> bytes:
        """Return 32 bytes for an occasion that only this site can compute, at any time again."""
        return expand(self._key.private_bytes_raw(), frame("percdl veil, version 1", occasion))

    def claim(self, use: str, content: str) -> str:
        """Note a use of the key, for good; return what it was first used with."""
        return self._uses.claim(use, content)


def signed_text(site: str, run: str, public: bytes) -> bytes:
    """Return what a site signs of the key of a run."""
    return frame("percdl key of a run, version 1", run, site, public)


class Uses:
    """What a key was used for, in a file that only grows; in memory without a path.

    Claims by several processes at once are safe: each appends its line first and reads
    afterwards, and the first line of a use counts.
    """

    def __init__(self, path: Path | None):
        self.path = path
        self._memory: dict[str, str] = {}

    def claim(self, use: str, content: str) -> str:
        """Note a use; return the content it was first noted with."""
        if self.path is None:
            return self._memory.setdefault(use, content)
        if use not in self.read():
            # It begins and ends a line of its own, even behind one that was cut short.
            append_private(self.path, f"\n{use} {content} .\n".encode())
        return self.read()[use]

    def read(self) -> dict[str, str]:
        """Return all uses with their contents, the first one first.

        A line that was cut short, by a loss of power, was never acted on.
        """
        if self.path is None:
            return dict(self._memory)
        known: dict[str, str] = {}
        for line in self.path.read_text().split("\n") if self.path.exists() else ():
            use, *rest = line.split(" ")
            if len(rest) == 2 and rest[1] == ".":
                known.setdefault(use, rest[0])
        return known
