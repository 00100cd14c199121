"""A folder of recordings and the table of its subjects."""

import numpy as np
import pandas as pd
import pytest

from percdl import Cohort
from percdl.exceptions import InvalidParameterError, MixedColumnWarning, UnreadableFileError
from percdl.signals.from_files import Metadata


@pytest.fixture
def walks(tmp_path):
    """Write the recordings of subjects 01, 02 and 10, and return their folder."""
    for subject in ("01", "02", "10"):
        (tmp_path / f"{subject}.csv").write_text("x,y\n1,2\n3,4\n")
    return tmp_path


def read(folder, table, **options):
    return Cohort.from_csv(folder / "[0-9]*.csv", sfreq=1, metadata=table, **options)


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("subjects.csv", "subject,group\n10,TG\n02,CG\n01,\n", {}),
        (
            "participants.tsv",
            "participant_id\tage\tgroup\n01\t70\tn/a\n02\t61\tCG\n10\t5\tTG\n",
            {},
        ),
        ("subjects.csv", "group;subject;age\nTG;10;7,5\nCG;02;\n;01;\n", {}),
        ("who.csv", "id,arm\n01,\n02,CG\n10,TG\n", {"metadata_subject": "id", "group": "arm"}),
    ],
)
def test_groups_come_from_the_table(walks, name, text, options):
    (walks / name).write_text(text)
    cohort = read(walks, walks / name, **options)
    assert cohort.subjects == ("01", "02", "10")
    assert cohort.groups == (None, "CG", "TG")


@pytest.mark.parametrize("missing", ["NA", "NaN", "nan", "NULL", " NA ", "\u00a0"])
def test_missing_groups_and_blanks_make_no_group(walks, missing):
    (walks / "who.csv").write_text(f"subject,group\n01,{missing}\n02,CG\u00a0\n10 ,CG \n")
    assert read(walks, walks / "who.csv").groups == (None, "CG", "CG")
    frame = pd.DataFrame({"subject": ["01", "02", "10"], "group": [missing, "CG ", "CG"]})
    assert read(walks, frame).groups == (None, "CG", "CG")


@pytest.mark.parametrize("missing", ["NA", "N/A", "nan", " "])
def test_covariates_with_missing_cells_are_numbers(walks, missing):
    (walks / "who.csv").write_text(f"subject,age\n01,{missing}\n02,71.5\n10, 8 \n")
    ages = Metadata(walks / "who.csv").rows_of(["02", "10", "01"])["age"]
    np.testing.assert_array_equal(ages, [71.5, 8, np.nan])


def test_decimal_commas_beside_semicolons_are_numbers(walks):
    text = "subject;age;height;note\n01;70,5;1.8;1,5\n02;;1.7;2.500,5\n10;8;NA;3\n"
    (walks / "who.csv").write_text(text)
    mixed = (
        r"who.csv: column 'note' .* numbers for 2 subjects, but also '2.500,5' of '02'. Write NA"
    )
    with pytest.warns(MixedColumnWarning, match=mixed):
        table = Metadata(walks / "who.csv").rows_of(["01", "02", "10"])
    np.testing.assert_array_equal(table["age"], [70.5, np.nan, 8])
    np.testing.assert_array_equal(table["height"], [1.8, 1.7, np.nan])
    assert table["note"].tolist() == ["1,5", "2.500,5", "3"]


@pytest.mark.parametrize("own", ["latin-1", "cp1252", "utf-8", "utf-16"])
def test_the_table_may_have_the_encoding_of_the_recordings(walks, own):
    text = "subject;group;Größe\n01;Tänzer;1\n02;CG;2\n10;CG;3\n"
    (walks / "who.csv").write_text(text, encoding=own)
    encoding = "latin-1" if own == "utf-8" else own
    if own != "utf-16":  # all files of a cohort have one encoding
        assert read(walks, walks / "who.csv", encoding=encoding).groups == ("Tänzer", "CG", "CG")
    table = Metadata(walks / "who.csv", encoding=encoding).rows_of(["01", "02", "10"])
    assert table["Größe"].tolist() == [1, 2, 3]


