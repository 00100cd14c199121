"""Parquet, NPZ, EDF and WFDB: round trips, and what is refused with the file and the record."""

import os
import shutil
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from percdl import Cohort, Recording
from percdl.exceptions import MissingPackageError, UnreadableFileError

FINITE = st.floats(-100, 100, width=32)
VALUES = arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 3)), elements=FINITE)


@pytest.fixture
def walks():
    """Return two recordings at 100 Hz with two channels."""
    rng = np.random.default_rng(0)
    return Cohort.from_arrays(
        [rng.standard_normal((n, 2)) for n in (300, 200)],
        sfreq=100,
        subjects=["A", "B"],
        groups=["TG", None],
        channels=["x", "y"],
        units=["mV", "uV"],
    )


# Parquet


@pytest.fixture
def parquet(tmp_path):
    pytest.importorskip("pyarrow")

    def write(name="A", **columns):
        pd.DataFrame(columns).to_parquet(tmp_path / f"{name}.parquet")
        return tmp_path / f"{name}.parquet"

    return write


def test_parquet_is_read(parquet):
    times = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.arange(3) / 4, unit="s")
    path = parquet(t=times, x=[1.0, None, 3.0], n=[1, 2, 3], id=["u", "u", "u"])
    cohort = Cohort.from_parquet(path, channels={"x": "a", "n": "b"}, time="t")
    assert (cohort.subjects, cohort.channels, cohort.sfreq) == (("A",), ("a", "b"), 4)
    np.testing.assert_array_equal(cohort[0].values, [[1, 1], [np.nan, 2], [3, 3]])
    long = Cohort.from_parquet(path, channels="x", subject="id", time="t")
    assert long.subjects == ("u",)


def test_single_precision_is_kept(parquet):
    path = parquet(x=np.zeros(3, np.float32))
    assert Cohort.from_parquet(path, sfreq=1)[0].values.dtype == np.float32


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"y": [1.0]}, {}, r"A\.parquet: no column 'x', only .*'y'"),
        ({"x": ["1", "two"]}, {}, r"A\.parquet, row 2: 'two' in column 'x' is not a number"),
        ({"x": [1.0, np.inf]}, {}, r"A\.parquet, row 2: .* is infinite"),
        ({"x": np.zeros(0)}, {}, r"A\.parquet has no row"),
        ({"x": [1, 2, 3], "t": [0, 1, 3]}, {"time": "t"}, r"row 3: the clock leaps from 1 to 3"),
    ],
)
def test_malformed_parquet(parquet, columns, options, message):
    with pytest.raises(UnreadableFileError, match=message):
        Cohort.from_parquet(parquet(**columns), channels="x", sfreq=1, **options)


def test_truncated_parquet(parquet):
    path = parquet(x=np.arange(1000.0))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UnreadableFileError, match=r"A\.parquet cannot be read"):
        Cohort.from_parquet(path, sfreq=1)


# NPZ


def test_a_cohort_survives_npz(walks, tmp_path):
    treated = walks.bandpass(1, 20).zscore()
    treated.to_npz(tmp_path / "walks.npz")
    again = Cohort.from_npz(tmp_path / "walks.npz")
    assert again == treated
    assert again.processing == treated.processing
    assert again.groups == ("TG", None)
    assert [path.name for path in tmp_path.iterdir()] == ["walks.npz"]


@settings(max_examples=30)
@given(VALUES, st.sampled_from([np.float32, np.float64]), st.floats(0.1, 1e4), st.text(min_size=1))
def test_every_recording_survives_npz(tmp_path_factory, values, dtype, sfreq, subject):
    path = tmp_path_factory.mktemp("round") / "one.npz"
    values[0, 0] = np.nan
    cohort = Cohort([Recording(values.astype(dtype), sfreq=sfreq, subject=subject)])
    cohort.to_npz(path)
    assert Cohort.from_npz(path) == cohort
    assert Cohort.from_npz(path)[0].values.dtype == dtype


