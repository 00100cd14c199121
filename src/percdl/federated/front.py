"""FederatedPerCDL: a fit over sites whose recordings stay where they are (Algorithm 2)."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from percdl.algorithm.history import History, StopReason
from percdl.algorithm.loop import Runtime, run_percdl
from percdl.algorithm.standing import Standing
from percdl.estimators.base import BaseCDL
from percdl.estimators.persistence import load
from percdl.estimators.restarts import End
from percdl.exceptions import InvalidParameterError, NoActivationWarning
from percdl.federated.admission import Consent
from percdl.federated.agreement import Agreement, agree_privately, propose
from percdl.federated.audit import Audit
from percdl.federated.checkpoint import FederatedCheckpoint, read_checkpoint, write_checkpoint
from percdl.federated.coordinator import Coordinator, Patience
from percdl.federated.finish import conclude, last_words, make_model
from percdl.federated.first import first_dictionary
from percdl.federated.joining import convene
from percdl.federated.keys import Identity, check_name
from percdl.federated.privacy import Privacy
from percdl.federated.private import Denoised
from percdl.federated.roster import FEWEST_SITES
from percdl.federated.site import FederatedSite
from percdl.runtimes.messages import InProcessWire, Wire
from percdl.signals import as_cohort
from percdl.signals.files import make_private_folder

Report = Callable[[str, int, float], None]


class FederatedPerCDL(BaseEstimator):
    """Fit a model over several sites; only sums over their subjects leave them.

    The algorithm is that of the model, to rounding: a site answers each round with sums over its
    subjects (Algorithm 2), the coordinator adds them and updates the dictionary. Recordings,
    activations and parameters stay where they are. Cost per round: at a site that of the model on
    its own recordings. It sends a vector of O(K L (L + P)) numbers with one time warp for all
    channels, of O(K (L P)^2 + K^2 L) at most, whatever the number and length of its recordings.
    (The paper's Algorithm 2 sends O(K (L P + M)) numbers per subject, parameters included.)

    Use a server that you trust: one that lies can read windows of single people's recordings
    through the masks (docs/federated/threat_model.md).

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        What to fit. All its arguments must be numbers or agreed on; ``init`` is an array or
        "auto", see docs/federated.
    secure : bool or "auto"
        Mask the sums, so that the coordinator sees the total only; "auto": from three sites on.
    min_sites : int
        Fewest sites of a sum; with fewer, the run ends and can be resumed.
    min_subjects_per_site : int
        Fewest recordings of a site.
    round_timeout : float
        Seconds until a site that has not answered is left out of a round.
    max_attempts : int
        How often a round is tried before the run ends.
    checkpoint : path, optional
        Where the coordinator writes how far it has come, after each round.
    privacy : Privacy, optional
        Clip what subjects add and make the sums noisy, so that little can be learned of anyone;
        see docs/federated/privacy. Off by default.
    audit : path, optional
        Where it writes its log, one line of JSON per attempt.

    Attributes
    ----------
    model_ : estimator
        The model, fitted, without subjects: ``model_.personalize`` expresses new ones.
    run_ : str
        Name of the run.
    sites_ : tuple of str
        Who has joined.
    secure_ : bool
        Whether sums were masked.
    audit_ : DataFrame
        The log: who was asked, who was dropped and why, bytes, objective.
    local_models_ : dict of estimators
        After `fit`, what each site keeps to itself: the model with its own subjects.

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

    def __init__(
        self,
        model: Any,
        *,
        secure: bool | str = "auto",
        min_sites: int = 2,
        min_subjects_per_site: int = 1,
        round_timeout: float = 600.0,
        max_attempts: int = 3,
        checkpoint: Any = None,
        audit: Any = None,
        privacy: Privacy | None = None,
    ):
        self.model = model
        self.secure = secure
        self.min_sites = min_sites
        self.min_subjects_per_site = min_subjects_per_site
        self.round_timeout = round_timeout
        self.max_attempts = max_attempts
        self.checkpoint = checkpoint
        self.audit = audit
        self.privacy = privacy

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        folder: Any = None,
        resume: Any = None,
    ) -> FederatedPerCDL:
        """Fit with all sites in this process: to try things out, and to teach.

        Parameters
        ----------
        X : dict of cohorts
            The recordings of each site, by its name.
        y : ignored
        folder : path, optional
            Where the sites keep their files, each in a folder of its name; by default they are
            deleted at the end.
        resume : path, optional
            A checkpoint to go on from; needs the folder of the time.

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
        """Fit over sites that something else has connected, such as Flower.

        Parameters
        ----------
        wire : Wire
            What carries requests and replies.
        run : str, optional
            Name of the run, never used before; drawn by default.
        resume : path, optional
            A checkpoint of the same fit to go on from: the result is the same, bit for bit, as
            if it had not been interrupted.
        report : function, optional
            Called as ``report(phase, round, objective)`` after each round.

        Returns
        -------
        self
        """
        agreement = self.propose_terms()
        coordinator, before = self._convene(wire, agreement, run, resume)
        self.run_, self.sites_ = coordinator.run, coordinator.terms.members
        self.secure_ = coordinator.terms.secure
        try:
            end = self._run(coordinator, before, report)
            coordinator.tell(
                "finish",
                {"follows": coordinator.follows, **last_words(end)},
                {"dictionary": end.dictionary},
            )
        finally:
            self.audit_ = pd.DataFrame(coordinator.audit.to_records())
        self.model_ = make_model(coordinator.terms, end)
        if self.model_.stop_reason_ == StopReason.NO_ACTIVATIONS.value:
            warnings.warn(self.model_.stop_reason_, NoActivationWarning, stacklevel=2)
        return self

    def propose_terms(self) -> Agreement:
        """Check the arguments; return the terms that sites are asked to agree to."""
        for name, least in (("min_sites", 2), ("min_subjects_per_site", 1), ("max_attempts", 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise InvalidParameterError(
                    f"`FederatedPerCDL({name}={value!r})` must be an integer of at least {least}."
                )
        if not self.round_timeout > 0:
            raise InvalidParameterError(
                f"`FederatedPerCDL(round_timeout={self.round_timeout!r})` must be above 0 seconds."
            )
        if not isinstance(self.model, BaseCDL):
            raise InvalidParameterError(
                f"`FederatedPerCDL(model={self.model!r})` must be a PerCDL, PopCDL or IndCDL."
            )
        if not (isinstance(self.secure, bool) or self.secure == "auto"):
            raise InvalidParameterError(
                f'`FederatedPerCDL(secure={self.secure!r})` must be True, False or "auto".'
            )
        numbers = (int(self.min_sites), int(self.min_subjects_per_site))
        agreement = propose(self.model, self.secure, *numbers)
        return agreement if self.privacy is None else agree_privately(agreement, self.privacy)

    def _convene(
        self, wire: Wire, agreement: Agreement, run: str | None, resume: Any
    ) -> tuple[Coordinator, FederatedCheckpoint | None]:
        patience = Patience(float(self.round_timeout), int(self.max_attempts))
        audit = Audit(None if self.audit is None else Path(self.audit))
        if resume is None:
            name = check_name("run", run or uuid4().hex)
            return convene(wire, name, agreement, patience, audit), None
        checkpoint = read_checkpoint(Path(resume), agreement)
        return checkpoint.restore(wire, patience, audit), checkpoint

    def _run(
        self, coordinator: Coordinator, before: FederatedCheckpoint | None, report: Report
    ) -> End:
        """Run both phases, from a first dictionary that is found here if need be."""
        if before is not None and (end := before.end()) is not None:
            return end
        start, history = (before and before.standing()) or (None, History())

        def save(standing: Standing | None, end: End | None = None) -> None:
            if self.checkpoint is not None:
                write_checkpoint(Path(self.checkpoint), coordinator, standing, history, end)

        settings = coordinator.settings
        if start is None:
            save(None)
        begin = first_dictionary(coordinator) if start is None else start
        runtime: Runtime = coordinator
        if self.privacy is not None:
            n_sites = len(coordinator.terms.members)
            runtime = Denoised(coordinator, settings, self.privacy, n_sites=n_sites)
        outcome = run_percdl(runtime, settings, begin, history, report, save=save)
        end = conclude(outcome, history, settings)
        save(None, end)
        return end


def make_sites(cohorts: Any, folder: Path) -> list[FederatedSite]:
    """Make sites of this process, with keys of their own, known to one another."""
    if not isinstance(cohorts, Mapping) or not cohorts:
        raise InvalidParameterError(
            f"`FederatedPerCDL.fit` takes recordings by site, {{name: cohort, ...}}, not a "
            f"{type(cohorts).__name__}."
        )
    identities = {}
    if len(cohorts) >= FEWEST_SITES:
        identities = {name: _identity(name, folder / check_name("site", name)) for name in cohorts}
    registered = {name: identity.public for name, identity in identities.items()}
    # Nothing crosses a border here, so plain sums may be looked at, too.
    consent = Consent(allow_plain=True)
    return [
        FederatedSite(name, as_cohort(X), folder / name, identities.get(name), registered, consent)
        for name, X in cohorts.items()
    ]


def _identity(name: str, folder: Path) -> Identity:
    """Return the key of a site of this process; one that resumes has it already."""
    if (folder / f"{name}.key").exists():
        return Identity.read(folder / f"{name}.key")
    make_private_folder(folder)
    identity = Identity.generate(name)
    identity.write(folder)
    return identity
