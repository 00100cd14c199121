"""The hyper-parameters of PerCDL, PopCDL and IndCDL, each declared once."""

# Annotations are not postponed here: they are read at run time.
import functools
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, TypeVar, dataclass_transform

import numpy as np
from annotated_types import Ge, Lt, MinLen, Predicate
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from percdl.algorithm.settings import Algorithm, Huber
from percdl.exceptions import InvalidParameterError
from percdl.parameters import (
    TOO_LARGE,
    Auto,
    Count,
    Doc,
    Duration,
    Nonnegative,
    Noun,
    Share,
    documented,
)
from percdl.steps.coders import L0Coder, L1Coder

Cls = TypeVar("Cls", bound=type)
Model = TypeVar("Model", bound="HyperParameters")

SHORTEST = 3
LARGEST_SEED = 2**32 - 1
Length = Annotated[int, Ge(SHORTEST), Lt(TOO_LARGE)] | Duration
# Arguments of version 0.1 and what replaces them.
ROUNDS_OF_0_1 = {
    "n_init": "population_rounds",
    "n_perso": "personal_rounds",
    "n_solver_steps": "solver_steps",
}
_ALGORITHM = "`algorithm=Algorithm({}=...)`"
_CODER = "`coder=L0Coder({}=...)`"
RENAMED = {
    "transform": "`transformation`",
    "penalty_ratio": '`penalty` as a share, such as `penalty="10%"`',
    "huber_delta": "`loss=Huber(delta)`",
    **{old: _ALGORITHM.format(new) for old, new in ROUNDS_OF_0_1.items()},
    **{field.name: _ALGORITHM.format(field.name) for field in fields(Algorithm)},
    **{field.name: _CODER.format(field.name) for field in fields(L0Coder)},
}
ATTRIBUTES = """Attributes
----------
dictionary_ : array (K, L, P)
    The common atoms, at unit norm.
params_ : array (S, K, M)
    The personalization parameters; NaN for subjects without the atom.
personal_dictionary_, warps_ : array (S, K, L, P), array (S, K, C, L)
    The personal atoms, and the warps psi at the samples of the atom, in samples; C = 1 warp for
    all channels, one for each, or none if the transformation does not warp time.
events_ : DataFrame
    Columns subject, atom, onset_sample, onset_seconds, amplitude; duration_samples and
    duration_seconds with ``L0Coder(stretch=...)`` or atoms of different lengths.
n_activations_ : array (S, K)
    Activations per subject and atom.
history_ : DataFrame
    Columns phase, round, step, objective, seconds; one row per half-step.
n_atoms_, atom_length_, penalty_ : int, int, float
    The values in use, given or chosen ("auto"); lengths in samples.
atom_lengths_ : tuple of int
    Length of each atom in samples; all the same unless ``atom_length`` is a list.
objective_, stop_reason_ : float, str
    Objective at the end, and why the fit ended.
processing_ : tuple of str
    The processing of the recordings before the fit, see `Cohort.processing`.
suspects_ : DataFrame or None
    Subjects with doubtful results, and the reason: subject, kind, message. None after `load`.
kinds_path_ : DataFrame or None
    With ``n_atoms="auto"``, how the number of atoms was found: step, n_atoms, objective,
    activations of each atom; one row per fit. None after `load`."""


@dataclass(frozen=True)
class Motif:
    """The segment of ``subject`` that starts at sample ``onset``, used as a first atom.

    Parameters
    ----------
    subject, onset : str, int
        The recording, and the first sample in it.

    Examples
    --------
    >>> Motif("P01", onset=120)
    Motif(subject='P01', onset=120)
    """

    subject: str
    onset: int

    def cut(self, cohort: Any, atom_length: int) -> np.ndarray:
        """Return the segment, array (L, P)."""
        try:
            record = cohort[self.subject]
        except KeyError as error:
            raise InvalidParameterError(f"`init={self!r}`: {error.args[0]}") from error
        segment = record.values[self.onset : self.onset + atom_length]
        if self.onset < 0 or len(segment) < atom_length or not np.isfinite(segment).all():
            raise InvalidParameterError(
                f"`init={self!r}` needs {atom_length} observed samples from {self.onset} on, but "
                f"subject {self.subject!r} has {record.n_times} samples"
                f"{' with missing values there' if len(segment) == atom_length else ''}. "
                "Choose another onset or subject."
            )
        return np.asarray(segment, float)


@dataclass_transform()
def estimator(cls: Cls) -> Cls:
    """Make a class an estimator: constructor and docstring from the declared hyper-parameters."""
    made = documented(dataclass(eq=False, repr=False)(cls), ATTRIBUTES)
    store: Callable[..., None] = made.__init__

    @functools.wraps(store)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _refuse_old_names(cls.__name__, kwargs)
        store(self, *args, **kwargs)

    made.__init__ = __init__
    return made


def _refuse_old_names(model: str, names: Any) -> None:
    for name in names:
        if name in RENAMED:
            raise TypeError(
                f"`{model}` has no argument `{name}` since version 0.2. Use {RENAMED[name]}."
            )


def _is_transform(value: Any) -> bool:
    from percdl.transforms import Transform

    return value is None or isinstance(value, Transform)


