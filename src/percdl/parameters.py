"""Declare hyper-parameters once: name, type, range, default, meaning and group.

Every hyper-parameter is a field of a dataclass, with a type that says which values are allowed and
a `Doc` that says what it means:

    n_atoms: Annotated[Count | Auto, Doc("Number of atoms.")] = "auto"

Validation (`check_parameters`), the Parameters section of docstrings (`documented`), options of
the command line and headers of files (`parameters_of`) follow from the declaration. Files with
such classes do not postpone annotations, because they are read at run time.
"""

import inspect
import re
from dataclasses import MISSING, dataclass, fields
from functools import cache
from textwrap import fill, indent
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from annotated_types import Ge, Gt, Lt, Predicate

from percdl.exceptions import InvalidParameterError

Cls = TypeVar("Cls", bound=type)

# Samples, activations and rows are counted in 32 bits.
TOO_LARGE = 2**31
# Longer durations are typing errors: a billion seconds are thirty years.
LONGEST = 1e9
DOC_WIDTH = 90
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)\s*"
_DURATION = re.compile(rf"{_NUMBER}(s|ms)")
_SHARE = re.compile(rf"{_NUMBER}%")


@dataclass(frozen=True)
class Doc:
    """The meaning of a hyper-parameter, and the group it is listed in."""

    meaning: str
    group: str = "Model"


@dataclass(frozen=True)
class Noun:
    """The name of a type in documentation, and its description in error messages."""

    name: str
    description: str


class Parameter(NamedTuple):
    """One declared hyper-parameter."""

    name: str
    kind: Any  # the type of its values, with ranges as `annotated_types`
    default: Any
    meaning: str
    group: str  # "Model", "Algorithm" or "Technical"

    @property
    def type_name(self) -> str:
        """The type as numpydoc writes it: ``int or "auto"``."""
        names = [_noun(kind).name for kind in _alternatives(self.kind) if kind is not NoneType]
        return _join(names) + (", optional" if self.default is None else "")

    @property
    def needed(self) -> str:
        """The values allowed, for error messages: ``an integer of at least 1 or 'auto'``."""
        return _join([_noun(kind).description for kind in _alternatives(self.kind)])

    def accepts(self, value: Any) -> bool:
        """Whether a value is allowed. NumPy's scalars count as Python's."""
        return _is_allowed(self.kind, value)


def is_duration(text: str) -> bool:
    """Whether a text is a duration: ``"0.6s"``, ``"600ms"``."""
    found = _DURATION.fullmatch(text.strip())
    return found is not None and float(found[1]) <= LONGEST


def in_samples(value: int | str, sfreq: float) -> int:
    """Return a duration, or a number of samples, as a number of samples.

    >>> in_samples("1.0s", 100), in_samples("250ms", 100), in_samples(64, 100)
    (100, 25, 64)
    """
    if not isinstance(value, str):
        return int(value)
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise InvalidParameterError(
            f"{value!r} is not a duration. Write seconds ('1.0s') or milliseconds ('250ms')."
        )
    return round(float(found[1]) * sfreq / (1000 if found[2] == "ms" else 1))


def share_of(value: Any) -> float | None:
    """Return a share in percent, above 0 and up to 100, as a number; None for any other value.

    >>> share_of("10%"), share_of("0%"), share_of(0.5)
    (0.1, None, None)
    """
    found = _SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(found[1]) / 100 if found and 0 < float(found[1]) <= 100 else None


Auto = Literal["auto"]
Amount = Annotated[int, Ge(0), Lt(TOO_LARGE)]
Count = Annotated[int, Ge(1), Lt(TOO_LARGE)]
Nonnegative = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
Duration = Annotated[
    str, Predicate(is_duration), Noun("duration", "a duration such as '0.6s' or '600ms'")
]
Share = Annotated[
    str, Predicate(lambda x: share_of(x) is not None), Noun("share", "a share such as '10%'")
]


