"""A resumed fit gives the result of an uninterrupted one, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from small_models import assert_same_fit, make, spaced_cohort

import percdl
from percdl import Identity, L1Coder
from percdl.estimators import container
from percdl.estimators.checkpoint import fit_with_checkpoints, read_checkpoint
from percdl.exceptions import CheckpointWarning, InvalidParameterError, ModelFileError
from percdl.signals.files import part_of


class Interrupted(Exception):
    """Stands for Ctrl-C."""


def interrupt_after(n_rounds):
    """Return a report that interrupts the fit after some rounds."""
    seen = []

    def report(*told):
        seen.append(told)
        if len(seen) == n_rounds:
            raise Interrupted

    return report


def interrupted(model, cohort, path, n_rounds):
    """Fit for a number of rounds; return the checkpoint."""
    with pytest.raises(Interrupted):
        fit_with_checkpoints(model, cohort, path, report=interrupt_after(n_rounds))
    return read_checkpoint(path)


@pytest.fixture(scope="module")
def cohort():
    return spaced_cohort(3)


@pytest.fixture(scope="module")
def checkpoint(cohort, tmp_path_factory):
    """A fit that was interrupted after its third round."""
    return interrupted(make("PerCDL"), cohort, tmp_path_factory.mktemp("at") / "at", 3)


@pytest.mark.parametrize("n_rounds", [1, 2, 4])
def test_the_result_is_that_of_a_fit_in_one_go(n_rounds, cohort, tmp_path):
    whole = make("PerCDL").fit(cohort)
    checkpoint = interrupted(make("PerCDL"), cohort, tmp_path / "at", n_rounds)
    assert checkpoint.n_rounds == n_rounds
    resumed = fit_with_checkpoints(make("PerCDL"), cohort, None, resume=checkpoint)
    assert_same_fit(resumed, whole)


@pytest.mark.parametrize(
    "options",
    [
        {"init": "auto", "n_restarts": 2, "random_state": 5},
        {"tol": 0.5},
        {"realign": True},
        {"coder": L1Coder(n_steps=20)},
        {"transformation": Identity()},
        {"population_rounds": 0, "personal_rounds": 3},
    ],
    ids=["restarts", "tolerance", "realign", "overlap", "identity", "no first phase"],
)
def test_whatever_the_fit_is_like(options, cohort, tmp_path):
    whole = make("PerCDL", **options).fit(cohort)
    n_rounds = len(whole.history_[whole.history_["step"].isin(["CDU", "PerCDU"])])
    for stop in {1, n_rounds // 2, n_rounds}:
        checkpoint = interrupted(make("PerCDL", **options), cohort, tmp_path / "at", stop)
        resumed = fit_with_checkpoints(make("PerCDL", **options), cohort, None, resume=checkpoint)
        assert_same_fit(resumed, whole)


def test_the_second_run_knows_the_first(cohort, tmp_path):
    options = {"init": "auto", "n_restarts": 2, "random_state": 5}
    whole = make("PerCDL", **options).fit(cohort)
    checkpoint = interrupted(make("PerCDL", **options), cohort, tmp_path / "at", 6)
    resumed = fit_with_checkpoints(make("PerCDL", **options), cohort, None, resume=checkpoint)
    assert_same_fit(resumed, whole)


def test_a_fit_that_is_watched_is_the_same_fit(cohort, tmp_path):
    settings = {"data": ["walks"]}
    watched = fit_with_checkpoints(
        make("PerCDL"), cohort, tmp_path / "at", settings=settings, report=lambda *told: None
    )
    assert_same_fit(watched, make("PerCDL").fit(cohort))
    assert watched.settings_ == settings
    assert read_checkpoint(tmp_path / "at").settings == settings


def test_settings_are_kept_in_the_file_until_the_next_fit(cohort, tmp_path):
    model = fit_with_checkpoints(make("PopCDL"), cohort, None, settings={"penalty": "auto"})
    model.save(tmp_path / "model")
    loaded = percdl.load(tmp_path / "model")
    assert loaded.settings_ == {"penalty": "auto"}
    assert loaded.fit(cohort).settings_ is None


def test_other_arguments_or_recordings_are_refused(cohort, tmp_path):
    checkpoint = interrupted(make("PerCDL"), cohort, tmp_path / "at", 1)
    with pytest.raises(InvalidParameterError, match=r"`penalty=0\.3`, not `penalty=0\.5`"):
        fit_with_checkpoints(make("PerCDL", penalty=0.5), cohort, None, resume=checkpoint)
    other = make("PerCDL", init=np.ones((2, 16, 1)))
    with pytest.raises(InvalidParameterError, match="init="):
        fit_with_checkpoints(other, cohort, None, resume=checkpoint)
    with pytest.raises(InvalidParameterError, match="other recordings"):
        fit_with_checkpoints(make("PerCDL"), spaced_cohort(4), None, resume=checkpoint)


def test_another_device_or_version_is_refused(cohort, tmp_path, monkeypatch):
    checkpoint = interrupted(make("PopCDL"), cohort, tmp_path / "at", 1)
    checkpoint.content["parameters"]["algorithm"]["chunk_rows"] = 1
    with pytest.raises(InvalidParameterError, match="kind of device"):
        fit_with_checkpoints(make("PopCDL", chunk_rows=1), cohort, None, resume=checkpoint)
    checkpoint.content["version"] = "0.0.1"
    with pytest.raises(InvalidParameterError, match=r"written by PerCDL 0\.0\.1"):
        fit_with_checkpoints(make("PopCDL"), cohort, None, resume=checkpoint)


def test_a_checkpoint_that_cannot_be_written_warns_once(cohort, tmp_path):
    with pytest.warns(CheckpointWarning, match="continues") as told:
        model = fit_with_checkpoints(make("PopCDL"), cohort, tmp_path / "none" / "at")
    assert len(told) == 1
    assert_same_fit(model, make("PopCDL").fit(cohort))


def test_an_unfinished_checkpoint_of_a_killed_fit_is_deleted_at_the_start(cohort, tmp_path):
    path = tmp_path / "at"
    fit_with_checkpoints(make("PopCDL"), cohort, path)
    part_of(path).touch()
    fit_with_checkpoints(make("PopCDL"), cohort, path, resume=read_checkpoint(path))
    assert [each.name for each in tmp_path.iterdir()] == ["at"]


def test_models_and_checkpoints_are_distinguished(cohort, tmp_path):
    interrupted(make("PopCDL"), cohort, tmp_path / "at", 1)
    with pytest.raises(ModelFileError, match=r"checkpoint of a fit.*--resume"):
        percdl.load(tmp_path / "at")
    make("PopCDL").fit(cohort).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"model file, not a checkpoint .*--init FILE"):
        read_checkpoint(tmp_path / "model")
    (tmp_path / "text").write_text("no")
    with pytest.raises(ModelFileError, match="not a checkpoint of a fit, or it is damaged"):
        read_checkpoint(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        read_checkpoint(tmp_path / "none")


@pytest.mark.parametrize("name", ["chunk0/3", "people0/params"])
def test_a_state_of_subjects_of_another_size_is_refused(name, cohort, checkpoint):
    array = checkpoint.arrays[f"site/{name}"][:, :1]
    other = replace(checkpoint, arrays={**checkpoint.arrays, f"site/{name}": array})
    with pytest.raises(ModelFileError, match=r"state of the subjects is damaged.*(chunk|people)0"):
        fit_with_checkpoints(make("PerCDL"), cohort, None, resume=other)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"restart": -1}, "restart"),
        ({"population": 1.5}, "population"),
        ({"history": [["population"]]}, "history"),
        ({"draws": [9, 0, "x"]}, "draws"),
        ({"chosen": [3, 16, 0.3, None, []]}, "broadcast/dictionary"),
        ({"model": "os.system"}, "model"),
        ({"reason": "because"}, "reason"),
    ],
)
def test_a_forged_checkpoint_is_refused(change, words, checkpoint, tmp_path):
    content = {**checkpoint.content, **change}
    container.write(tmp_path / "x", container.CHECKPOINT, content, checkpoint.arrays)
    with pytest.raises(ModelFileError, match=words):
        read_checkpoint(tmp_path / "x")


@pytest.mark.parametrize("name", ["broadcast/dictionary", "draws", "parameter/init"])
def test_a_checkpoint_that_lacks_an_array_is_refused(name, checkpoint, tmp_path):
    arrays = {k: x for k, x in checkpoint.arrays.items() if k != name}
    container.write(tmp_path / "x", container.CHECKPOINT, checkpoint.content, arrays)
    with pytest.raises(ModelFileError, match=name):
        read_checkpoint(tmp_path / "x")
