"""``percdl fit`` beyond one memory and one machine."""

import sys

import pytest
from commands import MODEL, READ, refused, run
from sklearn.base import clone
from small_models import assert_same_fit

import percdl


@pytest.fixture(scope="module")
def shards(walks, tmp_path_factory):
    """The folder of recordings as a folder of shards."""
    folder = tmp_path_factory.mktemp("shards") / "walks"
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    percdl.write_shards(cohort, folder, recordings_per_shard=3)
    return folder


def test_a_folder_of_shards_is_fitted_from_disk(shards, tmp_path):
    out = tmp_path / "m.percdl"
    result = run("fit", shards, *MODEL, "--out", out)
    assert result.exit_code == 0, result.output
    assert "ShardedCohort(4 recordings in 2 shards" in result.output
    model = percdl.load(out)
    again = clone(model).fit(percdl.ShardedCohort.open(shards))
    assert_same_fit(model, again)


def test_shards_are_as_they_are(shards, tmp_path):
    message = refused("fit", shards, *READ, *MODEL, "--out", tmp_path / "m")
    assert "--channels does not apply to" in message


def test_a_report_of_recordings_on_disk_is_refused_at_once(shards, tmp_path):
    message = refused("fit", shards, *MODEL, "--out", tmp_path / "m", "--report", tmp_path / "r")
    assert "on disk, where recordings in memory are needed" in message


def test_a_damaged_shard_is_named(walks, tmp_path):
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    on_disk = percdl.write_shards(cohort, tmp_path / "shards", recordings_per_shard=3)
    on_disk.shards[1].path.unlink()
    assert "shard-000001.npy is missing" in refused("fit", on_disk.folder, *MODEL)


@pytest.mark.filterwarnings("default")
def test_a_missing_scheduler_is_reported(shards, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="needs percdl[distributed]")
    monkeypatch.setattr(sys.modules["percdl.cli.fit"], "PATIENCE", 0.2)
    options = ("--out", tmp_path / "m", "--dask", "tcp://127.0.0.1:9")
    assert "no scheduler answers" in refused("fit", shards, *MODEL, *options)
