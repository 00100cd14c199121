"""An objective that rises though the sums promised an improvement: a site has sent wrong sums.

A new dictionary explains more than the old one, by the sums it was made of. Only moved windows or
another gauge can cost some of that. If it gains by the sums and the objective rises all the
same, some sums were wrong. Masks hide whose. All sites then tell three numbers of their own, and
the run ends: their objective before and after the update, and their gain by the sums they sent. An
update that was made of wrong sums serves the site that made them up, and nobody else.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from percdl.algorithm.exchange import Sums
from percdl.algorithm.settings import Settings
from percdl.exceptions import FederationError
from percdl.federated.messages import Strict, parse
from percdl.federated.private_rounds import multiply
from percdl.federated.transcript import Transcript

# Rise of the objective, relative, that re-centered atoms do not explain.
MOST_RISE = 0.25


class Share(Strict):
    """What a site tells in an alarm: own objectives, and what it gained from the update."""

    before: float
    after: float
    gain: float


def has_risen(before: float, after: float) -> bool:
    """Whether an objective has risen by more than honest sums can explain."""
    return after > (1 + MOST_RISE) * before


def gain(own: Sums, total: Sums, old: np.ndarray, new: np.ndarray, settings: Settings) -> float:
    """Return how much more of own signals a new dictionary explains, with the scales of all.

    The gains of all sites add up to that of the total.
    """
    pair = (_explained(own, total, atoms, settings) for atoms in (new, old))
    return next(pair) - next(pair)


def _explained(own: Sums, total: Sums, dictionary: np.ndarray, settings: Settings) -> float:
    linear, square = _forms(total, dictionary, settings)
    scale = np.divide(linear, square, out=np.zeros_like(linear), where=square > 0)
    linear, square = _forms(own, dictionary, settings)
    return float((2 * scale * linear - scale**2 * square).sum())


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


def raise_alarm(
    transcript: Transcript, kind: str, own: Share, rise: tuple[float, float]
) -> NoReturn:
    """Exchange the shares of all sites, and end the run with them."""
    posts = transcript.exchange("shares", **own.model_dump())
    shares = {site: parse(Share, post.head.facts) for site, post in posts.items()}
    suspect = max(shares, key=lambda site: shares[site].gain)
    lines = "; ".join(
        f"{site} {share.before:.6g} to {share.after:.6g}, gain {share.gain:.6g}"
        for site, share in sorted(shares.items())
    )
    raise FederationError(
        f"The objective has risen from {rise[0]:.6g} to {rise[1]:.6g} in slot "
        f"{transcript.slot - 2} of run {transcript.manifest.run} ({kind}), which honest sums do "
        f"not explain. Site {suspect} gained most from the update, and is the first suspect. "
        f"Objectives of the sites, and gains: {lines}. Have the sites checked, or leave one out."
    )
