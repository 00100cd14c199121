"""Rounds over all members of a run, as one site sees them: its own sums, and the totals of all.

Every site adds the posts of all and computes the next dictionary, so no one can choose it.

Wrong sums end a run: those that contradict each other (`contradiction`), and those that promise
too much. The sums promise the objective of the new dictionary with the old codes. Exact codes can
only lower it, unless windows have moved; a new gauge costs little. If the next round ends clearly
above, some sums were wrong. As masks hide whose, every site then reveals two numbers: the
objective that its own sums promised and the one they reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import Runtime
from percdl.algorithm.server import population_update
from percdl.algorithm.settings import Settings
from percdl.algorithm.state import History
from percdl.estimators.start import check_atoms, given_atoms, spread_sample
from percdl.exceptions import FederationError
from percdl.federated.board import Transcript
from percdl.federated.identities import RunKeys
from percdl.federated.layout import decode, encode, mask
from percdl.federated.manifest import N_DRAWN, Terms
from percdl.federated.messages import Post, digest, frame, parse
from percdl.federated.private_rounds import PrivateRounds, add_by_person
from percdl.runtimes.in_process import InProcess
from percdl.signals import Cohort
from percdl.signals.headers import Strict
from percdl.steps.dictionary import apply_systems
from percdl.steps.initialization import draw_shapes

# Called after each round with the phase, the number of the round, and the objective.
Report = Callable[[str, int, float], None]
# Number of candidates of a first dictionary that are kept after each step.
N_KEPT = (8, 3, 1)
# Largest excess over the promise, relative to the energy: due to rounding, and to a new gauge.
MOST_ABOVE = {"population": 1e-3, "personal": 0.05}
MOST_MOVED = 1.0  # after windows have moved: a recording that ends with a pattern may lose it
# Largest error of the identity, relative to the energy: 100 times that of single precision.
MOST_OFF = 1e-5
ABOVE, OTHER = "above what the sums before promised", "not what its other sums say"


class Groups:
    """At least k people behind every number, jointly over the rounds of a run.

    For each atom, people form groups of ``least`` or more that never change, and a group counts in
    a round only if all its people have the atom. Any differences of rounds are over whole groups.

    ``persons`` has the person of each recording; ``of`` (n, K) is the group of each person for
    each atom, 0 for none yet, in the order of the sorted persons.
    """

    def __init__(self, persons: Any, n_atoms: int, least: int):
        names, self._owners = np.unique(persons, return_inverse=True)
        self.least, self.of = least, np.zeros((len(names), n_atoms), int)
        self._before: tuple[Sums, Sums] | None = None  # with and without those left out

    def admit(self, counts: Int[np.ndarray, "S K"]) -> Bool[np.ndarray, "S K"]:
        """Return which recordings count for each atom in a round, from numbers of activations.

        People without a group form new ones as soon as there are enough. People with few
        activations share a group, because they are most likely to lose the atom.
        """
        each, counts = counts, add_by_person(counts, self._owners)
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
        return admitted[self._owners] & (each > 0)

    def limit(self, runtime: InProcess, sums: Sums, kind: str, broadcast: Broadcast) -> Sums:
        """Return the sums of the last round of a runtime over the people who count.

        Energies are still over everyone. The objective excludes what the others explain, and
        `objective_fitted` what the others of the round before do. ``least`` have pairs of atoms.
        """
        counts, settings = runtime.results().counts, runtime.site.settings
        counted, before, self._before = self.admit(counts), self._before, None
        if before is not None:
            every, less = (_explained(x, broadcast.dictionary, settings) for x in before)
            sums = replace(sums, objective_fitted=sums.objective_fitted + (every - less))
        if not (counted == (counts > 0)).all():
            some = runtime.add_some(sums, kind, broadcast, counted)
            every, less = (explain_away(x, broadcast, settings) for x in (sums, some))
            self._before = (sums, some) if _is_known(sums, broadcast, settings) else None
            sums = replace(some, objective=sums.objective + (every - less))
        if not sums.ztz.size:
            return sums
        pairs = counted[:, :, None] & counted[:, None]
        both = (add_by_person(pairs, self._owners) > 0).sum(0)
        return replace(sums, ztz=np.where((both < self.least)[..., None], 0, sums.ztz))


class OwnRounds:
    """Rounds on the recordings of a site, with ``least`` people or more per atom (`Groups`)."""

    def __init__(self, cohort: Cohort, terms: Terms, least: int):
        self._cohort, self._terms, self._least, self._private = cohort, terms, least, None
        settings, privacy = terms.settings, terms.manifest.privacy
        self.groups = Groups(cohort.persons, settings.n_atoms, least)
        if privacy is None:
            self.runtime = InProcess(cohort, settings, settings.chunk_rows, terms.common.n_masks)
        else:
            self._private = PrivateRounds(cohort, settings, privacy, admit=self.groups.admit)
            self.runtime = self._private.inside

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

    def try_dictionaries(self, candidates: np.ndarray) -> list[Sums]:
        """Return the sums of a population round with each of some dictionaries (C, K, L, P).

        The sums are over the beginnings of some recordings, of ``least`` people or more for each
        atom of each candidate, in groups of its own.
        """
        settings, found = self._terms.trial, []
        most = max(Counter(self._cohort.persons).values())  # recordings of one person
        sample = spread_sample(self._cohort, settings.atom_length, self._least * most)
        for broadcast in map(Broadcast, candidates):
            runtime = InProcess(sample, settings, None, self._terms.common.n_masks)
            groups = Groups(sample.persons, settings.n_atoms, self._least)
            sums = runtime.population_round(broadcast)
            found.append(groups.limit(runtime, sums, "population", broadcast))
        return found


def add_posts(terms: Terms, kind: str, posts: dict[str, Post], n_vectors: int = 1) -> list[Sums]:
    """Return the totals of the posts of all members; a post holds ``n_vectors`` sums."""
    one, dtype = terms.layout(kind), np.uint64 if terms.manifest.secure else np.float64
    layout, parts = one.times(n_vectors), []
    scales = layout.scales(terms.common.bounds, terms.settings)
    for site in terms.manifest.sites:
        parts.append(posts[site].vector(dtype, layout.size))
        if not terms.manifest.secure and not (np.abs(parts[-1]) <= scales).all():
            what = f"numbers in a {kind} round that are not finite or exceed the agreed bounds"
            raise FederationError(f"Site {site} sent {what}. Have it check its recordings.")
    total = np.stack(parts).sum(axis=0, dtype=dtype)
    if terms.manifest.secure:
        total = decode(total, scales, len(parts))
    return [one.unpack(part) for part in np.split(total, n_vectors)]


class Share(Strict):
    """The objective that the sums of a site promised, and the one that they reached."""

    promised: float
    reached: float


def find_wrong(
    history: History, kind: str, broadcast: Broadcast, total: Sums, terms: Terms
) -> str | None:
    """Return why the total of a round shows that sums were wrong; None if it does not."""
    if contradiction(total, broadcast, terms, terms.manifest.sites) > MOST_OFF * total.signal:
        return OTHER
    if not history.records or history.records[-1].step not in ("CDU", "PerCDU"):
        return None
    moved = broadcast.move is not None and np.any(broadcast.move)
    most = MOST_MOVED if moved else MOST_ABOVE.get(kind, np.inf)
    # Parameters are fitted as if activations did not overlap.
    reached = total.objective if terms.settings.overlaps else total.objective_fitted
    is_above = reached > history.records[-1].objective + most * total.signal
    return ABOVE if is_above else None


def contradiction(sums: Sums, broadcast: Broadcast, terms: Terms, sites: Sequence[str]) -> float:
    """Return by how much sums contradict each other and what ``sites`` declared, as an energy.

    The objective follows from the other sums. Amplitudes are those of least squares, so both parts
    of the error of an atom agree. Everyone with an atom has an activation.
    """
    settings, declared = terms.settings, [terms.joined[s].holdings.bounds for s in sites]
    off = abs(sums.objective - sums.energy + explain_away(sums, broadcast, settings))
    off = max(off, sums.objective - sums.energy, -sums.objective)
    if _is_known(sums, broadcast, settings) and settings.delta is None and not settings.overlaps:
        linear, square = forms(sums, broadcast.dictionary, settings)
        off = max(off, float(np.abs(linear - square).max()))
    has_baselines = settings.disjoint_coder.n_terms > 0
    if not (settings.relative or settings.delta is not None or has_baselines):
        most, least = sum(2.0**b.energy for b in declared), 0.0 if terms.common.n_masks else 0.5
        off = max(off, sums.signal - most, least * most - sums.signal)
    people = sums.n_warps if sums.n_warps.size else np.zeros(len(sums.counts))
    most_people = sum(2.0**b.samples for b in declared) / settings.atom_length
    excess = max((people - sums.counts).max(), people.max() - most_people, -people.min())
    return max(off, sums.signal * float(excess))


def _is_known(sums: Sums, broadcast: Broadcast, settings: Settings) -> bool:
    """Whether sums have the unit of the energy, so that what is explained follows from them."""
    if settings.by_subject or (sums.gram.size and broadcast.precision is not None):
        return False
    return bool(sums.gram.size or (sums.moment.size and not sums.n_warps.size + sums.ztz.size))


def explain_away(sums: Sums, broadcast: Broadcast, settings: Settings) -> float:
    """Return the energy that the atoms explain, from the objective if it is not known."""
    if not _is_known(sums, broadcast, settings):
        return sums.energy - sums.objective
    return _explained(sums, broadcast.dictionary, settings)


def _explained(sums: Sums, atoms: np.ndarray, settings: Settings) -> float:
    linear, square = forms(sums, atoms, settings)
    return float((2 * linear - square).sum())


def promise(own: Sums, total: Sums, dictionary: np.ndarray, settings: Settings) -> float:
    """Return the objective that own sums promise with a new dictionary, scaled to fit all sums."""
    linear, square = forms(total, dictionary, settings)
    scale = np.divide(linear, square, out=np.zeros_like(linear), where=square > 0)
    linear, square = forms(own, dictionary, settings)
    return own.energy - float((2 * scale * linear - scale**2 * square).sum())


def forms(sums: Sums, atoms: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Return the linear and the quadratic part (K,) of the error, from sums of either phase."""
    if sums.gram.size:
        pairs = zip(sums.gram, atoms, strict=True)
        bent = np.stack([apply_systems(systems, atom) for systems, atom in pairs])
        right = sums.transported
    elif sums.moment.size:
        inner = slice(settings.margin, settings.margin + settings.atom_length)
        bent, right = sums.weight[:, inner] * atoms, sums.moment[:, inner]
    else:
        return np.zeros(len(atoms)), np.zeros(len(atoms))
    return (right * atoms).sum((1, 2)), (bent * atoms).sum((1, 2))