def test_archives_of_single_recordings(tmp_path):
    np.savez(tmp_path / "A.npz", values=np.ones((4, 2)), sfreq=50, channels=["x", "y"])
    np.savez(tmp_path / "B.npz", values=np.ones((3, 2)), sfreq=50, channels=["x", "y"])
    cohort = Cohort.from_npz(tmp_path)
    assert (cohort.subjects, cohort.channels, cohort.sfreq) == (("A", "B"), ("x", "y"), 50)
    np.savez(tmp_path / "C.npz", X=np.ones(4))
    other = Cohort.from_npz(tmp_path / "C.npz", values="X", sfreq=10, channels="z", units="g")
    assert (other.channels, other.units) == (("z",), ("g",))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"x": np.ones(3), "sfreq": 1}, r"A\.npz has no entry 'values'; .*'x'"),
        ({"values": np.ones(3)}, r"A\.npz has no entry 'sfreq'.*pass sfreq="),
        ({"values": np.ones(3), "sfreq": [1, 2]}, r"A\.npz, entry 'sfreq' holds"),
        ({"values": np.array([{}]), "sfreq": 1}, r"A\.npz cannot be read"),
        ({"values": np.ones((2, 2, 2)), "sfreq": 1}, r"A\.npz: Subject 'A'.*3 dimension"),
        ({"values": np.array(["a"]), "sfreq": 1}, r"A\.npz: Subject 'A'.*real numbers"),
        ({"percdl": np.array("[]")}, r"A\.npz is damaged"),
        (
            {"percdl": np.array('{"schema": 99, "recordings": []}')},
            r"A\.npz is damaged, or was written by a newer version",
        ),
    ],
)
def test_malformed_npz(tmp_path, entries, message):
    np.savez(tmp_path / "A.npz", **entries)
    with pytest.raises(UnreadableFileError, match=message):
        Cohort.from_npz(tmp_path / "A.npz")


@pytest.mark.parametrize("share", [0, 0.3, 0.9, 0.999])
def test_truncated_npz(walks, tmp_path, share):
    path = tmp_path / "walks.npz"
    walks.to_npz(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UnreadableFileError, match=r"walks\.npz cannot be read"):
        Cohort.from_npz(path)


