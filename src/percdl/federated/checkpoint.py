"""The coordinator's checkpoint: an interrupted run continues to the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from percdl.algorithm.state import FitState, History
from percdl.estimators import container
from percdl.estimators.checkpoint import (
    Ended,
    State,
    pack_end,
    pack_state,
    unpack_end,
    unpack_state,
)
from percdl.estimators.container import prefixed, under
from percdl.estimators.fitting import End
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms, no_results
from percdl.federated.coordinator import Audit, Coordinator, Patience
from percdl.federated.layout import check_broadcast
from percdl.federated.messages import Announcement, Count, Name, Strict, TermsContent, parse
from percdl.runtimes.messages import Wire


class _Coordinator(Strict):
    """Fields of the coordinator that are written as they are."""

    run: Name
    announcements: tuple[Announcement, ...]
    round: Annotated[int, Field(ge=1)]
    follows: Annotated[int, Field(ge=1)] | None
    failed: dict[Name, Count]


class _Content(Strict):
    agreement: dict[str, Any]
    terms: TermsContent
    coordinator: _Coordinator
    state: State | None
    end: Ended | None


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
        kept = self.content["coordinator"]
        kept = {**kept, "failed": Counter(kept["failed"])}
        return Coordinator(wire=wire, terms=self.terms, patience=patience, audit=audit, **kept)


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
        "agreement": terms.accepted.model_dump(),
        "terms": terms.model_dump(mode="json"),
        "coordinator": {name: getattr(coordinator, name) for name in _Coordinator.model_fields},
        "state": None,
        "end": None,
    }
    arrays = prefixed("agreement/", terms.accepted.arrays)
    if state is not None:
        content["state"], own = pack_state(state, history)
        arrays |= own
    if end is not None:
        content["end"] = pack_end(end)
        arrays |= prefixed("end/", end.broadcast.to_arrays())
    contiguous = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    container.write(path, container.FEDERATION, content, contiguous)


def read_checkpoint(path: Path, agreement: Agreement) -> FederatedCheckpoint:
    """Read a checkpoint of a fit with the same agreement; raises for another one."""
    try:
        content, arrays = container.read(path, container.FEDERATION)
        with container.naming(path, container.FEDERATION):
            checked = parse(_Content, content)
        before = Agreement.from_message(checked.agreement, under("agreement/", arrays))
    except (OSError, FederationError) as error:
        raise ModelFileError(
            f"{path} is not {container.NAMES[container.FEDERATION][0]}, or it is damaged "
            f"({error})."
        ) from error
    if before.digest != agreement.digest:
        old, new = before.model_dump(), agreement.model_dump()
        differing = [name for name in new if new[name] != old[name]] or ["init"]
        raise InvalidParameterError(
            f"The checkpoint {path} is of a federated fit with another `{differing[0]}`. Resume "
            "with the same arguments, or start again."
        )
    with container.naming(path, container.FEDERATION):
        terms = Terms.of(before, **dict(checked.terms))
        state, history, end = None, History(), None
        if content["state"] is not None:
            check_broadcast(under("broadcast/", arrays), terms.settings)
            state, history = unpack_state(content["state"], arrays)
        if content["end"] is not None:
            last = check_broadcast(under("end/", arrays), terms.settings)
            end = unpack_end(content["end"], last, no_results(terms.settings))
    return FederatedCheckpoint(content, arrays, terms, state, history, end)
