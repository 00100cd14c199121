"""What fuzzing has found at the doors of a cohort: each case once raised something else."""

import io
import json
import zipfile
from contextlib import contextmanager
from copy import copy

import numpy as np
import pandas as pd
import pytest

from percdl import Cohort
from percdl.exceptions import InvalidParameterError, InvalidRecordingError, UnreadableFileError
from percdl.signals.tables import first_gap

pytestmark = pytest.mark.filterwarnings("error")
RAGGED = [[1.0], [1.0, 2.0]]


@pytest.mark.parametrize("sfreq", [0, float("nan")])
def test_a_rate_that_is_none_is_refused(sfreq, tmp_path):
    frame = pd.DataFrame({"id": ["a", "a"], "x": [0.0, 1.0], "t": [0.0, 0.1]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for make in (
        lambda: Cohort.from_arrays([[0.0, 1.0]], sfreq=sfreq),
        lambda: Cohort.from_frame(frame, subject="id", channels="x", time="t", sfreq=sfreq),
        lambda: Cohort.from_csv(tmp_path / "a.csv", channels="x", time="t", sfreq=sfreq),
    ):
        with pytest.raises(InvalidRecordingError, match="is not a sampling rate"):
            make()


def test_a_ragged_list_of_rates_has_one_entry_per_recording():
    with pytest.raises(InvalidParameterError, match="sfreq has 2 entries, but there are 1"):
        Cohort.from_arrays([[0.0]], sfreq=RAGGED)


def test_a_ragged_recording_is_named():
    with pytest.raises(InvalidRecordingError, match=r"Subject '1'.*not an array"):
        Cohort.from_arrays([[0.0], RAGGED])


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8, np.float16])
def test_flat_subjects_are_found_in_arrays_of_all_kinds(dtype):
    cube = np.zeros((2, 3, 1), dtype)
    cube[1, 1] = 1
    cohort = Cohort.from_arrays(cube)
    assert cohort.flat == ("0",)
    assert cohort.stacked is None


def test_a_float_cube_stays_one_array():
    cube = np.zeros((2, 3, 1))
    assert Cohort.from_arrays(cube).stacked is cube


def test_samples_near_the_largest_number_raise_no_warning():
    cohort = Cohort.from_arrays([[1e308, -1e308, 0.0], [1.0, 2.0, 3.0]])
    assert cohort.power[0] == np.inf
    assert cohort.flat == ()


def test_an_index_may_be_called_like_the_subjects():
    frame = pd.DataFrame({"id": list("ab"), "x": [0.0, 1.0]})
    frame.index = pd.Index([0, 0], name="id")
    assert Cohort.from_frame(frame, subject="id", channels="x").subjects == ("a", "b")


@pytest.mark.parametrize("argument", ["time", "group"])
def test_an_empty_name_is_that_of_no_column(argument):
    frame = pd.DataFrame({"id": list("ab"), "x": [0.0, 1.0]})
    with pytest.raises(InvalidRecordingError, match="no column ''"):
        Cohort.from_frame(frame, subject="id", channels="x", **{argument: ""})


def test_a_clock_that_stands_still_is_a_gap(tmp_path):
    assert first_gap(np.zeros(3)) == 0
    (tmp_path / "a.csv").write_text("t,x\n1,1\n1,2\n1,3\n")
    with pytest.raises(UnreadableFileError, match="stands still"):
        Cohort.from_csv(tmp_path / "a.csv", time="t")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("t,x\n0,1\n", {"delimiter": "\n"}, "must be two different ASCII"),
        ("t,x\n0,1\n", {"delimiter": "é"}, "must be two different ASCII"),
        ("t,x\n0,1\n", {"delimiter": '"'}, "must be two different ASCII"),
        ("t,x\n0,1\n", {"decimal": ",,"}, "must be two different ASCII"),
    ],
)
def test_impossible_text_options_are_refused(tmp_path, text, options, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InvalidParameterError, match=words):
        Cohort.from_csv(tmp_path / "a.csv", sfreq=1, **options)


def test_a_table_without_a_channel_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("t\n0\n1\n")
    with pytest.raises(UnreadableFileError, match="no column is left for a channel"):
        Cohort.from_csv(tmp_path / "a.csv", time="t")


