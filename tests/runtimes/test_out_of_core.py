"""A fit from shards is the fit in memory, and what it writes is gone when it ends."""

import numpy as np
import pytest
from small_models import assert_same_fit, make, spaced_recordings

from percdl import Cohort, Huber, L1Coder, Recording, write_shards
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import InvalidParameterError, InvalidRecordingError, UnreadableFileError
from percdl.runtimes.partitioned import OutOfCore

LENGTHS = (97, 110, 118, 128, 101, 125, 99, 120, 104, 127)
ROUNDING = {"rtol": 1e-9, "atol": 1e-9}


def double(**options):
    return make("PerCDL", dtype="float64", **options)


def make_cohort(**options):
    return Cohort.from_arrays(spaced_recordings(3, LENGTHS, **options), sfreq=50)


@pytest.fixture(scope="module")
def cohort():
    return make_cohort()


@pytest.fixture(scope="module")
def in_memory(cohort):
    return double().fit(cohort)


@pytest.fixture
def on_disk(cohort, tmp_path):
    return write_shards(cohort, tmp_path / "cohort", recordings_per_shard=4)


def states_in(folder):
    return list(folder.rglob("state-*"))


@pytest.mark.parametrize("per_shard", [3, 4, 10])
def test_shards_do_not_change_the_result(cohort, in_memory, per_shard, tmp_path):
    on_disk = write_shards(cohort, tmp_path, recordings_per_shard=per_shard)
    model = double().fit(on_disk)
    assert_same_fit(model, in_memory, **ROUNDING)
    assert model.recordings_ is None
    assert not states_in(tmp_path)


@pytest.mark.parametrize(
    ("name", "options"),
    [("PopCDL", {}), ("IndCDL", {}), ("PerCDL", {"coder": L1Coder(n_steps=20)})],
    ids=["PopCDL", "IndCDL", "overlap"],
)
def test_other_models_and_coders(name, options, cohort, on_disk):
    pair = [make(name, dtype="float64", **options).fit(X) for X in (on_disk, cohort)]
    assert_same_fit(*pair, **ROUNDING)


@pytest.mark.parametrize("rows", [7, 64, 512])
def test_chunks_do_not_change_the_result(cohort, in_memory, rows):
    assert_same_fit(double(chunk_rows=rows).fit(cohort), in_memory, **ROUNDING)


def test_a_gap_in_one_shard(tmp_path):
    arrays = spaced_recordings(4, LENGTHS)
    arrays[6][40:60] = np.nan
    cohort = Cohort.from_arrays(arrays)
    on_disk = write_shards(cohort, tmp_path, recordings_per_shard=4)
    assert_same_fit(double().fit(on_disk), double().fit(cohort), **ROUNDING)


def test_choices_from_the_data_are_the_same(cohort, on_disk):
    chosen = {
        "init": "auto",
        "loss": Huber(),
        "random_state": 2,
        "population_rounds": 1,
        "personal_rounds": 1,
    }
    pair = [double(**chosen).fit(X) for X in (on_disk, cohort)]
    assert_same_fit(*pair, **ROUNDING)
    assert pair[0].huber_delta_ == pair[1].huber_delta_


def test_new_people_on_disk(in_memory, tmp_path):
    new = Cohort.from_arrays(spaced_recordings(8, LENGTHS[:6]), sfreq=50)
    on_disk = write_shards(new, tmp_path, recordings_per_shard=4)
    np.testing.assert_allclose(in_memory.transform(on_disk), in_memory.transform(new), atol=1e-9)
    assert in_memory.score(on_disk) == pytest.approx(in_memory.score(new), abs=1e-12)
    assert not states_in(tmp_path)


def test_recordings_in_memory_may_be_put_on_disk(cohort, in_memory, tmp_path):
    model = double().fit(cohort, runtime=OutOfCore(tmp_path))
    assert_same_fit(model, in_memory, **ROUNDING)
    assert model.recordings_ is cohort
    assert not list(tmp_path.iterdir())


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def interrupt_after(n_rounds):
    seen = []

    def report(*told):
        seen.append(told)
        if len(seen) == n_rounds:
            raise Interrupted

    return report


@pytest.mark.parametrize("n_rounds", [1, 2, 4])
def test_an_interrupted_fit_goes_on(on_disk, n_rounds, tmp_path):
    whole = double().fit(on_disk)
    path = tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        fit_with_checkpoints(double(), on_disk, path, report=interrupt_after(n_rounds))
    assert path.stat().st_size < 50_000
    resumed = fit_with_checkpoints(double(), on_disk, None, resume=read_checkpoint(path))
    assert_same_fit(resumed, whole)
    assert not states_in(tmp_path)


def test_a_resumed_fit_that_fails_leaves_the_checkpoint_good(on_disk, tmp_path):
    whole, path = double().fit(on_disk), tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        fit_with_checkpoints(double(), on_disk, path, report=interrupt_after(1))
    checkpoint = read_checkpoint(path)
    with pytest.raises(Interrupted):
        fit_with_checkpoints(double(), on_disk, None, resume=checkpoint, report=interrupt_after(2))
    resumed = fit_with_checkpoints(double(), on_disk, None, resume=checkpoint)
    assert_same_fit(resumed, whole)


def test_a_checkpoint_goes_on_where_it_was_made(cohort, on_disk, tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(Interrupted):
        fit_with_checkpoints(double(), cohort, path, report=interrupt_after(1))
    checkpoint = read_checkpoint(path)
    with pytest.raises(InvalidParameterError, match="interrupted in memory"):
        fit_with_checkpoints(double(), cohort, None, resume=checkpoint, runtime=OutOfCore())
    with pytest.raises(InvalidParameterError, match="other recordings"):
        fit_with_checkpoints(double(), on_disk, None, resume=checkpoint)


def test_damage_is_found_before_the_first_round(on_disk):
    rounds = []
    path = on_disk.shards[2].path
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UnreadableFileError, match=r"shard-000002.npy has \d+ bytes"):
        fit_with_checkpoints(double(), on_disk, None, report=lambda *told: rounds.append(told))
    assert not rounds
    assert not states_in(on_disk.folder)


def test_damage_found_later_leaves_nothing_behind(on_disk):
    path = on_disk.shards[2].path
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnreadableFileError, match=r"shard-000002.npy"):
        double().fit(on_disk)
    assert not states_in(on_disk.folder)


def test_useless_recordings_are_told_by_subject(cohort, tmp_path):
    flat = Recording(np.ones((100, 1)), sfreq=50, subject="Flo")
    on_disk = write_shards([*cohort, flat], tmp_path)
    with pytest.raises(InvalidRecordingError, match="Every channel of subject Flo is constant"):
        double().fit(on_disk)


def test_a_runtime_is_a_place(cohort):
    for call in (double().fit, double().personalize):
        with pytest.raises(InvalidParameterError, match="is not a runtime"):
            call(cohort, runtime="dask")