@dataclass
class FederatedRounds(Runtime):
    """Runtime over the recordings of all members, at one site; ``keys`` is its key for the run."""

    transcript: Transcript
    terms: Terms
    own: OwnRounds
    keys: RunKeys
    history: History
    _last: tuple[Sums, Sums] | None = None

    def run_round(self, kind: str, broadcast: Broadcast) -> Sums:
        """Run a round at all sites; return the sums over all."""
        sums, posts = self.post_round(kind, broadcast)
        [total] = add_posts(self.terms, kind, posts)
        if self.terms.manifest.privacy is None:  # else there are no objectives
            self._watch(kind, sums, total, broadcast)
        return total

    def post_round(self, kind: str, broadcast: Broadcast) -> tuple[Sums, dict[str, Post]]:
        """Run a round at this site and post its sums; return them, and the posts of all."""
        sums = self.own.run_round(kind, broadcast)  # also if it was posted before a crash
        return sums, self.transcript.exchange(kind, lambda: self._protect(kind, [sums]))

    def _watch(self, kind: str, own: Sums, total: Sums, broadcast: Broadcast) -> None:
        """End the run if sums contradict each other or the promise of the last round."""
        settings = self.terms.settings
        last, self._last = self._last, (own, total)
        why = find_wrong(self.history, kind, broadcast, total, self.terms)
        if why is None:
            return
        promised = reached = 0.0
        if why == OTHER:
            here = [self.transcript.identity.site]
            promised = own.objective - contradiction(own, broadcast, self.terms, here)
            reached = own.objective
        elif last is not None:  # else this site was restarted since
            promised = promise(*last, broadcast.dictionary, settings)
            reached = own.objective_fitted
        facts: Any = {"promised": float(promised), "reached": float(reached)}
        posts = self.transcript.exchange("shares", **facts)
        what = "Site {} sends no shares"
        shares = {site: parse(Share, p.head.facts, what.format(site)) for site, p in posts.items()}
        gaps = {site: share.reached - share.promised for site, share in shares.items()}
        suspect = max(gaps, key=lambda site: gaps[site] if why == ABOVE else abs(gaps[site]))
        lines = (f"{site} {x.promised:.6g}, {x.reached:.6g}" for site, x in sorted(shares.items()))
        raise FederationError(
            f"The objective of slot {self.transcript.slot - 2} of run {self.terms.manifest.run} "
            f"is {why} ({kind}): some sums were wrong. Site {suspect} has the largest gap. "
            f"Promised and reached: {'; '.join(lines)}. Have sites checked, or leave one out."
        )

    def first_dictionary(self) -> np.ndarray:
        """Return the first dictionary (K, L, P) of a run, given or found together.

        Atoms are found one by one. All sites code some recordings with the same random shapes;
        population rounds improve them, and the best are kept. There are three posts per atom.
        """
        settings, model = self.terms.settings, self.terms.manifest.make_model()
        given = given_atoms(model.init)
        if given is not None:
            return check_atoms(np.asarray(given, float), settings)
        seed = model.random_state
        if seed is None:  # every site draws the same shapes
            seed = int(digest(self.terms.manifest.run.encode())[:16], 16)
        rng, n_drawn = np.random.default_rng(int(seed)), N_DRAWN * model.n_restarts
        # Empty slots hold zero atoms, which are never activated.
        found = np.zeros((settings.n_atoms, settings.atom_length, settings.n_channels))
        for k in range(settings.n_atoms):
            candidates = np.repeat(found[None], n_drawn, axis=0)
            candidates[:, k] = draw_shapes(n_drawn, settings.atom_length, settings.n_channels, rng)
            for n_kept in N_KEPT:
                candidates = self._advance(candidates)[:n_kept]
            found = candidates[0]
        return found

    def _advance(self, candidates: np.ndarray) -> np.ndarray:
        """Improve all candidates by a population round; return them, the best first."""
        posts = self.transcript.exchange(
            "first", lambda: self._protect("first", self.own.try_dictionaries(candidates))
        )
        totals = add_posts(self.terms, "first", posts, len(candidates))
        pairs = zip(totals, map(Broadcast, candidates), strict=True)
        steps = [population_update(*pair, self.terms.trial)[0].dictionary for pair in pairs]
        return np.stack(steps)[np.argsort([x.objective for x in totals], kind="stable")]

    def _protect(self, kind: Any, sums: list[Sums]) -> np.ndarray:
        """Return own sums as the numbers of a post, masked if the manifest says so."""
        one, at, site = self.terms.layout(kind), self.transcript, self.transcript.identity.site
        layout, vector = one.times(len(sums)), np.concatenate([one.pack(own) for own in sums])
        scales = layout.scales(self.terms.common.bounds, self.terms.settings)
        layout.check(vector, scales)
        if not self.terms.manifest.secure:
            return vector
        publics = {name: post.public for name, post in self.terms.joined.items()}
        encoded = encode(vector, scales, len(publics))
        occasion = frame(self.terms.manifest.run, at.slot, kind, at.chain)
        return mask(encoded, site, self.keys, publics, occasion)
