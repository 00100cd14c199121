"""Conditions of a site and the ledger of its runs, both checked before it signs a manifest."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from percdl import __version__
from percdl.estimators.start import choose
from percdl.estimators.validation import check_samples
from percdl.exceptions import FederationError
from percdl.federated.manifest import Manifest, settings_of
from percdl.federated.messages import Digest, Name, Strict, digest, parse
from percdl.federated.privacy import count_releases, epsilon_of
from percdl.signals import Cohort
from percdl.signals.files import PRIVATE, append_private, make_private_folder


@dataclass(frozen=True)
class Consent:
    """Conditions of a site, which hold for every run.

    Parameters
    ----------
    min_subjects : int
        Smallest number of its people behind every number that it sends, jointly over rounds:
        for each atom, people count in groups of that size, all of whom have it in a round.
    min_sites : int
        Smallest number of members.
    allow_plain : bool
        Whether it takes part even if sums are not masked, as with two members.
    trust_server : bool
        Whether it takes part even if the server adds the sums and computes the dictionaries.
    other_members : bool
        Whether it takes part in runs with different members on the same people. The difference
        of two totals shows the sums of the sites that were in one run only.
    max_epsilon : float, optional
        Largest epsilon of differential privacy of all runs on the same people together.
        None: sums may be exact.
    manifest : str, optional
        Fingerprint of the only manifest it signs.

    Examples
    --------
    >>> Consent(min_subjects=10).allow_plain
    False
    """

    min_subjects: int = 5
    min_sites: int = 2
    allow_plain: bool = False
    trust_server: bool = False
    other_members: bool = False
    max_epsilon: float | None = None
    manifest: str | None = None

    def least(self, manifest: Manifest) -> int:
        """Return the smallest number of people behind a number: the site's or the manifest's."""
        return max(self.min_subjects, manifest.min_subjects)


def check_manifest(site: str, key: str, cohort: Cohort, consent: Consent, m: Manifest) -> None:
    """Raise if a site refuses a manifest, given its public key, recordings and conditions."""
    for why in _object(site, key, cohort, consent, m):
        raise FederationError(f"Site {site} {why}")
    choose(m.make_model(), cohort)  # raises if recordings are too short
    check_samples(cohort)


def _object(site: str, key: str, cohort: Cohort, consent: Consent, m: Manifest) -> Iterator[str]:
    if m.version != __version__:
        yield f"runs percdl {__version__}, and the manifest is for {m.version}. Use one version."
    if consent.manifest not in (None, m.fingerprint):
        yield (
            f"has consented to {consent.manifest}, and this manifest is {m.fingerprint}. Compare "
            "fingerprints, and correct `manifest` in the file of the site."
        )
    if m.members.get(site) != key:
        yield "is not a member with this key. Send the public key to the person who invites."
    if len(m.members) < consent.min_sites:
        yield f"takes part in sums over {consent.min_sites} sites or more, not {len(m.members)}."
    if not m.secure and not consent.allow_plain:
        yield (
            "answers with masked sums only, and the manifest has plain ones. Find a third member, "
            "or let all sites allow plain sums (`allow_plain`)."
        )
    if m.aggregate == "server" and not consent.trust_server:
        yield (
            "computes every dictionary itself, and the manifest lets the server do that. Agree on "
            '`aggregate="sites"`, or trust the server (`trust_server`).'
        )
    if len(cohort) < consent.least(m):
        yield (
            f"has fewer than {consent.least(m)} recordings, the least for a sum "
            "(`min_subjects`). Continue without it, or agree on fewer."
        )
    if m.privacy is None and consent.max_epsilon is not None:
        yield (
            "answers with noisy sums only, and the manifest has exact ones. Agree on "
            f"`Privacy(epsilon={consent.max_epsilon})` at most."
        )
    if m.privacy is not None and cohort.n_masks:
        yield (
            "has recordings with missing samples, which differential privacy does not allow. Fill "
            "the gaps, or leave these recordings out."
        )


class Entry(Strict):
    """One run in the ledger, with checksums of samples and of names."""

    time: str
    run: Name
    manifest: Digest
    members: tuple[Name, ...]
    recordings: tuple[Digest, ...]
    people: tuple[Digest, ...] = ()
    mu: float | None  # of `Privacy.spent`; None for exact sums


def sign(folder: Path, site: str, manifest: Manifest, cohort: Cohort, consent: Consent) -> None:
    """Add a run to ``ledger.jsonl``; raise if it reveals too much together with earlier ones.

    Two runs on the same people reveal more than one: the difference of their totals is the sum
    over the sites, or the people, that were in one run only. Privacy spent adds up.
    """
    path, privacy, mu = folder / "ledger.jsonl", manifest.privacy, math.inf
    if privacy is not None:
        mu = privacy.spent(count_releases(settings_of(manifest.make_model())))
    entry = Entry(
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        run=manifest.run,
        manifest=manifest.digest,
        members=tuple(manifest.sites),
        recordings=tuple(sorted(digests(cohort))),
        people=tuple(sorted({digest(ascii(name).encode()) for name in cohort.subjects})),
        mu=mu if math.isfinite(mu) else None,
    )
    damaged = f"{path} does not tell of all earlier runs. Nothing is sent. Restore the file"
    make_private_folder(folder)
    with FileLock(folder / "ledger.lock", mode=PRIVATE):
        lines = path.read_bytes().splitlines() if path.is_file() else []
        earlier = [parse(Entry, line, damaged) for line in lines]
        lost = {p.parent.name for p in folder.glob("*/000000.post")} - {e.run for e in earlier}
        if lost:
            raise FederationError(f"{damaged} (the posts of run {min(lost)} are beside it).")
        known = [e for e in earlier if e.run == entry.run]
        if known and known[0].model_copy(update={"time": entry.time}) == entry:
            return  # after a crash
        now = {*entry.recordings, *entry.people}
        related = [e for e in earlier if now & {*e.recordings, *e.people}] + known
        for why in _reveal(entry, related, consent, manifest):
            raise FederationError(f"Site {site} {why}")
        append_private(path, (entry.model_dump_json() + "\n").encode())


def digests(cohort: Cohort) -> Iterator[str]:
    """Yield a checksum of the samples and corrections of each recording; they stay at the site."""
    for recording in cohort:
        about = f"{recording.values.shape}{recording.corrections or ''}"
        yield digest(about.encode() + recording.values.tobytes())


def _reveal(entry: Entry, related: list[Entry], consent: Consent, m: Manifest) -> Iterator[str]:
    """Yield the reasons why a run would reveal too much, together with ``related`` ones."""
    least, delta = consent.least(m), 0.0 if m.privacy is None else m.privacy.delta
    for known in related:
        if known.run == entry.run:
            yield (
                f"has signed another manifest of run {entry.run}, or had other recordings then. "
                "Give the new run another name."
            )
        pairs = (known.recordings, entry.recordings), (known.people, entry.people)
        changes = (len({*x} - {*y}) for a, b in pairs for x, y in ((a, b), (b, a)))
        few = [change for change in changes if 0 < change < least]
        if few and None in (known.mu, entry.mu):
            yield (
                f"has recordings or people that differ by {few[0]} from those of run {known.run}: "
                "the difference of the totals would be over fewer people than `min_subjects` "
                f"({least}). Use the same recordings, or wait for more."
            )
        others = sorted(set(known.members) ^ set(entry.members))
        if others and not consent.other_members:
            yield (
                f"has taken part in run {known.run} with the same people and other members: the "
                f"difference of the totals would show the sums of {', '.join(others)}. If all of "
                "them agree, set `other_members`. Other people need other names."
            )
    squares = [math.inf if e.mu is None else e.mu**2 for e in (*related, entry)]
    spent = epsilon_of(math.sqrt(sum(squares)), delta)
    if consent.max_epsilon is not None and not spent <= consent.max_epsilon * (1 + 1e-6):
        yield (
            f"allows an epsilon of {consent.max_epsilon:g} for all runs on the same people, "
            f"and with this one {len(squares)} run(s) would spend {spent:.4g}."
        )
