"""A cohort on disk is the cohort that was written, and errors name a damaged one."""

import json

import numpy as np
import pytest

from percdl import Cohort, Recording, ShardedCohort, write_shards
from percdl.exceptions import InvalidParameterError, InvalidRecordingError, UnreadableFileError
from percdl.signals import as_any_cohort, as_cohort
from percdl.signals.shards import INDEX, digest_of

LENGTHS = (40, 31, 52, 40, 33, 47, 40)


def make(dtype="float64", n_channels=2, gap=None, **labels):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, n_channels)).astype(dtype) for n in LENGTHS]
    if gap is not None:
        arrays[4][gap] = np.nan
    groups = ["a", None, "b", "a", "a", "b", None]
    return Cohort.from_arrays(arrays, sfreq=50, groups=groups, units="mV", **labels)


@pytest.fixture
def written(tmp_path):
    return write_shards(make(), tmp_path / "cohort", recordings_per_shard=3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("per_shard", [1, 3, 100])
def test_it_is_what_was_written(tmp_path, dtype, per_shard):
    cohort = make(dtype)
    write_shards(cohort, tmp_path, recordings_per_shard=per_shard)
    opened = ShardedCohort.open(tmp_path)
    assert len(opened.shards) == -(-len(cohort) // per_shard)
    assert Cohort(opened) == cohort
    assert all(r.values.dtype == dtype for r in opened)
    for name in ("subjects", "groups", "channels", "units", "sfreq", "processing", "n_channels"):
        assert getattr(opened, name) == getattr(cohort, name)
    np.testing.assert_array_equal(opened.lengths, cohort.lengths)


@pytest.mark.parametrize(
    ("gap", "n_masks"), [(None, 0), (np.s_[3:5], 1), (np.s_[3:5, 1], 2), (np.s_[:], 1)]
)
def test_what_was_measured_is_what_a_cohort_says(tmp_path, gap, n_masks):
    cohort = make(gap=gap)
    opened = write_shards(cohort, tmp_path, recordings_per_shard=3)
    np.testing.assert_array_equal(opened.power, cohort.power)
    assert opened.n_masks == cohort.n_masks == n_masks
    assert opened.empty == cohort.empty
    assert opened.flat == cohort.flat


def test_flat_recordings_are_known(tmp_path):
    arrays = [np.arange(9.0), np.full(9, 2.0)]
    assert write_shards(Cohort.from_arrays(arrays), tmp_path).flat == ("1",)


def test_recordings_are_read_one_by_one(written):
    cohort = make()
    for position in (0, 2, 3, 6, -1):
        assert written[position] == cohort[position]
    assert written["4"] == cohort["4"]
    assert written[[5, 1]] == cohort[[5, 1]]
    assert written[2:5] == cohort[2:5]
    with pytest.raises(KeyError, match="No subject 'x'"):
        written["x"]
    with pytest.raises(IndexError):
        written[7]


def test_shards_are_closed_by_size_too(tmp_path):
    size = make()[2].values.nbytes / 2**20
    opened = write_shards(make(), tmp_path, megabytes_per_shard=size)
    assert [len(shard.labels) for shard in opened.shards] == [1] * len(LENGTHS)


def test_recordings_may_come_from_a_generator(tmp_path):
    opened = write_shards((r for r in make()), tmp_path, recordings_per_shard=2)
    assert Cohort(opened) == make()


def test_the_index_is_written_last(tmp_path):
    def failing():
        yield from make()
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        write_shards(failing(), tmp_path, recordings_per_shard=2)
    with pytest.raises(UnreadableFileError, match=r"no index.json.*not finished"):
        ShardedCohort.open(tmp_path)
    assert Cohort(write_shards(make(), tmp_path, recordings_per_shard=2)) == make()


def test_what_an_unfinished_attempt_has_left_goes(tmp_path):
    write_shards(make(), tmp_path, recordings_per_shard=1)
    (tmp_path / INDEX).unlink()  # as if killed before
    (tmp_path / "shard-notes.npz").touch()
    again = write_shards(make(), tmp_path, recordings_per_shard=3)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {INDEX, "shard-notes.npz", *(shard.path.name for shard in again.shards)}


def test_a_cohort_is_not_overwritten(written):
    with pytest.raises(InvalidParameterError, match="holds a cohort already"):
        write_shards(make(), written.folder)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"subject": "0"}, "used more than once: 0"),
        ({"subject": "x", "sfreq": 60}, "have sfreq 60"),
        ({"subject": "x", "channels": ["u", "v"]}, "have channels"),
        ({"subject": "x", "processing": "filtered"}, "have processing"),
    ],
)
def test_recordings_must_agree_from_shard_to_shard(tmp_path, change, match):
    odd = Recording(np.ones((9, 2)), **({"sfreq": 50, "units": "mV"} | change))
    with pytest.raises(InvalidRecordingError, match=match):
        write_shards([*make(), odd], tmp_path, recordings_per_shard=7)


