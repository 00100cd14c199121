"""FederatedPerCDL: a fit over several sites, without moving recordings (Algorithm 2)."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
from pydantic import ValidationError
from sklearn.base import BaseEstimator

from percdl.algorithm.loop import run_percdl
from percdl.algorithm.state import FitState, History, StopReason
from percdl.estimators.base import BaseCDL
from percdl.estimators.checkpoint import pack_end
from percdl.estimators.fitting import End
from percdl.estimators.modelfile import load
from percdl.exceptions import InvalidParameterError, NoActivationWarning
from percdl.federated.agreement import Agreement, fitted_model, no_results, propose
from percdl.federated.checkpoint import FederatedCheckpoint, read_checkpoint, write_checkpoint
from percdl.federated.consent import Consent
from percdl.federated.coordinator import Audit, Coordinator, Patience, convene
from percdl.federated.identities import FEWEST_SITES, Identity
from percdl.federated.messages import check_name
from percdl.federated.privacy import Privacy
from percdl.federated.private_rounds import Denoised
from percdl.federated.site import FederatedSite
from percdl.federated.start import first_dictionary
from percdl.runtimes.messages import InProcessWire, Wire
from percdl.runtimes.protocol import Rounds
from percdl.signals import as_cohort
from percdl.signals.files import make_private_folder

Report = Callable[[str, int, float], None]


@dataclass(eq=False, repr=False)
class FederatedPerCDL(BaseEstimator):
    """Fit a model over several sites; only sums over their subjects leave them.

    The result is that of the model on all recordings, up to rounding: a site answers each round
    with sums over its subjects (Algorithm 2), the coordinator adds them and updates the
    dictionary. Recordings, activations and parameters stay at their sites. Cost per round: at a
    site that of the model on its own recordings. It sends O(K L (L + P)) numbers with one time
    warp for all channels, at most O(K (L P)^2 + K^2 L), for any number of recordings.

    Use a server that you trust: one that lies can read windows of single people's recordings
    through the masks (docs/federated/threat_model.md).

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        The model to fit. Its arguments must be numbers, not "auto"; ``init`` is an array or
        "auto", see docs/federated.
    secure : bool or "auto"
        Whether to mask the sums, so that the coordinator only sees the total; "auto": from three
        sites on.
    min_sites, min_subjects_per_site : int
        Smallest number of sites in a sum (with fewer, the run ends and can be resumed), and of
        recordings at a site.
    round_timeout, max_attempts : float, int
        Seconds until a site that has not answered is left out of a round, and number of attempts
        at a round before the run ends.
    checkpoint, audit : path, optional
        Files of the coordinator's state, written after each round, and of its log, one line of
        JSON per attempt.
    privacy : Privacy, optional
        Clip the contributions of subjects and add noise to the sums (differential privacy); see
        docs/federated/privacy. Off by default.

    Attributes
    ----------
    model_ : estimator
        The fitted model, without subjects: ``model_.personalize`` expresses new ones.
    run_, sites_, secure_ : str, tuple of str, bool
        Name of the run, the sites that have joined, and whether sums were masked.
    audit_ : DataFrame
        The log: sites asked, sites dropped and why, bytes, objective.
    local_models_ : dict of estimators
        After `fit`, the model that each site keeps, with its own subjects.

    Examples
    --------
    >>> from percdl import PerCDL, TimeWarp, make_synthetic
    >>> truth = make_synthetic(9, random_state=0)
    >>> model = PerCDL(2, 50, TimeWarp(3, 10), 1e-2, init=truth.personal_dictionary[0])
    >>> sites = {"lyon": truth.cohort[:2], "nice": truth.cohort[2:5], "paris": truth.cohort[5:]}
    >>> federation = FederatedPerCDL(model).fit(sites)
    >>> federation.model_.dictionary_.shape, federation.secure_
    ((2, 50, 1), True)
    >>> federation.local_models_["nice"].params_.shape
    (3, 2, 30)
    """

    model: Any
    _: KW_ONLY
    secure: bool | str = "auto"
    min_sites: int = 2
    min_subjects_per_site: int = 1
    round_timeout: float = 600.0
    max_attempts: int = 3
    checkpoint: Any = None
    audit: Any = None
    privacy: Privacy | None = None

    def fit(
        self, X: Any, y: Any = None, *, folder: Any = None, resume: Any = None
    ) -> FederatedPerCDL:
        """Fit with all sites in this process, for trials and teaching.

        Parameters
        ----------
        X : dict of cohorts
            The recordings of each site, by its name.
        y : ignored
        folder : path, optional
            Folder of the sites' files, with a subfolder per site; by default they are deleted at
            the end.
        resume : path, optional
            A checkpoint to continue from; needs the same ``folder``.

        Returns
        -------
        self
        """
        self.propose_terms()  # raises before anything is written
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary if folder is None else folder)
            sites = make_sites(X, place)
            self.fit_over(InProcessWire({s.name: s.answer for s in sites}), resume=resume)
            files = {s.name: s.folder / self.run_ / "model.percdl" for s in sites}
            self.local_models_ = {
                name: load(path) for name, path in files.items() if path.is_file()
            }
        for site in sites:
            if site.name in self.local_models_:
                self.local_models_[site.name].recordings_ = site.cohort
        return self

    def fit_over(
        self,
        wire: Wire,
        *,
        run: str | None = None,
        resume: Any = None,
        report: Report = lambda phase, index, objective: None,
    ) -> FederatedPerCDL:
        """Fit over sites that are already connected, for example by Flower.

        Parameters
        ----------
        wire : Wire
            Transport of requests and replies.
        run : str, optional
            Name of the run, never used before; random by default.
        resume : path, optional
            A checkpoint of the same fit to continue from: the result is bit-identical to that of
            a fit that was not interrupted.
        report : function, optional
            Called as ``report(phase, round, objective)`` after each round.

        Returns
        -------
        self
        """
        agreement, before = self.propose_terms(), None
        audit = Audit(None if self.audit is None else Path(self.audit))
        if resume is None:
            name = check_name("run", run or uuid4().hex)
            coordinator = convene(wire, name, agreement, self._patience(), audit)
        else:
            before = read_checkpoint(Path(resume), agreement)
            coordinator = before.restore(wire, self._patience(), audit)
        self.run_, self.sites_ = coordinator.run, coordinator.terms.members
        self.secure_ = coordinator.terms.secure
        try:
            end = self._run(coordinator, before, report)
            facts = {"follows": coordinator.follows, **pack_end(end)}
            coordinator.tell("finish", facts, end.broadcast.to_arrays())
        finally:
            self.audit_ = pd.DataFrame([asdict(line) for line in audit.attempts])
        self.model_ = fitted_model(coordinator.terms, end, coordinator.terms.signals)
        if self.model_.stop_reason_ == StopReason.NO_ACTIVATIONS.value:
            warnings.warn(self.model_.stop_reason_, NoActivationWarning, stacklevel=2)
        return self

    def propose_terms(self) -> Agreement:
        """Check the arguments; return the agreement that is proposed to the sites."""
        if not isinstance(self.model, BaseCDL):
            raise InvalidParameterError(
                f"`FederatedPerCDL(model={self.model!r})` must be a PerCDL, PopCDL or IndCDL."
            )
        try:
            self._patience()
            least = self.min_sites, self.min_subjects_per_site
            return propose(self.model, self.secure, *least, self.privacy)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InvalidParameterError(
                f"`FederatedPerCDL({first['loc'][0]}={first['input']!r})` is not valid: "
                f"{first['msg']}."
            ) from error

    def _patience(self) -> Patience:
        return Patience(round_timeout=self.round_timeout, max_attempts=self.max_attempts)

    def _run(
        self, coordinator: Coordinator, before: FederatedCheckpoint | None, report: Report
    ) -> End:
        """Run both phases, from a first dictionary that is given or found."""
        if before is not None and before.end is not None:
            return before.end
        start, history = (None, History()) if before is None else (before.state, before.history)

        def save(state: FitState | None, end: End | None = None) -> None:
            if self.checkpoint is not None:
                write_checkpoint(Path(self.checkpoint), coordinator, state, history, end)

        runtime: Rounds = coordinator
        settings, n_sites = coordinator.settings, len(coordinator.terms.members)
        if self.privacy is not None:
            runtime = Denoised(coordinator, settings, self.privacy, n_sites=n_sites)
        if start is None:
            save(None)
            start = first_dictionary(coordinator)
        found = run_percdl(runtime, settings, start, history, report, save=save)
        reached = found.sums.objective, found.stop_reason, history, no_results(settings)
        end = End(found.dictionary, *reached, found.precision)
        save(None, end)
        return end


def make_sites(cohorts: Any, folder: Path) -> list[FederatedSite]:
    """Make sites in this process, each with a key that the others have registered."""
    if not isinstance(cohorts, Mapping) or not cohorts:
        raise InvalidParameterError(
            f"`FederatedPerCDL.fit` takes recordings by site, {{name: cohort, ...}}, not a "
            f"{type(cohorts).__name__}."
        )
    identities = {}
    for name in cohorts if len(cohorts) >= FEWEST_SITES else ():
        path = folder / check_name("site", name) / f"{name}.key"
        if not path.exists():  # a resumed run has one already
            make_private_folder(path.parent)
            Identity.generate(name).write(path.parent)
        identities[name] = Identity.read(path)
    registered = {name: identity.public for name, identity in identities.items()}
    # All sites are in this process, so plain sums are allowed too.
    consent = Consent(allow_plain=True)
    return [
        FederatedSite(name, as_cohort(X), folder / name, identities.get(name), registered, consent)
        for name, X in cohorts.items()
    ]
