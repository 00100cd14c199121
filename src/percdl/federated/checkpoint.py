"""The coordinator's checkpoint: a run that was interrupted continues to the same end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from percdl.algorithm.history import History, StopReason
from percdl.algorithm.shapes import broadcast_shapes
from percdl.algorithm.standing import Standing
from percdl.estimators import container
from percdl.estimators.checkpoint import pack_standing, unpack_standing
from percdl.estimators.fitting import End
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms, end_content, make_end, no_results
from percdl.federated.coordinator import Audit, Coordinator, Patience
from percdl.federated.messages import (
    Announcement,
    Count,
    EndContent,
    HistoryLine,
    Name,
    Strict,
    TermsContent,
    are_finite,
    parse,
)
from percdl.runtimes.messages import Wire

_OF_AGREEMENT, _OF_BROADCAST, _OF_END = "agreement/", "broadcast/", "end/dictionary"


class _StandingContent(Strict):
    population: Count
    personal: Count
    reason: StopReason
    history: tuple[HistoryLine, ...]


class _Content(Strict):
    run: Name
    agreement: dict[str, Any]
    terms: TermsContent
    announcements: tuple[Announcement, ...]
    round: Annotated[int, Field(ge=1)]
    follows: Annotated[int, Field(ge=1)] | None
    failed: dict[Name, Count]
    standing: _StandingContent | None
    end: EndContent | None


@dataclass(frozen=True)
class FederatedCheckpoint:
    """A federated fit between two rounds: JSON content, arrays, and the terms of the run."""

    content: dict[str, Any]
    arrays: dict[str, np.ndarray]
    terms: Terms

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.content["run"]

    def restore(self, wire: Wire, patience: Patience, audit: Audit) -> Coordinator:
        """Return the coordinator as it was."""
        return Coordinator(
            wire,
            self.run,
            self.terms,
            patience,
            audit,
            self.content["announcements"],
            self.content["round"],
            self.content["follows"],
            Counter(self.content["failed"]),
        )

    def end(self) -> End | None:
        """Return the end of the fit, if it has ended."""
        if self.content["end"] is None:
            return None
        content = parse(EndContent, self.content["end"])
        return make_end(content, self.arrays[_OF_END], no_results(self.terms.make_settings()))

    def standing(self) -> tuple[Standing, History] | None:
        """Return how far the fit has come, if it has a first dictionary."""
        if self.content["standing"] is None:
            return None
        return unpack_standing(self.content["standing"], self.arrays)


def write_checkpoint(
    path: Path,
    coordinator: Coordinator,
    standing: Standing | None,
    history: History,
    end: End | None = None,
) -> None:
    """Write the state of a run, atomically.

    With ``end``, only the last message to the sites is left. They delete their keys of the run
    then, so no round could be repeated.
    """
    terms = coordinator.terms
    content: dict[str, Any] = {
        "run": coordinator.run,
        "agreement": terms.agreement.to_json(),
        "terms": terms.to_json(),
        "announcements": coordinator.announcements,
        "round": coordinator.round,
        "follows": coordinator.follows,
        "failed": dict(coordinator.failed),
        "standing": None,
        "end": None if end is None else end_content(end),
    }
    arrays = {f"{_OF_AGREEMENT}{name}": x for name, x in terms.agreement.arrays.items()}
    if standing is not None:
        content["standing"], own = pack_standing(standing, history)
        arrays |= own
    if end is not None:
        arrays[_OF_END] = end.dictionary
    contiguous = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    container.write(path, container.FEDERATION, content, contiguous)


def read_checkpoint(path: Path, agreement: Agreement) -> FederatedCheckpoint:
    """Read a checkpoint of a fit with the same agreement; raises for another one."""
    try:
        content, arrays = container.read(path, container.FEDERATION)
        with container.naming(path, container.FEDERATION):
            terms = parse(_Content, content).terms
        before = Agreement.from_message(
            content["agreement"], container.under(_OF_AGREEMENT, arrays)
        )
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
    checkpoint = FederatedCheckpoint(content, arrays, Terms.from_content(terms, before))
    with container.naming(path, container.FEDERATION):
        _check_arrays(checkpoint)
    return checkpoint


def _check_arrays(checkpoint: FederatedCheckpoint) -> None:
    """Raise `ValueError` where the arrays do not belong to a fit with these terms."""
    settings = checkpoint.terms.make_settings()
    size = settings.n_atoms, settings.atom_length, settings.n_channels
    known: dict[str, tuple[int, ...]] = {}
    needed = set()
    if checkpoint.content["end"] is not None:
        known[_OF_END], needed = size, {_OF_END}
    if checkpoint.content["standing"] is not None:
        shapes = broadcast_shapes(settings.transform, *size)
        known |= {f"{_OF_BROADCAST}{name}": shape for name, shape in shapes.items()}
        needed |= {f"{_OF_BROADCAST}dictionary"}
    rest = {k: x for k, x in checkpoint.arrays.items() if not k.startswith(_OF_AGREEMENT)}
    for name in sorted(needed | rest.keys()):
        if name not in rest or name not in known:
            raise ValueError(f"`{name}` is missing or not known")
        if rest[name].shape != known[name] or not are_finite(rest[name], settings.dtype):
            raise ValueError(f"`{name}` must be finite numbers of shape {known[name]}")
