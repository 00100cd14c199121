"""FederatedPerCDL: a fit over several sites, without moving recordings (Algorithm 2)."""

from __future__ import annotations

import json
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
from sklearn.base import BaseEstimator

from percdl.algorithm.state import StopReason
from percdl.estimators.base import BaseCDL
from percdl.estimators.modelfile import load
from percdl.exceptions import InvalidParameterError, NoActivationWarning
from percdl.federated.board import Board
from percdl.federated.consent import Consent
from percdl.federated.identities import Identity
from percdl.federated.manifest import Manifest, propose
from percdl.federated.messages import check_name
from percdl.federated.privacy import Privacy
from percdl.federated.server import start_adding
from percdl.federated.site import COMMON, FederatedSite
from percdl.signals import as_cohort
from percdl.signals.files import make_private_folder


@dataclass(eq=False, repr=False)
class FederatedPerCDL(BaseEstimator):
    """Fit a model over several sites; only sums over their subjects leave them.

    All sites are in this process, for trials and teaching; hospitals run `percdl federate join`.
    The result is that of the model on all recordings, up to rounding (Algorithm 2). Cost per round
    and site: that of the model on its recordings, and one update of the dictionary. A site sends
    O(K L (L + P)) numbers with one time warp for all channels, at most O(K (L P)^2 + K^2 L).

    Parameters
    ----------
    model : PerCDL, PopCDL or IndCDL
        The model to fit. Its arguments must be numbers, not "auto"; ``init`` is an array or
        "auto", see docs/federated.
    secure : bool or "auto"
        Whether to mask the sums, so that only the total is visible; "auto": from three sites on.
    min_subjects : int
        Smallest number of people of a site behind every number that it sends.
    aggregate : "sites" or "server"
        Who adds the sums and computes the dictionaries; a server must be trusted then.
    privacy : Privacy, optional
        Differential privacy, see docs/federated/privacy; off by default.

    Attributes
    ----------
    model_, local_models_ : estimator, dict of estimators
        The fitted model without subjects, and with those of each site.
    run_, sites_, secure_ : str, tuple of str, bool
        Name of the run, its members, and whether sums were masked.
    audit_ : DataFrame
        The logs of all sites: slot, kind, bytes sent and received, seconds.

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
    min_subjects: int = 1
    aggregate: str = "sites"
    privacy: Privacy | None = None

    def fit(
        self, X: Any, y: Any = None, *, folder: Any = None, run: str | None = None
    ) -> FederatedPerCDL:
        """Fit with all sites in this process.

        Parameters
        ----------
        X : dict of cohorts
            The recordings of each site, by its name.
        y : ignored
        folder : path, optional
            Folder of the sites' files; by default they are deleted at the end.
        run : str, optional
            Name of the run; random by default. It is continued if it was interrupted.

        Returns
        -------
        self
        """
        if not isinstance(X, Mapping) or len(X) < 2:
            what = f"two or more sites, {{name: cohort, ...}}, not a {type(X).__name__}."
            raise InvalidParameterError(f"`FederatedPerCDL.fit` takes the recordings of {what}")
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary if folder is None else folder)
            sites = make_sites(X, place, _trusting(self.privacy))
            manifest = self.propose(run or uuid4().hex, sites)
            board = Board(manifest, place / f"{manifest.run}.board")
            self.run_, self.secure_ = manifest.run, manifest.secure
            self.sites_ = tuple(manifest.sites)
            try:
                self.local_models_ = run_together(sites, board)
            finally:
                self.audit_ = pd.concat([_read_log(s, manifest.run) for s in sites])
            self.model_ = load(sites[0].folder / manifest.run / COMMON)
        for site in sites:
            self.local_models_[site.name].recordings_ = site.cohort
        if self.model_.stop_reason_ == StopReason.NO_ACTIVATIONS.value:
            warnings.warn(self.model_.stop_reason_, NoActivationWarning, stacklevel=2)
        return self

    def propose(self, run: str, sites: list[FederatedSite]) -> Manifest:
        """Check the arguments; return the manifest that the sites sign."""
        if not isinstance(self.model, BaseCDL):
            what = "must be a PerCDL, PopCDL or IndCDL"
            raise InvalidParameterError(f"`FederatedPerCDL(model={self.model!r})` {what}.")
        members = {site.name: site.identity.public for site in sites}
        terms: Any = self.get_params(deep=False) | {"run": check_name("run", run)}
        return propose(members=members, **terms)


def run_together(sites: list[FederatedSite], board: Board) -> dict[str, BaseCDL]:
    """Let sites of this process take part in a run; return their models, by site."""
    models, errors = {}, []

    def take_part(site: FederatedSite) -> None:
        try:
            with board.turn:
                models[site.name] = site.take_part(board.manifest, board)
        except BaseException as error:
            errors.append(error)
            board.end(f"Site {site.name} has left the run: {error}")

    threads = [threading.Thread(target=take_part, args=[site], daemon=True) for site in sites]
    start_adding(board)
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # Ctrl-C; the site at work keeps its turn until it waits
        threading.Thread(target=board.end, args=["The run was interrupted."], daemon=True).start()
        raise
    if errors:
        raise errors[0]
    return models


def make_sites(
    cohorts: Mapping[str, Any], folder: Path, consent: Consent | None = None
) -> list[FederatedSite]:
    """Make sites in this process, in the order of their names; keys are made where needed."""
    consent, sites = consent or _trusting(), []
    for name in sorted(cohorts):
        place = folder / check_name("site", name)
        path = place / f"{name}.key"
        if not path.exists():
            make_private_folder(place)
            Identity.generate(name).write(place)
        sites.append(FederatedSite(Identity.read(path), as_cohort(cohorts[name]), place, consent))
    return sites


def _trusting(privacy: Privacy | None = None) -> Consent:
    """Return the conditions of sites in this process: nothing has to be hidden."""
    consent = Consent(1, allow_plain=True, trust_server=True, other_members=True)
    if privacy is None:
        return consent
    return replace(consent, max_epsilon=privacy.epsilon, max_delta=privacy.delta)


def _read_log(site: FederatedSite, run: str) -> pd.DataFrame:
    path = site.folder / run / "log.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return pd.DataFrame([{"site": site.name, **json.loads(line)} for line in lines])
