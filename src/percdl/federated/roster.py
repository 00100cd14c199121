"""The sites of a secure sum and their keys, each checked by every site."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from percdl.exceptions import FederationError
from percdl.federated.keys import ASYMMETRIC, frame, primitives
from percdl.federated.run_keys import RunKeys, signed_text

# With two sites, each would learn the other's values from the total.
FEWEST_SITES = 3


@dataclass(frozen=True)
class Roster:
    """The sites of a sum, three or more, and their keys for the run.

    Attributes
    ----------
    run : str
    publics : dict of bytes
        By site; checked, see `check_announcements`.
    """

    run: str
    publics: Mapping[str, bytes]

    def __post_init__(self) -> None:
        if len(self.publics) < FEWEST_SITES:
            raise FederationError(
                f"A secure sum needs {FEWEST_SITES} sites or more, and there are "
                f"{len(self.publics)} ({', '.join(self.sites)}): the total would tell each of two "
                "sites what the other has."
            )

    @property
    def sites(self) -> tuple[str, ...]:
        """Who takes part, sorted."""
        return tuple(sorted(self.publics))

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that no other roster has; the order in which sites are listed is no matter."""
        parts = [part for site in self.sites for part in (site, self.publics[site])]
        return hashlib.sha256(frame("percdl roster, version 1", self.run, *parts)).digest()

    def only(self, sites: Iterable[str]) -> Roster:
        """Return the roster of some of the sites, say, of those that are left.

        Raises
        ------
        FederationError
            For a site that has not announced a key, and below three sites.
        """
        asked = list(sites)
        for site in asked:
            if site not in self.publics:
                raise FederationError(
                    f"Site {site} has announced no key for run {self.run}; a secure sum is over "
                    f"some of {', '.join(self.sites)}."
                )
        if len(set(asked)) != len(asked):
            raise FederationError(f"A site is named twice in the roster {', '.join(asked)}.")
        return Roster(self.run, {site: self.publics[site] for site in sorted(asked)})


def check_announcements(
    announcements: Sequence[Mapping[str, Any]],
    registered: Mapping[str, Any],
    run: str,
    own: RunKeys | None = None,
) -> Roster:
    """Check what sites have announced, and return their keys.

    Each site checks all others itself, with public keys it has from them and not from the
    coordinator, who passes the announcements on: a coordinator that slips in a key of its own
    is found out.

    Parameters
    ----------
    announcements : list of dict
        What each site's `RunKeys.announce` returned.
    registered : dict of Ed25519PublicKey
        By site, see `read_registered`.
    run : str
        The run they must be for.
    own : RunKeys, optional
        The keys of the site that checks: they must be among those announced, unchanged.

    Raises
    ------
    FederationError
        With the name of the site: not registered, announced twice, a signature that does not
        fit, a key that another site has too or that gives no secret, fewer than three sites.

    Examples
    --------
    >>> from percdl.federated.keys import Identity
    >>> identities = [Identity.generate(site) for site in ("lyon", "nice", "paris")]
    >>> announced = [RunKeys.generate(i.site, "run-1").announce(i) for i in identities]
    >>> check_announcements(announced, {i.site: i.public for i in identities}, "run-1").sites
    ('lyon', 'nice', 'paris')
    """
    publics: dict[str, bytes] = {}
    for announcement in announcements:
        site, public = _check_one(announcement, registered, run)
        if site in publics:
            raise FederationError(f"Site {site} has announced two keys for run {run}.")
        twin = next((other for other, key in publics.items() if key == public), None)
        if twin is not None:
            raise FederationError(f"Sites {twin} and {site} have announced the same key.")
        publics[site] = public
    if own is not None and publics.get(own.site) != own.public:
        raise FederationError(
            f"The key that site {own.site} has announced for run {run} was left out or exchanged "
            "on the way back to it. Do not take part: ask who runs the coordinator."
        )
    return Roster(run, dict(sorted(publics.items())))


def _check_one(
    announcement: Mapping[str, Any], registered: Mapping[str, Any], run: str
) -> tuple[str, bytes]:
    """Return the site and the key of one announcement, whose signature fits."""
    try:
        site, public, signature = (
            str(announcement["site"]),
            bytes.fromhex(announcement["public"]),
            bytes.fromhex(announcement["signature"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FederationError(f"An announcement of a key cannot be read ({error!r}).") from error
    if site not in registered:
        raise FederationError(
            f"Site {site} is not registered here. Known are {', '.join(sorted(registered))}; if "
            "it belongs to the federation, get its public key from itself."
        )
    invalid = primitives("cryptography.exceptions").InvalidSignature
    try:
        registered[site].verify(signature, signed_text(site, run, public))
    except invalid as error:
        raise FederationError(
            f"The key announced for site {site} in run {run} does not bear its signature. "
            "Somebody has changed it on the way, it is of another run, or the site has a new "
            "key that is not registered here."
        ) from error
    _check_point(site, public)
    return site, public


def _check_point(site: str, public: bytes) -> None:
    """Refuse a key whose secret does not depend on the other one, for which any key tells."""
    x25519 = primitives(f"{ASYMMETRIC}.x25519")
    try:
        key = x25519.X25519PublicKey.from_public_bytes(public)
        x25519.X25519PrivateKey.generate().exchange(key)
    except ValueError as error:
        raise FederationError(f"Site {site} has announced a key that hides nothing.") from error
