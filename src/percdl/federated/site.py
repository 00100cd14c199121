"""A site: it holds recordings, and takes part in runs with sums over its subjects."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from percdl.algorithm.exchange import Broadcast, Sums
from percdl.algorithm.loop import run_percdl
from percdl.algorithm.results import Results
from percdl.algorithm.state import FitState, History, StopReason
from percdl.estimators import container
from percdl.estimators.base import BaseCDL
from percdl.estimators.checkpoint import pack_state, unpack_state
from percdl.estimators.fitting import End
from percdl.estimators.modelfile import load
from percdl.exceptions import FederationError, PerCDLError
from percdl.federated.board import Connection, Transcript, WaitedError
from percdl.federated.consent import KEY, MODEL, Consent, check_manifest, digests, sign
from percdl.federated.identities import Identity, RunKeys
from percdl.federated.layout import exponent
from percdl.federated.manifest import Manifest, Terms, agree, fitted_model, settings_of
from percdl.federated.messages import Bounds, Holdings, Joining, Signals
from percdl.federated.private_rounds import denoised
from percdl.federated.rounds import FederatedRounds, OwnRounds, Report
from percdl.federated.server import follow
from percdl.signals import Cohort
from percdl.signals.events import events_to_csv
from percdl.signals.files import hold, release
from percdl.signals.preprocessing import lasting_steps

# Files of a run at a site: the model without subjects, to be passed on, and the state.
COMMON, STATE = "common.percdl", "state.percdl"
# Exponent of the assumed number of subjects of a site, if their number is secret.
MOST_SUBJECTS = 24


@dataclass(frozen=True)
class FederatedSite:
    """A site of a federation. After a crash, taking part again continues the run.

    An error that may name a subject is written to its own log, and only its type is posted.

    Parameters
    ----------
    identity : Identity
        Its name and its private key.
    cohort : Cohort
        Its recordings.
    folder : Path
        Folder of its ledger, and of states, logs and results by run.
    consent : Consent
        Its conditions.
    write_report : bool
        Whether to write an HTML report of its subjects at the end.

    Examples
    --------
    >>> from percdl import make_synthetic
    >>> from percdl.federated.identities import Identity
    >>> cohort = make_synthetic(4, random_state=0).cohort
    >>> FederatedSite(Identity.generate("lyon"), cohort, Path("runs")).consent.min_subjects
    5
    """

    identity: Identity
    cohort: Cohort = field(repr=False)
    folder: Path
    consent: Consent = field(default_factory=Consent)
    write_report: bool = False

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.identity.site

    def take_part(
        self, manifest: Manifest, connection: Connection, report: Report = lambda *_: None
    ) -> BaseCDL:
        """Take part in a run to its end; return the model with the subjects of this site.

        Raises `FederationError` if this site or another one refuses.
        """
        place = self.folder / manifest.run
        check_manifest(self.name, self.identity.public, self.cohort, self.consent, manifest)
        sign(self.folder, self.name, manifest, self.cohort, self.consent)
        if (place / MODEL).is_file():  # the run is over
            return load(place / MODEL)
        transcript = Transcript(self.identity, manifest, connection, place)
        try:
            held = hold(place)
        except BlockingIOError as error:
            what = f"takes part in run {manifest.run} in {place}. Stop one of them"
            raise FederationError(f"Another process {what}.") from error
        try:
            return self._run(transcript, report)
        except WaitedError:
            raise  # the run can continue later
        except PerCDLError as error:
            transcript.log(refused=str(error))
            neutral = f"{type(error).__name__}; its own log says more."  # names no subject
            transcript.refuse(str(error) if isinstance(error, FederationError) else neutral)
            raise
        finally:
            release(held)

    def _run(self, transcript: Transcript, report: Report) -> BaseCDL:
        place, manifest = transcript.folder, transcript.manifest
        keys = RunKeys.at(place / KEY)
        terms = self._join(transcript, keys)
        least = 1 if self.consent.trusts_noise(manifest) else self.consent.least(manifest)
        own = OwnRounds(self.cohort, terms, least)
        rounds = FederatedRounds(transcript, terms, own, keys, History())
        if manifest.aggregate == "server":
            asked, sums, reason = follow(rounds, report)
            transcript.say("finish")
        else:
            asked, sums, reason = _add(rounds, report)
            transcript.exchange("finish")  # checks that all have the same history
        reached = sums.objective, reason, rounds.history, own.runtime.results()
        model = self._keep(place, terms, End(asked.dictionary, *reached, asked.precision))
        for name in (KEY, STATE):
            (place / name).unlink(missing_ok=True)
        return model

    def _join(self, transcript: Transcript, keys: RunKeys) -> Terms:
        holdings = describe(self.cohort, transcript.manifest)
        dataset = self.identity.commit("".join(sorted(digests(self.cohort))))
        own = Joining(holdings=holdings, public=keys.public, dataset=dataset)
        posts = transcript.exchange("join", **own.model_dump(mode="json"))
        terms = agree(transcript.manifest, posts)
        if terms.joined[self.name] != own:
            what = f"changed since it joined run {transcript.manifest.run}. Restore them"
            raise FederationError(f"Recordings or key of site {self.name} have {what}.")
        return terms

    def _keep(self, place: Path, terms: Terms, end: End) -> BaseCDL:
        """Write the site's own model, the common one, events and report to its disk."""
        model = fitted_model(terms, end, self.cohort)
        empty = {name: values[:0] for name, values in vars(end.results).items()}
        shared = replace(end, results=Results(**empty))
        if terms.manifest.aggregate == "server":  # objectives are those of this site
            unknown = [replace(r, objective=0.0) for r in end.history.records]
            shared = replace(shared, objective=0.0, history=History(unknown))
        fitted_model(terms, shared, terms.common.signals).save(place / COMMON)
        events_to_csv(model.events_, place / "events.csv")
        if self.write_report:
            with warnings.catch_warnings(action="ignore"):
                model.report(place / "report.html")
        model.save(place / MODEL)
        return model


