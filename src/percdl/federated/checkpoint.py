"""The coordinator's checkpoint: what it takes to go on after a crash, to the same end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from percdl.algorithm.history import History
from percdl.algorithm.standing import Standing
from percdl.estimators import container
from percdl.estimators.checkpoint import pack_standing, unpack_standing
from percdl.estimators.restarts import End
from percdl.exceptions import InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms
from percdl.federated.audit import Audit
from percdl.federated.coordinator import Coordinator, Patience
from percdl.federated.finish import last_words, nobody, read_end
from percdl.runtimes.messages import Wire

_OF_AGREEMENT, _OF_END = "agreement/", "end/dictionary"


@dataclass(frozen=True)
class FederatedCheckpoint:
    """What a file says of a federated fit between two rounds.

    Attributes
    ----------
    content : dict
        All that is not an array.
    arrays : dict of arrays
        All that is.
    """

    content: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.content["run"]

    @property
    def agreement(self) -> Agreement:
        """What the sites have agreed to."""
        named = {k: x for k, x in self.arrays.items() if k.startswith(_OF_AGREEMENT)}
        arrays = {name.removeprefix(_OF_AGREEMENT): x for name, x in named.items()}
        return Agreement.from_message(self.content["agreement"], arrays)

    def restore(self, wire: Wire, patience: Patience, audit: Audit) -> Coordinator:
        """Return the coordinator as it was."""
        return Coordinator(
            wire,
            self.run,
            Terms.from_json(self.content["terms"], self.agreement),
            patience,
            audit,
            self.content["announcements"],
            self.content["round"],
            self.content["follows"],
            Counter(self.content["failed"]),
        )

    def end(self) -> End | None:
        """Return how the fit ended; None where it has not."""
        told = self.content["end"]
        if told is None:
            return None
        settings = Terms.from_json(self.content["terms"], self.agreement).make_settings()
        return read_end(told, self.arrays[_OF_END], nobody(settings))

    def standing(self) -> tuple[Standing, History] | None:
        """Return how far the fit has come; None where it had no first dictionary yet."""
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
    """Write where a run stands, whole or not at all.

    With the end of the fit, what is left is to tell it to the sites. They delete their keys of
    the run then, so no round could be repeated.
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
        "end": None if end is None else last_words(end),
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
    """Read a checkpoint of a fit with the same terms; raise where it is of another one."""
    try:
        checkpoint = FederatedCheckpoint(*container.read(path, container.FEDERATION))
        before = checkpoint.agreement
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelFileError(
            f"{path} is not {container.NAMES[container.FEDERATION][0]}, or it is damaged "
            f"({error})."
        ) from error
    if before.digest != agreement.digest:
        old, new = before.to_json(), agreement.to_json()
        differing = [name for name in new if new[name] != old[name]] or ["init"]
        raise InvalidParameterError(
            f"The checkpoint {path} is of a federated fit on other terms: `{differing[0]}` "
            "differs. Resume with the same ones, or start anew."
        )
    return checkpoint
