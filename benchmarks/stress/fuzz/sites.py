"""What a site of a federation is told: requests of a coordinator that is broken, or means ill."""

from __future__ import annotations

import copy
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.stress.fuzz import junk
from benchmarks.stress.fuzz.choices import happens
from benchmarks.stress.fuzz.engine import WrongResultError
from percdl import Algorithm, Cohort, PerCDL, TimeWarp
from percdl.algorithm.state import StopReason
from percdl.exceptions import FederationError
from percdl.federated import FederatedSite
from percdl.federated.agreement import Agreement, Terms, propose
from percdl.federated.consent import Consent
from percdl.federated.identities import Identity, RunKeys
from percdl.runtimes.messages import Kind, Reply, Request

KINDS: tuple[str, ...] = get_args(Kind)
RUN, NAMES, LENGTH = "run-1", ("lyon", "nice", "paris"), 8
# After so many requests a site is as it was at first, so that its folder does not grow.
AFRESH_EVERY = 500


def make_model() -> PerCDL:
    """Return a small model with a first dictionary, and more rounds than a site is asked for."""
    first = np.sin(np.linspace(0, np.pi, LENGTH))[None, :, None]
    algorithm = Algorithm(
        population_rounds=AFRESH_EVERY, personal_rounds=AFRESH_EVERY, multistart=False,
        realign=False, chunk_rows=4,
    )  # fmt: skip
    return PerCDL(1, LENGTH, TimeWarp(1, 1), 0.3, init=first, algorithm=algorithm)


def make_cohort() -> Cohort:
    """Return recordings of a site."""
    values = np.random.default_rng(0).normal(size=(3, 40))
    return Cohort.from_arrays(values, sfreq=50, subjects=["Ada", "Bo", "Cy"])


class SiteRequests:
    """`FederatedSite.answer`, in a run of masked sums or of plain ones."""

    documented = (FederationError,)

    def __init__(self, folder: Path, secure: bool) -> None:
        self.name = f"requests to a site, {'masked' if secure else 'plain'} sums"
        self._folder, self._kept, self._count = folder / "now", folder / "kept", 0
        identities = {name: Identity.generate(name) for name in NAMES}
        self._site = FederatedSite(
            NAMES[0], make_cohort(), self._folder, identities[NAMES[0]],
            {name: identity.public for name, identity in identities.items()},
            Consent(allow_plain=not secure),
        )  # fmt: skip
        agreement = propose(make_model(), secure, 2, 1)
        self._seeds = self._converse(agreement, identities, secure)
        shutil.copytree(self._folder, self._kept)

    def case(self, draws: random.Random) -> None:
        """Answer a request, some part of which was changed."""
        self._count += 1
        if self._count % AFRESH_EVERY == 0 or (self._folder / RUN / "run.key.deleted").exists():
            shutil.rmtree(self._folder)
            shutil.copytree(self._kept, self._folder)
        request = draws.choice(self._seeds)
        for _ in range(draws.randrange(3)):
            request = _changed(request, draws)
        reply = self._site.answer(request)
        _check_reply(reply, request)

    def _converse(
        self, agreement: Agreement, identities: dict[str, Identity], secure: bool
    ) -> list[Request]:
        """Go through a run once; return its requests."""
        join = Request("join", RUN, 0, 0, {"agreement": agreement.model_dump()}, agreement.arrays)
        self._site.answer(join)
        own = self._site.conditions.holdings
        terms = Terms.of(agreement, **dict(own), members=NAMES, secure=secure)
        facts: dict[str, Any] = {"terms": terms.model_dump(mode="json"), "roster": list(NAMES)}
        requests = [join]
        if secure:
            requests.append(Request("keys", RUN, 1, 0))
            own = self._site.answer(requests[-1]).facts["announcement"]
            others = [RunKeys.generate(n, RUN).announce(identities[n]) for n in NAMES[1:]]
            facts["announcements"] = [own, *others]
        arrays = {"dictionary": np.asarray(next(iter(agreement.arrays.values())))}
        population = Request("population", RUN, 2, 0, {**facts, "follows": None}, arrays)
        personal = Request("personal", RUN, 3, 0, {**facts, "follows": 2}, arrays)
        for request in (population, personal):
            self._site.answer(request)
        tried = Request("first", RUN, 4, 0, facts, {"dictionaries": arrays["dictionary"][None]})
        words = {
            "objective": 1.0,
            "reason": StopReason.ROUNDS_DONE.value,
            "history": [["final", 0, "CSC", 1.0, 0.1]],
            "follows": 3,
        }
        lifted = {"question": "0" * 64, "lost": {NAMES[1]: "0" * 64}}
        return [
            *requests,
            population,
            personal,
            replace(population, kind="express", round=5),
            tried,
            replace(population, kind="release", facts={**facts, **lifted}, arrays={}),
            replace(population, kind="finish", round=6, facts={**facts, **words}),
        ]