def test_a_lone_array_is_no_archive(tmp_path):
    with open(tmp_path / "A.npz", "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UnreadableFileError, match=r"A\.npz cannot be read"):
        Cohort.from_npz(tmp_path / "A.npz")


# EDF


@pytest.fixture
def edf(tmp_path):
    edfio = pytest.importorskip("edfio")

    def write(name="A", rates=(100, 100), n_seconds=3, labels=("x", "y"), annotations=()):
        rng = np.random.default_rng(0)
        signals = [
            edfio.EdfSignal(
                rng.standard_normal(rate * n_seconds), rate, label=label, physical_dimension="mV"
            )
            for rate, label in zip(rates, labels, strict=True)
        ]
        notes = [edfio.EdfAnnotation(onset, None, text) for onset, text in annotations]
        edfio.Edf(signals, annotations=notes).write(tmp_path / f"{name}.edf")
        return tmp_path / f"{name}.edf"

    return write


def test_edf_is_read(edf):
    path = edf(annotations=[(1.0, "step")])
    cohort = Cohort.from_edf(path)
    assert (cohort.subjects, cohort.channels) == (("A",), ("x", "y"))
    assert (cohort.units, cohort.sfreq) == (("mV", "mV"), 100)
    expected = np.random.default_rng(0).standard_normal((2, 300)).T
    np.testing.assert_allclose(cohort[0].values, expected, atol=1e-3)
    assert Cohort.from_edf(path, channels={"y": "gyro"}).channels == ("gyro",)


@settings(max_examples=20)
@given(arrays(np.float64, st.tuples(st.just(40), st.integers(1, 3)), elements=FINITE))
def test_values_survive_edf_at_its_resolution(tmp_path_factory, values):
    edfio = pytest.importorskip("edfio")
    path = tmp_path_factory.mktemp("round") / "A.edf"
    signals = [
        edfio.EdfSignal(column, 20, label=f"c{i}", physical_range=(-100, 100))
        for i, column in enumerate(values.T)
    ]
    edfio.Edf(signals).write(path)
    read = Cohort.from_edf(path)
    assert read.sfreq == 20
    np.testing.assert_allclose(read[0].values, values, atol=200 / 2**16)


def test_rates_must_agree_within_an_edf_file(edf):
    path = edf(rates=(100, 50))
    with pytest.raises(UnreadableFileError, match=r"A\.edf .*x 100 Hz, y 50 Hz.*channels="):
        Cohort.from_edf(path)
    assert Cohort.from_edf(path, channels=["y"]).sfreq == 50


@pytest.mark.parametrize(
    ("n_bytes", "message"),
    [
        (0, r"A\.edf ends within its header"),
        (100, r"A\.edf ends within its header"),
        (300, r"A\.edf ends within its header"),
        (-1, r"A\.edf: its header announces 3 data records .* data record 3 is cut short"),
        (-400, r"A\.edf: its header announces 3 .* data record 3 is"),
        (-500, r"A\.edf: its header announces 3 .* data record 2 is"),
    ],
)
def test_truncated_edf(edf, n_bytes, message):
    path = edf()
    path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(UnreadableFileError, match=message):
        Cohort.from_edf(path)


def test_a_recording_under_way_is_no_whole_edf(edf):
    path = edf()
    content = path.read_bytes()
    path.write_bytes(content[:236] + b"-1      " + content[244:])
    with pytest.raises(
        UnreadableFileError, match=r"A\.edf: its header announces -1 .*3 are there"
    ):
        Cohort.from_edf(path)


def test_text_is_no_edf(edf):
    path = edf()
    path.write_text("not a recording " * 100)
    with pytest.raises(UnreadableFileError, match=r"A\.edf cannot be read"):
        Cohort.from_edf(path)


def test_unknown_and_ambiguous_signals(edf):
    with pytest.raises(UnreadableFileError, match=r"A\.edf: no signal 'z', only 'x', 'y'"):
        Cohort.from_edf(edf(), channels=["z"])
    with pytest.raises(UnreadableFileError, match=r"several signals are called 'x'"):
        Cohort.from_edf(edf(labels=("x", "x")), channels=["x"])
    with pytest.raises(UnreadableFileError, match=r"A\.edf: .*repeats a name"):
        Cohort.from_edf(edf(labels=("x", "x")))


def test_an_interrupted_edf_is_refused(edf):
    path = edf(annotations=[(0.5, "step")])
    path.write_bytes(path.read_bytes().replace(b"EDF+C", b"EDF+D", 1))
    with pytest.raises(UnreadableFileError, match=r"A\.edf is interrupted"):
        Cohort.from_edf(path)


def test_annotations_alone_are_no_recording(tmp_path):
    edfio = pytest.importorskip("edfio")
    edfio.Edf([], annotations=[edfio.EdfAnnotation(0, None, "step")]).write(tmp_path / "A.edf")
    with pytest.raises(UnreadableFileError, match=r"A\.edf must have signals .* no signal"):
        Cohort.from_edf(tmp_path / "A.edf")


# WFDB


@pytest.fixture
def record(tmp_path):
    wfdb = pytest.importorskip("wfdb")

    def write(name="A", fmt="16", n_times=500):
        signals = np.random.default_rng(0).standard_normal((n_times, 2))
        signs = {"units": ["mV", "mV"], "sig_name": ["I", "II"], "fmt": [fmt] * 2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # in the package
            wfdb.wrsamp(name, 250, p_signal=signals, write_dir=str(tmp_path), **signs)
        return tmp_path / f"{name}.hea"

    return write


def test_wfdb_is_read(record):
    cohort = Cohort.from_wfdb(record())
    assert (cohort.subjects, cohort.channels) == (("A",), ("I", "II"))
    assert (cohort.units, cohort.sfreq) == (("mV", "mV"), 250)
    expected = np.random.default_rng(0).standard_normal((500, 2))
    np.testing.assert_allclose(cohort[0].values, expected, atol=1e-3)
    np.testing.assert_allclose(
        Cohort.from_wfdb(record(), channels={"II": "b", "I": "a"})[0].values,
        cohort[0].values[:, ::-1],
    )


@pytest.mark.parametrize("fmt", ["16", "212", "24", "80"])
@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_truncated_wfdb(record, fmt, share):
    path = record(fmt=fmt)
    samples = path.with_suffix(".dat")
    whole = samples.read_bytes()
    samples.write_bytes(whole[: int(share * len(whole))])
    message = rf"A\.hea announces 500 .* A\.dat has {int(share * len(whole))} bytes"
    with pytest.raises(UnreadableFileError, match=message):
        Cohort.from_wfdb(path)


def test_samples_must_lie_beside_the_header(record):
    path = record()
    path.with_suffix(".dat").unlink()
    with pytest.raises(UnreadableFileError, match=r"A\.dat"):
        Cohort.from_wfdb(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", r"A\.hea cannot be read"),
        ("A 2 250 500\nA.dat 16 200 16 0 0 0 0 I\n", r"A\.hea cannot be read"),
        ("A 1 250 500\nhttps://x.org/A.dat 16 200 16 0 0 0 0 I\n", r"A\.hea cannot be read"),
        ("no header at all\n", r"A\.hea cannot be read"),
        ("A 0 250 500\n", r"A\.hea"),
        ("A/2 2 250 1000\nB 500\nC 500\n", r"A\.hea"),
    ],
)
def test_malformed_headers(record, header, message):
    path = record()
    path.write_text(header)
    with pytest.raises(UnreadableFileError, match=message):
        Cohort.from_wfdb(path)


SIGNAL = "A 1 250 500\n{} 16 200 16 0 0 0 0 I\n"


@pytest.fixture
def elsewhere(record, tmp_path_factory):
    """Return the header of a record, and another folder that holds the same record."""
    path, other = record(), tmp_path_factory.mktemp("elsewhere")
    for end in (".hea", ".dat"):
        shutil.copy(path.with_suffix(end), other)
    return path, other


@pytest.mark.parametrize("name", ["{relative}/A.dat", "{absolute}/A.dat", "linked.dat"])
def test_a_header_names_files_of_its_own_folder(elsewhere, name):
    path, other = elsewhere
    path.with_name("linked.dat").symlink_to(other / "A.dat")
    places = {"relative": os.path.relpath(other, path.parent), "absolute": other}
    path.write_text(SIGNAL.format(name.format(**places)))
    words = r"A\.hea: 'linked\.dat' is outside the folder|A\.hea cannot be read"
    with pytest.raises(UnreadableFileError, match=words):
        Cohort.from_wfdb(path)


def test_bytes_that_are_no_part_of_a_name_hide_no_link(elsewhere):
    path, other = elsewhere
    path.with_name("linked.dat").symlink_to(other / "A.dat")
    path.write_bytes(SIGNAL.format("lin\xe9ked.dat").encode("latin-1"))
    with pytest.raises(UnreadableFileError, match="outside the folder of the record"):
        Cohort.from_wfdb(path)


def test_a_linked_header_must_stay_in_its_folder(elsewhere):
    path, other = elsewhere
    expected = Cohort.from_wfdb(path)[0].values
    path.with_name("B.hea").symlink_to(path)
    np.testing.assert_array_equal(Cohort.from_wfdb(path.with_name("B.hea"))[0].values, expected)
    path.with_name("C.hea").symlink_to(other / "A.hea")
    with pytest.raises(UnreadableFileError, match=r"C\.hea' is outside the folder"):
        Cohort.from_wfdb(path.with_name("C.hea"))
    path.with_name("folder").symlink_to(other)  # a folder may be a link itself
    linked = Cohort.from_wfdb(path.with_name("folder") / "A.hea")[0].values
    np.testing.assert_array_equal(linked, expected)


def test_records_in_segments_are_refused(record, tmp_path):
    record("B")
    (tmp_path / "A.hea").write_text("A/2 2 250 1000\nB 500\nB 500\n")
    with pytest.raises(UnreadableFileError, match=r"A\.hea has segments"):
        Cohort.from_wfdb(tmp_path / "A.hea")


def test_rates_must_agree_within_a_record(record):
    path = record(n_times=300)
    # The same bytes, read as frames of two samples of I and one of II.
    path.write_text("A 2 250 200\nA.dat 16x2 200 16 0 0 0 0 I\nA.dat 16 200 16 0 0 0 0 II\n")
    with pytest.raises(UnreadableFileError, match=r"A\.hea .*I 500 Hz, II 250 Hz"):
        Cohort.from_wfdb(path)
    assert Cohort.from_wfdb(path, channels=["I"]).sfreq == 500


def test_unknown_signals_and_other_files(record):
    with pytest.raises(UnreadableFileError, match=r"A\.hea: no signal 'V1', only 'I', 'II'"):
        Cohort.from_wfdb(record(), channels=["V1"])
    with pytest.raises(UnreadableFileError, match=r"A\.dat is not a WFDB header"):
        Cohort.from_wfdb(record().with_suffix(".dat"))


@pytest.mark.realdata
def test_real_electrocardiograms(shared_data):
    pytest.importorskip("wfdb")
    files = sorted(shared_data.glob("ptbxl/records100/*/*.hea"))[:2]
    if not files:
        pytest.skip("no ECG records among the real recordings")
    cohort = Cohort.from_wfdb(files, channels=["II", "V1"], subject_of=lambda path: path.stem[:5])
    assert cohort.channels == ("II", "V1")
    assert (cohort.sfreq, set(cohort.units)) == (100, {"mV"})
    assert cohort.lengths.tolist() == [1000, 1000]


# All formats


def damage(whole, rng):
    """Cut bytes short, change some, or leave some out."""
    changed = bytearray(whole)
    kind = rng.integers(3)
    if kind == 0:
        return bytes(changed[: rng.integers(len(changed))])
    if kind == 1:
        for place in rng.integers(len(changed), size=rng.choice([1, 3, 20])):
            changed[place] = rng.choice([0, 10, 32, 34, 44, 255])
        return bytes(changed)
    place = rng.integers(len(changed))
    del changed[place : place + rng.integers(1, 20)]
    return bytes(changed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["edf", "hea", "dat", "npz", "parquet", "csv"])
def test_damaged_files_are_read_or_refused_by_name(request, tmp_path, walks, kind):
    path = tmp_path / f"A.{kind}"
    if kind == "edf":
        request.getfixturevalue("edf")(annotations=[(0.5, "step")])
    elif kind in ("hea", "dat"):
        request.getfixturevalue("record")(n_times=50)
    elif kind == "npz":
        walks.to_npz(path)
    else:
        rows = request.getfixturevalue("parquet")(t=np.arange(30.0), x=np.arange(30.0))
        pd.read_parquet(rows).to_csv(tmp_path / "A.csv", index=False)
    whole = path.read_bytes()
    door = "wfdb" if kind in ("hea", "dat") else kind
    options = {"time": "t"} if kind in ("parquet", "csv") else {}
    rng = np.random.default_rng(0)
    messages = []
    for _ in range(60):
        path.write_bytes(damage(whole, rng))
        try:
            read = path.with_suffix(".hea") if kind == "dat" else path
            getattr(Cohort, f"from_{door}")(read, **options)
        except UnreadableFileError as error:
            messages.append(str(error))
    assert len(messages) >= 20
    assert all(str(path.with_suffix("")) in message for message in messages)


@pytest.mark.parametrize(
    ("reader", "package", "suffix"),
    [
        ("from_parquet", "pyarrow", "parquet"),
        ("from_edf", "edfio", "edf"),
        ("from_wfdb", "wfdb", "hea"),
    ],
)
def test_absent_packages_are_named(monkeypatch, tmp_path, reader, package, suffix):
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / f"A.{suffix}"
    path.write_text("A 1 100 3\n")
    options = {"sfreq": 1} if reader == "from_parquet" else {}
    with pytest.raises(MissingPackageError, match=rf"`{package}`.*pip install 'percdl\[data\]'"):
        getattr(Cohort, reader)(path, **options)
