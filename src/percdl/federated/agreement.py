"""What coordinator and sites agree on before a run: data, never code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from percdl import __version__
from percdl.algorithm.settings import Huber, Settings
from percdl.estimators.automatic import Choices
from percdl.estimators.base import BaseCDL
from percdl.estimators.model_contents import arrays_of
from percdl.estimators.motif import Motif
from percdl.estimators.persistence import decode_model, encode_parameters
from percdl.estimators.validation import check_arguments
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.checksum import checksum
from percdl.federated.packing import Bounds
from percdl.federated.privacy import Privacy, check_private
from percdl.federated.roster import FEWEST_SITES
from percdl.signals.contents import check_arrays

_NUMBERS = ("n_atoms", "atom_length", "penalty")
# What an agreement must hold, besides arrays.
_KINDS: dict[str, Any] = {
    "model": str,
    "parameters": dict,
    "secure": bool | str,
    "min_sites": int,
    "min_subjects_per_site": int,
    "version": str,
    "privacy": dict | None,
}


@dataclass(frozen=True)
class Agreement:
    """The terms that a coordinator proposes, and that a site accepts or refuses.

    Attributes
    ----------
    model : str
        Name of the estimator.
    parameters : dict
        Arguments of its constructor, as JSON, as in a model file.
    secure : bool or "auto"
        Whether sums are masked; "auto": from three sites on.
    min_sites, min_subjects_per_site : int
        Fewest sites of a sum, and fewest recordings of a site.
    version : str
        Of percdl.
    arrays : dict of arrays
        Arguments that are arrays: a first dictionary that was given.
    privacy : dict, optional
        Arguments of `Privacy`, where sums are noisy.
    """

    model: str
    parameters: dict[str, Any]
    secure: bool | str
    min_sites: int
    min_subjects_per_site: int
    version: str = __version__
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    privacy: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all that is not an array."""
        return {name: value for name, value in vars(self).items() if name != "arrays"}

    @classmethod
    def from_message(cls, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Agreement:
        """Read what a message holds; anything else than an agreement is refused."""
        wrong = sorted({*facts} ^ {*_KINDS}) or [
            name for name, kind in _KINDS.items() if not isinstance(facts[name], kind)
        ]
        if wrong or not (isinstance(facts["secure"], bool) or facts["secure"] == "auto"):
            raise FederationError(
                f"This is no agreement as percdl {__version__} knows it "
                f"({', '.join(wrong) or 'secure'}). Coordinator and sites must run the same "
                "version of percdl."
            )
        return cls(**facts, arrays=arrays)

    @property
    def digest(self) -> str:
        """A checksum of all of it: two that have it mean the same."""
        return checksum(self.to_json(), self.arrays)

    def masks(self, n_sites: int) -> bool:
        """Whether sums over so many sites are masked."""
        return self.secure is True or (self.secure == "auto" and n_sites >= FEWEST_SITES)

    def make_privacy(self) -> Privacy | None:
        """Return how much may be learned of a subject; None where sums are exact."""
        if self.privacy is None:
            return None
        try:
            return Privacy(**self.privacy)
        except TypeError as error:
            raise FederationError(
                f"The agreement has terms of privacy that percdl {__version__} does not know "
                f"({error}). Coordinator and sites must run the same version of percdl."
            ) from error

    def make_settings(self) -> Settings:
        """Return what to solve and how, but for the channels, of which there is one here."""
        nameless = Signals(("",), ("",), 1.0, ())
        return self.make_model()._settings(nameless, choices_of(self.make_model()))

    def make_model(self) -> BaseCDL:
        """Return the estimator, not fitted."""
        try:
            model = decode_model(self.model, self.parameters, self.arrays)
            check_arrays(self.arrays, arrays_of(self.parameters))  # and none beside them
        except (KeyError, TypeError, ValueError) as error:
            raise FederationError(
                f"The agreement names what percdl {__version__} does not know ({error!r}). "
                "Coordinator and sites must run the same version of percdl."
            ) from error
        check_agreeable(model)
        return model


class Signals(NamedTuple):
    """What the recordings of all sites have in common: a `Source` without subjects."""

    channels: tuple[str, ...]
    units: tuple[str, ...]
    sfreq: float
    processing: tuple[str, ...]

    @property
    def subjects(self) -> tuple[str, ...]:
        """Nobody: subjects are known to their sites only."""
        return ()

    @property
    def n_channels(self) -> int:
        """P, the number of channels."""
        return len(self.channels)

    @classmethod
    def from_json(cls, lines: Any) -> Signals:
        """Read back what JSON has made of it."""
        channels, units, sfreq, processing = lines
        return cls(tuple(channels), tuple(units), float(sfreq), tuple(processing))


@dataclass(frozen=True)
class Terms:
    """What a run is after all have joined: the agreement and what the sites told.

    Attributes
    ----------
    agreement : Agreement
    signals : Signals
    n_masks : int
        Masks per recording, over all sites.
    bounds : Bounds
        Of all signals together.
    members : tuple of str
        The sites that have joined, sorted.
    secure : bool
        Whether sums are masked.
    """

    agreement: Agreement
    signals: Signals
    n_masks: int
    bounds: Bounds
    members: tuple[str, ...]
    secure: bool

    def make_settings(self) -> Settings:
        """Return what to solve and how."""
        model = self.agreement.make_model()
        return model._settings(self.signals, choices_of(model))

    def to_json(self) -> dict[str, Any]:
        """Return what a round needs to know of it."""
        return {
            "agreement": self.agreement.digest,
            "signals": list(self.signals),
            "n_masks": self.n_masks,
            "bounds": list(self.bounds),
            "members": list(self.members),
            "secure": self.secure,
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any], agreement: Agreement) -> Terms:
        """Read back what `to_json` has told; anything else is refused."""
        try:
            terms = cls(
                agreement,
                Signals.from_json(facts["signals"]),
                int(facts["n_masks"]),
                Bounds(*map(int, facts["bounds"])),
                tuple(map(str, facts["members"])),
                bool(facts["secure"]),
            )
            known = terms.n_masks in (0, 1, terms.signals.n_channels) and terms.bounds.plausible
            if not known:
                raise ValueError(f"n_masks={terms.n_masks}, {terms.bounds}")
            return terms
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FederationError(
                f"The terms of a run cannot be read ({error!r}). Coordinator and sites must run "
                "the same version of percdl."
            ) from error