def test_a_frame_is_a_table(walks):
    table = pd.DataFrame({"subject": ["01", "02", "10"], "sex": [0, 1, 1]})
    assert read(walks, table).groups == (None, None, None)
    assert read(walks, table, group="sex").groups == ("0", "1", "1")


def test_a_table_without_groups_leaves_those_of_the_files(tmp_path):
    cohort = Cohort.from_arrays([[1.0], [2.0]], subjects=["a", "b"], groups=["x", "y"])
    cohort.to_npz(tmp_path / "both.npz")
    table = pd.DataFrame({"subject": ["a", "b"], "age": [3, 4]})
    assert Cohort.from_npz(tmp_path / "both.npz", metadata=table).groups == ("x", "y")


def test_a_parquet_table(walks):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"subject": ["01", "02", "10"], "group": ["a", None, "b"]})
    table.to_parquet(walks / "who.parquet")
    assert read(walks, walks / "who.parquet").groups == ("a", None, "b")


def test_subjects_of_files_and_table_must_be_the_same(walks):
    (walks / "subjects.csv").write_text("subject,group\n01,a\n03,a\n04,a\n10,a\n")
    message = (
        r"subjects\.csv must be exactly .* Recorded, but not in the table: '02'\. "
        r"In the table, but not recorded: '03', '04'\."
    )
    with pytest.raises(InvalidParameterError, match=message):
        read(walks, walks / "subjects.csv")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("subject\n01\n02\n01\n", {}, r"line 4: subject '01' has a row already, line 2"),
        ("subject,a\n01,1\n,2\n", {}, r"line 3: column 'subject' is empty"),
        ("who\n01\n", {}, r"no column 'subject' or 'participant_id', only who"),
        ("subject\n01\n02\n10\n", {"group": "arm"}, r"no column 'arm'"),
        ("subject,a\n01\n", {}, r"line 2 has 1 cell"),
    ],
)
def test_malformed_tables(walks, text, options, message):
    (walks / "subjects.csv").write_text(text)
    with pytest.raises(UnreadableFileError, match=message) as caught:
        read(walks, walks / "subjects.csv", **options)
    assert "subjects.csv" in str(caught.value)


def test_an_absent_table(walks):
    with pytest.raises(FileNotFoundError, match="no metadata table"):
        read(walks, walks / "none.csv")


def test_a_folder_finds_its_format_and_leaves_the_table_out(walks):
    (walks / "subjects.csv").write_text("subject,group\n01,a\n02,b\n10,b\n")
    (walks / "README.md").write_text("not a recording")
    cohort = Cohort.from_folder(walks, metadata=walks / "subjects.csv", sfreq=50, channels=["y"])
    assert cohort.groups == ("a", "b", "b")
    assert (cohort.channels, cohort.sfreq) == (("y",), 50)


def test_a_folder_in_the_layout_of_bids(tmp_path):
    for subject in ("sub-01", "sub-02"):
        (tmp_path / subject / "beh").mkdir(parents=True)
        path = tmp_path / subject / "beh" / f"{subject}_task-walk.npz"
        np.savez(path, values=np.ones(3), sfreq=10)
    (tmp_path / "participants.tsv").write_text("participant_id\tgroup\nsub-02\tb\nsub-01\ta\n")
    cohort = Cohort.from_folder(
        tmp_path, format="npz", subject_of=lambda path: path.stem.split("_")[0]
    )
    assert cohort.subjects == ("sub-01", "sub-02")
    assert cohort.groups == ("a", "b")


def test_folders_that_cannot_be_read(walks, tmp_path):
    np.savez(walks / "03.npz", values=np.ones(3), sfreq=10)
    with pytest.raises(UnreadableFileError, match=r"one format.*01\.csv \(csv\), 03\.npz"):
        Cohort.from_folder(walks)
    with pytest.raises(InvalidParameterError, match="format='mat' must be one of csv, parquet"):
        Cohort.from_folder(walks, format="mat")
    with pytest.raises(FileNotFoundError, match=r"no \.edf file in the folder"):
        Cohort.from_folder(walks, format="edf")
    with pytest.raises(FileNotFoundError, match="There is no file"):
        Cohort.from_folder(tmp_path / "none")
