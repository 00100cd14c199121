"""Executables on disk: loaded by later processes, and never from a place not to be trusted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import COMPILED, TRACED, count_events
from numpy.testing import assert_allclose, assert_array_equal

from percdl.steps import compilation, executables
from percdl.steps.compilation import program
from percdl.transforms import Compose, Custom, Free, Gain, Identity, Transform

GAIN = Gain()
MATRIX = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32)


def run(transform: Transform = GAIN):
    """Run a program that this process has not compiled; return the results and the events."""

    @program(static_argnames=("transform",))
    def square(matrix, transform):
        params = jnp.ones(transform.n_params(*matrix.shape))
        return matrix @ matrix, transform.apply(params, matrix)

    with count_events() as events:
        found = square(MATRIX, transform)
    return [np.asarray(x) for x in found], events


class AtOnce:
    """Does what others do in the background."""

    def submit(self, function, *args):
        function(*args)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of executables, empty at first."""
    monkeypatch.setenv("PERCDL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("PERCDL_NO_CACHE", raising=False)
    monkeypatch.setattr(compilation, "_workers", AtOnce)
    executables._surroundings.cache_clear()
    yield tmp_path / "executables"
    executables._surroundings.cache_clear()


def names(folder):
    return {path.name for path in folder.iterdir()}


def assert_compiled(expected, is_compiled=True):
    """Run, and say whether the program was compiled or loaded; the results are the same bits."""
    found, events = run()
    assert (events[COMPILED] > 0) == is_compiled
    assert (events[TRACED] > 0) == is_compiled
    for ours, theirs in zip(found, expected, strict=True):
        assert_array_equal(ours, theirs)


@pytest.fixture
def stored(folder):
    """The only executable of the folder, and its results."""
    expected, events = run()
    assert events[COMPILED] > 0
    (path,) = folder.iterdir()
    assert_compiled(expected, is_compiled=False)
    return path, expected


def test_another_process_loads_what_one_has_written():
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, __file__],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(2)
    )
    assert first["traced"] > 0
    assert first["compiled"] > 0
    assert (second["traced"], second["compiled"]) == (0, 0)
    assert second["bits"] == first["bits"]


@pytest.mark.parametrize("place", [0, 20, 40, -1])
def test_a_damaged_file_is_not_loaded(stored, place):
    path, expected = stored
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert_compiled(expected)
    assert_compiled(expected, is_compiled=False)  # it was replaced


@pytest.mark.parametrize("content", [b"", b"nothing of the kind"])
def test_a_file_of_something_else_is_not_loaded(stored, content):
    path, expected = stored
    path.write_bytes(content)
    assert_compiled(expected)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_to_is_not_loaded(stored, mode):
    path, expected = stored
    path.chmod(mode)
    assert_compiled(expected)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_nothing_is_loaded_from_a_folder_that_others_can_write_to(stored, mode, caplog):
    path, expected = stored
    path.parent.chmod(mode)
    executables._warn_untrusted.cache_clear()
    assert_compiled(expected)
    assert_compiled(expected)
    assert caplog.text.count("others can write to it") == 1


@pytest.mark.skipif(os.name != "posix", reason="owners of POSIX")
def test_nothing_is_loaded_from_a_folder_of_somebody_else(stored, monkeypatch):
    _, expected = stored
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert_compiled(expected)


def test_symbolic_links_are_not_followed(stored, tmp_path):
    path, expected = stored
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert_compiled(expected)
    # Nor is the folder one.
    path.parent.rename(tmp_path / "another")
    path.parent.symlink_to(tmp_path / "another")
    assert_compiled(expected)


def test_a_folder_that_cannot_be_made_is_no_reason_to_fail(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PERCDL_CACHE_DIR", str(tmp_path / "file"))
    assert run()[1][COMPILED] > 0


def test_nothing_is_written_or_read_without_a_cache(stored, monkeypatch):
    path, expected = stored
    monkeypatch.setenv("PERCDL_NO_CACHE", "1")
    assert_compiled(expected)
    path.unlink()
    assert_compiled(expected)
    assert not names(path.parent)


def test_what_was_not_used_for_longest_is_deleted(folder, monkeypatch):
    paths = []
    for age, transform in enumerate((Gain(), Identity(), Free())):
        run(transform)
        (path,) = set(folder.iterdir()) - set(paths)
        os.utime(path, (1000 + age, 1000 + age))
        paths.append(path)
    run(Gain())  # the oldest is used again
    most = sum(path.stat().st_size for path in paths)
    monkeypatch.setattr(executables, "MOST_BYTES", most)
    run(Compose(Gain()))
    left = set(folder.iterdir())
    assert paths[0] in left
    assert paths[1] not in left
    assert sum(path.stat().st_size for path in left) <= most


def test_a_failure_to_write_leaves_nothing_behind(folder, monkeypatch):
    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(executables.os, "replace", fail)
    assert run()[1][COMPILED] > 0
    assert not names(folder)


def test_functions_of_users_are_never_stored(folder):
    """Two functions of the same name need not do the same."""
    louder = Custom(lambda phi, a: phi * (1 + a[0]), 1)
    for transform in (louder, Compose(louder, Gain())):
        assert executables.describe("name", (transform,)) is None
        assert executables.load(None) is None
    Path(folder).mkdir(exist_ok=True)
    fresh = program(lambda x, f: f.apply(jnp.ones(1), x), static_argnames=("f",))
    fresh(MATRIX, louder)
    assert not names(folder)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="LAPACK is used on a CPU only")
def test_programs_with_lapack_are_not_stored(folder):
    """A process that has not loaded LAPACK could not run them."""
    Path(folder).mkdir(exist_ok=True)
    assert_allclose(program(jnp.linalg.cholesky)(MATRIX), np.linalg.cholesky(MATRIX), rtol=1e-6)
    assert not names(folder)


def test_names_tell_apart_all_that_matters(folder, monkeypatch):
    run()
    run(Gain())
    assert len(names(folder)) == 1
    run(Compose(Gain()))
    assert len(names(folder)) == 2
    with jax.enable_x64(True):
        run()
    assert len(names(folder)) == 3
    monkeypatch.setattr(executables, "_sources", lambda: "other sources")
    executables._surroundings.cache_clear()
    assert run()[1][COMPILED] > 0
    assert len(names(folder)) == 4


def test_sources_are_those_of_the_programs(tmp_path, monkeypatch):
    package = tmp_path / "percdl"
    for part in ("steps", "transforms", "algorithm", "report"):
        (package / part).mkdir(parents=True)
        (package / part / "code.py").write_text("1")
    monkeypatch.setattr(executables, "__file__", str(package / "steps" / "executables.py"))
    before = executables._sources()
    (package / "report" / "code.py").write_text("2")
    assert executables._sources() == before
    (package / "algorithm" / "code.py").write_text("2")
    assert executables._sources() != before


if __name__ == "__main__":
    results, counted = run()
    compilation._workers().shutdown()
    bits = [x.tobytes().hex() for x in results]
    told = {"traced": counted[TRACED], "compiled": counted[COMPILED], "bits": bits}
    sys.stdout.write(json.dumps(told))
