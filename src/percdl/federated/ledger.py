"""What a site has taken part in: one ledger over all runs, in its own folder."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from filelock import FileLock

from percdl.exceptions import FederationError
from percdl.federated.consent import Consent
from percdl.federated.manifest import Manifest
from percdl.federated.messages import Digest, Name, Strict, parse
from percdl.federated.privacy import count_releases, epsilon_of
from percdl.signals import Cohort
from percdl.signals.files import PRIVATE, append_private, make_private_folder


class Entry(Strict):
    """One run: its manifest, its members, the recordings, and the privacy spent.

    ``mu`` is that of `percdl.federated.privacy.spent`; None for exact sums.
    """

    time: str
    run: Name
    manifest: Digest
    members: tuple[Name, ...]
    recordings: tuple[Digest, ...]
    mu: float | None


class Ledger:
    """Runs that a site has signed, in ``ledger.jsonl``; entries are only ever added.

    Two runs on the same recordings reveal more than one: the difference of two totals is the sums
    of the sites, or of the people, that only one of them had. Privacy spent adds up.
    """

    def __init__(self, folder: Path):
        self._path = folder / "ledger.jsonl"

    def sign(self, site: str, manifest: Manifest, cohort: Cohort, consent: Consent) -> None:
        """Record a run before anything is sent; raise if it reveals too much with earlier ones."""
        make_private_folder(self._path.parent)
        privacy = manifest.make_privacy()
        mu = math.inf
        if privacy is not None:
            mu = privacy.spent(count_releases(manifest.make_settings()))
        entry = Entry(
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            run=manifest.run,
            manifest=manifest.digest,
            members=tuple(manifest.sites),
            recordings=tuple(sorted(digests(cohort))),
            mu=mu if math.isfinite(mu) else None,
        )
        with FileLock(self._path.with_name("ledger.lock"), mode=PRIVATE):
            earlier = self._read()
            for known in earlier:
                if known.run == entry.run:
                    if (known.manifest, known.recordings) != (entry.manifest, entry.recordings):
                        _refuse(
                            site,
                            f"has signed another manifest of run {entry.run}, or had other "
                            "recordings then. Give the new run another name.",
                        )
                    return
            related = [known for known in earlier if set(known.recordings) & set(entry.recordings)]
            for known in related:
                _check_pair(site, known, entry, max(consent.min_subjects, manifest.min_subjects))
                _check_members(site, known, entry, consent)
            _check_budget(site, [*related, entry], privacy, consent)
            append_private(self._path, (entry.model_dump_json() + "\n").encode())

    def _read(self) -> list[Entry]:
        damaged = (
            f"{self._path} is damaged, so this site does not know what it has taken part in. "
            "Nothing is sent. Restore the file"
        )
        lines = self._path.read_bytes().splitlines() if self._path.is_file() else []
        return [parse(Entry, line, damaged) for line in lines]


def digests(cohort: Cohort) -> Iterator[str]:
    """Yield a checksum of the samples and corrections of each recording; they stay at the site."""
    for recording in cohort:
        values = np.ascontiguousarray(recording.values)
        about = f"{values.shape}{recording.corrections or ''}"
        yield hashlib.sha256(about.encode() + values.tobytes()).hexdigest()


def _check_pair(site: str, known: Entry, entry: Entry, least: int) -> None:
    """Raise if the recordings of two runs with exact sums differ by too few people."""
    if known.mu is not None and entry.mu is not None:
        return
    before, now = set(known.recordings), set(entry.recordings)
    for changed in (before - now, now - before):
        if 0 < len(changed) < least:
            _refuse(
                site,
                f"has recordings that differ by {len(changed)} from those of run {known.run}: the "
                "difference of the totals would be over fewer people than `min_subjects` "
                f"({least}). Use the same recordings, or wait for more.",
            )


def _check_members(site: str, known: Entry, entry: Entry, consent: Consent) -> None:
    """Raise if the difference of two totals would show single sites."""
    others = sorted(set(known.members) ^ set(entry.members))
    if others and not consent.other_members:
        _refuse(
            site,
            f"has taken part in run {known.run} with the same recordings and other members: the "
            f"difference of the totals would show the sums of {', '.join(others)}. If all of "
            "them agree, set `other_members`.",
        )


def _check_budget(site: str, entries: list[Entry], privacy: Any, consent: Consent) -> None:
    """Raise if all runs together spend more privacy than the site allows."""
    if consent.max_epsilon is None:
        return
    known = [entry.mu for entry in entries if entry.mu is not None]
    mu = math.sqrt(sum(mu**2 for mu in known)) if len(known) == len(entries) else math.inf
    spent = epsilon_of(mu, privacy.delta) if privacy is not None else math.inf
    if not spent <= consent.max_epsilon * (1 + 1e-6):
        _refuse(
            site,
            f"allows an epsilon of {consent.max_epsilon:g} for all runs on the same recordings, "
            f"and with this one {len(entries)} run(s) would spend {spent:.4g}.",
        )


def _refuse(site: str, why: str) -> NoReturn:
    raise FederationError(f"Site {site} {why}")
