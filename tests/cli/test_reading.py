"""Which recordings a command reads, and every way in which it cannot."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from commands import READ, contents, refused, write_walks

from percdl import Cohort, PerCDL
from percdl.cli.data_options import DataOptions, read_cohort, read_metadata
from percdl.cli.output import CommandError
from percdl.exceptions import UnreadableFileError


def read(*data, settings=None, **options):
    model = None
    if settings is not None:
        model = PerCDL()
        model.settings_, model.channels_ = settings, ("x",)
    return read_cohort(DataOptions(data=[str(path) for path in data], **options), model)


def test_folders_patterns_and_files_are_the_same_recordings(walks):
    expected = Cohort.from_csv(walks, channels="x", sfreq=50)
    options = {"channels": ["x"], "sfreq": 50.0}
    assert read(walks, **options) == expected
    assert read(walks / "*.csv", **options) == expected
    assert read(*sorted(walks.glob("*.csv")), **options) == expected
    assert read(walks, channels=["x"], time="t") == expected


def test_several_channels(walks):
    assert read(walks, channels=["x,other"], sfreq=50.0).channels == ("x", "other")
    assert read(walks, channels=["x", "other"], sfreq=50.0).channels == ("x", "other")
    assert read(walks, channels=["x"], sfreq=50.0, units="deg/s").units == ("deg/s",)
    both = read(walks, channels=["x,other"], sfreq=50.0, units="deg/s,g")
    assert both.units == ("deg/s", "g")


def test_who_is_in_which_group(walks, tmp_path):
    folder = shutil.copytree(walks, tmp_path / "walks")
    table = pd.DataFrame({"who": ["Ada", "Bo", "Cy", "Di"], "arm": ["a", "b", "a", "b"]})
    table.to_csv(folder / "subjects.csv", index=False)
    options = {"metadata": folder / "subjects.csv", "metadata_subject": "who", "group": "arm"}
    for source in (folder, folder / "*.csv"):
        cohort = read(source, channels=["x"], sfreq=50.0, **options)
        assert cohort.groups == ("a", "b", "a", "b")


def test_processing_comes_in_the_order_of_the_help(walks):
    cohort = read(
        walks, channels=["x"], sfreq=50.0, zscore=True, bandpass=(0.5, 10.0), resample=25.0
    )
    expected = Cohort.from_csv(walks, channels="x", sfreq=50)
    assert cohort == expected.resample(25).bandpass(0.5, 10).zscore()
    low = read(walks, channels=["x"], sfreq=50.0, bandpass=(0.0, 10.0), zscore_jointly=True)
    assert low == expected.bandpass(None, 10).zscore("recording")
    high = read(walks, channels=["x"], sfreq=50.0, bandpass=(2.0, np.inf))
    assert high == expected.bandpass(2, None)


def test_a_table_of_people_has_the_encoding_of_the_recordings(walks, tmp_path):
    cohort, table = read(walks, channels=["x"], sfreq=50.0), tmp_path / "people.csv"
    rows = "".join(f"{subject};Tänzer;70,5\n" for subject in cohort.subjects)
    table.write_text(f"subject;group;Größe\n{rows}", encoding="cp1252")
    options = DataOptions(data=[str(walks)], metadata=table, encoding="cp1252", channels=["x"])
    assert set(read_cohort(replace(options, sfreq=50.0)).groups) == {"Tänzer"}
    people = read_metadata(options, cohort)
    assert set(people["Größe"]) == {70.5}


def test_other_formats(walks, tmp_path):
    cohort = read(walks, channels=["x"], sfreq=50.0)
    cohort.to_npz(tmp_path / "walks.npz")
    assert read(tmp_path) == cohort
    assert read(tmp_path / "walks.npz", input_format="npz") == cohort
    with pytest.raises(CommandError, match=r"--time does not apply to NPZ files"):
        read(tmp_path, time="t")
    shutil.copy(walks / "Ada.csv", tmp_path)
    with pytest.raises(UnreadableFileError, match=r"one format.*Ada\.csv \(csv\)"):
        read(tmp_path / "*", sfreq=50.0)


def test_what_is_not_said_is_as_in_the_fit(walks):
    settings = {
        "data": ["elsewhere"], "channels": ["x"], "sfreq": 50.0, "time": None, "zscore": True,
        "delimiter": ",", "group": "arm", "metadata": "nowhere.csv", "n_atoms": "2",
    }  # fmt: skip
    expected = Cohort.from_csv(walks, channels="x", sfreq=50)
    assert read(walks, settings=settings) == expected.zscore()
    assert read(walks, settings=settings, channels=["other"]).channels == ("other",)
    assert read(walks, settings=settings, time="t") == expected.zscore()  # instead of the rate
    jointly = read(walks, settings=settings, zscore_jointly=True)
    assert jointly == expected.zscore("recording")
    assert read(walks, settings=None, channels=["x"], sfreq=50.0) == expected


def test_options_of_the_fit_do_not_bother_other_formats(walks, tmp_path):
    cohort = read(walks, channels=["x"], sfreq=50.0)
    cohort.to_npz(tmp_path / "walks.npz")
    settings = {"channels": ["x"], "time": "t", "delimiter": ";"}
    assert read(tmp_path, settings=settings) == cohort


@pytest.fixture
def mess(tmp_path):
    """A folder in which every file is wrong in a different way."""
    folder = write_walks(tmp_path / "mess")
    (folder / "Bo.csv").write_text("t,x,other\n0,1,2\n0.02,high,3\n")
    (folder / "Cy.csv").write_bytes(b"t,x,other\n0,\xff\xfe,2\n")
    (folder / "Di.csv").write_text("")
    (folder / "notes.md").write_text("not a recording")
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("command", ["fit", "suggest"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no recordings were given"),
        (["{}/none", *READ], "There is no file '{}/none'"),
        (["{}/*.txt", *READ], "There is no file '{}/*.txt'"),
        (["{}/empty", *READ], "There is no .csv"),
        (["{}/notes.md", *READ], "notes.md (unknown)"),
        (["{}/Bo.csv", *READ], "{}/Bo.csv, line 3"),
        (["{}/Cy.csv", *READ], "{}/Cy.csv"),
        (["{}/Di.csv", *READ], "{}/Di.csv"),
        (["{}/Ada.csv", "--channels", "y", "--sfreq", "50"], "no column 'y', only 't', 'x'"),
        (["{}/Ada.csv", "--channels", "x"], "Pass sfreq=, in samples per second, or time="),
        (["{}/Ada.csv", *READ, "--delimiter", ";"], "pass delimiter="),
        (["{}/Ada.csv", *READ, "--metadata", "{}/none.csv"], "none.csv"),
        (["{}/Ada.csv", *READ, "--metadata-subject", "id"], "which is missing"),
        (["{}/Ada.csv", *READ, "--input-format", "xls"], "must be one of csv, parquet"),
        (["{}/Ada.csv", *READ, "--zscore", "--zscore-jointly"], "exclude each other"),
        (["{}/Ada.csv", *READ, "--bandpass", "9", "2"], "9"),
        (["{}/Ada.csv", "--channels", "x", "--sfreq", "0"], "0"),
        (["{}/Ada.csv", "--channels", "x", "--sfreq", "fast"], "--sfreq"),
    ],
)
def test_what_cannot_be_read_is_named(command, arguments, message, mess, tmp_path):
    filled = [argument.replace("{}", str(mess)) for argument in arguments]
    out = ["--out", tmp_path / "new" / "m"] if command == "fit" else []
    assert message.replace("{}", str(mess)) in refused(command, *filled, *out)
    assert contents(tmp_path / "new") == []