@pytest.mark.parametrize(
    "description",
    [
        {"schema": {}, "recordings": []},
        {"schema": 1, "recordings": 5.0},
        {"schema": 1, "recordings": [{"subject": "a", "age": 3}]},
        {"schema": 1, "recordings": ["a"]},
        {"schema": float("inf"), "recordings": []},
    ],
)
def test_a_forged_description_of_a_cohort_is_refused(tmp_path, description):
    text = np.array(json.dumps(description))
    np.savez(tmp_path / "c.npz", percdl=text, recording_0=np.ones((3, 1)))
    with pytest.raises(UnreadableFileError, match=r"c\.npz"):
        Cohort.from_npz(tmp_path / "c.npz")


def test_a_description_nested_too_deep_is_refused(tmp_path):
    np.savez(tmp_path / "c.npz", percdl=np.array("[" * 100_000))
    with pytest.raises(UnreadableFileError, match="nested too deeply"):
        Cohort.from_npz(tmp_path / "c.npz")


@pytest.mark.parametrize("notes", [b"\xff", b"{", b"{}", b"[3]"])
def test_damaged_notes_of_pandas_are_refused(tmp_path, notes):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"x": [1.0]}).replace_schema_metadata({"pandas": notes})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        Cohort.from_parquet(tmp_path / "a.parquet", sfreq=1)


def test_columns_of_one_name_are_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.Table.from_arrays([arrow.array([1.0]), arrow.array([2.0])], names=["x", "x"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UnreadableFileError, match=r"several columns|cannot be read"):
        Cohort.from_parquet(tmp_path / "a.parquet", sfreq=1)


def test_an_edf_signal_without_calibration_is_refused(tmp_path):
    edfio = pytest.importorskip("edfio")
    signal = edfio.EdfSignal(np.linspace(-1, 1, 8), 4, physical_range=(-1, 1))
    content = bytearray(edfio.Edf([signal]).to_bytes())
    minimum, maximum = slice(256 + 104, 256 + 112), slice(256 + 112, 256 + 120)
    content[minimum] = content[maximum]
    (tmp_path / "a.edf").write_bytes(content)
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        Cohort.from_edf(tmp_path / "a.edf")


def test_an_archive_may_be_anything_that_is_zipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("values.npy", b"\x93NUMPY\x01\x00")
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        Cohort.from_npz(tmp_path / "a.npz")


def test_an_archive_that_asks_for_more_memory_than_there_is(tmp_path):
    header = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": (1 << 58,)}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("values.npy", header.getvalue() + bytes(80))
    with pytest.raises(UnreadableFileError, match=r"a\.npz cannot be read"):
        Cohort.from_npz(tmp_path / "a.npz")


@pytest.fixture
def packed(tmp_path):
    """Write an archive of a compressed recording, whose directory a test may forge."""

    @contextmanager
    def writing():
        array = io.BytesIO()
        np.save(array, np.zeros(1000))
        with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("values.npy", array.getvalue())
            yield archive

    return writing


def read_packed(folder):
    return Cohort.from_npz(folder / "a.npz", sfreq=1)


def test_an_archive_that_packs_well_is_read(packed, tmp_path):
    with packed():
        pass
    assert read_packed(tmp_path)[0].n_times == 1000


def test_entries_cannot_unpack_the_same_bytes_again_and_again(packed, tmp_path):
    with packed() as archive:
        for i in range(200):
            twin = copy(archive.filelist[0])
            twin.filename = f"x{i}.npy"
            archive.filelist.append(twin)
    with pytest.raises(UnreadableFileError, match="cannot be read"):
        read_packed(tmp_path)


def test_other_files_in_an_archive_are_left_alone(packed, tmp_path):
    with packed() as archive:
        archive.writestr("notes.txt", "of last year")
    assert read_packed(tmp_path).n_channels == 1


def test_a_header_that_numpy_stumbles_over_is_refused(tmp_path):
    """NumPy raises errors of `tokenize` for it, and of recursion."""
    for text in (b"{'descr': '<f8", b"-" * 5000 + b"1"):
        header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr("values.npy", header)
        with pytest.raises(UnreadableFileError, match="cannot be read"):
            read_packed(tmp_path)


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        ("a/b 1 100 10", r"a\.hea"),
        ("a 1\u00b3 100 10", r"a\.hea cannot be read"),
    ],
)
def test_a_wfdb_header_of_odd_numbers_is_refused(tmp_path, first_line, words):
    pytest.importorskip("wfdb", reason="reading WFDB records needs wfdb")
    (tmp_path / "a.hea").write_bytes(f"{first_line}\n".encode("latin-1"))
    with pytest.raises(UnreadableFileError, match=words):
        Cohort.from_wfdb(tmp_path / "a.hea")