def describe(cohort: Cohort, manifest: Manifest) -> Holdings:
    """Return the description of recordings that a site posts when it joins.

    Under differential privacy its bounds are public constants: room for 2^24 subjects, and for
    noise of the same size.
    """
    about = cohort.channels, cohort.units, cohort.sfreq, lasting_steps(cohort.processing)
    if manifest.privacy is not None:
        length = settings_of(manifest.make_model()).atom_length
        bounds = Bounds(0, MOST_SUBJECTS + exponent(length))
    else:
        energy = float(np.nansum(cohort.power * cohort.lengths * cohort.n_channels))
        bounds = Bounds(exponent(energy), exponent(float(cohort.lengths.sum())))
    return Holdings(signals=Signals(*about), n_masks=int(cohort.n_masks), bounds=bounds)


def _add(rounds: FederatedRounds, report: Report) -> tuple[Broadcast, Sums, StopReason]:
    """Run the fit from the last saved state; each site adds the posts of all members itself.

    Returns the last dictionary, the last sums over all, and why the fit ended.
    """
    transcript, terms, path = rounds.transcript, rounds.terms, rounds.transcript.folder / STATE
    if path.is_file():  # the run was interrupted
        content, arrays = container.read(path, container.FEDERATION)
        first, rounds.history, site = unpack_state(content["state"], arrays)
        rounds.own.restore(site)
        transcript.slot, transcript.chain = content["slot"], content["chain"]
        transcript.heard = content["heard"]
    else:
        first = rounds.first_dictionary()

    def save(state: FitState) -> None:
        content, arrays = pack_state(state, rounds.history, rounds.own.snapshot())
        names = "slot", "chain", "heard"
        content = {"state": content, **{name: getattr(transcript, name) for name in names}}
        container.write(path, container.FEDERATION, content, arrays)

    runtime = denoised(rounds, terms.settings, terms.manifest)
    found = run_percdl(runtime, terms.settings, first, rounds.history, report, save=save)
    return Broadcast(found.dictionary, precision=found.precision), found.sums, found.stop_reason
