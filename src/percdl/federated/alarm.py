"""Sums that contradict each other or an earlier promise: a site has sent wrong sums.

Within a round, the objective is the energy less what the atoms explain, which follows exactly from
the other sums. The sums also promise the objective of the new dictionary with the old codes. Exact
codes can only lower it, unless windows have moved; a new gauge costs little. If the identity
fails, or the next round ends clearly above its promise, some sums were wrong. Masks hide which, so
every site then reveals two numbers, and the run ends: the objective that its own sums promised,
and the one they reached. At a site that made sums up, the two disagree.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.exceptions import FederationError
from percdl.federated.board import Transcript
from percdl.federated.messages import Strict, parse
from percdl.federated.private_rounds import multiply

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
    """Part of a site in an alarm: the objective its sums promised, and the one it reached."""

    promised: float
    reached: float


def find_wrong(
    history: History, kind: str, broadcast: Broadcast, total: Sums, settings: Settings
) -> str | None:
    """Return how the objective of a round shows that sums were wrong; None if it does not."""
    off = total.objective - total.energy + explain_away(total, broadcast, settings)
    if abs(off) > MOST_OFF * total.signal:
        return OTHER
    if not history.records or history.records[-1].step not in ("CDU", "PerCDU"):
        return None
    moved = broadcast.move is not None and np.any(broadcast.move)
    most = MOST_MOVED if moved else MOST_ABOVE.get(kind, np.inf)
    # This objective is over everyone; the other one is over those who count (`Groups`).
    is_above = total.objective_fitted > history.records[-1].objective + most * total.signal
    return ABOVE if is_above else None


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
    shares = {
        site: parse(Share, post.head.facts, f"Site {site} sends no shares")
        for site, post in transcript.exchange("shares", **own.model_dump()).items()
    }
    gaps = {site: share.reached - share.promised for site, share in shares.items()}
    suspect = max(gaps, key=lambda site: gaps[site] if why == ABOVE else abs(gaps[site]))
    lines = (f"{site} {x.promised:.6g}, {x.reached:.6g}" for site, x in sorted(shares.items()))
    raise FederationError(
        f"The objective of slot {transcript.slot - 2} of run {transcript.manifest.run} is {why} "
        f"({kind}): some sums were wrong. Site {suspect} is furthest from its own, and the first "
        f"suspect. Promised and reached: {'; '.join(lines)}. Have the sites checked, or leave one "
        "out."
    )
