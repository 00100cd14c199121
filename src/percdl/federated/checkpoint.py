"""The coordinator's checkpoint: what it takes to go on after a crash, to the same end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from percdl.algorithm.history import History
from percdl.algorithm.standing import Standing
from percdl.estimators import container
from percdl.estimators.checkpoint import pack_standing, unpack_standing
from percdl.estimators.checkpoint_contents import (
    BROADCAST,
    END,
    MORE_BROADCAST,
    SHA256,
    STANDING,
    broadcast_sizes,
)
from percdl.estimators.model_contents import check_atoms
from percdl.estimators.restarts import End
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.agreement import Agreement, Terms, choices_of
from percdl.federated.audit import Audit
from percdl.federated.coordinator import Coordinator, Patience
from percdl.federated.finish import last_words, nobody, read_end
from percdl.federated.keys import NAME
from percdl.federated.packing import MOST_EXPONENT
from percdl.runtimes.messages import Wire
from percdl.signals.contents import (
    Array,
    ByName,
    Flag,
    FreeForm,
    Many,
    Number,
    Record,
    Row,
    Text,
    Whole,
    check_arrays,
    maybe,
)

_OF_AGREEMENT, _OF_END = "agreement/", "end/dictionary"
_LABELS, _NAME = Many(Text(), least=1), Text(NAME.pattern)
CONTENT = Record(
    {
        "run": _NAME,
        "agreement": ByName(FreeForm()),
        "terms": Record(
            {
                "agreement": SHA256,
                "signals": Row((_LABELS, _LABELS, Number(np.finfo(float).tiny), Many(Text()))),
                "n_masks": Whole(),
                "bounds": Row((Whole(-MOST_EXPONENT, MOST_EXPONENT),) * 2),
                "members": Many(_NAME, least=1),
                "secure": Flag(),
            }
        ),
        "announcements": Many(ByName(FreeForm())),
        "round": Whole(1),
        "follows": maybe(Whole(1)),
        "failed": ByName(Whole()),
        "standing": maybe(Record(STANDING)),
        "end": maybe(END),
    }
)


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
        arrays = container.under(_OF_AGREEMENT, self.arrays)
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
        content, arrays = container.read(path, container.FEDERATION)
        with container.naming(path, container.FEDERATION):
            CONTENT.check(content, "")
        checkpoint = FederatedCheckpoint(content, arrays)
        before = checkpoint.agreement
        Terms.from_json(content["terms"], before)
    except (OSError, FederationError) as error:
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
    with container.naming(path, container.FEDERATION):
        _check(checkpoint)
    return checkpoint


def _check(checkpoint: FederatedCheckpoint) -> None:
    """Raise `ValueError` where the arrays are not those of a fit on these terms."""
    content, model = checkpoint.content, checkpoint.agreement.make_model()
    n_channels = len(content["terms"]["signals"][0])
    choices = choices_of(model)
    length = int(choices.atom_length)
    sizes = {"K": int(choices.n_atoms), "L": length, "P": n_channels}
    sizes |= broadcast_sizes(model, length, n_channels)
    rest = {k: x for k, x in checkpoint.arrays.items() if not k.startswith(_OF_AGREEMENT)}
    ended = content["end"] is not None
    required = {_OF_END: Array("float64", "K L P")} if ended else {}
    begun = content["standing"] is not None
    optional = MORE_BROADCAST if begun else {}
    check_arrays(rest, required | (BROADCAST if begun else {}), optional, sizes)
    if len(content["terms"]["signals"][1]) != n_channels:
        raise ValueError("`terms.signals` has units of other channels")
    for name in (_OF_END, *BROADCAST):
        if name in rest:
            check_atoms(name, rest[name])
