"""Model files: what is written comes back bit for bit, and damage is noticed."""

import json
import os
import pickle
import re
import stat

import numpy as np
import pytest
import toy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from small_models import ATTRIBUTES, NAMES, assert_same_fit, assert_same_table, make, spaced_cohort

import percdl
from percdl import Free, Identity, TimeWarp
from percdl.estimators import Motif, container
from percdl.estimators.modelfile import decode_model, encode_parameters
from percdl.exceptions import ModelFileError, NoActivationWarning

VERSION = re.escape(percdl.__version__)


def assert_same_model(first, second):
    """Compare class, arguments and everything learned, bit for bit."""
    assert type(first) is type(second)
    arguments, others = first.get_params(), second.get_params()
    assert list(arguments) == list(others)
    for name, value in arguments.items():
        assert type(others[name]) is type(value), name
        assert_array_equal(others[name], value, err_msg=name, strict=isinstance(value, np.ndarray))
    assert_same_fit(first, second)
    assert_same_table(first.history_, second.history_)
    for name in ATTRIBUTES[:-1]:
        pair = [getattr(model, name) for model in (first, second)]
        assert pair[0].tobytes() == pair[1].tobytes(), name


@pytest.fixture(scope="module")
def model_files(fitted_models, tmp_path_factory):
    """The three models in files, by name."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in fitted_models.items():
        model.save(folder / f"{name}.percdl")
    return {name: folder / f"{name}.percdl" for name in fitted_models}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A place to write damaged files to."""
    return tmp_path_factory.mktemp("damaged") / "model.percdl"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_comes_back(name, fitted_models, model_files, cohort):
    loaded = percdl.load(model_files[name])
    assert_same_model(loaded, fitted_models[name])
    new = spaced_cohort(9)
    expected, found = fitted_models[name].personalize(new), loaded.personalize(new)
    assert_array_equal(found.params, expected.params)
    assert_array_equal(found.personal_dictionary, expected.personal_dictionary)
    assert_same_table(found.events, expected.events)
    assert loaded.score(cohort) == fitted_models[name].score(cohort)
    assert_array_equal(loaded.get_feature_names_out(), fitted_models[name].get_feature_names_out())
    assert_same_fit(loaded.fit(cohort), fitted_models[name])  # a loaded model can be fitted again


