"""At least k people behind every number, jointly over the rounds of a run.

The sums of two rounds differ by those who have an atom in one of them only. With one such person,
the difference would show that person. So for each atom people are put into groups of k or more,
which never change, and a group counts in a round only if all of its people have the atom then.
Whatever rounds are added or subtracted, people then come and go by k or more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.federated.alarm import explain_away
from percdl.runtimes.in_process import InProcess


class Groups:
    """The people of a site, for each atom in groups of ``least`` or more that count together.

    ``of`` (S, K) is the group of each person for each atom, 0 for none yet.
    """

    def __init__(self, n_people: int, n_atoms: int, least: int):
        self.least, self.of = least, np.zeros((n_people, n_atoms), int)

    def admit(self, counts: Int[np.ndarray, "S K"]) -> Bool[np.ndarray, "S K"]:
        """Return who counts for each atom in a round, from the numbers of activations.

        People without a group form new ones as soon as there are enough. Those with
        few activations are put together: they are the ones who may lose an atom.
        """
        has = counts > 0
        admitted = np.zeros_like(has)
        for k, of in enumerate(self.of.T):
            new = np.flatnonzero(has[:, k] & (of == 0))
            if len(new) >= self.least:
                new = new[np.argsort(-counts[new, k], kind="stable")]
                for members in np.array_split(new, len(new) // self.least):
                    of[members] = of.max() + 1
            present = np.bincount(of[has[:, k]], minlength=of.max() + 1)
            admitted[:, k] = (of > 0) & (present == np.bincount(of))[of]
        return admitted

    def limit(self, runtime: InProcess, sums: Sums, kind: str, broadcast: Broadcast) -> Sums:
        """Return the sums of the last round of a runtime over those who count.

        Numbers over all recordings still contain everyone, except the objective: what others
        explain is not in it.
        """
        counts, settings = runtime.results().counts, runtime.site.settings
        counted = self.admit(counts)
        if (counted == (counts > 0)).all():
            return self._limit_pairs(sums, counted)
        some = runtime.add_some(sums, kind, broadcast, counted)
        less = explain_away(sums, broadcast, settings) - explain_away(some, broadcast, settings)
        return self._limit_pairs(replace(some, objective=sums.objective + less), counted)

    def _limit_pairs(self, sums: Sums, counted: np.ndarray) -> Sums:
        """Return sums without pairs of overlapping atoms that too few people have."""
        if not sums.ztz.size:
            return sums
        both = counted.T.astype(int) @ counted
        return replace(sums, ztz=np.where((both < self.least)[..., None], 0, sums.ztz))
