"""Programs: compiled once per shape, part of the programs that call them, the same bits always."""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import COMPILED, count_events
from numpy.testing import assert_array_equal

from benchmarks.stress.determinism import busy_machine
from percdl.steps.compilation import (
    CPU_OPTIONS,
    forget_programs,
    on_wait,
    program,
    side_by_side,
)
from percdl.steps.csc import encode
from percdl.steps.types import Signals

FOUR = np.arange(4, dtype=np.float32)


@pytest.fixture(autouse=True)
def no_files(monkeypatch):
    """Programs of tests are not worth keeping."""
    monkeypatch.setenv("PERCDL_NO_CACHE", "1")


def make_power():
    @program(static_argnames=("exponent",))
    def power(values, exponent, offset):
        return {"result": values**exponent + offset["by"]}

    return power


def test_static_arguments_and_shapes_have_programs_of_their_own():
    power = make_power()
    for exponent in (2, 3):
        for values in (FOUR, np.arange(5, dtype=np.float32)):
            for offset in (1.0, 2.0):  # not another shape
                found = power(values, exponent, {"by": offset})["result"]
                assert_array_equal(found, values**exponent + offset)
    assert power.n_compiled == 4


def test_arguments_can_be_named():
    power, offset = make_power(), {"by": np.float32(1)}
    expected = power(FOUR, 2, offset)["result"]
    for found in (power(FOUR, offset=offset, exponent=2), power(FOUR, 2, offset=offset)):
        assert_array_equal(found["result"], expected)
    assert power.n_compiled == 1


@pytest.mark.parametrize("is_double", [False, True])
def test_precision_is_that_of_the_caller(is_double):
    power = make_power()
    third = np.full(4, 1 / 3)
    with jax.enable_x64(is_double):
        found = power(third, 1, {"by": np.zeros(4)})["result"]
        dtype = np.float64 if is_double else np.float32
        assert found.dtype == dtype
        assert_array_equal(found, third.astype(dtype))
        # What is meant is the precision at the call, whatever was compiled before.
        assert power.n_compiled == 1
    with jax.enable_x64(not is_double):
        assert power(third, 1, {"by": np.zeros(4)})["result"].dtype != dtype
    assert power.n_compiled == 2


def test_a_program_within_another_is_part_of_it():
    inner = program(lambda x: 2 * x)
    outer = program(lambda x: inner(x) + 1)
    assert_array_equal(outer(FOUR), 2 * FOUR + 1)
    assert (inner.n_compiled, outer.n_compiled) == (0, 1)
    assert_array_equal(jax.grad(lambda x: outer(x).sum())(FOUR), np.full(4, 2))


def test_what_was_prepared_is_not_compiled_again():
    power = make_power()
    real = jax.ShapeDtypeStruct((4,), "float32")
    number = {"by": jax.ShapeDtypeStruct((), "float32")}
    assert not power.is_compiled(real, 2, number)
    power.prepare(real, 2, number)
    executable = power.executable(real, 2, number)
    assert power.is_compiled(FOUR, 2, {"by": np.float32(1)})
    assert not power.is_compiled(FOUR, 3, {"by": np.float32(1)})
    with count_events() as events:
        assert_array_equal(power(FOUR, 2, {"by": np.float32(1)})["result"], FOUR**2 + 1)
    assert events[COMPILED] == 0
    assert power.executable(FOUR, 2, {"by": np.float32(1)}) is executable


def test_waiting_is_told_by_name_and_only_when_something_is_compiled():
    told = []
    power = make_power()
    with on_wait(told.append):
        for _ in range(2):
            power(FOUR, 2, {"by": 1.0})
    power(FOUR, 3, {"by": 1.0})
    assert told == ["power"]


def test_a_program_that_cannot_be_traced_fails_every_time():
    """And leaves nothing behind that would be mistaken for a program."""
    broken = program(lambda x: x.reshape(5))
    for _ in range(2):
        with pytest.raises(TypeError, match="reshape"):
            broken(FOUR)
    assert broken.n_compiled == 0


def test_forgotten_programs_are_compiled_again():
    power = make_power()
    before = power(FOUR, 2, {"by": 1.0})["result"]
    forget_programs()
    assert power.n_compiled == 0
    assert_array_equal(power(FOUR, 2, {"by": 1.0})["result"], before)


def test_what_the_environment_says_of_xla_stays():
    flags = os.environ.get("XLA_FLAGS", "")
    assert not [name for name in CPU_OPTIONS if name in flags]


def test_a_busy_machine_does_not_change_a_bit():
    """Few long recordings: how many threads share their Fourier transforms once decided it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 12_288, 3)).astype(np.float32)
    signals = Signals(jnp.asarray(x), jnp.full(4, 12_288, jnp.int32), None)
    atoms = jnp.asarray(rng.standard_normal((1, 1, 100, 3)), jnp.float32)
    code = program(encode)
    with busy_machine():
        codes = [
            jax.tree.map(np.asarray, code(signals, atoms, jnp.float32(0.5))) for _ in range(60)
        ]
    assert len({b"".join(part.tobytes() for part in jax.tree.leaves(one)) for one in codes}) == 1


@pytest.mark.parametrize("n_items", [0, 1, 50])
def test_work_side_by_side_is_in_order_and_in_the_precision_of_the_caller(n_items):
    with jax.enable_x64(True):
        found = [*side_by_side(lambda n: (n, jnp.asarray(0.5).dtype), range(n_items))]
    assert found == [(n, "float64") for n in range(n_items)]


def test_nothing_is_begun_after_an_error():
    begun = []

    def work(n):
        begun.append(n)
        if n == 3:
            raise LookupError(n)
        time.sleep(0.01)

    with pytest.raises(LookupError):
        [*side_by_side(work, range(500))]
    assert len(begun) < 500
