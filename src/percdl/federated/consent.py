"""The conditions of a site, which it checks in every proposal and every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from percdl import __version__
from percdl.estimators.checkpoint import identify
from percdl.estimators.start import choose
from percdl.estimators.validation import check_samples
from percdl.exceptions import FederationError
from percdl.federated.agreement import Agreement, Terms
from percdl.federated.identities import FEWEST_SITES
from percdl.federated.layout import exponent
from percdl.federated.messages import Bounds, Holdings, Signals
from percdl.federated.privacy import count_releases, public_bounds
from percdl.signals import Cohort
from percdl.signals.preprocessing import lasting_steps


@dataclass(frozen=True)
class Consent:
    """Conditions of a site, which hold for every proposal of a coordinator.

    Parameters
    ----------
    min_subjects : int
        Smallest number of its people behind every number that it sends. What fewer people
        contribute to an atom in a round is withheld.
    min_sites : int
        Smallest number of sites in a sum.
    allow_plain : bool, optional
        Whether it also answers with sums that are not masked. By default only if it has
        registered the keys of fewer than three sites, for which there are no masked sums.
    all_members : bool
        Whether it only takes part in sums over all members of a run, because the sums before and
        after a site leaves reveal nearly the sums of that site. A run then waits for all members.
    max_epsilon : float, optional
        Largest epsilon of differential privacy of a run; without it, sums may be exact.
    agreement : str, optional
        Checksum of the only agreement it accepts, printed by `percdl federate server --terms`.

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
        """Return the same with ``allow_plain`` decided by the number of registered keys."""
        if self.allow_plain is not None:
            return self
        return replace(self, allow_plain=n_registered < FEWEST_SITES)


def describe(cohort: Cohort) -> Holdings:
    """Return the description of recordings that a site sends when it joins."""
    energy = float(np.nansum(cohort.power * cohort.lengths * cohort.n_channels))
    about = cohort.channels, cohort.units, cohort.sfreq, lasting_steps(cohort.processing)
    bounds = Bounds(exponent(energy), exponent(float(cohort.lengths.sum())))
    return Holdings(signals=Signals(*about), n_masks=int(cohort.n_masks), bounds=bounds)


