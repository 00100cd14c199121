"""How sites lift their veils off a secure sum, once its roster is settled.

A round takes two questions.

1. Each site of the roster answers with `mask` of its values, and with `back_up`. Where one does
   not, the round is asked again of the others, with a new attempt.
2. Once all have answered, each tells the seed of its veil by `release`. For a site that is lost
   in between, any other one tells it by `recover`. Then `unveil` takes all veils off.

Without veils, a reply that comes late would complete the sum that was given up: less the sum
over the others, it would be the values of the late site. A site helps to lift veils in one round
for one roster only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import UInt64

from percdl.exceptions import FederationError
from percdl.federated.keys import expand, frame
from percdl.federated.roster import Roster
from percdl.federated.run_keys import RunKeys
from percdl.federated.secure import digest, occasion_of, veil

SEED = re.compile(r"[0-9a-f]{64}")


def release(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> str:
    """Tell the seed of the veil over what `mask` returned, for the same arguments.

    Raises
    ------
    FederationError
        Where this site has lifted veils in this round for another roster.
    """
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    _settle(keys, roster, round)
    return keys.derive(occasion).hex()


def back_up(
    keys: RunKeys, roster: Roster, run: str, round: int, attempt: int, context: bytes
) -> dict[str, str]:
    """Return the seed of the veil, by site, in a form that only that site can read.

    The arguments are those of `mask`, whose result it goes with.
    """
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    seed = keys.derive(occasion)
    return {
        other: _xor(seed, _pad(keys, roster, occasion, other, other)).hex()
        for other in roster.sites
        if other != keys.site
    }


def recover(
    backups: Mapping[str, str],
    keys: RunKeys,
    roster: Roster,
    run: str,
    round: int,
    attempt: int,
    context: bytes,
) -> dict[str, str]:
    """Tell the seeds of sites that were lost after they had answered.

    Parameters
    ----------
    backups : dict of str
        By lost site, what its `back_up` holds for this one.
    keys, roster, run, round, attempt, context
        As in `release`.

    Raises
    ------
    FederationError
        Where this site has lifted veils in this round for another roster.
    """
    occasion = occasion_of(keys, roster, run, round, attempt, context)
    for lost, backup in backups.items():
        if lost not in roster.sites or lost == keys.site or not SEED.fullmatch(str(backup)):
            raise FederationError(
                f"Site {keys.site} is asked for the seed of site {lost}, without a backup of it "
                f"for a sum over {', '.join(roster.sites)}."
            )
    _settle(keys, roster, round)
    return {
        lost: _xor(bytes.fromhex(backup), _pad(keys, roster, occasion, lost, keys.site)).hex()
        for lost, backup in backups.items()
    }


def unveil(
    total: UInt64[np.ndarray, " n"], seeds: Mapping[str, Any], sites: Iterable[str]
) -> UInt64[np.ndarray, " n"]:
    """Take the veils of all sites off the sum of their masked values.

    Parameters
    ----------
    total : array (n,)
        The sum, modulo 2^64, of what `mask` returned at all sites of the roster.
    seeds : dict of str
        By site, what `release` or `recover` returned.
    sites : list of str
        The roster.

    Raises
    ------
    FederationError
        Where the seed of a site is missing or is none.
    """
    for site in sites:
        if not SEED.fullmatch(str(seeds.get(site))):
            raise FederationError(
                f"The veil of site {site} has not been lifted, without which the sum is not seen. "
                "Ask it again, or another site for its seed."
            )
        total = total - veil(bytes.fromhex(seeds[site]), total.size)
    return total


def _settle(keys: RunKeys, roster: Roster, round: int) -> None:
    """Note for which roster veils are lifted in a round; refuse a second one."""
    chosen = roster.digest.hex()
    if keys.claim(digest(frame("release", roster.run, round)), chosen) != chosen:
        raise FederationError(
            f"Site {keys.site} has lifted veils in round {round} of run {roster.run} for another "
            "roster. The difference of two sums would show the values of single sites. Go on "
            "with the sites of that roster, or with a new round."
        )


def _pad(keys: RunKeys, roster: Roster, occasion: bytes, peer: str, reader: str) -> bytes:
    """Return what hides a seed on its way between this site and a peer, to one of the two.

    Sum, sites and direction are named: no pad hides two seeds.
    """
    owner = keys.site if reader == peer else peer
    return expand(keys.shared_with(roster.publics[peer]), frame("backup", occasion, owner, reader))


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))
