"""The coordinator's checkpoint: a run that was interrupted continues to the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from percdl.algorithm.state import FitState, History, StopReason
from percdl.estimators import container
from percdl.estimators.checkpoint import pack_state, unpack_state
from percdl.estimators.fitting import End
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms, end_content, make_end, no_results
from percdl.federated.coordinator import Audit, Coordinator, Patience
from percdl.federated.layout import check_broadcast
from percdl.federated.messages import (
    Announcement,
    Count,
    EndContent,
    HistoryLine,
    Name,
    Strict,
    TermsContent,
    parse,
)
from percdl.runtimes.messages import Wire

_OF_AGREEMENT, _OF_BROADCAST, _OF_END = "agreement/", "broadcast/", "end/"
# Fields of the coordinator that are written as they are.
_KEPT = ("announcements", "round", "follows")


class _StateContent(Strict):
    population: Count
    personal: Count
    reason: StopReason
    coded: float | None
    updated: float | None
    is_fixed: bool
    history: tuple[HistoryLine, ...]


class _Content(Strict):
    run: Name
    agreement: dict[str, Any]
    terms: TermsContent
    announcements: tuple[Announcement, ...]
    round: Annotated[int, Field(ge=1)]
    follows: Annotated[int, Field(ge=1)] | None
    failed: dict[Name, Count]
    state: _StateContent | None
    end: EndContent | None


class FederatedCheckpoint(NamedTuple):
    """A federated fit between two rounds; ``state`` is None before the first dictionary."""

    content: dict[str, Any]
    arrays: container.Arrays
    terms: Terms
    state: FitState | None
    history: History
    end: End | None

    def restore(self, wire: Wire, patience: Patience, audit: Audit) -> Coordinator:
        """Return the coordinator as it was."""
        kept, failed = {name: self.content[name] for name in _KEPT}, self.content["failed"]
        options = wire, self.content["run"], self.terms, patience, audit
        return Coordinator(*options, **kept, failed=Counter(failed))


def write_checkpoint(
    path: Path,
    coordinator: Coordinator,
    state: FitState | None,
    history: History,
    end: End | None = None,
) -> None:
    """Write the state of a run, atomically; with ``end``, only the last message is left."""
    terms = coordinator.terms
    content: dict[str, Any] = {
        "run": coordinator.run,
        "agreement": terms.accepted.to_json(),
        "terms": terms.to_json(),
        "failed": dict(coordinator.failed),
        "state": None,
        "end": None if end is None else end_content(end),
        **{name: getattr(coordinator, name) for name in _KEPT},
    }
    arrays = {f"{_OF_AGREEMENT}{name}": x for name, x in terms.accepted.arrays.items()}
    if state is not None:
        content["state"], own = pack_state(state, history)
        arrays |= own
    if end is not None:
        arrays |= {f"{_OF_END}{name}": x for name, x in end.broadcast.to_arrays().items()}
    contiguous = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    container.write(path, container.FEDERATION, content, contiguous)


def read_checkpoint(path: Path, agreement: Agreement) -> FederatedCheckpoint:
    """Read a checkpoint of a fit with the same agreement; raises for another one."""
    try:
        content, arrays = container.read(path, container.FEDERATION)
        with container.naming(path, container.FEDERATION):
            checked = parse(_Content, content)
        own = container.under(_OF_AGREEMENT, arrays)
        before = Agreement.from_message(checked.agreement, own)
    except (OSError, FederationError) as error:
        raise ModelFileError(
            f"{path} is not {container.NAMES[container.FEDERATION][0]}, or it is damaged "
            f"({error})."
        ) from error
    if before.digest != agreement.digest:
        old, new = before.to_json(), agreement.to_json()
        differing = [name for name in new if new[name] != old[name]] or ["init"]
        raise InvalidParameterError(
            f"The checkpoint {path} is of a federated fit with another `{differing[0]}`. Resume "
            "with the same arguments, or start again."
        )
    terms = Terms.of(before, **dict(checked.terms))
    with container.naming(path, container.FEDERATION):
        state, history, end = None, History(), None
        if checked.state is not None:
            check_broadcast(container.under(_OF_BROADCAST, arrays), terms.settings)
            state, history = unpack_state(content["state"], arrays)
        if checked.end is not None:
            last = check_broadcast(container.under(_OF_END, arrays), terms.settings)
            end = make_end(checked.end, last, no_results(terms.settings))
    return FederatedCheckpoint(content, arrays, terms, state, history, end)
