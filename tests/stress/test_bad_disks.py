"""Disks that are full or read-only: an error that names the file, the old one, and no litter."""

import errno
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from federation import make_cohort, run_scripted, split
from small_disks import fill, make_read_only, mounted
from small_models import assert_same_fit, make, spaced_cohort

from percdl import events_to_csv, load, write_shards
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import CheckpointWarning, InvalidParameterError
from percdl.federated.estimator import FederatedPerCDL, make_sites
from percdl.runtimes.partitioned import OutOfCore
from percdl.signals.formats import write_npz

WHY = {"full": "No space left on device", "read-only": "Read-only file system"}


@pytest.fixture(scope="module")
def cohort():
    return spaced_cohort(3)


@pytest.fixture(scope="module")
def model(cohort):
    return make("PopCDL").fit(cohort)


@pytest.fixture
def disk(tmp_path):
    """A folder on a separate disk, with free space at first."""
    with mounted(tmp_path / "disk", kilobytes=256) as folder:
        yield folder


def spoil(disk, how):
    fill(disk) if how == "full" else make_read_only(disk)


def contents(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


WRITERS = {
    "model": lambda model, folder, content: model.save(folder / "file"),
    "events": lambda model, folder, content: events_to_csv(model.events_, folder / "file"),
    "recordings": lambda model, folder, content: write_npz(model.recordings_, folder / "file"),
}


@pytest.mark.parametrize("how", WHY)
@pytest.mark.parametrize("kind", WRITERS)
def test_the_old_file_stays(kind, how, model, disk):
    write = partial(WRITERS[kind], model, disk)
    write("old")
    files = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    spoil(disk, how)
    with pytest.raises(OSError, match=WHY[how]) as caught:
        write("new")
    assert Path(caught.value.filename) in files
    assert {path: path.read_bytes() for path in files} == files
    assert not list(disk.rglob("*.percdl-part"))


@pytest.mark.parametrize("how", WHY)
def test_a_report(how, model, cohort, disk):
    pytest.importorskip("plotly")
    from percdl.report.cohort import write_report

    page = disk / "page.html"
    page.write_text("old")
    spoil(disk, how)
    with pytest.raises(OSError, match=WHY[how]):
        write_report(model, page, cohort)
    assert page.read_text() == "old"
    assert not list(disk.rglob("*.percdl-part"))


@pytest.mark.parametrize("how", WHY)
def test_the_old_checkpoint_stays(how, cohort, disk):
    path, told = disk / "at", []

    def spoil_after_the_second(*round_):
        told.append(round_)
        if len(told) == 2:
            spoil(disk, how)

    with pytest.warns(CheckpointWarning, match=rf"{path} cannot be written \({WHY[how]}\)"):
        whole = fit_with_checkpoints(make("PerCDL"), cohort, path, report=spoil_after_the_second)
    assert read_checkpoint(path).n_rounds == 2
    assert not list(disk.rglob("*.percdl-part"))
    resumed = fit_with_checkpoints(make("PerCDL"), cohort, None, resume=read_checkpoint(path))
    assert_same_fit(resumed, whole)


@pytest.mark.parametrize("how", WHY)
def test_shards(how, cohort, disk):
    def recordings():
        yield from cohort[:2]
        spoil(disk, how)
        yield from cohort[2:]

    with pytest.raises(OSError, match=WHY[how]) as caught:
        write_shards(recordings(), disk / "data", recordings_per_shard=1)
    assert Path(caught.value.filename).parent == disk / "data"
    assert set(contents(disk / "data")) <= {"shard-000000.npy", "shard-000001.npy"}


@pytest.mark.parametrize("how", WHY)
@pytest.mark.parametrize("is_on_disk", [True, False], ids=["shards", "in memory"])
def test_no_place_for_the_state_of_subjects(how, is_on_disk, cohort, disk, tmp_path):
    X = write_shards(cohort, tmp_path / "data") if is_on_disk else cohort
    spoil(disk, how)
    with pytest.raises((InvalidParameterError, OSError), match=WHY[how]) as caught:
        make("PopCDL").fit(X, runtime=OutOfCore(disk))
    assert str(disk) in str(caught.value)
    assert set(contents(disk)) <= {"filler"}


def test_states_that_find_no_room_in_a_later_round(cohort, disk, tmp_path):
    """The fit ends with an error; once there is room, it goes on to the same end."""
    data, path = write_shards(cohort, tmp_path / "data", recordings_per_shard=2), tmp_path / "at"
    whole, told = make("PerCDL").fit(data), []

    def fill_after_the_second(*round_):
        told.append(round_)
        if len(told) == 2:
            fill(disk)

    options = {"runtime": OutOfCore(disk), "report": fill_after_the_second}
    with pytest.raises(OSError, match="No space left on device") as caught:
        fit_with_checkpoints(make("PerCDL"), data, path, **options)
    assert str(disk) in caught.value.filename
    assert not list(disk.rglob("*.percdl-part"))
    (disk / "filler").unlink()
    again = fit_with_checkpoints(
        make("PerCDL"), data, path, resume=read_checkpoint(path), runtime=OutOfCore(disk)
    )
    assert_same_fit(again, whole)
    assert not list(disk.iterdir())


def test_a_checkpoint_that_finds_no_room_leaves_the_states_of_the_one_before(
    cohort, disk, tmp_path
):
    data, path, told = write_shards(cohort, tmp_path / "data"), disk / "at", []

    def fill_after_the_second(*round_):
        told.append(round_)
        if len(told) == 2:
            fill(disk)

    with pytest.warns(CheckpointWarning, match="No space left on device"):
        whole = fit_with_checkpoints(make("PerCDL"), data, path, report=fill_after_the_second)
    (disk / "filler").unlink()
    checkpoint = read_checkpoint(path)
    assert checkpoint.n_rounds == 2
    resumed = fit_with_checkpoints(make("PerCDL"), data, path, resume=checkpoint)
    assert_same_fit(resumed, whole)
    assert not list((tmp_path / "data").glob("state-*"))


def test_states_that_cannot_be_flushed_cost_the_checkpoint_only(cohort, tmp_path, monkeypatch):
    data, whole = write_shards(cohort, tmp_path / "data"), make("PerCDL").fit(cohort)

    def refuse(path):
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("percdl.runtimes.states.files.flush_entries", refuse)
    with pytest.warns(CheckpointWarning, match="Input/output error"):
        found = fit_with_checkpoints(make("PerCDL"), data, tmp_path / "at")
    assert_same_fit(found, whole)


def test_a_result_that_was_never_saved_is_in_the_checkpoint(cohort, tmp_path):
    """A process may die between the end of a fit and the model file."""
    data, path = write_shards(cohort, tmp_path / "data"), tmp_path / "at"
    whole = fit_with_checkpoints(make("PerCDL"), data, path)
    assert not list((tmp_path / "data").glob("state-*"))
    rounds = []
    again = fit_with_checkpoints(
        make("PerCDL"),
        data,
        path,
        resume=read_checkpoint(path),
        report=lambda *told: rounds.append(told),
    )
    assert not rounds
    assert_same_fit(again, whole)
    again.save(tmp_path / "model")
    assert_same_fit(load(tmp_path / "model"), whole)


def test_a_site_without_room_sends_nothing_and_goes_on_later(disk):
    """What cannot be noted is not posted; with room again, the run goes on to the same end."""
    cohorts = split(make_cohort())
    federation = FederatedPerCDL(make("PopCDL"), secure=False)
    small = replace(make_sites(cohorts, disk.parent)[0], folder=disk)
    sites = [small, *make_sites(cohorts, disk.parent)[1:]]
    manifest = federation.propose("run", sites)

    def fill_the_disk(site, slot, posts):
        if (site, slot) == (small.name, 1):
            fill(disk)
        return posts

    _, errors, board = run_scripted(
        sites, manifest, on_read=fill_the_disk, folder=disk.parent / "board"
    )
    assert "No space left on device" in str(errors[small.name])
    assert board.missing(2) == [small.name]
    assert not list(disk.rglob("*.percdl-part"))
    (disk / "filler").unlink()
    models, errors, _ = run_scripted(sites, manifest, folder=disk.parent / "board")
    assert not errors
    whole = federation.fit(cohorts)
    np.testing.assert_array_equal(models["nord"].dictionary_, whole.model_.dictionary_)
