"""Sums that contradict each other, or what they promised: a site has sent wrong sums.

Within a round, the objective is the energy less what the atoms explain, which follows from the
other sums; the identity is exact. The sums also tell the objective that the new dictionary reaches
with the old codes. Exact codes can only lower it, unless windows have moved; a new gauge costs
little. If the identity fails, or the next round ends clearly above its promise, some sums were
wrong. Masks hide whose. All sites then tell two numbers of their own, and the run ends: the
objective that their sums promised, and the one they reached. Both add up to those of all, so a
site that made sums up is the one whose two numbers disagree.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.exceptions import FederationError
from percdl.federated.messages import Strict, parse
from percdl.federated.private_rounds import multiply
from percdl.federated.transcript import Transcript

# Distance above the promise that rounding explains in the first phase, and a new gauge in the
# second, over the energy of the signals.
MOST_ABOVE = {"population": 1e-3, "personal": 0.05}
# The same after windows have moved, when recordings that end with a pattern may lose it: only a
# promise of less than nothing is broken then.
MOST_MOVED = 1.0
# Error of the identity that single precision explains, over the energy: a hundred times the usual.
MOST_OFF = 1e-5


ABOVE, OTHER = "above what the sums before promised", "not what its other sums say"


class Share(Strict):
    """What a site tells in an alarm: the objective its sums promised, and the one it reached."""

    promised: float
    reached: float


def is_broken(history: History, kind: str, broadcast: Broadcast, total: Sums) -> bool:
    """Whether the totals of a round break the promise at the end of a history."""
    record = history.records[-1] if history.records else None
    if record is None or record.step not in ("CDU", "PerCDU"):
        return False
    # This objective is over everyone; the other one is over those who count (`Groups`).
    moved = broadcast.move is not None and bool(np.any(broadcast.move))
    most = MOST_MOVED if moved else MOST_ABOVE.get(kind, np.inf)
    return total.objective_fitted > record.objective + most * total.signal


def contradicts(total: Sums, broadcast: Broadcast, settings: Settings) -> bool:
    """Whether the objective of a round is not what its other sums say."""
    off = total.objective - total.energy + explain_away(total, broadcast, settings)
    return abs(off) > MOST_OFF * total.signal


def explain_away(sums: Sums, broadcast: Broadcast, settings: Settings) -> float:
    """Return the energy that the atoms of a round explain, from its sums.

    It is exact where sums have the unit of the energy; elsewhere it is taken from the objective.
    """
    known = sums.gram.size or (sums.moment.size and not sums.n_warps.size and not sums.ztz.size)
    if settings.by_subject or not known or (sums.gram.size and broadcast.precision is not None):
        return sums.energy - sums.objective
    linear, square = _forms(sums, broadcast.dictionary, settings)
    return float((2 * linear - square).sum())


def promise(own: Sums, total: Sums, dictionary: np.ndarray, settings: Settings) -> float:
    """Return the objective that own sums promise with a new dictionary, at the scales of all."""
    linear, square = _forms(total, dictionary, settings)
    scale = np.divide(linear, square, out=np.zeros_like(linear), where=square > 0)
    linear, square = _forms(own, dictionary, settings)
    return own.energy - float((2 * scale * linear - scale**2 * square).sum())


def _forms(
    sums: Sums, dictionary: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear and the quadratic part (K,) of the error, from sums of either phase."""
    if sums.gram.size:
        bent = np.stack([multiply(g, atom) for g, atom in zip(sums.gram, dictionary, strict=True)])
        right = sums.transported
    elif sums.moment.size:
        inner = slice(settings.margin, settings.margin + settings.atom_length)
        bent, right = sums.weight[:, inner] * dictionary, sums.moment[:, inner]
    else:
        return np.zeros(len(dictionary)), np.zeros(len(dictionary))
    return (right * dictionary).sum((1, 2)), (bent * dictionary).sum((1, 2))


def raise_alarm(transcript: Transcript, kind: str, own: Share, why: str) -> NoReturn:
    """Exchange the shares of all sites, and end the run with them."""
    posts = transcript.exchange("shares", **own.model_dump())
    told = {site: post.head.facts for site, post in posts.items()}
    shares = {site: parse(Share, told[site], f"Site {site} tells no shares") for site in told}
    gaps = {site: share.reached - share.promised for site, share in shares.items()}
    suspect = max(gaps, key=lambda site: gaps[site] if why == ABOVE else abs(gaps[site]))
    lines = "; ".join(
        f"{site} {share.promised:.6g}, {share.reached:.6g}"
        for site, share in sorted(shares.items())
    )
    raise FederationError(
        f"The objective of slot {transcript.slot - 2} of run {transcript.manifest.run} is {why} "
        f"({kind}): some sums were wrong. Site {suspect} is furthest from its own, and the first "
        f"suspect. Promised and reached: {lines}. Have the sites checked, or leave one out."
    )
