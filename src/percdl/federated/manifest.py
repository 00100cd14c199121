"""The manifest of a run, which every site signs: data, never code."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from percdl import __version__
from percdl.algorithm.settings import Huber, Settings
from percdl.estimators.base import BaseCDL
from percdl.estimators.fitting import End, adopt
from percdl.estimators.hyperparameters import Motif
from percdl.estimators.modelfile import array_names, decode_model, encode_parameters
from percdl.estimators.start import Choices, lengths_in_samples, make_settings
from percdl.estimators.validation import check_arguments
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.identities import FEWEST_SITES, verify
from percdl.federated.layout import cover
from percdl.federated.messages import (
    MOST_SITES,
    Digest,
    Holdings,
    Name,
    Signals,
    Strict,
    checksum,
    explain,
    parse,
)
from percdl.federated.privacy import Privacy, check_private
from percdl.steps.coders import L1Coder

# Most work that terms may ask of a site, by argument: more would keep it busy for days.
MOST = {
    "n_atoms": 100,
    "atom_length": 10_000,
    "n_restarts": 100,
    "population_rounds": 1000,
    "personal_rounds": 1000,
    "solver_steps": 1000,
    "n_steps": 10_000,
    "parameters per atom": 10_000,
}


class Manifest(Strict):
    """Decides a run: who takes part, with which model, schedule, seed and privacy.

    Every site checks it and signs it once. Whatever is not in it is refused.

    ``members`` are the public keys of the sites (Ed25519, as hexadecimal digits). ``parameters``
    are the constructor arguments of the estimator named ``model``, as in a model file; ``arrays``
    holds those that are arrays, such as a first dictionary. With ``secure``, sums are masked.
    ``aggregate`` says who adds them and computes the next dictionary: every site, or the server.
    ``privacy`` are the arguments of `Privacy`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    run: Name
    members: Annotated[dict[Name, Digest], Field(min_length=2, max_length=MOST_SITES)]
    model: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any]
    secure: bool
    aggregate: Literal["sites", "server"]
    min_subjects: Annotated[int, Field(ge=1)]
    version: Annotated[str, Field(max_length=100)]
    privacy: dict[str, Annotated[float, Field(allow_inf_nan=True)] | int | None] | None
    arrays: dict[str, np.ndarray] = Field(default={}, exclude=True, repr=False)

    @model_validator(mode="after")
    def _has_distinct_keys(self) -> Manifest:
        if len(set(self.members.values())) < len(self.members):
            raise ValueError("two members have the same key, so one could sign for both")
        if self.secure and len(self.members) < FEWEST_SITES:
            raise ValueError(
                f"secure sums need {FEWEST_SITES} members or more: each of two sites could "
                "compute the values of the other from the total"
            )
        return self

    @classmethod
    def read(cls, facts: Any, arrays: dict[str, np.ndarray]) -> Manifest:
        """Read a manifest from the content of a file; raises for anything else."""
        try:
            return parse(cls, facts).model_copy(update={"arrays": arrays})
        except ValueError as error:
            raise _unknown(f"This is not a manifest of percdl ({explain(error)})") from error

    @property
    def digest(self) -> str:
        """Checksum of the whole manifest, arrays included."""
        return checksum(self.model_dump(), self.arrays)

    @property
    def fingerprint(self) -> str:
        """The first half of the checksum in groups of four, to compare by telephone."""
        return "-".join(self.digest[i : i + 4] for i in range(0, 32, 4))

    @property
    def sites(self) -> list[str]:
        """Names of the members, sorted."""
        return sorted(self.members)

    def verify(self, site: str, signature: bytes, text: bytes) -> None:
        """Raise `FederationError` if a member has not signed a text."""
        if site not in self.members:
            raise FederationError(f"{site!r} is not a member of run {self.run}.")
        verify(self.members[site], signature, text, f"site {site} in run {self.run}")

    def make_privacy(self) -> Privacy | None:
        """Return the terms of differential privacy; None if sums are exact."""
        try:
            return None if self.privacy is None else Privacy(**self.privacy)  # pyright: ignore[reportArgumentType]
        except (TypeError, InvalidParameterError) as error:
            raise _unknown(f"The manifest has unknown terms of privacy ({error})") from error

    def make_settings(self, signals: Signals | None = None) -> Settings:
        """Return the settings of the fit; without signals, for one channel."""
        return settings_of(self.make_model(), signals or Signals(("",), ("",), 1.0, ()))

    def make_model(self) -> BaseCDL:
        """Return the estimator, not fitted."""
        try:
            model = decode_model(self.model, self.parameters, self.arrays)
            if self.arrays.keys() != array_names(self.parameters):
                raise ValueError("it comes with other arrays than it names")
        except (KeyError, TypeError, ValueError) as error:
            raise _unknown(f"The model of the manifest is unknown ({error!r})") from error
        check_agreeable(model)
        return model


def _unknown(what: str) -> FederationError:
    return FederationError(
        f"{what}. This is percdl {__version__}: all sites must run the same version."
    )


@dataclass(frozen=True)
class Terms:
    """Terms of a run after all members have joined: the manifest, and what they have in common."""

    manifest: Manifest
    common: Holdings

    @cached_property
    def settings(self) -> Settings:
        """Settings of the fit."""
        return self.manifest.make_settings(self.common.signals)

    @property
    def n_masks(self) -> int:
        """Number of masks of missing samples."""
        return self.common.n_masks


