"""The coordinator's second question of a masked round: sites lift their veils."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from percdl.federated.veils import SEED
from percdl.runtimes.messages import Reply

Texts = dict[str, str]


def lift_veils(
    replies: Mapping[str, Reply], ask: Callable[[dict[str, Texts]], dict[str, Reply]]
) -> Texts:
    """Return the seeds of the veils of all sites; of some of them, where too many are lost.

    Parameters
    ----------
    replies : dict of Reply
        The masked sums of all sites of the roster.
    ask : function
        Asks sites to lift their veils, and those of lost ones whose backups they are sent;
        returns the good replies.
    """
    answered = ask({site: {} for site in sorted(replies)})
    lost = sorted(replies.keys() - answered.keys())
    if lost and answered:
        backups = {site: replies[site].facts["backups"] for site in lost}
        answered |= ask({site: {of: backups[of][site] for of in lost} for site in answered})
    seeds: Texts = {}
    for reply in answered.values():
        seeds |= reply.facts["seeds"]
    return seeds


def check_backups(reply: Reply, roster: list[str]) -> str | None:
    """Return what is wrong with the backups that come with masked sums; None where nothing is."""
    others = set(roster) - {reply.site}
    return None if _are_seeds(reply.facts.get("backups"), others) else "sent no backups"


def check_seeds(reply: Reply, lost: Mapping[str, str]) -> str | None:
    """Return what is wrong with the seeds of a reply; None where nothing is."""
    if reply.arrays or not _are_seeds(reply.facts.get("seeds"), {reply.site, *lost}):
        return "did not lift the veils it was asked to"
    return None


def add_release(line: dict[str, Any], unlifted: Texts, release: dict[str, Any]) -> None:
    """Add what the second question took to the line of the round in the log."""
    line["unlifted"] |= unlifted
    line["seconds"] = round(line["seconds"] + release["seconds"], 3)
    for way in ("bytes_down", "bytes_up"):
        for site, size in release[way].items():
            line[way][site] += size


def _are_seeds(texts: object, sites: set[str]) -> bool:
    if not isinstance(texts, dict) or texts.keys() != sites:
        return False
    return all(SEED.fullmatch(str(text)) for text in texts.values())
