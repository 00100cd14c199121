"""The conditions of a site, which it checks before it signs the manifest of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from percdl import __version__
from percdl.estimators.start import choose
from percdl.estimators.validation import check_samples
from percdl.exceptions import FederationError
from percdl.federated.layout import exponent
from percdl.federated.manifest import Manifest
from percdl.federated.messages import Bounds, Holdings, Signals
from percdl.federated.privacy import public_bounds
from percdl.signals import Cohort
from percdl.signals.preprocessing import lasting_steps


@dataclass(frozen=True)
class Consent:
    """Conditions of a site, which hold for every run.

    Parameters
    ----------
    min_subjects : int
        Smallest number of its people behind every number that it sends, jointly over rounds:
        for each atom, people count in groups of so many, all of whom have it in that round.
    min_sites : int
        Smallest number of members.
    allow_plain : bool
        Whether it also takes part if sums are not masked, as with two members.
    trust_server : bool
        Whether it also takes part if the server adds the sums and computes the dictionaries.
    other_members : bool
        Whether it takes part in runs on the same recordings with different members. The
        difference of two totals shows the sums of the sites that only one run had.
    max_epsilon : float, optional
        Largest epsilon of differential privacy of all runs on the same recordings together;
        without it, sums may be exact.
    manifest : str, optional
        Checksum of the only manifest it signs.

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


def describe(cohort: Cohort, manifest: Manifest) -> Holdings:
    """Return the description of recordings that a site posts when it joins.

    Under differential privacy it holds public constants only.
    """
    about = cohort.channels, cohort.units, cohort.sfreq, lasting_steps(cohort.processing)
    if manifest.privacy is not None:
        bounds = public_bounds(manifest.make_settings().atom_length)
    else:
        bounds = measure(cohort)
    return Holdings(signals=Signals(*about), n_masks=int(cohort.n_masks), bounds=bounds)


def measure(cohort: Cohort) -> Bounds:
    """Return the powers of two above the energy and the number of samples of recordings."""
    energy = float(np.nansum(cohort.power * cohort.lengths * cohort.n_channels))
    return Bounds(exponent(energy), exponent(float(cohort.lengths.sum())))


def check_manifest(site: str, key: str, cohort: Cohort, consent: Consent, m: Manifest) -> None:
    """Raise if a site with a public key, recordings and conditions does not sign a manifest."""
    least = max(consent.min_subjects, m.min_subjects)
    for bad, why in (
        (
            m.version != __version__,
            f"runs percdl {__version__}, and the manifest is for {m.version}. Use one version.",
        ),
        (
            consent.manifest not in (None, m.digest),
            f"has consented to another manifest than the one with the checksum {m.digest}.",
        ),
        (
            m.members.get(site) != key,
            "is not a member by its key. Send your public key to the person who makes the "
            "manifest, and compare the fingerprints.",
        ),
        (
            len(m.members) < consent.min_sites,
            f"takes part in sums over {consent.min_sites} sites or more, not {len(m.members)}.",
        ),
        (
            not m.secure and not consent.allow_plain,
            "answers with masked sums only, and the manifest has plain ones. Find a third member, "
            "or let all sites allow plain sums (`allow_plain`).",
        ),
        (
            m.aggregate == "server" and not consent.trust_server,
            "computes every dictionary itself, and the manifest lets the server do that. Agree on "
            '`aggregate="sites"`, or trust the server (`trust_server`).',
        ),
        (
            len(cohort) < least,
            f"has fewer than {least} recordings, the least for a sum (`min_subjects`). Continue "
            "without it, or agree on fewer.",
        ),
        (
            m.privacy is None and consent.max_epsilon is not None,
            "answers with noisy sums only, and the manifest has exact ones. Agree on "
            f"`Privacy(epsilon={consent.max_epsilon})` at most.",
        ),
        (
            m.privacy is not None and cohort.n_masks,
            "has recordings that have missing samples, which differential privacy does not "
            "allow. Fill the gaps, or leave these recordings out.",
        ),
    ):
        if bad:
            raise FederationError(f"Site {site} {why}")
    choose(m.make_model(), cohort)  # raises where the recordings are too short
    check_samples(cohort)
