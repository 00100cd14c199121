"""``percdl find``: a known pattern, without a fit."""

import numpy as np
import pandas as pd
import pytest
from commands import READ, refused, run

import percdl


@pytest.fixture
def pattern(walks, tmp_path):
    """The pattern, cut from a recording that holds it."""
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    first = cohort[0].values[:, 0]
    loudest = np.convolve(first**2, np.ones(16), "valid").argmax()
    path = tmp_path / "pattern.csv"
    pd.DataFrame({"x": 7 * first[loudest : loudest + 16]}).to_csv(path, index=False)
    return path


def test_a_pattern_is_found_as_in_python(walks, pattern, tmp_path):
    out, kept = tmp_path / "events.csv", tmp_path / "found.percdl"
    result = run("find", pattern, walks, *READ, "--penalty", "0.3", "--out", out, "--model", kept)
    assert result.exit_code == 0, result.output
    cohort = percdl.Cohort.from_csv(walks, channels="x", sfreq=50)
    atom = pd.read_csv(pattern)["x"].to_numpy()[None, :, None]
    model = percdl.PopCDL(penalty=0.3, init=atom).find(cohort)
    pd.testing.assert_frame_equal(pd.read_csv(out), model.events_, check_dtype=False)
    assert len(model.events_) > len(cohort)
    loaded = percdl.load(kept)
    np.testing.assert_allclose(loaded.dictionary_, model.dictionary_)
    assert run("info", kept).exit_code == 0


def test_a_pattern_of_other_channels_is_refused(walks, pattern, tmp_path):
    other = tmp_path / "other.csv"
    pd.read_csv(pattern).assign(y=1.0).to_csv(other, index=False)
    text = refused("find", other, walks, "--sfreq", "50", "--out", tmp_path / "e.csv")
    assert "other.csv" in text
    assert "channels x, y" in text


@pytest.mark.parametrize("command", ["find", "fit"])
def test_a_model_of_other_recordings_is_refused(command, walks, model_file, tmp_path):
    start = [model_file, walks] if command == "find" else [walks, "--init", model_file]
    out = ["--out", tmp_path / "out"]
    slow = refused(command, *start, "--channels", "x", "--sfreq", "25", *out)
    assert "pattern(s) with channels x at 50 Hz" in slow
    assert "have x at 25 Hz. Choose these with --channels and --resample" in slow
    assert "have other at 50 Hz" in refused(
        command, *start, "--channels", "other", "--sfreq", "50", *out
    )
    assert not (tmp_path / "out").exists()
