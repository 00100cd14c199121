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
from percdl.federated.identities import RunKeys
from percdl.federated.manifest import Manifest, settings_of
from percdl.federated.messages import Digest, Name, digest, parse
from percdl.federated.privacy import count_releases, epsilon_of
from percdl.signals import Cohort
from percdl.signals.files import PRIVATE, append_private, make_private_folder
from percdl.signals.headers import Strict

# Files of a run at a site: its own model at the end, and its key until then.
MODEL, KEY = "model.percdl", "run.key"


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
        Largest epsilon of differential privacy of all runs on the same people together, at a
        delta of ``max_delta``. Noise within this budget replaces the groups of ``min_subjects``.
        None: sums may be exact, and groups are kept whether there is noise or not.
    max_delta : float
        Probability that the guarantee may fail, well below one over the number of people.
    dataset : str
        Name of the data set that it holds; a manifest must have the same.
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
    max_delta: float = 1e-5
    dataset: str = ""
    manifest: str | None = None

    def least(self, manifest: Manifest) -> int:
        """Return the smallest number of people behind a number: the site's or the manifest's."""
        return max(self.min_subjects, manifest.min_subjects)

    def trusts_noise(self, manifest: Manifest) -> bool:
        """Whether noise within the site's own budget protects its people, instead of groups."""
        return manifest.privacy is not None and self.max_epsilon is not None


def check_manifest(site: str, key: str, cohort: Cohort, consent: Consent, m: Manifest) -> None:
    """Raise if a site refuses a manifest, given its public key, recordings and conditions."""
    for why in (*_object(site, key, consent, m), *_lack(cohort, consent, m)):
        raise FederationError(f"Site {site} {why}")
    choose(m.make_model(), cohort)  # raises if recordings are too short
    check_samples(cohort)


def _object(site: str, key: str, consent: Consent, m: Manifest) -> Iterator[str]:
    if m.version != __version__:
        yield f"runs percdl {__version__}, and the manifest is for {m.version}. Use one version."
    if consent.manifest not in (None, m.fingerprint):
        yield f"has consented to {consent.manifest}, not to {m.fingerprint}. Compare fingerprints."
    if m.members.get(site) != key:
        yield "is not a member with this key. Send the public key to the person who invites."
    if m.dataset != consent.dataset:
        yield f"holds data set {consent.dataset!r}, and the manifest is for {m.dataset!r}."
    if len(m.members) < consent.min_sites:
        yield f"takes part in sums over {consent.min_sites} sites or more, not {len(m.members)}."
    if not m.secure and not consent.allow_plain:
        yield "answers with masked sums only (`allow_plain`), and the manifest has plain ones."
    if m.aggregate == "server" and not consent.trust_server:
        yield "computes every dictionary itself (`trust_server`), and here the server would."
    if m.privacy is None and consent.max_epsilon is not None:
        yield f"answers with noisy sums only, of an epsilon of at most {consent.max_epsilon}."


def _lack(cohort: Cohort, consent: Consent, m: Manifest) -> Iterator[str]:
    if len({*cohort.persons}) < consent.least(m):
        yield f"has fewer than {consent.least(m)} people (`min_subjects`). Continue without it."
    if m.privacy is not None and cohort.n_masks:
        yield "has recordings with missing samples, which differential privacy does not allow."


class Entry(Strict):
    """One run in the ledger, with checksums of the recordings and of the name of each person."""

    time: str
    run: Name
    manifest: Digest
    members: tuple[Name, ...]
    recordings: tuple[Digest, ...]
    people: tuple[Digest, ...] = ()
    mu: float | None  # of `Privacy.spent`; None for exact sums, and for noise without a budget


def sign(folder: Path, site: str, manifest: Manifest, cohort: Cohort, consent: Consent) -> None:
    """Add a run to ``ledger.jsonl``; raise if it reveals too much together with earlier ones.

    Two runs on the same people reveal more than one: the difference of their totals is the sum
    over the sites, or the people, that were in one run only. Privacy spent adds up.
    """
    path, place, mu = folder / "ledger.jsonl", folder / manifest.run, math.inf
    if manifest.privacy is not None and consent.trusts_noise(manifest):
        mu = manifest.privacy.spent(count_releases(settings_of(manifest.make_model())))
    entry = Entry(
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        run=manifest.run,
        manifest=manifest.digest,
        members=tuple(manifest.sites),
        recordings=tuple(sorted(_digests_by_person(cohort))),
        people=tuple(sorted({digest(ascii(name).encode()) for name in cohort.persons})),
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
            if any((place / name).is_file() for name in (KEY, MODEL)):
                return  # after a crash
            what = f"has taken part in run {entry.run} before, and {place} is gone"
            why = "it would answer the same questions again. Restore it, or agree on a new run"
            raise FederationError(f"Site {site} {what}: {why}.")
        now = {*entry.recordings, *entry.people}
        related = [e for e in earlier if now & {*e.recordings, *e.people}] + known
        for why in _reveal(entry, related, consent, manifest):
            raise FederationError(f"Site {site} {why}")
        make_private_folder(place)
        RunKeys.at(place / KEY)  # before the ledger has the run
        append_private(path, (entry.model_dump_json() + "\n").encode())


def digests(cohort: Cohort) -> Iterator[str]:
    """Yield a checksum of the samples and corrections of each recording; they stay at the site."""
    for recording in cohort:
        about = f"{recording.values.shape}{recording.corrections or ''}"
        yield digest(about.encode() + recording.values.tobytes())


def _digests_by_person(cohort: Cohort) -> Iterator[str]:
    """Yield a checksum of all recordings of each person: that of the recording if it is one."""
    own: dict[str, list[str]] = {}
    for person, checksum in zip(cohort.persons, digests(cohort), strict=True):
        own.setdefault(person, []).append(checksum)
    for several in own.values():
        yield digest("".join(sorted(several)).encode()) if len(several) > 1 else several[0]


def _reveal(entry: Entry, related: list[Entry], consent: Consent, m: Manifest) -> Iterator[str]:
    """Yield the reasons why a run would reveal too much, together with ``related`` ones."""
    least = consent.least(m)
    for known in related:
        if known.run == entry.run:
            what = f"another manifest of run {entry.run}, or had other recordings then"
            yield f"has signed {what}. Give the new run another name."
        pairs = (known.recordings, entry.recordings), (known.people, entry.people)
        changes = (len({*x} - {*y}) for a, b in pairs for x, y in ((a, b), (b, a)))
        few = [change for change in changes if 0 < change < least]
        if few and None in (known.mu, entry.mu):
            yield (
                f"has recordings or people that differ by {few[0]} from those of run {known.run}, "
                f"and so would the totals: fewer than {least} (`min_subjects`). Wait for more."
            )
        others = sorted(set(known.members) ^ set(entry.members))
        if others and not consent.other_members:
            yield (
                f"has taken part in run {known.run} with the same people and other members: the "
                f"difference of the totals would show the sums of {', '.join(others)}. If all of "
                "them agree, set `other_members`."
            )
    squares = [math.inf if e.mu is None else e.mu**2 for e in (*related, entry)]
    # The delta is the site's: with a delta near 1 a manifest could promise any epsilon.
    spent, most = epsilon_of(math.sqrt(sum(squares)), consent.max_delta), consent.max_epsilon
    if most is not None and (spent == math.inf or spent > most * (1 + 1e-6)):
        yield (
            f"allows an epsilon of {most:g} at a delta of {consent.max_delta:g} for all runs on "
            f"the same people, and with this one {len(squares)} run(s) would spend {spent:.4g}."
        )