@dataclass(frozen=True)
class Conditions:
    """Consent of a site, with ``allow_plain`` decided, applied to its recordings."""

    site: str
    cohort: Cohort
    consent: Consent

    @cached_property
    def holdings(self) -> Holdings:
        """Description of the recordings."""
        return describe(self.cohort)

    @cached_property
    def identity(self) -> str:
        """Checksum of all samples; it stays at the site."""
        return identify(self.cohort)

    def read_agreement(self, proposed: dict[str, Any], arrays: dict[str, np.ndarray]) -> Agreement:
        """Return a proposed agreement if this site accepts it."""
        if proposed.get("version") != __version__:
            self._refuse(
                f"runs percdl {__version__}, and the coordinator "
                f"{str(proposed.get('version'))[:40]}. All must run the same version."
            )
        agreement, consent = Agreement.from_message(proposed, arrays), self.consent
        if consent.agreement not in (None, agreement.digest):
            self._refuse(
                f"has consented to other terms than those with the checksum {agreement.digest}. "
                "Propose the terms it agreed to, or let it agree to these."
            )
        self.check_subjects(agreement)
        if agreement.min_sites < consent.min_sites:
            self._refuse(
                f"takes part in sums over {consent.min_sites} sites or more, and "
                f"`min_sites={agreement.min_sites}` is proposed."
            )
        self._check_masking(agreement.secure is not False, bool(consent.allow_plain))
        self._check_privacy(agreement)
        choose(agreement.make_model(), self.cohort)  # raises where the recordings are too short
        check_samples(self.cohort)
        return agreement

    def to_send(self, agreement: Agreement) -> Holdings:
        """Return the description to send; under privacy it holds public constants only."""
        if agreement.privacy is None:
            return self.holdings
        if self.holdings.n_masks:
            self._refuse(
                "has recordings that have missing samples, which differential privacy does not "
                "allow. Fill the gaps, or leave these recordings out."
            )
        bounds = public_bounds(int(agreement.make_model().atom_length))
        return self.holdings.model_copy(update={"bounds": bounds})

    def check_subjects(self, agreement: Agreement) -> None:
        """Raise if sums of the site would be over too few subjects."""
        least = max(self.consent.min_subjects, agreement.min_subjects_per_site)
        if len(self.cohort) < least:
            self._refuse(
                f"has fewer than {least} recordings, the least for a sum (`min_subjects`). "
                "Continue without it, or agree on fewer."
            )

    def check_terms(self, terms: Terms, identity: str, has_key: bool) -> None:
        """Raise if the terms do not fit the recordings, or these have changed since joining.

        ``identity`` is the checksum of the recordings when the site joined. Once the site has
        announced a key for the run (``has_key``), it answers with masked sums only.
        """
        if identity != self.identity:
            self._refuse(
                "has other recordings than when it joined. Restore them, or start a new run."
            )
        # A coordinator must not switch masks off in the middle of a run.
        must_mask = has_key or terms.accepted.masks(len(terms.members))
        self._check_masking(terms.secure, bool(self.consent.allow_plain) and not must_mask)
        own = self.to_send(terms.accepted)
        covered = terms.signals == own.signals and terms.n_masks >= own.n_masks
        if not covered or any(a < b for a, b in zip(terms.bounds, own.bounds, strict=True)):
            self._refuse(
                "has recordings that the terms of the run do not cover. Start a new run, so that "
                "it joins with its present recordings."
            )

    def check_roster(self, terms: Terms, roster: Sequence[str]) -> None:
        """Raise if a sum would be over too few sites, or over sites that are not members."""
        least = max(terms.accepted.min_sites, self.consent.min_sites)
        known = set(roster) <= set(terms.members) and len(set(roster)) == len(roster)
        if not known or self.site not in roster or len(roster) < least:
            self._refuse(
                f"takes part in sums over {least} or more of the members, itself among them, and "
                f"is asked for one over {', '.join(roster)}."
            )
        missing = sorted(set(terms.members) - set(roster))
        if self.consent.all_members and missing:
            self._refuse(
                "takes part in sums over all members only, and is asked for one without "
                f"{', '.join(missing)}. Resume when all are back."
            )

    def _check_masking(self, secure: bool, allow_plain: bool) -> None:
        if not secure and not allow_plain:
            self._refuse(
                "answers with masked sums only, and plain ones are asked for. Wait until three "
                "sites or more are there, or let all sites allow plain sums (`allow_plain`, or "
                "`require-secure = false` in their files)."
            )

    def _check_privacy(self, agreement: Agreement) -> None:
        """Raise if a run would spend more than this site allows."""
        privacy, most = agreement.make_privacy(), self.consent.max_epsilon
        if privacy is None:
            if most is not None:
                self._refuse(
                    "answers with noisy sums only, and exact ones are asked for. Agree on "
                    f"`privacy=Privacy(epsilon={most:g})` at most."
                )
            return
        n_sites = agreement.min_sites if agreement.secure is True else 1
        if privacy.shared_by > n_sites:
            self._refuse(
                f"shares the noise with others (`shared_by={privacy.shared_by}`) only under masks "
                "and with that number of sites in every sum: agree on `secure=True` and "
                f"`min_sites={privacy.shared_by}`, or on `shared_by=1`."
            )
        spent = privacy.epsilon_spent(count_releases(agreement.make_settings()))
        if most is not None and not spent <= most * (1 + 1e-6):
            self._refuse(
                f"allows an epsilon of {most:g} for a run, and this one would spend {spent:.4g}."
            )

    def _refuse(self, why: str) -> NoReturn:
        raise FederationError(f"Site {self.site} {why}")