def combine(joined: dict[str, Holdings]) -> Holdings:
    """Return what the recordings of all members have in common; raises where they differ."""
    first = min(joined)
    signals = joined[first].signals
    for site in sorted(joined):
        for name, a, b in zip(Signals._fields, signals, joined[site].signals, strict=True):
            if a != b:
                raise FederationError(
                    f"The sites must agree on {name}: site {first} has {a!r}, and site "
                    f"{site} has {b!r}. Process the recordings alike, or leave one of them out."
                )
    n_masks = max(own.n_masks for own in joined.values())
    bounds = cover({site: own.bounds for site, own in joined.items()})
    return Holdings(signals=signals, n_masks=n_masks, bounds=bounds)


def propose(
    model: BaseCDL,
    run: str,
    members: dict[str, str],
    secure: bool | str = "auto",
    min_subjects: int = 1,
    privacy: Privacy | None = None,
    aggregate: str = "sites",
) -> Manifest:
    """Return the manifest of a federated fit of a model; ``members`` are public keys by site.

    Raises `InvalidParameterError` if the model depends on the recordings, or holds code.
    """
    check_agreeable(model)
    arrays: dict[str, np.ndarray] = {}
    try:
        parameters = encode_parameters(model, arrays)
    except ModelFileError as error:
        raise InvalidParameterError(
            f"A federation agrees on data, never on code: {error}"
        ) from error
    try:
        manifest = Manifest(
            run=run,
            members=dict(sorted(members.items())),
            model=type(model).__name__,
            parameters=parameters,
            secure=len(members) >= FEWEST_SITES if secure == "auto" else secure,  # pyright: ignore[reportArgumentType]
            aggregate=aggregate,  # pyright: ignore[reportArgumentType]
            min_subjects=min_subjects,
            version=__version__,
            privacy=None if privacy is None else asdict(privacy),
            arrays={name: np.asarray(array, float) for name, array in arrays.items()},
        )
    except ValidationError as error:
        raise InvalidParameterError(f"A federation is not possible: {explain(error)}.") from error
    if not arrays and (privacy is not None or aggregate == "server"):
        who = "Differential privacy" if privacy is not None else "A server that adds the sums"
        raise InvalidParameterError(
            f"{who} needs a public first dictionary: pass `init` as an array, learned from "
            "recordings that need no protection."
        )
    if privacy is not None:
        check_private(manifest.make_settings())
        if privacy.shared_by > (len(members) if manifest.secure else 1):
            raise InvalidParameterError(
                f"`Privacy(shared_by={privacy.shared_by})` needs masked sums over that number of "
                "members or more."
            )
    return manifest


def check_agreeable(model: BaseCDL) -> None:
    """Raise if a model cannot be fitted without seeing all recordings."""
    check_arguments(model)
    motifs = model.init if isinstance(model.init, (list, tuple)) else [model.init]
    hint = "Agree on a number; `percdl suggest` helps each site to propose one."
    for argument, depends, advice in (
        ("n_atoms", isinstance(model.n_atoms, str), hint),
        ("atom_length", isinstance(model.atom_length, str), hint),
        ("penalty", isinstance(model.penalty, str), hint),
        ("loss", model.loss == Huber(), "Agree on `Huber(delta)`, in signal units."),
        (
            "init",
            any(isinstance(motif, Motif) for motif in motifs),
            'Agree on an array, or let the sites find one: `init="auto"`.',
        ),
    ):
        if depends:
            raise InvalidParameterError(
                f"`{type(model).__name__}({argument}={getattr(model, argument)!r})` depends on "
                f"the recordings, and no place has all of them. {advice}"
            )
    check_work(model)


def check_work(model: BaseCDL) -> None:
    """Raise if a model asks for more work than any site should do."""
    settings = settings_of(model, Signals(("",), ("",), 1.0, ()))
    asked = {name: getattr(settings, name, None) for name in MOST}
    asked["n_restarts"] = model.n_restarts
    asked["n_steps"] = settings.coder.n_steps if isinstance(settings.coder, L1Coder) else None
    asked["parameters per atom"] = settings.n_params
    for name, value in asked.items():
        if (value or 0) > MOST[name]:
            raise InvalidParameterError(
                f"The terms ask for {value} as `{name}`, and a site accepts at most {MOST[name]}: "
                "it would be busy for too long. Agree on less."
            )


def settings_of(model: BaseCDL, source: Any) -> Settings:
    """Return the settings of a fit to recordings of a source."""
    return make_settings(model, source, _choices_of(model))


def _choices_of(model: BaseCDL) -> Choices:
    """Return the hyper-parameters, all of which are numbers."""
    delta = model.loss.delta if isinstance(model.loss, Huber) else None
    lengths = lengths_in_samples(model.atom_length, 1.0)
    listed = lengths if isinstance(model.atom_length, (list, tuple)) else ()
    return Choices(int(model.n_atoms), max(lengths), float(model.penalty), delta, listed)


def fitted_model(terms: Terms, end: End, source: Any) -> BaseCDL:
    """Return the model of a run, fitted, with the subjects of a source."""
    model = terms.manifest.make_model()
    adopt(model, end, _choices_of(model), source, terms.settings)
    return model
