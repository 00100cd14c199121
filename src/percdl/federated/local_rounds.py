"""The rounds of a site: from the state on its disk to sums, computed once for each question."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from percdl.algorithm.exchange import Broadcast
from percdl.algorithm.loop import Runtime
from percdl.algorithm.settings import Settings
from percdl.algorithm.shapes import broadcast_shapes
from percdl.exceptions import FederationError
from percdl.federated import first
from percdl.federated.agreement import Agreement, Terms
from percdl.federated.checksum import checksum
from percdl.federated.ledger import Ledger, count_rounds, spend_round
from percdl.federated.packing import Layout, layout_of
from percdl.federated.privacy import count_releases
from percdl.federated.private import ROWS, PrivateRounds
from percdl.federated.store import Store
from percdl.runtimes.in_process import InProcess
from percdl.runtimes.messages import Request
from percdl.signals import Cohort

ROUNDS = {
    "population": "population_round",
    "personal": "personal_round",
    "recenter": "recenter",
}


class LocalRounds:
    """Rounds on the recordings of a site.

    The state after a round lies on disk. The last one is kept in memory as well, for processes
    that live longer than one request. No sum is over fewer than ``min_subjects``, nor over fewer
    than agreed on.
    """

    def __init__(self, cohort: Cohort, min_subjects: int):
        self.cohort, self.min_subjects = cohort, min_subjects
        self._last: tuple[tuple[str, int], InProcess] | None = None

    def sums(self, terms: Terms, request: Request, store: Store) -> tuple[np.ndarray, bool]:
        """Return the sums asked for as a vector, and whether the site had to begin afresh.

        Asked again, a site answers with what it has answered before, and its state stays.
        """
        question = question_of(request)
        known = store.read_sums(request.round, question)
        if known is not None:
            return known, False
        settings = terms.make_settings()
        told = read_question(request, terms, settings)
        n_agreed = agreed_rounds(terms.agreement, settings)[request.kind]
        spend_round(store.answered, n_agreed, request.kind, request.round, question)
        layout = layout_for(request, settings, terms.n_masks)
        if isinstance(told, np.ndarray):
            least = max(terms.agreement.min_subjects_per_site, self.min_subjects)
            vector = first.try_dictionaries(self.cohort, settings, terms.n_masks, least, told)
            state, afresh = {}, False
        else:
            runtime, broadcast, afresh = self._ready(terms, settings, request, told, store)
            teller = self._teller(runtime, terms, store)
            vector = layout.pack(getattr(teller, ROUNDS[request.kind])(broadcast))
            state = runtime.snapshot()
            self._last = (store.run, request.round), runtime
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            raise FederationError(
                f"The sum `{layout.locate(int(bad[0]))}` is not finite. Nothing is sent. Look at "
                "the recordings of this site."
            )
        store.write_round(request.round, question, vector, state)
        return vector, afresh

    def state_after(
        self, round_: int | None, terms: Terms, settings: Settings, store: Store
    ) -> InProcess | None:
        """Return a runtime in the state after a round; None where that state is not here."""
        if self._last is not None and self._last[0] == (store.run, round_):
            return self._last[1]
        state = store.read_state(round_)
        if not state:
            return None
        runtime = self.begin(terms, settings)
        runtime.restore(state)
        return runtime

    def begin(self, terms: Terms, settings: Settings) -> InProcess:
        """Return a runtime before its first round."""
        agreement = terms.agreement
        if agreement.privacy is not None:
            # A unit found in the recordings would let numbers of a subject depend on the others.
            return InProcess(self.cohort, settings, ROWS, terms.n_masks, unit=1.0)
        return InProcess(self.cohort, settings, settings.chunk_rows, terms.n_masks)

    def _teller(self, runtime: InProcess, terms: Terms, store: Store) -> Runtime:
        """Return what answers for the runtime: itself, or noisy sums in its place."""
        privacy = terms.agreement.make_privacy()
        if privacy is None:
            return runtime
        ledger = Ledger(count_releases(terms.make_settings()), store.folder / "released")
        return PrivateRounds(runtime, privacy, ledger)

    def _ready(
        self,
        terms: Terms,
        settings: Settings,
        request: Request,
        broadcast: Broadcast,
        store: Store,
    ) -> tuple[InProcess, Broadcast, bool]:
        """Return a runtime, what to tell it, and whether it knows nothing of earlier rounds.

        Codes of the present dictionary then take the place of those it would have had.
        """
        follows = request.facts["follows"]
        runtime = self.state_after(follows, terms, settings, store)
        if runtime is not None:
            return runtime, broadcast, False
        runtime = self.begin(terms, settings)
        if follows is None:
            return runtime, broadcast, False
        broadcast = replace(broadcast, move=None, gauge=None, mixing_gauge=None)
        if request.kind != "population":
            runtime.population_round(broadcast)
        if request.kind == "recenter":
            runtime.personal_round(broadcast)
        return runtime, broadcast, True


def agreed_rounds(agreement: Agreement, settings: Settings) -> Counter[str]:
    """Return how many rounds of each kind a site answers in a run.

    Trying first dictionaries is not covered by differential privacy.
    """
    rounds = count_rounds(settings)
    if agreement.privacy is None:
        rounds["first"] = first.count_trials(agreement.make_model())
    return rounds


def layout_for(request: Request, settings: Settings, n_masks: int) -> Layout:
    """Return the layout of the answer to a request."""
    if request.kind == "first":
        return first.trial_layout(len(request.arrays["dictionaries"]), settings, n_masks)
    return layout_of(request.kind, settings, n_masks)


def read_question(request: Request, terms: Terms, settings: Settings) -> np.ndarray | Broadcast:
    """Return the dictionaries to try, or the broadcast of a round; refuse anything else."""
    if request.kind == "first":
        n_drawn = first.count_drawn(terms.agreement.make_model())
        return first.check_candidates(request.arrays.get("dictionaries"), settings, n_drawn)
    if request.facts["follows"] is None and request.kind != "population":
        raise FederationError(
            f"A round of kind {request.kind!r} goes on from another one, and none is named. "
            "The first round of a run is one of kind 'population'."
        )
    return read_broadcast(request, settings)


def question_of(request: Request) -> str:
    """Return a checksum of what is asked, whichever attempt this is and whoever takes part."""
    asked = {name: request.facts.get(name) for name in ("terms", "follows")}
    return checksum([request.kind, asked], request.arrays)


def read_broadcast(request: Request, settings: Settings) -> Broadcast:
    """Read a broadcast back; refuse what the settings do not expect."""
    arrays: dict[str, Any] = dict(request.arrays)
    size = settings.n_atoms, settings.atom_length, settings.n_channels
    shapes = broadcast_shapes(settings.transform, *size)
    given = {name: arrays[name].shape for name in sorted(arrays)}
    known = "dictionary" in given and all(shapes.get(name) == given[name] for name in given)
    if not known or not all(first.are_numbers(x, settings) for x in arrays.values()):
        raise FederationError(
            f"The coordinator has sent arrays of shapes {given or 'none'}; finite numbers and a "
            f"dictionary of shape {shapes.pop('dictionary')} are needed, and at most {shapes} "
            "beside it."
        )
    return Broadcast(**arrays)