def propose(
    model: BaseCDL, secure: bool | str, min_sites: int, min_subjects_per_site: int
) -> Agreement:
    """Write down the terms of a federated fit of a model.

    Raises `InvalidParameterError` where the model leaves something to be chosen from recordings
    that nobody has in one place, or holds code.
    """
    check_agreeable(model)
    arrays: dict[str, np.ndarray] = {}
    try:
        parameters = encode_parameters(model, arrays)
    except ModelFileError as error:
        raise InvalidParameterError(
            f"A federation agrees on data, never on code: {error}"
        ) from error
    arrays = {name: np.asarray(array, float) for name, array in arrays.items()}
    name = type(model).__name__
    return Agreement(
        name, parameters, secure, min_sites, min_subjects_per_site, __version__, arrays
    )


def agree_privately(agreement: Agreement, privacy: Privacy) -> Agreement:
    """Add differential privacy to an agreement; raise where the model would tell more."""
    if not agreement.arrays:
        raise InvalidParameterError(
            "Differential privacy needs a first dictionary that is public: `init` an array, "
            "learned from recordings that need no protection."
        )
    check_private(agreement.make_settings())
    return replace(agreement, privacy=asdict(privacy))


def check_agreeable(model: BaseCDL) -> None:
    """Raise where a model cannot be fitted without seeing all recordings."""
    name = type(model).__name__
    check_arguments(model)
    for argument in _NUMBERS:
        if isinstance(value := getattr(model, argument), str):
            raise InvalidParameterError(
                f"`{name}({argument}={value!r})` depends on the recordings, and no place has all "
                "of them. Agree on a number; `percdl suggest` helps each site to propose one."
            )
    if isinstance(model.loss, Huber) and model.loss.delta is None:
        raise InvalidParameterError(
            f"`{name}(loss=Huber())` takes its delta from the recordings, and no place has all of "
            "them. Agree on `Huber(delta)`, in signal units."
        )
    motifs = model.init if isinstance(model.init, (list, tuple)) else [model.init]
    if any(isinstance(motif, Motif) for motif in motifs):
        raise InvalidParameterError(
            f"`{name}(init={model.init!r})` names subjects, who stay at their sites. Agree on an "
            'array, or let the sites find one: `init="auto"`.'
        )


def choices_of(model: BaseCDL) -> Choices:
    """Return the hyper-parameters, all of which are numbers."""
    delta = model.loss.delta if isinstance(model.loss, Huber) else None
    return Choices(int(model.n_atoms), int(model.atom_length), float(model.penalty), delta)
