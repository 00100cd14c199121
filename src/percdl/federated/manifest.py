"""The manifest of a run, which every site signs: data, never code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError, model_validator

from percdl import __version__
from percdl.algorithm.settings import Huber, Settings
from percdl.estimators.base import BaseCDL
from percdl.estimators.fitting import End, adopt
from percdl.estimators.hyperparameters import Motif
from percdl.estimators.modelfile import array_names, decode_model, encode_parameters
from percdl.estimators.start import Choices, given_atoms, lengths_in_samples, make_settings
from percdl.estimators.validation import check_arguments
from percdl.exceptions import FederationError, InvalidParameterError, ModelFileError
from percdl.federated.identities import FEWEST_SITES, verify
from percdl.federated.layout import Layout, cover, layout_of
from percdl.federated.messages import (
    MOST_BYTES,
    MOST_HEAD,
    MOST_SITES,
    Array,
    Digest,
    Holdings,
    Joining,
    Name,
    Post,
    Signals,
    digest,
    parse,
)
from percdl.federated.privacy import Privacy, check_private
from percdl.signals.files import replace_file
from percdl.signals.headers import Strict, explain
from percdl.steps.coders import L1Coder

# Largest values that a site accepts: more would keep it busy for days.
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
# Candidates drawn for each atom of a first dictionary, times `n_restarts`.
N_DRAWN = 24
# Name of a first dictionary among the arrays of a manifest.
INIT = "parameter/init"
# Terms are checked before the channels are known.
ONE_CHANNEL = Signals(("",), ("",), 1.0, ())
_HEAD = "# Invitation to a federation of percdl. Compare the fingerprint by telephone:\n# {}\n"


class Manifest(Strict):
    """All terms of a run: members, model, schedule, seed and privacy.

    Every site checks it and signs it once, and refuses anything that is not in it.

    ``members`` are the public keys of the sites (Ed25519, as hexadecimal digits). ``parameters``
    are the constructor arguments of the estimator named ``model``, as in a model file; ``arrays``
    holds those that are arrays, such as a first dictionary. ``dataset`` names the recordings that
    all sites must use. With ``secure``, sums are masked.
    ``aggregate`` says who adds them and computes the next dictionary: every site, or the server.
    """

    run: Name
    members: Annotated[dict[Name, Digest], Field(min_length=2, max_length=MOST_SITES)]
    model: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any]
    dataset: Annotated[str, Field(max_length=100)] = ""
    secure: bool
    aggregate: Literal["sites", "server"] = "sites"
    min_subjects: Annotated[int, Field(ge=1)] = 1
    version: Annotated[str, Field(max_length=100)]
    privacy: Privacy | None = None
    arrays: dict[str, Array] = Field(repr=False)

    @model_validator(mode="after")
    def _is_possible(self) -> Manifest:
        n_members = len(self.members)
        if len(set(self.members.values())) < n_members:
            raise ValueError("two members have the same key, so one could sign for both")
        if self.secure and n_members < FEWEST_SITES:
            why = "each of two sites could compute the values of the other from the total"
            raise ValueError(f"secure sums need {FEWEST_SITES} members or more: {why}")
        if INIT not in self.arrays and (self.privacy is not None or self.aggregate == "server"):
            who = "differential privacy" if self.privacy is not None else "a server that adds sums"
            what = "pass `init` as an array, learned from recordings that need no protection"
            raise ValueError(f"{who} needs a public first dictionary: {what}")
        if self.privacy and self.privacy.shared_by > (n_members - 1 if self.secure else 1):
            why = "masked sums over more members than that: each one knows its own noise"
            raise ValueError(f"`Privacy(shared_by={self.privacy.shared_by})` needs {why}")
        return self

    @property
    def digest(self) -> str:
        """Checksum of the whole manifest."""
        return digest(json.dumps(self.model_dump(), sort_keys=True).encode())

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

    def make_model(self) -> BaseCDL:
        """Return the estimator, not fitted."""
        try:
            model = decode_model(self.model, self.parameters, self.arrays)
            if self.arrays.keys() != array_names(self.parameters):
                raise ValueError("its arrays are not those that it names")
        except (KeyError, TypeError, ValueError) as error:
            why = f"This is percdl {__version__}: all sites must run the same version"
            raise FederationError(f"The model is unknown ({error!r}). {why}.") from error
        check_agreeable(model)
        return model


class _File(Strict):
    server: Annotated[str, Field(max_length=1000)]
    authority: Annotated[str, Field(max_length=100_000)]
    manifest: Annotated[str, Field(max_length=MOST_HEAD)]


class Invitation(NamedTuple):
    """Invitation to a run: address of the server, its certificate authority (PEM), manifest."""

    server: str
    authority: str
    manifest: Manifest

    def write(self, path: Path) -> None:
        """Write the invitation as TOML; the manifest is JSON, since TOML has no null."""
        text = _HEAD.format(self.manifest.fingerprint) + f"server = {json.dumps(self.server)}\n"
        content = {"authority": self.authority, "manifest": json.dumps(self.manifest.model_dump())}
        text += "".join(f"{name} = '''\n{x.strip()}\n'''\n" for name, x in content.items())
        replace_file(path, text.encode())

    @classmethod
    def read(cls, content: dict[str, Any], path: Path) -> Invitation:
        """Return the invitation in the content of a TOML file; raises `FederationError`."""
        what = f"{path} is not an invitation to a run of percdl {__version__}"
        file = parse(_File, content, what)
        return cls(file.server, file.authority, parse(Manifest, file.manifest.encode(), what))


@dataclass(frozen=True)
class Terms:
    """Terms of a run after all members have joined: facts of each member, and common ones."""

    manifest: Manifest
    joined: dict[str, Joining]
    common: Holdings

    @cached_property
    def settings(self) -> Settings:
        """Settings of the fit."""
        return settings_of(self.manifest.make_model(), self.common.signals)

    @property
    def trial(self) -> Settings:
        """Settings to code with candidates of a first dictionary: without overlap."""
        return replace(self.settings, coder=self.settings.disjoint_coder)

    def layout(self, kind: str) -> Layout:
        """Return the layout of the posts of a kind of round; for "first", of one candidate."""
        settings = self.trial if kind == "first" else self.settings
        return layout_of(kind, settings, self.common.n_masks)


def agree(manifest: Manifest, posts: Mapping[str, Post]) -> Terms:
    """Return the terms of a run from the first posts of all members; raises where they differ."""
    what = "Site {} joined with a message that cannot be read"
    joined = {site: parse(Joining, p.head.facts, what.format(site)) for site, p in posts.items()}
    first = min(joined)
    signals = joined[first].holdings.signals
    for site in sorted(joined):
        own = joined[site].holdings.signals
        for name, a, b in zip(Signals._fields, signals, own, strict=True):
            if a != b:
                has = f"site {first} has {a!r}, and site {site} has {b!r}"
                what = f"The sites must agree on {name}: {has}. Process the recordings alike"
                raise FederationError(f"{what}, or leave one of them out.")
    if len({post.public for post in joined.values()}) < len(joined):
        raise FederationError("Two sites have announced the same key for the run.")
    n_masks = max(own.holdings.n_masks for own in joined.values())
    bounds = cover({site: own.holdings.bounds for site, own in joined.items()})
    terms = Terms(manifest, joined, Holdings(signals=signals, n_masks=n_masks, bounds=bounds))
    check_sizes(terms)
    return terms


def check_sizes(terms: Terms) -> None:
    """Raise if the sums of a round would be larger than a post, before any are computed."""
    model, vectors = terms.manifest.make_model(), {}
    if given_atoms(model.init) is None:
        vectors["first"] = N_DRAWN * model.n_restarts
    if terms.settings.schedule[1]:
        vectors["personal"] = 1
    for kind, n_vectors in vectors.items():
        size = 8 * n_vectors * sum(math.prod(shape) for _, shape in terms.layout(kind))
        if size > MOST_BYTES:
            sizes = f"{size / 1e6:.0f} MB, and a post at most {MOST_BYTES / 1e6:.0f} MB"
            what = "Agree on fewer or shorter atoms, or fewer restarts"
            raise FederationError(f"The sums of a {kind} round would have {sizes}. {what}.")


def propose(model: BaseCDL, run: str, members: dict[str, str], **terms: Any) -> Manifest:
    """Return the manifest of a federated fit of a model; ``members`` are public keys by site.

    ``terms`` are other fields of the manifest; ``secure`` is "auto" by default. Raises
    `InvalidParameterError` if the model depends on the recordings, or holds code.
    """
    check_agreeable(model)
    arrays: dict[str, np.ndarray] = {}
    if terms.get("secure", "auto") == "auto":
        terms["secure"] = len(members) >= FEWEST_SITES
    try:
        manifest = Manifest(
            run=run,
            members=dict(sorted(members.items())),
            model=type(model).__name__,
            parameters=encode_parameters(model, arrays),
            version=__version__,
            arrays=arrays,
            **terms,
        )
    except ModelFileError as error:
        raise InvalidParameterError(f"Sites agree on data, never on code: {error}") from error
    except ValidationError as error:
        raise InvalidParameterError(f"A federation is not possible: {explain(error)}.") from error
    if manifest.privacy is not None:
        check_private(settings_of(manifest.make_model()))
    return manifest


def check_agreeable(model: BaseCDL) -> None:
    """Raise if a model needs all recordings in one place, or too much work of a site."""
    check_arguments(model)
    motifs, lengths = (
        given if isinstance(given, (list, tuple)) else [given]
        for given in (model.init, model.atom_length)
    )
    hint = "Agree on a number; `percdl suggest` helps each site to propose one."
    find = 'Agree on an array, or let the sites find one: `init="auto"`.'
    for argument, depends, advice in (
        ("n_atoms", isinstance(model.n_atoms, str), hint),
        ("atom_length", any(isinstance(length, str) for length in lengths), hint),
        ("penalty", isinstance(model.penalty, str), hint),
        ("loss", model.loss == Huber(), "Agree on `Huber(delta)`, in signal units."),
        ("init", any(isinstance(motif, Motif) for motif in motifs), find),
    ):
        if depends:
            what = f"{type(model).__name__}({argument}={getattr(model, argument)!r})"
            why = "depends on the recordings, and no place has all of them"
            raise InvalidParameterError(f"`{what}` {why}. {advice}")
    settings = settings_of(model)
    asked = {name: getattr(settings, name, 0) for name in MOST}
    asked |= {"n_restarts": model.n_restarts, "parameters per atom": settings.n_params}
    if isinstance(settings.coder, L1Coder):
        asked["n_steps"] = settings.coder.n_steps
    for name, value in asked.items():
        if (value or 0) > MOST[name]:
            most = f"a site accepts at most {MOST[name]}"
            raise InvalidParameterError(f"The terms ask for {value} as `{name}`, and {most}.")


def settings_of(model: BaseCDL, source: Any = ONE_CHANNEL) -> Settings:
    """Return the settings of a fit to recordings of a source; by default, of one channel."""
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
