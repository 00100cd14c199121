"""Agreement that coordinator and sites make before a run: data, never code."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from percdl import __version__
from percdl.algorithm.results import Results
from percdl.algorithm.settings import Huber, Settings
from percdl.estimators.base import BaseCDL
from percdl.estimators.fitting import End, adopt
from percdl.estimators.hyperparameters import Motif
from percdl.estimators.modelfile import array_names, decode_model, encode_parameters
from percdl.estimators.start import Choices, make_settings
from percdl.estimators.validation import check_arguments
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.identities import FEWEST_SITES
from percdl.federated.messages import (
    Signals,
    Strict,
    TermsContent,
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


class Agreement(Strict):
    """Terms that a coordinator proposes and that a site accepts or refuses.

    ``parameters`` are the constructor arguments of the estimator named ``model``, as in a model
    file; ``arrays`` holds those that are arrays, such as a first dictionary. With ``secure``
    "auto", sums are masked from three sites on. ``privacy`` are the arguments of `Privacy`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    model: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any]
    secure: bool | Literal["auto"]
    min_sites: Annotated[int, Field(ge=2)]
    min_subjects_per_site: Annotated[int, Field(ge=1)]
    version: Annotated[str, Field(max_length=100)]
    privacy: dict[str, Annotated[float, Field(allow_inf_nan=True)] | int | None] | None
    arrays: dict[str, np.ndarray] = Field(default={}, exclude=True, repr=False)

    @classmethod
    def from_message(cls, facts: Any, arrays: dict[str, np.ndarray]) -> Agreement:
        """Read an agreement from a message or a file; raises for anything else."""
        try:
            return parse(cls, facts).model_copy(update={"arrays": arrays})
        except ValueError as error:
            raise _unknown(f"This is not an agreement of percdl ({explain(error)})") from error

    @property
    def digest(self) -> str:
        """Checksum of the whole agreement, arrays included."""
        return checksum(self.model_dump(), self.arrays)

    def masks(self, n_sites: int) -> bool:
        """Return whether sums over this number of sites are masked."""
        return self.secure is True or (self.secure == "auto" and n_sites >= FEWEST_SITES)

    def make_privacy(self) -> Privacy | None:
        """Return the terms of differential privacy; None if sums are exact."""
        try:
            return None if self.privacy is None else Privacy(**self.privacy)  # pyright: ignore[reportArgumentType]
        except (TypeError, InvalidParameterError) as error:
            raise _unknown(f"The agreement has unknown terms of privacy ({error})") from error

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
            raise _unknown(f"The model of the agreement is unknown ({error!r})") from error
        check_agreeable(model)
        return model


def _unknown(what: str) -> FederationError:
    return FederationError(
        f"{what}. This is percdl {__version__}: coordinator and sites must run the same version."
    )


class Terms(TermsContent):
    """Terms of a run after all sites have joined, with the agreement that they name."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    accepted: Agreement = Field(exclude=True, repr=False)

    @classmethod
    def of(cls, accepted: Agreement, /, **content: Any) -> Terms:
        """Return terms under an agreement."""
        return cls(**{**content, "agreement": accepted.digest}, accepted=accepted)

    @cached_property
    def settings(self) -> Settings:
        """Settings of the fit."""
        return self.accepted.make_settings(self.signals)


def propose(
    model: BaseCDL,
    secure: bool | str,
    min_sites: int,
    min_subjects_per_site: int,
    privacy: Privacy | None = None,
) -> Agreement:
    """Return the agreement for a federated fit of a model.

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
    agreement = Agreement(
        model=type(model).__name__,
        parameters=parameters,
        secure=secure,  # pyright: ignore[reportArgumentType]
        min_sites=min_sites,
        min_subjects_per_site=min_subjects_per_site,
        version=__version__,
        privacy=None if privacy is None else asdict(privacy),
        arrays={name: np.asarray(array, float) for name, array in arrays.items()},
    )
    if privacy is not None:
        if not arrays:
            raise InvalidParameterError(
                "Differential privacy needs a public first dictionary: pass `init` as an array, "
                "learned from recordings that need no protection."
            )
        check_private(agreement.make_settings())
    return agreement


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
    return Choices(int(model.n_atoms), int(model.atom_length), float(model.penalty), delta)


def fitted_model(terms: Terms, end: End, source: Any) -> BaseCDL:
    """Return the model of a run, fitted, with the subjects of a source."""
    model = terms.accepted.make_model()
    adopt(model, end, _choices_of(model), source, terms.settings)
    return model


def no_results(settings: Settings) -> Results:
    """Return results over no subjects."""
    none = np.zeros(0, int)
    params = np.zeros((0, settings.n_atoms, settings.n_params))
    counts = np.zeros((0, settings.n_atoms), int)
    return Results(params, counts, none, none, none, np.zeros(0), none, np.zeros(0))
