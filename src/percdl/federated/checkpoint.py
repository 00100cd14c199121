"""The coordinator's checkpoint: an interrupted run continues to the same end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from percdl.algorithm.state import FitState, History
from percdl.estimators import container
from percdl.estimators.checkpoint import pack_end, pack_state, unpack_end, unpack_state
from percdl.estimators.container import prefixed, under
from percdl.estimators.fitting import End
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms, no_results
from percdl.federated.coordinator import Audit, Coordinator, Patience
from percdl.federated.layout import check_broadcast
from percdl.federated.messages import TermsContent, parse
from percdl.runtimes.messages import Wire

# Fields of the coordinator that are written as they are.
_KEPT = ("run", "announcements", "round", "follows", "failed")


class FederatedCheckpoint(NamedTuple):
    """A federated fit between two rounds; ``state`` is None before the first dictionary."""

    coordinator: dict[str, Any]
    terms: Terms
    state: FitState | None
    history: History
    end: End | None

    def restore(self, wire: Wire, patience: Patience, audit: Audit) -> Coordinator:
        """Return the coordinator as it was."""
        kept = {**self.coordinator, "failed": Counter(self.coordinator["failed"])}
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
        "coordinator": {name: getattr(coordinator, name) for name in _KEPT},
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
        before = Agreement.from_message(content.get("agreement"), under("agreement/", arrays))
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
        terms = Terms.of(before, **dict(parse(TermsContent, content["terms"])))
        kept = {name: content["coordinator"][name] for name in _KEPT}
        state, history, end = None, History(), None
        if content["state"] is not None:
            check_broadcast(under("broadcast/", arrays), terms.settings)
            state, history = unpack_state(content["state"], arrays)
        if content["end"] is not None:
            last = check_broadcast(under("end/", arrays), terms.settings)
            end = unpack_end(content["end"], last, no_results(terms.settings))
    return FederatedCheckpoint(kept, terms, state, history, end)