def _is_seed(value: Any) -> bool:
    if isinstance(value, np.random.Generator):
        return True
    try:
        check_random_state(value)
    except ValueError:
        return False
    return True


@estimator
class HyperParameters(BaseEstimator):
    """The arguments of all estimators, and how they are read and changed."""

    n_atoms: Annotated[
        Count | Auto,
        Doc(
            'K, the number of atoms; "auto" adds atoms while they explain enough, then joins '
            "copies and divides atoms whose cycles form two groups (docs/kinds.md)."
        ),
    ] = "auto"
    atom_length: Annotated[
        Length
        | Annotated[
            list[Length] | tuple[Length, ...], MinLen(1), Noun("list", "a list of such lengths")
        ]
        | Auto,
        Doc(
            'L, in samples or as a duration ("0.6s", "600ms"); "auto" reads it off the periods, '
            "as `suggest_atom_length` does. A list has one length for each atom. The dictionary "
            "then holds all of them at the samples of the longest, and ``atom_lengths_`` says how "
            "long they last."
        ),
    ] = "auto"
    transformation: Annotated[
        Any,
        Predicate(_is_transform),
        Noun("Transform", "a Transform, e.g. `TimeWarp()`"),
        Doc("The f of the paper: how subjects differ; by default ``TimeWarp()``."),
    ] = None
    penalty: Annotated[
        Nonnegative | Share | Auto,
        Doc(
            "lambda, the price of one activation, in squared signal units, exactly as in Eq. 1; "
            'without rescaling. "10%" is a share of the largest useful price: the energy that the '
            'best activation of the first dictionary explains. "auto" chooses by BIC '
            "(docs/choosing.md)."
        ),
    ] = "auto"
    _: KW_ONLY
    coder: Annotated[
        L0Coder | L1Coder | None,
        Doc(
            "How activations are found; by default ``L0Coder()``: exactly, at a price for each "
            "and without overlap. With an `L1Coder` they may overlap and ``penalty`` is the price "
            "of a unit of amplitude."
        ),
    ] = None
    loss: Annotated[
        Literal["squared", "relative"] | Huber,
        Doc(
            "How residuals count: squared, as in the paper; squared and relative to the standard "
            "deviation of the recording, so that all people count alike and have the same penalty "
            "whatever their scale; or linearly beyond a threshold (``Huber()``), so that impulses "
            "and artefacts do not bend the atoms."
        ),
    ] = "squared"
    init: Annotated[
        Any,
        Noun('"auto", array (K, L, P), Motif or list of Motif', "a first dictionary"),
        Doc("The first dictionary: chosen from the data, given, or cut from named subjects."),
    ] = "auto"
    n_restarts: Annotated[
        Count,
        Doc(
            'With ``init="auto"``, the number of first dictionaries to try; the lowest objective '
            "wins.",
            "Algorithm",
        ),
    ] = 1
    algorithm: Annotated[
        Algorithm | None,
        Doc(
            "Rounds, searches and solvers; by default ``Algorithm()``. `Algorithm.as_printed` is "
            "the algorithm of the paper.",
            "Algorithm",
        ),
    ] = None
    dtype: Annotated[
        Literal["float32", "float64"], Doc("Arithmetic on the device.", "Technical")
    ] = "float32"
    random_state: Annotated[
        Any,
        Predicate(_is_seed),
        Noun(
            "int, Generator, RandomState or None",
            f"None, an integer from 0 to {LARGEST_SEED}, or a NumPy Generator or RandomState",
        ),
        Doc("Seed of all random draws.", "Technical"),
    ] = None
    progress: Annotated[
        bool | Auto, Doc('Show a progress bar; "auto" only on a terminal.', "Technical")
    ] = "auto"
    _default_transformation = "TimeWarp"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments; if deep, also those of the nested objects: ``algorithm__tol``."""
        own = super().get_params(deep=False)
        nested = {
            f"{name}__{part}": getattr(value, part)
            for name, value in own.items()
            for part in _arguments(value)
        }
        return own | nested if deep else own

    def set_params(self: Model, **params: Any) -> Model:
        """Change arguments; ``transformation__depth=3`` and the like make a new nested object."""
        own = {name: value for name, value in params.items() if "__" not in name}
        _refuse_old_names(type(self).__name__, own)
        super().set_params(**own)
        for path in params.keys() - own.keys():
            name, _, part = path.partition("__")
            if name not in super().get_params(deep=False):
                super().set_params(**{path: params[path]})  # raises as scikit-learn does
            value = self.resolve(name)
            if part not in _arguments(value):
                raise InvalidParameterError(
                    f"`{value!r}` has no argument {part!r}, only "
                    f"{', '.join(_arguments(value)) or 'none at all'}."
                )
            setattr(self, name, replace(value, **{part: params[path]}))
        return self

    def resolve(self, name: str) -> Any:
        """Return an argument, or its default object for None, such as ``Algorithm()``."""
        value = getattr(self, name)
        if value is None and name == "transformation":
            from percdl import transforms

            return getattr(transforms, self._default_transformation)()
        defaults = {"coder": L0Coder(), "algorithm": Algorithm()}
        return defaults.get(name) if value is None else value


def _arguments(value: Any) -> list[str]:
    is_nested = is_dataclass(value) and not isinstance(value, type)
    return [field.name for field in fields(value) if field.init] if is_nested else []
