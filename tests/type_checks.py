"""What `jaxtyping.jaxtyped` checks, in a fraction of its time.

It makes two checkers of a function whenever the function is defined, so of one within another at
each call, and binds all arguments to their names at each call. Here, a piece of code has one
checker, and sizes are remembered only for functions that have shapes.
"""

import functools
from types import FunctionType
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, TypeCheckError
from jaxtyping._storage import pop_shape_memo, push_shape_memo

# The numeric tower lets `sfreq: float` take 100, as Python itself does.
check = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError))
# By the identity of the code: code of one text is equal, whatever the types in its signature.
_checkers: dict[int, FunctionType] = {}


def jaxtyped(*, typechecker):
    """Return a decorator that checks arguments and results of functions."""
    return functools.partial(_checked, typechecker=typechecker)


def _checked(decorated, typechecker):
    if isinstance(decorated, type):  # jaxtyping skips fields whose types are texts, as ours are
        return decorated
    hints = {
        name: _evaluate(hint, decorated.__globals__)
        for name, hint in decorated.__annotations__.items()
    }
    if all(hint is Any for hint in hints.values()):
        return decorated
    checker = _checkers.get(id(decorated.__code__))
    if checker is None:
        original = _copy(decorated, decorated.__kwdefaults__)
        original.__annotations__ = hints
        checker = _checkers[id(decorated.__code__)] = typechecker(original)
    else:
        checker = _copy(checker, {**checker.__kwdefaults__, "__beartype_func": decorated})
    if not any(map(_has_shape, hints.values())):
        return functools.update_wrapper(checker, decorated)

    @functools.wraps(decorated)
    def remembering(*args, **kwargs):
        push_shape_memo({})
        try:
            return checker(*args, **kwargs)
        finally:
            pop_shape_memo()

    return remembering


def _evaluate(hint, names):
    """Return the type that a text stands for; one that does not exist yet may be anything."""
    try:
        return eval(hint, names) if isinstance(hint, str) else hint
    except Exception:
        return Any


def _copy(function, defaults):
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = defaults
    return functools.update_wrapper(copy, function)


def _has_shape(hint) -> bool:
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(
        map(_has_shape, get_args(hint))
    )
