"""The checks of shapes and types that the tests run percdl with."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError
from type_checks import check, jaxtyped

checked = jaxtyped(typechecker=check)
Row = Float[np.ndarray, "n"]


def test_percdl_is_checked():
    from percdl.steps.ridge import solve_towards

    with pytest.raises(TypeCheckError):
        solve_towards("no", "array", "at", "all")


@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 4, 3), (3, 3, 4)])
def test_sizes_of_one_name_are_equal_in_arguments_and_result(sizes):
    """A result of another length is a fault, as is an argument."""

    @checked
    def add(a: Row, b: Row, *, longer: int) -> Row:
        return np.zeros(len(a) + longer)

    def call():
        return add(np.zeros(sizes[0]), np.zeros(sizes[1]), longer=sizes[2] - sizes[0])

    if len(set(sizes)) == 1:
        assert call().shape == (sizes[0],)
    else:
        with pytest.raises(TypeCheckError):
            call()


def test_sizes_are_forgotten_between_calls_also_after_an_error():
    @checked
    def length(a: Row, b: "Row | None" = None) -> int:
        return len(a)

    with pytest.raises(TypeCheckError):
        length(np.zeros(2), np.zeros(3))
    assert [length(np.zeros(n)) for n in (2, 3)] == [2, 3]


def test_a_function_within_another_is_checked_at_every_call_of_that():
    def outer(k):
        @checked
        def inner(x: "float") -> float:
            return x if k is None else k

        return inner

    assert [outer(k)(2.0) for k in (None, 1, 3.5)] == [2.0, 1, 3.5]
    for k in (None, 1.0):
        with pytest.raises(TypeCheckError):
            outer(k)("text")
    with pytest.raises(TypeCheckError):
        outer("text")(1.0)


def test_a_type_that_does_not_exist_when_a_function_is_made_may_be_anything():
    @checked
    def same(x: "Later", n: "int" = 0):
        return x

    assert same("anything") == "anything"
    with pytest.raises(TypeCheckError):
        same(1, "text")