@cache
def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """Return the declared hyper-parameters of a class, in the order of its constructor."""
    found = []
    for field in fields(cls):
        default = None if field.default is MISSING else field.default
        for doc in _metadata(field.type, Doc) if field.init else ():
            found.append(Parameter(field.name, field.type, default, doc.meaning, doc.group))
    return tuple(found)


def check_parameters(owner: Any) -> None:
    """Raise `InvalidParameterError` if a hyper-parameter has an invalid value.

    Values that declare hyper-parameters themselves, such as an `Algorithm`, are checked as well.
    """
    for parameter in parameters_of(type(owner)):
        value = getattr(owner, parameter.name)
        if not parameter.accepts(value):
            raise InvalidParameterError(
                f"`{type(owner).__name__}({parameter.name}={value!r})` must be {parameter.needed}."
            )
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
            check_parameters(value)


def checked(owner: Any) -> Any:
    """Return a dataclass; raise `ValueError` if a field is not of its type."""
    kinds = _hints(type(owner))
    for name, value in vars(owner).items():
        if not _is_allowed(kinds[name], value):
            raise ValueError(f"`{type(owner).__name__}({name}={value!r})` is of a wrong type")
    return owner


def documented(cls: Cls, more: str = "") -> Cls:
    """Add the Parameters section, as declared, to the docstring of a dataclass.

    It comes first of the sections; then come ``more`` sections, Examples and the like.
    """
    lines = ["Parameters", "----------"]
    for parameter in parameters_of(cls):
        meaning = indent(fill(parameter.meaning, DOC_WIDTH), "    ")
        lines += [f"{parameter.name} : {parameter.type_name}", meaning]
    sections = "\n".join(lines) + (f"\n\n{more}" if more else "")
    text = inspect.cleandoc(cls.__doc__ or "")
    first = re.search(r"^\w+\n-+$", text, re.MULTILINE)
    end = first.start() if first else len(text)
    cls.__doc__ = f"{text[:end].rstrip()}\n\n{sections}\n\n{text[end:]}"
    return cls


@cache  # evaluating annotations compiles code; reading more files should compile nothing
def _hints(owner: type) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _is_allowed(kind: Any, value: Any) -> bool:
    from pydantic import ValidationError

    try:
        _adapter(kind).validate_python(value.item() if isinstance(value, np.generic) else value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(kind, config=ConfigDict(strict=True, allow_inf_nan=False))


def _metadata(kind: Any, wanted: type) -> list[Any]:
    found = getattr(kind, "__metadata__", ())
    return [item for item in found if isinstance(item, wanted)]


def _alternatives(kind: Any) -> list[Any]:
    """Return the members of a union, without the `Doc` of the whole."""
    rest = tuple(item for item in _metadata(kind, object) if not isinstance(item, Doc))
    kind = Annotated[_plain(kind), *rest] if rest else _plain(kind)
    return list(get_args(kind)) if get_origin(kind) in (Union, UnionType) else [kind]


def _plain(kind: Any) -> Any:
    return kind.__origin__ if hasattr(kind, "__metadata__") else kind


def _noun(kind: Any) -> Noun:
    for noun in _metadata(kind, Noun):
        return noun
    plain = _plain(kind)
    if get_origin(plain) is Literal:
        choices = get_args(plain)
        if len(choices) == 1:
            return Noun(f'"{choices[0]}"', repr(choices[0]))
        names = ", ".join(f'"{choice}"' for choice in choices)
        return Noun(f"{{{names}}}", f"one of {', '.join(map(repr, choices))}")
    words = {int: "an integer", float: "a finite number", bool: "True or False", NoneType: "None"}
    ranges = [
        *(f"of at least {bound.ge}" for bound in _metadata(kind, Ge)),
        *(f"above {bound.gt}" for bound in _metadata(kind, Gt)),
        *(f"below {'2**31' if x.lt == TOO_LARGE else x.lt}" for x in _metadata(kind, Lt)),
    ]
    name = words.get(plain, f"`{plain.__name__}(...)`")
    return Noun(plain.__name__, f"{name} {' and '.join(ranges)}".rstrip())


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