ARGUMENTS = {
    "warp": {"transformation": TimeWarp(2, 5, "linear", per_channel=True)},
    "identity": {"transformation": Identity()},
    "free": {"transformation": Free()},
    "default transform": {"transformation": None},
    "motif": {"init": Motif("Ada", 4)},
    "motifs": {"init": [Motif("Ada", 4), Motif("Zoë \N{SNOWMAN}", 9)]},
    "word": {"init": "auto", "random_state": 3, "n_restarts": 4},
    "integers": {"init": np.arange(32).reshape(2, 16, 1)},
    "single": {"init": toy.patterns().astype(np.float32)},
    "switches": {"signed": True, "max_activations": 7, "progress": False, "tol": 1e-300},
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_come_back(case):
    model, arrays = make("PerCDL", **ARGUMENTS[case]), {}
    sent = json.loads(json.dumps(encode_parameters(model, arrays)))
    found = decode_model("PerCDL", sent, arrays).get_params()
    for name, value in model.get_params().items():
        assert type(found[name]) is type(value), name
        assert_array_equal(found[name], value, err_msg=name)


def test_a_model_that_would_not_load_is_not_saved(model_files, tmp_path):
    changes = {
        "params_": lambda model: model.set_params(transformation=TimeWarp(2, 5)),
        "depth": lambda model: model.set_params(transformation=TimeWarp(0, 3)),
    }
    for words, change in changes.items():
        model = percdl.load(model_files["PerCDL"])
        change(model)
        with pytest.raises(ModelFileError, match=f"changed after its fit.*{words}"):
            model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_and_other_arrays_become_plain(model_files, tmp_path):
    import jax

    model = percdl.load(model_files["PopCDL"])
    model.set_params(penalty=np.float32(0.5), n_restarts=np.int64(3))
    model.set_params(init=jax.numpy.ones((2, 16, 1)), random_state=np.random.RandomState(0))
    model.save(tmp_path / "model")
    found = percdl.load(tmp_path / "model").get_params()
    assert (found["penalty"], found["n_restarts"]) == (0.5, 3)
    assert_array_equal(found["init"], np.ones((2, 16, 1)))
    assert found["random_state"] is None  # a generator that was used up


def test_what_cannot_be_written_is_refused(model_files, tmp_path):
    model = percdl.load(model_files["PopCDL"]).set_params(init=object())
    with pytest.raises(ModelFileError, match=r"`init=<object .*>` cannot be written"):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_model_without_activations_comes_back(cohort, tmp_path):
    with pytest.warns(NoActivationWarning):
        model = make("PerCDL", penalty=1e6).fit(cohort)
    model.save(tmp_path / "model")
    assert_same_model(percdl.load(tmp_path / "model"), model)


NOT_MODELS = {
    "empty": b"",
    "text": b"subject,atom,onset\nP01,0,12\n",
    "picture": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01",
    "pickle": pickle.dumps({"dictionary_": [1.0, 2.0]}),
    "zip": b"PK\x03\x04" + bytes(60),
    "zeros": bytes(64),
    "huge header": b"\xff" * 8 + b"{}",
}


@pytest.mark.parametrize("case", NOT_MODELS)
def test_a_file_of_another_kind(case, damaged):
    damaged.write_bytes(NOT_MODELS[case])
    with pytest.raises(ModelFileError, match=r"model\.percdl is not a PerCDL model file"):
        percdl.load(damaged)


def test_safetensors_of_somebody_else(damaged):
    for metadata in (None, {"format": "pt"}):
        save_file({"weight": np.ones(3)}, damaged, metadata=metadata)
        with pytest.raises(ModelFileError, match=r"not a PerCDL model file\. Pass a file written"):
            percdl.load(damaged)


def rewrite(source, target, change):
    """Copy a model file with its metadata changed, the arrays as they are."""
    with safe_open(source, framework="numpy") as file:
        metadata = file.metadata()
    change(metadata)
    save_file(load_file(source), target, metadata=metadata)


def test_a_newer_format(model_files, damaged):
    newer = {"schema": str(container.SCHEMA + 1), "version": "9.8.7"}
    rewrite(model_files["PopCDL"], damaged, lambda metadata: metadata.update(newer))
    with pytest.raises(ModelFileError, match=r"PerCDL 9\.8\.7 in a newer format.*Upgrade percdl"):
        percdl.load(damaged)


@pytest.mark.parametrize("field", ["schema", "content", "checksum"])
def test_metadata_that_is_missing_or_nonsense(field, model_files, damaged):
    for change in (lambda m: m.pop(field), lambda m: m.update({field: "[]"})):
        rewrite(model_files["PopCDL"], damaged, change)
        with pytest.raises(ModelFileError):
            percdl.load(damaged)


def test_altered_content_with_a_checksum_to_match(model_files, damaged):
    """A file with a valid checksum still cannot make `load` run code or set any name."""
    arrays = load_file(model_files["PopCDL"])

    def forge(alter):
        def change(metadata):
            content = json.loads(metadata["content"])
            alter(content)
            metadata["content"] = json.dumps(content)
            metadata["checksum"] = container.checksum(arrays, metadata["content"])

        rewrite(model_files["PopCDL"], damaged, change)

    for alter in (
        lambda content: content["fitted"].update(fit="a new method"),
        lambda content: content.update(model="os.system"),
        lambda content: content.update(parameters=[1]),
        lambda content: content["parameters"].update(shell=1),
        lambda content: content["parameters"].update(init={"class": "eval"}),
        lambda content: content["fitted"].pop("subjects_"),
        lambda content: content["parameters"].update(
            init={"class": "Compose", "stages": [{"class": "eval"}]}
        ),
        lambda content: content["tables"].update(events_=None),
        lambda content: content["tables"].update(history_={}),
    ):
        forge(alter)
        with pytest.raises(ModelFileError, match="not a PerCDL model file, or it is damaged"):
            percdl.load(damaged)


def test_files_from_before_processing_was_recorded(model_files, damaged, cohort):
    arrays = load_file(model_files["PopCDL"])

    def forget(metadata):
        content = json.loads(metadata["content"])
        assert content["fitted"].pop("processing_") == []
        metadata["content"] = json.dumps(content)
        metadata["checksum"] = container.checksum(arrays, metadata["content"])

    rewrite(model_files["PopCDL"], damaged, forget)
    older = percdl.load(damaged)
    assert older.processing_ is None
    older.personalize(cohort.zscore())  # what is unknown is no reason for a warning


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_file(name, model_files, damaged):
    whole = model_files[name].read_bytes()
    for length in {*range(0, len(whole), len(whole) // 60), *range(12), len(whole) - 1}:
        damaged.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            percdl.load(damaged)


def is_noticed(whole, position, damaged, model):
    """Whether a file with one bit flipped is refused; if not, it must hold the same model."""
    content = bytearray(whole)
    content[position // 8] ^= 1 << (position % 8)
    damaged.write_bytes(content)
    try:
        assert_same_model(percdl.load(damaged), model)
    except ModelFileError:
        return True
    return False


@pytest.mark.parametrize("name", ["PerCDL"])
def test_flipped_bits(name, model_files, fitted_models, damaged):
    """Either the bit did not matter (the version, say) or the damage is noticed."""
    whole = model_files[name].read_bytes()
    positions = np.random.default_rng(0).integers(0, 8 * len(whole), 200)
    noticed = [is_noticed(whole, p, damaged, fitted_models[name]) for p in positions]
    assert sum(noticed) > 150


@pytest.mark.parametrize("name", ["PopCDL"])
def test_flipped_bits_of_the_header(name, model_files, fitted_models, damaged):
    """Names, types and shapes: the bytes of an empty array do not contain its shape."""
    whole = model_files[name].read_bytes()
    start = whole.index(b'"params_"')
    noticed = [
        is_noticed(whole, position, damaged, fitted_models[name])
        for position in range(8 * start, 8 * (start + 90), 5)
    ]
    assert any(noticed)


@settings(max_examples=30)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_model_file_or_refused(damaged, content):
    damaged.write_bytes(content)
    with pytest.raises(ModelFileError):
        percdl.load(damaged)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no model file at .*nothing"):
        percdl.load(tmp_path / "nothing.percdl")
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        percdl.load(tmp_path)


def test_saving_replaces_and_leaves_nothing_else(fitted_models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted_models["PopCDL"].save("model.percdl")
    fitted_models["IndCDL"].save("model.percdl")
    assert [path.name for path in tmp_path.iterdir()] == ["model.percdl"]
    assert_same_model(percdl.load("model.percdl"), fitted_models["IndCDL"])


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_others_may_read_what_the_umask_allows(fitted_models, tmp_path):
    before = os.umask(0o022)
    try:
        fitted_models["PopCDL"].save(tmp_path / "model")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(step, fitted_models, tmp_path, monkeypatch):
    fitted_models["PopCDL"].save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk is full"):
        fitted_models["IndCDL"].save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_an_unwritable_folder_leaves_the_old_file(fitted_models, tmp_path):
    fitted_models["PopCDL"].save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    tmp_path.chmod(0o500)
    try:
        if os.access(tmp_path, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(PermissionError):
            fitted_models["IndCDL"].save(tmp_path / "model")
    finally:
        tmp_path.chmod(0o700)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_the_same_model_is_written_as_the_same_bytes(model_files, tmp_path):
    model = percdl.load(model_files["PerCDL"])
    for name in ("one", "two"):
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