class PlainSite(SiteRequests):
    """A run of plain sums."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, secure=False)


class MaskedSite(SiteRequests):
    """A run of masked sums."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, secure=True)


def _changed(request: Request, draws: random.Random) -> Request:
    """Return a request with one thing changed."""
    kind = draws.randrange(8)
    if kind == 0:
        return replace(request, kind=draws.choice(KINDS))  # pyright: ignore[reportArgumentType]
    if kind == 1:
        return replace(request, run=draws.choice((RUN, "run-2", junk.text(draws))))
    if kind == 2:
        name = draws.choice(("round", "attempt"))
        return replace(request, **{name: draws.choice((0, 1, -1, 7, 10**30, 10**400, True))})
    if kind == 3:
        return replace(request, arrays=change_arrays(request.arrays, draws))
    return replace(request, facts=change_facts(request.facts, draws))


def change_facts(facts: dict[str, Any], draws: random.Random) -> dict[str, Any]:
    """Return facts with one of them, at any depth, changed, left out or added."""
    facts = copy.deepcopy(facts)
    place: Any = facts
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys or happens(draws, 0.05):
            if isinstance(place, dict):
                place[junk.text(draws)] = junk.json_value(draws)
            else:
                place.append(junk.json_value(draws))
            return facts
        key = draws.choice(keys)
        if not isinstance(place[key], (dict, list)) or happens(draws, 0.3):
            break
        place = place[key]
    if happens(draws, 0.2):
        del place[key]
    else:
        place[key] = junk.json_value(draws)
    return facts


def change_arrays(arrays: dict[str, np.ndarray], draws: random.Random) -> dict[str, np.ndarray]:
    """Return arrays with one of them changed, left out or added."""
    changed = dict(arrays)
    names = (*arrays, "dictionary", "dictionaries", "move", "gauge", "mixing_gauge", "sums")
    name = draws.choice(names)
    old = changed.pop(name, None)
    kind = draws.randrange(4)
    if kind == 0:
        return changed
    if kind == 1 or old is None or not old.size:
        changed[name] = np.asarray(junk.array(draws))
    elif kind == 2:
        changed[name] = np.asarray(junk.array(draws, old.shape))
    elif old.dtype.kind == "f":
        changed[name] = old.copy()
        changed[name].flat[0] = draws.choice((np.nan, np.inf, 1e300, 1e-300, 0))
    else:
        changed[name] = np.zeros_like(old)
    return changed


def _check_reply(reply: Reply, request: Request) -> None:
    """Raise where an answer tells what it must not, or numbers that are none."""
    echo = (reply.kind, reply.run, reply.round, reply.attempt)
    if echo != (request.kind, request.run, request.round, request.attempt):
        raise WrongResultError(f"{echo} answers {request.kind} {request.run}")
    said = json.dumps(reply.facts)
    if any(name in said for name in ("Ada", "Bo", "Cy")):
        raise WrongResultError(f"subjects are named: {said}")
    if not all(np.isfinite(array).all() for array in reply.arrays.values()):
        raise WrongResultError("sums are not finite")