def test_nothing_to_write(tmp_path):
    with pytest.raises(InvalidRecordingError, match="Pass at least one"):
        write_shards([], tmp_path)


def remove(path, tmp_path):
    path.unlink()


def truncate(path, tmp_path):
    path.write_bytes(path.read_bytes()[:-200])


def truncate_samples(path, tmp_path):
    path.write_bytes(path.read_bytes()[:300])


def other_values(path, tmp_path):
    np.save(path, np.load(path).astype(int))


def other_channels(path, tmp_path):
    write_shards(make(n_channels=3), tmp_path / "other", recordings_per_shard=3)
    path.write_bytes((tmp_path / "other" / path.name).read_bytes())


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (remove, "is missing"),
        (truncate, r"has \d+ bytes, not \d+"),
        (truncate_samples, r"has \d+ bytes, not \d+"),
        (other_channels, r"has \d+ bytes, not \d+"),
        (other_values, r"holds int64 of shape"),
    ],
)
def test_an_error_names_the_damaged_shard(written, tmp_path, damage, match):
    damage(written.shards[1].path, tmp_path)
    for look in (ShardedCohort.open, lambda _: as_any_cohort(written)):
        with pytest.raises(UnreadableFileError, match=match) as caught:
            look(written.folder)
        assert "shard-000001.npy" in str(caught.value)


def test_a_flipped_bit_is_found_when_it_is_read(written):
    path = written.shards[1].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for read in (lambda: list(written), lambda: written["5"]):
        with pytest.raises(UnreadableFileError, match=r"shard-000001.npy is damaged.*subject '5'"):
            read()
    assert written["4"] == make()["4"]


def test_shards_of_other_recordings_are_found_when_they_are_read(written, tmp_path):
    other = Cohort(
        Recording(r.values + 1, sfreq=50, units="mV", subject=r.subject) for r in make()
    )
    write_shards(other, tmp_path / "other", recordings_per_shard=3)
    path = written.shards[1].path
    path.write_bytes((tmp_path / "other" / path.name).read_bytes())
    with pytest.raises(UnreadableFileError, match=r"shard-000001.npy is damaged.*subject '3'"):
        list(written)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"schema": 1}), json.dumps({"schema": 9})])
def test_a_damaged_index_is_refused(written, text):
    (written.folder / "index.json").write_text(text)
    with pytest.raises(UnreadableFileError, match=r"index.json is damaged"):
        ShardedCohort.open(written.folder)


def test_memory_is_needed_elsewhere(written):
    with pytest.raises(InvalidRecordingError, match=r"on disk, .* Pass a part of it"):
        as_cohort(written)
    assert as_any_cohort(written) is written
    assert as_any_cohort(make()) == make()


def test_a_flipped_bit_of_the_index_is_found(written):
    """Also where it is only the power of a recording, which no shard repeats."""
    path = written.folder / INDEX
    whole = path.read_bytes()
    for position in range(0, 8 * len(whole), 61):
        content = bytearray(whole)
        content[position // 8] ^= 1 << (position % 8)
        path.write_bytes(content)
        with pytest.raises(UnreadableFileError, match=r"index.json is damaged"):
            ShardedCohort.open(written.folder)


@pytest.mark.parametrize(
    "name", ["../shard-000000.npy", "/etc/passwd", "shard-000000.npy/..", "shard-000000.txt", ""]
)
def test_the_index_names_files_of_its_own_folder(written, name):
    content = json.loads((written.folder / INDEX).read_text())
    content["shards"][0]["file"] = name
    content["checksum"] = digest_of(content)
    (written.folder / INDEX).write_text(json.dumps(content))
    with pytest.raises(UnreadableFileError, match=r"shards\.0\.file"):
        ShardedCohort.open(written.folder)


@pytest.mark.parametrize("shape", [b"(9999, 2)", b"(1<<40,)", b"(-1, 2) "])
def test_a_shard_that_asks_for_more_than_it_has(written, shape):
    path = written.shards[0].path
    own = str(np.load(path).shape).encode()
    path.write_bytes(path.read_bytes().replace(own, shape.ljust(len(own))[: len(own)]))
    with pytest.raises(UnreadableFileError, match=r"shard-000000\.npy"):
        ShardedCohort.open(written.folder)


def test_a_shard_is_never_unpickled(written):
    path = written.shards[0].path
    np.save(path, np.array([{}, {}]), allow_pickle=True)
    path.write_bytes(path.read_bytes().ljust(written.shards[0].n_bytes, b" "))
    with pytest.raises(UnreadableFileError, match=r"shard-000000\.npy"):
        ShardedCohort.open(written.folder)


def test_samples_whose_squares_exceed_all_numbers_are_written_and_read(tmp_path):
    loud = write_shards(Cohort.from_arrays(np.array([[1e200, -1e200, 0.0]])), tmp_path)
    assert loud.power.tolist() == [np.inf]
    assert loud[0].values.max() == 1e200
