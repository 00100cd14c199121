"""ECGs in the official layout: superclasses, folds, and what is said of damaged files."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from percdl.datasets import load_ptbxl, load_ptbxl_balanced
from percdl.datasets.ptbxl import SUPERCLASSES, read_archive
from percdl.exceptions import DatasetError, InvalidParameterError, MissingPackageError

wfdb = pytest.importorskip("wfdb")
# Writing headers, which only these tests do, wfdb uses what pandas is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")

LEADS = ["I", "II", "III", "AVR", "AVL", "AVF", "V1", "V2", "V3", "V4", "V5", "V6"]
STATEMENTS = """,description,diagnostic,form,rhythm,diagnostic_class
NORM,normal,1.0,,,NORM
IMI,inferior,1.0,,,MI
ISC_,ischemia,1.0,,,STTC
LVH,hypertrophy,1.0,,,HYP
CLBBB,block,1.0,,,CD
NDT,T wave,1.0,1.0,,STTC
SR,rhythm,,,1.0,
"""
CODES = {
    1: {"NORM": 100.0, "SR": 0.0}, 2: {"IMI": 0.0}, 5: {"ISC_": 50.0, "NDT": 100.0},
    7: {"LVH": 100.0, "CLBBB": 100.0}, 8: {"SR": 0.0}, 9: {"LVH": 35.0}, 10: {"CLBBB": 80.0},
}  # fmt: skip


def micro_volts(ecg_id, n_times=50):
    return np.random.default_rng(ecg_id).integers(-2000, 2000, (n_times, len(LEADS)))


def write_record(folder, name, values, fs, units="mV"):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    wfdb.wrsamp(
        (folder / name).name, fs=fs, units=[units] * 12, sig_name=LEADS, d_signal=values,
        fmt=["16"] * 12, adc_gain=[1000.0] * 12, baseline=[0] * 12,
        write_dir=str((folder / name).parent),
    )  # fmt: skip


@pytest.fixture
def ecgs(written, tmp_path):
    """A copy of the dataset, to be damaged at will."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    folder = home / "ptbxl"
    rows = []
    for fold, (ecg_id, codes) in enumerate(CODES.items(), start=4):
        low, high = (f"records{r}/00000/{ecg_id:05d}_{k}" for r, k in ((100, "lr"), (500, "hr")))
        write_record(folder, low, micro_volts(ecg_id), 100)
        write_record(folder, high, micro_volts(ecg_id, 250), 500)
        rows.append([ecg_id, 60.0, str(codes), fold, low, high])
    names = ["ecg_id", "age", "scp_codes", "strat_fold", "filename_lr", "filename_hr"]
    pd.DataFrame(rows, columns=names).to_csv(folder / "ptbxl_database.csv", index=False)
    (folder / "scp_statements.csv").write_text(STATEMENTS)
    return home


def load(folder, **options):
    return load_ptbxl(folder, download=False, **options)


def test_ecgs_are_described_in_a_line(written):
    text = repr(load(written))
    assert text.startswith("PTBXL(Cohort(7 recordings, 12 channels")
    assert "NORM: 1" in text
    assert "\n" not in text


@pytest.mark.parametrize(("sfreq", "n_times"), [(100, 50), (500, 250)])
def test_twelve_leads_in_millivolt(ecgs, sfreq, n_times):
    cohort = load(ecgs, sfreq=sfreq).cohort
    assert cohort.channels == tuple(LEADS)
    assert set(cohort.units) == {"mV"}
    assert cohort.sfreq == sfreq
    np.testing.assert_allclose(cohort["5"].values, micro_volts(5, n_times) / 1000, atol=1e-6)


def test_superclasses_come_from_diagnostic_codes_whatever_their_likelihood(ecgs):
    data = load(ecgs / "ptbxl")
    assert list(data.labels.columns) == list(SUPERCLASSES)
    found = {i: {c for c in SUPERCLASSES if row[c]} for i, row in data.labels.iterrows()}
    assert found == {
        1: {"NORM"}, 2: {"MI"}, 5: {"STTC"}, 7: {"HYP", "CD"}, 8: set(), 9: {"HYP"}, 10: {"CD"}
    }  # fmt: skip
    assert data.cohort.groups == ("NORM", "MI", "STTC", None, None, "HYP", "CD")
    assert data.single().cohort.subjects == ("1", "2", "5", "9", "10")


def test_official_folds(ecgs):
    data = load(ecgs)
    assert data.folds.to_dict() == dict(zip(CODES, range(4, 11), strict=True))
    assert list(data.split) == ["train"] * 5 + ["val", "test"]
    assert load(ecgs, folds=[9, 10]).cohort.subjects == ("9", "10")


def test_records_are_selected_before_they_are_read(ecgs):
    (ecgs / "ptbxl/records100/00000/00007_lr.dat").unlink()
    data = load(ecgs, records=[10, 1])
    assert data.cohort.subjects == ("10", "1")
    assert (
        list(data.metadata.index) == list(data.labels.index) == list(data.folds.index) == [10, 1]
    )
    assert load(ecgs, superclasses=["MI", "NORM"]).cohort.subjects == ("1", "2")


