"""Runs of a federation whose every message is overheard."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from keyed_sites import seed
from small_models import make, spaced_recordings

from percdl import Cohort
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.federated.identities import RunKeys, write_private
from percdl.federated.store import Store
from percdl.runtimes.messages import Failure, InProcessWire, Reply, Request

RUN = "overheard"
LENGTHS = {"lyon": (97, 110), "nice": (118, 128, 101), "paris": (99, 104, 120, 127)}
ROUNDS = ("first", "population", "personal", "express")


@dataclass
class Overheard:
    """A wire that keeps all that crosses it, and what the sites keep to themselves.

    ``lose`` says which sites do not get a request, ``delay`` whose replies come too late.
    """

    folder: Path
    sites_there: dict
    messages: list[tuple[str, Request, Reply]] = field(default_factory=list)
    own_sums: dict = field(default_factory=dict)
    lose: object = staticmethod(lambda site, request: False)
    delay: object = staticmethod(lambda site, request: False)

    def sites(self):
        return tuple(sorted(self.sites_there))

    def ask(self, requests, timeout):
        return {site: self._ask(site, request) for site, request in requests.items()}

    def _ask(self, site, request):
        request = as_sent(request)
        if self.lose(site, request):
            return Failure(site, "is not there")
        reply = InProcessWire({site: self.sites_there[site].answer}).ask({site: request}, 1)[site]
        if isinstance(reply, Failure):
            return reply
        reply = as_sent(reply)
        self.messages.append((site, request, reply))
        if request.kind in ROUNDS:
            rounds = Store(self.folder / site, RUN)._read_round(request.round)
            self.own_sums[site, request.round, request.attempt] = rounds[1]["sums"]
        return Failure(site, "is late") if self.delay(site, request) else reply

    def replies(self, *kinds):
        return [(site, ask, reply) for site, ask, reply in self.messages if ask.kind in kinds]

    def masked(self, round, attempt=0):
        """The masked vectors of one attempt of a round, by site."""
        return {
            site: reply.arrays["sums"]
            for site, ask, reply in self.replies(*ROUNDS)
            if (ask.round, ask.attempt) == (round, attempt)
        }

    def seeds(self, round, attempt=0):
        """The seeds that were told in one attempt of a round, by site."""
        told = {}
        for _, ask, reply in self.replies("release"):
            if (ask.round, ask.attempt) == (round, attempt):
                told |= reply.facts["seeds"]
        return told


def as_sent(message):
    """Return a message as a wire would deliver it: JSON, and copies of arrays."""
    arrays = {name: np.array(array) for name, array in message.arrays.items()}
    return replace(message, facts=json.loads(json.dumps(message.facts)), arrays=arrays)


def cohorts():
    """Recordings of nine people at three sites, with names that nobody else may see."""
    arrays = iter(spaced_recordings(0, sum(LENGTHS.values(), ())))
    return {
        site: Cohort.from_arrays(
            [next(arrays) for _ in lengths],
            sfreq=50.0,
            subjects=[f"Patient-{site}-{i}" for i in range(len(lengths))],
        )
        for site, lengths in LENGTHS.items()
    }


def overhear(folder, monkeypatch, parts, options=None, consent=None, **faults):
    """Fit over sites whose keys are the same each time; return the wire and the federation."""
    monkeypatch.setattr(RunKeys, "generate", classmethod(known_key))
    checkpoint, resume = (faults.pop(name, None) for name in ("checkpoint", "resume"))
    sites = [
        replace(site, consent=(consent or {}).get(site.name, site.consent))
        for site in make_sites(parts, folder)
    ]
    wire = Overheard(folder, {site.name: site for site in sites}, **faults)
    model = make("PerCDL", dtype="float64", **(options or {}))
    federation = FederatedPerCDL(model, max_attempts=3, checkpoint=checkpoint)
    return wire, federation.fit_over(wire, run=RUN, resume=resume)


def known_key(cls, site, run, path=None):
    """Make the key of a run from its name and that of the site."""
    key = X25519PrivateKey.from_private_bytes(seed("run", site, run, 0))
    if path is not None:
        write_private(path, key)
    return cls(site, run, key, path)
