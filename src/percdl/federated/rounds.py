"""Rounds over all members of a run, as one site sees them: its own sums, and the totals of all.

The server's half of Algorithm 2 is deterministic. Every site adds the posts of all members itself
and computes the next dictionary itself, so nobody can choose a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.state import History
from percdl.exceptions import FederationError
from percdl.federated import start
from percdl.federated.alarm import (
    ABOVE,
    OTHER,
    Share,
    contradicts,
    explain_away,
    is_broken,
    promise,
    raise_alarm,
)
from percdl.federated.groups import Groups
from percdl.federated.identities import RunKeys
from percdl.federated.layout import Layout, layout_of
from percdl.federated.manifest import Terms
from percdl.federated.messages import Post, frame
from percdl.federated.private_rounds import ROWS, PrivateRounds
from percdl.federated.secure_sum import decode, encode, mask
from percdl.federated.transcript import Transcript
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.protocol import Rounds
from percdl.signals import Cohort


class OwnRounds:
    """Rounds on the recordings of a site; ``least`` people or more are behind each atom's sums.

    That holds jointly over rounds, see `Groups`.
    """

    def __init__(self, cohort: Cohort, terms: Terms, least: int):
        self._cohort, self._terms, self._least = cohort, terms, least
        settings, privacy = terms.settings, terms.manifest.make_privacy()
        self._private = None
        self.groups = Groups(len(cohort), settings.n_atoms, least)
        if privacy is None:
            self.runtime = InProcess(cohort, settings, settings.chunk_rows, terms.n_masks)
        else:
            # A unit found from the recordings would let one subject's numbers depend on others.
            self.runtime = InProcess(cohort, settings, ROWS, terms.n_masks, 1.0, is_exact=True)
            self._private = PrivateRounds(self.runtime, privacy)

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round; return the sums that may leave the site."""
        if self._private is not None:
            return self._private.run_round(kind, broadcast)
        sums = self.runtime.run_round(kind, broadcast)
        return self.groups.limit(self.runtime, sums, kind, broadcast)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the state between two rounds, as arrays by name."""
        return {**self.runtime.snapshot(), "groups": self.groups.of}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to a snapshot."""
        self.groups.of = np.array(arrays.pop("groups"))
        self.runtime.restore(arrays)

    def try_dictionaries(self, candidates: np.ndarray) -> np.ndarray:
        """Return the sums with each of some first dictionaries, as one vector."""
        options = self._terms.settings, self._terms.n_masks, self._least
        return start.try_dictionaries(self._cohort, *options, candidates)


def add_posts(terms: Terms, kind: str, layout: Layout, posts: Mapping[str, Post]) -> np.ndarray:
    """Return the total of the posts of all members, a vector (n,).

    Every site calls it, or the server (`percdl.federated.server`).
    """
    secure, parts = terms.manifest.secure, {}
    for site in terms.manifest.sites:
        try:
            parts[site] = posts[site].vector(np.uint64 if secure else np.float64, layout.size)
            if not np.isfinite(parts[site]).all():
                raise ValueError("numbers that are not finite")
        except ValueError as error:
            raise FederationError(f"Site {site} sent {error} in a {kind} round.") from error
    if not secure:
        return layout.add(parts)
    total = np.stack(list(parts.values())).sum(axis=0, dtype=np.uint64)
    return decode(total, layout.scales(terms.common.bounds, terms.settings), len(parts))


@dataclass
class FederatedRounds(Rounds):
    """Runtime over the recordings of all members, at one of them.

    ``publics`` are the keys of all members for this run, by site. Sums that contradict each other,
    or what the last ones promised, as ``history`` has it, end the run.
    """

    transcript: Transcript
    terms: Terms
    own: OwnRounds
    keys: RunKeys
    publics: Mapping[str, str]
    history: History
    _last: tuple[Sums, Sums] | None = None

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round here, and let all others do so; return the sums over all."""
        sums, posts, layout = self.post_round(kind, broadcast)
        total = layout.unpack(add_posts(self.terms, kind, layout, posts))
        if self.terms.manifest.privacy is None:  # else there are no objectives
            self._watch(kind, sums, total, broadcast)
        return total

    def post_round(self, kind: str, broadcast: Broadcast) -> tuple[Sums, dict[str, Post], Layout]:
        """Run a round here and post its sums; return them, and the posts of all in a layout."""
        layout = layout_of(kind, self.terms.settings, self.terms.n_masks)
        sums = self.own.run_round(kind, broadcast)  # also if it was posted before a crash
        return sums, self._post(kind, layout, lambda: layout.pack(sums)), layout

    def _watch(self, kind: str, own: Sums, total: Sums, broadcast: Broadcast) -> None:
        """End the run if sums contradict each other, or what the last ones promised."""
        settings = self.terms.settings
        last, self._last = self._last, (own, total)
        if contradicts(total, broadcast, settings):
            promised = own.energy - explain_away(own, broadcast, settings)
            share = Share(promised=promised, reached=own.objective)
            raise_alarm(self.transcript, kind, share, OTHER)
        if is_broken(self.history, kind, broadcast, total):
            share = Share(promised=0.0, reached=0.0)
            if last is not None:  # else this site was restarted since
                promised = promise(*last, broadcast.dictionary, settings)
                share = Share(promised=promised, reached=own.objective_fitted)
            raise_alarm(self.transcript, kind, share, ABOVE)

    def try_dictionaries(self, candidates: np.ndarray) -> list[Sums]:
        """Return the sums over all sites with each of some first dictionaries."""
        options = len(candidates), self.terms.settings, self.terms.n_masks
        layout = start.trial_layout(*options)
        posts = self._post("first", layout, lambda: self.own.try_dictionaries(candidates))
        total = add_posts(self.terms, "first", layout, posts)
        return start.split_trials(total, *options)

    def _post(self, kind: str, layout: Layout, make: Callable[[], np.ndarray]) -> dict[str, Post]:
        """Post own sums, masked if the manifest says so; return the posts of all."""
        scales = layout.scales(self.terms.common.bounds, self.terms.settings)

        def prepare() -> np.ndarray:
            sums = self._checked(make(), layout)
            return self._hide(sums, scales, layout, kind) if self.terms.manifest.secure else sums

        return self.transcript.exchange(kind, prepare)

    def _checked(self, vector: np.ndarray, layout: Layout) -> np.ndarray:
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            raise FederationError(
                f"The sum `{layout.locate(int(bad[0]))}` is not finite. Nothing is sent. Check "
                f"the recordings of site {self.transcript.identity.site}."
            )
        return vector

    def _hide(self, sums: np.ndarray, scales: np.ndarray, layout: Layout, kind: Any) -> np.ndarray:
        """Return own sums in fixed point, under masks."""
        site, at = self.transcript.identity.site, self.transcript
        try:
            encoded = encode(sums, scales, len(self.publics), layout.locate)
        except FederationError as error:
            at.log(asked=kind, refused=str(error))  # it holds a sum of this site, so it stays here
            raise FederationError(
                f"A sum of site {site} exceeds its agreed bound; its own log says which."
            ) from error
        occasion = frame(self.terms.manifest.run, at.slot, kind, at.chain)
        return mask(encoded, site, self.keys, self.publics, occasion)