def test_a_balanced_draw(ecgs):
    data = load(ecgs)
    drawn = data.balanced(1, random_state=3)
    assert sorted(map(str, drawn.cohort.groups)) == sorted(SUPERCLASSES)
    assert drawn.cohort == data.balanced(1, random_state=3).cohort
    for subject in drawn.cohort.subjects:
        assert drawn.cohort[subject] == data.cohort[subject]
    assert drawn.cohort == load_ptbxl_balanced(ecgs, n_per_class=1, random_state=3).cohort
    with pytest.raises(InvalidParameterError, match="Cannot draw 2 record"):
        data.balanced(2)


def test_wishes_that_cannot_be_met_are_named(ecgs):
    for options, message in [
        ({"records": [3]}, "records=.* asks for 3"),
        ({"superclasses": ["FLU"]}, "'FLU'"),
        ({"folds": [11]}, "11"),
        ({"sfreq": 250}, "sfreq=250"),
        ({"records": [1], "superclasses": ["MI"]}, "No record has"),
    ]:
        with pytest.raises(InvalidParameterError, match=message):
            load(ecgs, **options)


@pytest.mark.parametrize("end", ["dat", "hea"])
def test_a_missing_half_is_named(ecgs, end):
    (ecgs / f"ptbxl/records100/00000/00005_lr.{end}").unlink()
    with pytest.raises(DatasetError, match=rf"Record 5: .*00005_lr\.{end}"):
        load(ecgs)


def test_a_truncated_record_is_named(ecgs):
    path = ecgs / "ptbxl/records100/00000/00005_lr.dat"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        DatasetError, match=r"Record 5: .*00005_lr\.hea announces 50 .* 1100 bytes"
    ):
        load(ecgs)


def test_a_record_unlike_the_others_is_named(ecgs):
    write_record(ecgs / "ptbxl", "records100/00000/00005_lr", micro_volts(5), 100, units="uV")
    with pytest.raises(DatasetError, match=r"Record 5 .* in uV"):
        load(ecgs)


def test_a_missing_table_is_named(ecgs):
    (ecgs / "ptbxl/scp_statements.csv").unlink()
    with pytest.raises(DatasetError, match=r"scp_statements\.csv is missing"):
        load(ecgs)


def test_without_wfdb_the_extra_is_named(ecgs, monkeypatch):
    monkeypatch.setitem(sys.modules, "wfdb", None)
    with pytest.raises(MissingPackageError, match=r"needs the package `wfdb`.*percdl\[data\]"):
        load(ecgs)


def write_archive(path, data, **changes):
    stored = {
        "X": np.round(1000 * data.cohort.stacked).astype(np.int16),
        "Y": data.labels.to_numpy(np.uint8), "classes": np.array(SUPERCLASSES),
        "ecg_id": data.labels.index.to_numpy(), "split": data.split.to_numpy(object),
        "leads": np.array(LEADS), "fs": np.int32(100), "units_per_mV": np.int32(1000),
    }  # fmt: skip
    np.savez_compressed(path, **{**stored, **changes})
    return path


def test_an_archive_holds_what_the_folder_holds(ecgs):
    data = load(ecgs)
    archive = read_archive(write_archive(ecgs / "some.npz", data))
    assert archive.cohort == data.cohort
    pd.testing.assert_frame_equal(archive.labels, data.labels)
    assert archive.split.to_dict() == data.split.to_dict()
    assert archive.folds.loc[[9, 10]].tolist() == [9, 10]
    assert archive.folds.loc[[1, 2]].isna().all()


def test_an_archive_runs_no_code(ecgs):
    class Harm:
        def __reduce__(self):
            return (print, ("harm",))

    split = np.array([Harm()] * len(CODES), object)
    path = write_archive(ecgs / "bad.npz", load(ecgs), split=split)
    with pytest.raises(DatasetError, match=r"builtins\.print"):
        read_archive(path)


def test_a_folder_with_the_archive_alone_will_do(written, tmp_path):
    data = load(written).single()
    write_archive(tmp_path / "ptbxl100_balanced_2650.npz", data)
    found = load_ptbxl_balanced(tmp_path, n_per_class=1, download=False)
    assert set(found.cohort.subjects) <= set(data.cohort.subjects)
    with pytest.raises(DatasetError, match="ptbxl"):
        load(tmp_path)


def test_damaged_archives_are_named(tmp_path):
    np.savez(tmp_path / "part.npz", X=np.zeros(3))
    with pytest.raises(DatasetError, match="has no key Y, classes, ecg_id"):
        read_archive(tmp_path / "part.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_archive(tmp_path / "text.npz")


@pytest.mark.realdata
def test_the_real_records_agree_with_the_archive(shared_data):
    archive = shared_data / "ptbxl" / "ptbxl100_balanced_2650.npz"
    if not archive.is_file():
        pytest.skip(f"no {archive.name} in {archive.parent}")
    balanced = read_archive(archive)
    assert balanced.superclass.value_counts().to_dict() == dict.fromkeys(SUPERCLASSES, 530)
    data = load(shared_data, superclasses=SUPERCLASSES)
    known = [i for i in data.labels.index if i in balanced.labels.index]
    assert known
    assert data.labels.loc[known].equals(balanced.labels.loc[known])
    assert data.split.loc[known].tolist() == balanced.split.loc[known].tolist()
    for ecg_id in known:
        mine, theirs = (x.cohort[str(ecg_id)].values for x in (data, balanced))
        np.testing.assert_allclose(mine, theirs, atol=1e-6)
