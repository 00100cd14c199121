"""Input of all kinds gives a valid result or a documented error; `make fuzz` tries a million."""

import random
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from benchmarks.stress.fuzz import engine
from benchmarks.stress.fuzz.choices import Choices, mutate
from benchmarks.stress.fuzz.suite import DOORS, run_door


@pytest.mark.parametrize("door", DOORS, ids=lambda door: f"{door.module}.{door.kind}")
def test_a_valid_result_or_a_documented_error(door, tmp_path):
    """Hypothesis draws the bytes, and makes them few where a case fails."""
    if not door.is_open:
        pytest.skip(f"{door.needs} is not installed")
    target = door.target(tmp_path)
    # The tests check types at run time, before the package itself can refuse one.
    documented = (*target.documented, TypeCheckError)
    outcomes = set()

    def attempt(content):
        with engine.strict():
            try:
                target.case(Choices(content))
                outcomes.add("accepted")
            except documented as error:
                outcomes.add(type(error).__name__)

    @settings(
        max_examples=40, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.binary(min_size=8, max_size=64))
    def search(content):
        attempt(content)

    search()
    # What Hypothesis draws differs by its version; that both kinds of outcome come must not.
    draws = random.Random(0)
    for _ in range(80):
        attempt(draws.randbytes(32))
    assert "accepted" in outcomes
    assert len(outcomes) > 1


class Odd:
    """A target that fails in one of the ways that are looked for."""

    name, documented = "odd", (KeyError,)

    def __init__(self, failure):
        self._failure = failure

    def case(self, draws):
        if draws.randrange(4) == 0:
            raise KeyError("documented")
        if draws.randrange(4) == 0:
            raise self._failure


@pytest.mark.parametrize("failure", [ValueError("x"), MemoryError(), RecursionError(), Warning()])
def test_an_undocumented_outcome_is_found_and_comes_again(failure):
    found = engine.fuzz(Odd(failure), 200)
    assert found.cases == 200
    assert found.accepted + sum(found.refusals.values()) < 200
    [content] = found.wrong.values()
    with pytest.raises(type(failure)):
        Odd(failure).case(Choices(content))


def test_a_case_that_hangs_is_found(monkeypatch):
    monkeypatch.setattr(engine, "SECONDS", 0.05)

    class Endless(Odd):
        def case(self, draws):
            while True:
                pass

    found = engine.fuzz(Endless(None), 1)
    assert "TooSlowError" in next(iter(found.wrong))


def test_cases_that_reach_new_branches_are_kept():
    if sys.gettrace() is not None:
        pytest.skip("somebody else is tracing")
    door = next(door for door in DOORS if door.kind == "FromArrays")
    found = run_door(door, 400)
    assert found.kept > 3
    assert found.branches > 100


@given(st.binary(max_size=30))
@settings(derandomize=True, database=None)
def test_what_was_drawn_gives_the_same_case_again(content):
    first = Choices(content)
    drawn = [first.random(), first.randrange(1000), first.choice("abc"), first.randbytes(9)]
    again = Choices(bytes(first.taken))
    same = [again.random(), again.randrange(1000), again.choice("abc"), again.randbytes(9)]
    assert same == drawn


def test_mutation_changes_little_but_something():
    draws, content = random.Random(0), bytes(range(64))
    changed = [mutate(content, draws, (b"token",)) for _ in range(300)]
    assert sum(one != content for one in changed) > 280
    assert max(map(len, changed)) < 64 + 40 * 32
