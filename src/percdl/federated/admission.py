"""What a site looks at before it takes part: the terms, its own recordings, its own conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from percdl import __version__
from percdl.estimators.automatic import choose
from percdl.estimators.checkpoint import identify
from percdl.estimators.validation import check_samples
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement, Signals, Terms
from percdl.federated.packing import Bounds, exponent
from percdl.federated.privacy import count_releases, public_bounds
from percdl.federated.roster import FEWEST_SITES
from percdl.runtimes.messages import Request
from percdl.signals import Cohort
from percdl.signals.preprocessing import lasting_steps

# What a request of each kind must hold, by name, and what lists and dicts of it are made of.
_SHARED: dict[str, Any] = {"terms": dict, "roster": list}
_ROUND: dict[str, Any] = {**_SHARED, "follows": int | None}
_NEEDED: dict[str, dict[str, Any]] = {
    "join": {"agreement": dict},
    "keys": {},
    "first": _SHARED,
    "population": _ROUND,
    "personal": _ROUND,
    "recenter": _ROUND,
    "release": {**_SHARED, "question": str, "lost": dict},
    "finish": {**_ROUND, "objective": float | int, "reason": str, "history": list},
}
# Rounds are counted; what is no count names no file.
MOST_ROUNDS = 10**6
_PARTS = {"roster": str, "announcements": dict, "lost": str, "history": list}


@dataclass(frozen=True)
class Consent:
    """What a site insists on, whatever a coordinator proposes.

    Parameters
    ----------
    min_subjects : int
        Fewest recordings of its own that a sum may be over.
    min_sites : int
        Fewest sites that a sum may be over.
    allow_plain : bool, optional
        Whether it also answers with sums that are not masked. By default it does only where it
        has registered the keys of fewer than three sites, over which there are no masked sums.
    all_members : bool
        Whether it takes part in sums over all members of a run only. The difference of the sums
        before and after a site leaves comes close to the sums of that site; a run that may not
        go on without it waits until it is back.
    max_epsilon : float, optional
        Most that a run may spend of differential privacy; without it, sums may be exact.
    agreement : str, optional
        Checksum of the only terms it agrees to, as `percdl federate server --terms` tells it.

    Examples
    --------
    >>> consent = Consent(min_subjects=10)
    >>> consent.given(n_registered=2).allow_plain, consent.given(n_registered=3).allow_plain
    (True, False)
    """

    min_subjects: int = 1
    min_sites: int = 2
    allow_plain: bool | None = None
    all_members: bool = False
    max_epsilon: float | None = None
    agreement: str | None = None

    def given(self, n_registered: int) -> Consent:
        """Return the same with its default of plain sums decided, by how many keys a site has."""
        if self.allow_plain is not None:
            return self
        return replace(self, allow_plain=n_registered < FEWEST_SITES)


@dataclass(frozen=True)
class Holdings:
    """What a site tells of its recordings when it joins, and a checksum that it keeps.

    Attributes
    ----------
    signals : Signals
        Channels, units, sampling rate and processing.
    n_masks : int
        Whether samples are missing, see `Measured.n_masks`.
    bounds : Bounds
        Energy and number of samples, rounded up to powers of two.
    checksum : str
        Of all samples; it stays here.
    """

    signals: Signals
    n_masks: int
    bounds: Bounds
    checksum: str

    def told(self) -> dict[str, Any]:
        """Return what crosses, as JSON."""
        return {
            "signals": list(self.signals),
            "n_masks": self.n_masks,
            "bounds": list(self.bounds),
        }


def take_stock(cohort: Cohort) -> Holdings:
    """Describe the recordings of a site."""
    energy = float(np.nansum(cohort.power * cohort.lengths * cohort.n_channels))
    n_samples = float(cohort.lengths.sum())
    return Holdings(
        Signals(cohort.channels, cohort.units, cohort.sfreq, lasting_steps(cohort.processing)),
        int(cohort.n_masks),
        Bounds(exponent(energy), exponent(n_samples)),
        identify(cohort),
    )


def withhold(site: str, holdings: Holdings, agreement: Agreement) -> Holdings:
    """Return what a site may tell of its recordings: under privacy, nothing that is measured."""
    if agreement.privacy is None:
        return holdings
    if holdings.n_masks:
        raise FederationError(
            f"Recordings of site {site} miss samples, and who does is not told under differential "
            "privacy. Fill the gaps, or leave these recordings out."
        )
    length = int(agreement.make_model().atom_length)
    return replace(holdings, bounds=public_bounds(length))


def check_request(site: str, request: Request) -> None:
    """Raise where a request does not hold what its kind takes."""
    facts, needed = request.facts, _NEEDED.get(request.kind, {"kind": str})
    absent = [name for name in needed if name not in facts]
    known = {**needed, "announcements": list}
    wrong = [name for name in known if name in facts and not _fits(name, facts[name], known[name])]
    counts = {"round": request.round, "attempt": request.attempt}
    if facts.get("follows") is not None:
        counts["follows"] = facts["follows"]
    wrong += [name for name, count in counts.items() if not _is_count(count)]
    if absent or wrong:
        raise FederationError(
            f"Site {site} cannot read a request of kind {request.kind!r}: "
            f"{', '.join([*absent, *wrong])} is missing or malformed. Coordinator and sites must "
            "run the same version of percdl."
        )


def read_agreement(site: str, request: Request) -> Agreement:
    """Return the terms that are proposed, if they come from the same version of percdl."""
    proposed = request.facts["agreement"]
    if proposed.get("version") != __version__:
        raise FederationError(
            f"Site {site} runs percdl {__version__}, and the coordinator "
            f"{proposed.get('version')}. All must run the same version."
        )
    return Agreement.from_message(proposed, request.arrays)


def check_agreement(site: str, agreement: Agreement, cohort: Cohort, consent: Consent) -> None:
    """Raise where a site cannot, or does not want to, take part on these terms."""
    if consent.agreement not in (None, agreement.digest):
        raise FederationError(
            f"Site {site} has consented to other terms than those with the checksum "
            f"{agreement.digest}. Propose what it has agreed to, or have it agree to these."
        )
    check_subjects(site, agreement, cohort, consent)
    if agreement.min_sites < consent.min_sites:
        raise FederationError(
            f"Site {site} takes part in sums over {consent.min_sites} sites or more, and "
            f"`min_sites={agreement.min_sites}` is proposed."
        )
    _check_masking(site, agreement.secure is not False, consent)
    _check_privacy(site, agreement, consent)
    choose(agreement.make_model(), cohort)  # raises where the recordings are too short
    check_samples(cohort)


def check_subjects(site: str, agreement: Agreement, cohort: Cohort, consent: Consent) -> None:
    """Raise where sums of a site would be over too few subjects."""
    least = max(consent.min_subjects, agreement.min_subjects_per_site)
    if len(cohort) < least:
        raise FederationError(
            f"Site {site} has fewer than {least} recordings, which a sum of it must be over "
            "(`min_subjects`). Go on without it, or agree on fewer."
        )


def check_terms(
    site: str, terms: Terms, kept: str, holdings: Holdings, consent: Consent, has_key: bool
) -> None:
    """Raise where a run is not about what this site holds, or held when it joined (``kept``).

    Once it has announced a key for the run (``has_key``), it answers with masked sums only.
    """
    if kept != holdings.checksum:
        raise FederationError(
            f"The recordings of site {site} have changed since it joined. Bring them back, or "
            "start a new run."
        )
    if has_key or terms.agreement.masks(len(terms.members)):
        # A coordinator must not talk sites out of their masks in the middle of a run.
        consent = replace(consent, allow_plain=False)
    _check_masking(site, terms.secure, consent)
    covered = terms.signals == holdings.signals and terms.n_masks >= holdings.n_masks
    if not covered or any(a < b for a, b in zip(terms.bounds, holdings.bounds, strict=True)):
        raise FederationError(
            f"The terms of the run do not cover the recordings of site {site}. "
            "Start a new run, which it joins with what it has now."
        )


def check_roster(site: str, terms: Terms, roster: Sequence[str], consent: Consent) -> None:
    """Raise where a sum would be over too few sites, or over others than members."""
    least = max(terms.agreement.min_sites, consent.min_sites)
    known = set(roster) <= set(terms.members) and len(set(roster)) == len(roster)
    if not known or site not in roster or len(roster) < least:
        raise FederationError(
            f"Site {site} takes part in sums over {least} or more of the members, itself among "
            f"them, and is asked for one over {', '.join(map(str, roster))}."
        )
    if consent.all_members and set(roster) != set(terms.members):
        missing = sorted(set(terms.members) - set(roster))
        raise FederationError(
            f"Site {site} takes part in sums over all members only, and is asked for one without "
            f"{', '.join(missing)}. Resume when all are back."
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < MOST_ROUNDS


def _fits(name: str, value: Any, kind: Any) -> bool:
    """Whether a fact is of its kind, and its parts of theirs."""
    if not isinstance(value, kind) or name not in _PARTS:
        return isinstance(value, kind)
    parts = value.values() if isinstance(value, dict) else value
    return all(isinstance(part, _PARTS[name]) for part in parts)


def _check_masking(site: str, secure: bool, consent: Consent) -> None:
    if not secure and not consent.allow_plain:
        raise FederationError(
            f"Site {site} answers with masked sums only, and plain ones are asked for. Go on when "
            "three sites or more are there, with masks; or have all sites allow plain sums "
            "(`allow_plain`, or `require-secure = false` in their files)."
        )


def _check_privacy(site: str, agreement: Agreement, consent: Consent) -> None:
    """Raise where a run would spend more than this site allows."""
    privacy = agreement.make_privacy()
    if privacy is None and consent.max_epsilon is not None:
        raise FederationError(
            f"Site {site} answers with noisy sums only, and exact ones are asked for. Agree on "
            f"`privacy=Privacy(epsilon={consent.max_epsilon:g})` at most."
        )
    if privacy is None:
        return
    if privacy.shared_by > 1 and (
        agreement.secure is not True or privacy.shared_by > agreement.min_sites
    ):
        raise FederationError(
            f"Site {site} shares the noise with others (`shared_by={privacy.shared_by}`) only "
            "under masks, and with so many sites in every sum: agree on `secure=True` and "
            f"`min_sites={privacy.shared_by}`, or on `shared_by=1`."
        )
    spent = privacy.epsilon_spent(count_releases(agreement.make_settings()))
    if consent.max_epsilon is not None and not spent <= consent.max_epsilon * (1 + 1e-6):
        raise FederationError(
            f"Site {site} allows an epsilon of {consent.max_epsilon:g} for a run, and this one "
            f"would spend {spent:.4g}."
        )
