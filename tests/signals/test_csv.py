"""CSV files: what is read, and what is refused with the file and the line."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from percdl import Cohort
from percdl.exceptions import (
    ClockColumnWarning,
    ClockUnitWarning,
    InvalidParameterError,
    PerCDLError,
    UnreadableFileError,
)

GOOD = "t,RRX,RRY\n0.00,1,2\n0.01,3,4\n0.02,5,6\n"


@pytest.fixture
def write(tmp_path):
    """Write texts (or bytes) to files of these names and return their folder."""

    def write_all(**texts):
        for name, text in texts.items():
            content = text if isinstance(text, bytes) else text.encode()
            (tmp_path / f"{name}.csv").write_bytes(content)
        return tmp_path

    return write_all


def read(folder, **options):
    return Cohort.from_csv(folder / "*.csv", **{"channels": ["RRY"], "sfreq": 100, **options})


def test_one_file_is_one_recording(write):
    folder = write(B=GOOD, A=GOOD)
    cohort = read(folder, units="deg/s")
    assert cohort.subjects == ("A", "B")
    assert (cohort.channels, cohort.units, cohort.sfreq) == (("RRY",), ("deg/s",), 100)
    np.testing.assert_array_equal(cohort["A"].values, [[2], [4], [6]])
    assert Cohort.from_csv(folder, channels="RRY", sfreq=100) == read(folder, units=None)
    listed = Cohort.from_csv([folder / "B.csv", str(folder / "A.csv")], channels="RRY", sfreq=100)
    assert listed.subjects == ("B", "A")


def test_columns_are_mapped_in_the_order_given(write):
    cohort = read(write(A=GOOD), channels={"RRY": "gyro_y", "RRX": "gyro_x"})
    assert cohort.channels == ("gyro_y", "gyro_x")
    np.testing.assert_array_equal(cohort[0].values, [[2, 1], [4, 3], [6, 5]])
    assert read(write(A=GOOD), channels=None, time="t", sfreq=None).channels == ("RRX", "RRY")


@pytest.mark.parametrize(
    ("times", "sfreq"),
    [
        (["0", "0.004", "0.008"], 250),
        (["00:00:01.00", "00:00:01.02", "00:00:01.04"], 50),
        (["2025-03-01T12:00:00.0", "2025-03-01T12:00:00.1", "2025-03-01T12:00:00.2"], 10),
        (
            [
                "2025-10-26T02:59:59+02:00",
                "2025-10-26T02:00:00+01:00",
                "2025-10-26T02:00:01+01:00",
            ],
            1,
        ),
        (["2025-03-01 23:59:59", "2025-03-02 00:00:00", "2025-03-02 00:00:01"], 1),
    ],
)
def test_the_rate_is_read_from_time(write, times, sfreq):
    folder = write(A="t,RRY\n" + "".join(f"{time},1\n" for time in times))
    assert read(folder, time="t", sfreq=None).sfreq == pytest.approx(sfreq, rel=1e-12)


def test_rounded_times_go_with_a_rate(write):
    rows = "".join(f"{np.round(i / 128, 3)},{i}\n" for i in range(500))
    assert read(write(A="t,RRY\n" + rows), time="t", sfreq=128).sfreq == 128
    with pytest.raises(UnreadableFileError, match=r"A\.csv, line \d+: the clock.*pass sfreq="):
        read(write(A="t,RRY\n" + rows), time="t", sfreq=None)


def test_a_long_table_has_a_subject_column(write):
    text = "id,arm,t,x\n007,TG,0,1\n12,CG,0,5\n007,TG,1,2\n12,CG,1,6\n12,,2,7\n"
    cohort = Cohort.from_csv(
        write(all=text) / "all.csv", channels="x", subject="id", group="arm", time="t"
    )
    assert cohort.subjects == ("007", "12")
    assert cohort.groups == ("TG", "CG")
    assert cohort["12"].values.ravel().tolist() == [5, 6, 7]


def test_missing_groups_in_recordings_are_no_group(write):
    text = "id,arm,x\n1,NA,1\n2,TG,2\n2,n/a,3\n"
    cohort = Cohort.from_csv(write(all=text), sfreq=1, channels="x", subject="id", group="arm")
    assert cohort.groups == (None, "TG")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (GOOD.replace(",", ";").replace("0.0", "0,0"), {"delimiter": ";", "decimal": ","}),
        (GOOD.replace(",", "\t"), {"delimiter": "\t"}),
        ("\ufeff" + GOOD, {}),
        (GOOD.encode("utf-16"), {"encoding": "utf-16"}),
        (GOOD.replace("\n", "\r\n"), {}),
        (GOOD.replace("\n", "\r"), {}),
        (GOOD.rstrip("\n"), {}),
        (GOOD + "\n\n", {}),
        ("recorded by us\n\n" + GOOD, {"skip_lines": 2}),
        ("0,1,2\n0.01,3,4\n0.02,5,6\n", {"header": False, "channels": {"2": "RRY"}}),
        ('t, RRX , "RRY"\n0, 1, "2"\n1, 3, "4"\n2, 5, "6"\n', {}),
        ('note,RRY\n"a",2\n"say ""hi"", twice",4\n,6\n', {}),
    ],
)
def test_ways_of_writing(write, text, options):
    cohort = read(write(A=text), **options)
    assert cohort.channels == ("RRY",)
    np.testing.assert_array_equal(cohort[0].values, [[2], [4], [6]])


@pytest.mark.parametrize("cell", ["", "NaN", "nan", "NA", "n/a", "null", '""', " "])
def test_empty_cells_are_missing(write, cell):
    cohort = read(write(A=f"RRX,RRY\n1,2\n3,{cell}\n5,6\n"))
    assert cohort[0].mask.ravel().tolist() == [True, False, True]


@pytest.mark.parametrize("other", ["2,5", "3", "2.500"])
def test_points_are_not_read_as_decimal_commas(write, other):
    folder = write(A=f"RRX;RRY\n1,5;{other}\n1,5;1.522\n")
    with pytest.raises(UnreadableFileError, match=r"A\.csv, line .*'(1.522|2.500)' in.*thousands"):
        read(folder, delimiter=";", decimal=",")


@pytest.mark.parametrize(
    "times",
    [
        ["2025-03-01T12:00:00.0", "2025-03-01T12:00:00.1"],
        ["00:00:01.00", "00:00:01.10"],
        ["00:00:01,00", "00:00:01,10"],
        ["1,0", "1,1"],
    ],
)
def test_times_beside_decimal_commas(write, times):
    folder = write(A="t;RRY\n" + "".join(f"{time};1,5\n" for time in times))
    found = read(folder, time="t", sfreq=None, delimiter=";", decimal=",")
    assert found.sfreq == pytest.approx(10)


def test_times_with_points_among_decimal_commas(write):
    folder = write(A="t;RRY\n999;1\n1.000;1\n")
    with pytest.raises(UnreadableFileError, match=r"A\.csv, line 3: .*'1.000', which is not"):
        read(folder, time="t", sfreq=1, delimiter=";", decimal=",")


def test_decimal_commas_are_numbers(write):
    cohort = read(write(A="RRX;RRY\n1,5;2,5\n"), delimiter=";", decimal=",")
    assert cohort[0].values.tolist() == [[2.5]]


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 6), st.integers(1, 3)), elements=st.floats(-1e6, 1e6)
    ).flatmap(lambda a: arrays(np.bool_, a.shape).map(lambda hole: np.where(hole, np.nan, a))),
    st.sampled_from([(",", "."), (";", ","), ("\t", "."), ("|", ",")]),
    st.booleans(),
)
def test_what_is_written_is_read_back(tmp_path_factory, values, signs, quoted):
    delimiter, decimal = signs
    path = tmp_path_factory.mktemp("round") / "A.csv"
    names = [f"c{i}" for i in range(values.shape[1])]
    pd.DataFrame(values, columns=names).to_csv(
        path, index=False, sep=delimiter, decimal=decimal, quoting=1 if quoted else 0, na_rep="NaN"
    )
    read_back = Cohort.from_csv(path, sfreq=7, delimiter=delimiter, decimal=decimal)
    assert read_back.channels == tuple(names)
    np.testing.assert_allclose(read_back[0].values, values, rtol=1e-15)


BAD = {
    "missing column": (GOOD.replace("RRY", "RRZ"), {}, r"line 1: no column 'RRY'.*mean 'RRZ'"),
    "wrong delimiter": (GOOD.replace(",", ";"), {}, r"line 1: .* pass delimiter="),
    "wrong delimiter, all columns": (
        GOOD.replace(",", ";"), {"channels": None}, r"line 2: '0.00;1;2' .*pass delimiter=';'",
    ),
    "short row": (GOOD.replace("0.01,3,4", "0.01,3"), {}, r"line 3 has 2 cell.* the first has 3"),
    "long row": (GOOD.replace("0.02,5,6", "0.02,5,6,7"), {}, r"line 4 has 4 cell"),
    "trailing comma": (GOOD.replace("0.00,1,2", "0.00,1,2,"), {}, r"line 2 has 4 cell"),
    "short quoted row": ('RRX,RRY\n"1",2\n"3"\n', {}, r"line 3 has 1 cell"),
    "text": (GOOD.replace("4", "four"), {}, r"line 3: 'four' in column 'RRY' is not a number"),
    "quoted break": ('n,RRY\n"a\nb",2\nc,3\n', {}, r"line 2: .*quotation mark in its line"),
    "truth values": ("RRX,RRY\n1,True\n2,False\n", {}, r"line 2: 'True' in .* is not a number"),
    "a unit": (GOOD.replace("6", "6 g"), {}, r"line 4: '6 g' in column 'RRY'"),
    "underscores": (GOOD.replace("6", "6_000"), {}, r"line 4: '6_000' in column 'RRY'"),
    "decimal comma": (
        GOOD.replace(",", ";").replace("6", "6,5"), {"delimiter": ";"},
        r"line 4: '6,5' .*pass decimal=','",
    ),
    "infinite": (GOOD.replace("4", "inf"), {}, r"line 3: .* in column 'RRY' is infinite"),
    "blank line": (GOOD.replace("0.02", "\n0.02"), {}, r"line 4 is blank"),
    "blank line, one column": ("RRY\n1\n\n3\n", {}, r"line 3 is blank"),
    "empty file": ("", {}, r"B\.csv is empty\. A header"),
    "blank file": ("\n\n", {}, r"B\.csv is empty"),
    "nothing after the preamble": ("hello\n", {"skip_lines": 1}, r"is empty.*after the 1 skipped"),
    "header only": ("t,RRX,RRY\n", {}, r"B\.csv has no row"),
    "column twice": (GOOD.replace("RRX", "RRY"), {}, r"line 1: several columns are named 'RRY'"),
    "open quote": ('RRX,RRY\n1,2\n3,"4\n5,6\n', {}, r"line 3: .*quotation mark"),
    "binary": (b"RRY\n1\n\x00\n", {}, r"line 3 is not utf-8-sig text"),
    "a spreadsheet": (b"PK\x03\x04\x14\x00", {}, r"line 1 is not .*save spreadsheets as CSV"),
    "lines before the header": (
        "made by us\n\n" + GOOD, {}, r"line 1: no column 'RRY'.* pass skip_lines=;",
    ),
    "lines before a header with semicolons": (
        "made by us\n" + GOOD.replace(",", ";"), {}, r"pass skip_lines=;.* pass delimiter=",
    ),
    "lines before the header, all columns": (
        "made by us\nin March\n" + GOOD, {"channels": None}, r"line 3 has 3 .* pass skip_lines=",
    ),
    "too many lines left out": (GOOD, {"skip_lines": 1}, r"line 2: no column 'RRY'"),
    "UTF-16": (GOOD.encode("utf-16"), {}, r"line 1 is not utf-8-sig text.*'utf-16'"),
    "Latin-1": ("RRY,Größe\n1,2\n".encode("latin-1"), {}, r"line 1 is not .*'latin-1'"),
    "clock gap": (
        GOOD.replace("0.02", "0.05"), {"time": "t"},
        r"line 4: the clock leaps from 0.01 to 0.05 .* 0.01 s at sfreq=100",
    ),
    "clock gap, rate unknown": (
        "t,RRY\n" + "".join(f"{t},0\n" for t in (0, 1, 2, 4, 5)), {"time": "t", "sfreq": None},
        r"line 5: the clock leaps from 2 to 4 .* step of 2 s against 1 s elsewhere",
    ),
    "clock gap in dates": (
        "t,RRY\n2025-01-01 00:00:00,1\n2025-01-01 00:00:01,2\n2025-01-01 00:00:09,3\n",
        {"time": "t", "sfreq": 1},
        r"line 4: the clock leaps from 2025-01-01 00:00:01 to 2025-01-01 00:00:09",
    ),
    "clock goes back": (
        GOOD.replace("0.02", "0.00"), {"time": "t"},
        r"line 4: the clock goes back from 0.01 to 0.00 .* several recordings, pass subject=",
    ),
    "subject in two blocks": (
        "id,t,RRY\nA,0,1\nA,1,1\nB,0,1\nB,1,1\nA,0,1\nA,1,1\n",
        {"time": "t", "subject": "id", "sfreq": 1},
        r"line 6: the clock goes back.* several recordings",
    ),
    "gap among subjects in turn": (
        "id,t,RRY\n" + "".join(f"{s},{t},1\n" for t in (0, 1, 2, 5) for s in "AB"),
        {"time": "t", "subject": "id", "sfreq": 1},
        r"line 8: the clock leaps from 2 to 5.* Insert rows of NaN",
    ),
    "milliseconds": (
        "t,RRY\n0,1\n10,2\n20,3\n", {"time": "t"},
        r"line 3: the clock leaps from 0 to 10 .*milliseconds, divide them by 1000",
    ),
    "clock stands still": (
        GOOD.replace("0.02", "0.01"), {"time": "t"}, r"line 4: the clock stands still",
    ),
    "wrong rate": (
        "t,RRY\n" + "".join(f"{i / 120},0\n" for i in range(50)), {"time": "t"},
        r"line 51: .* 120 Hz, but sfreq=100",
    ),
    "date of another order": (
        "t,RRY\n04/03/2024 10:00:00,1\n04/03/2024 10:00:01,2\n", {"time": "t"},
        r"line 2: .*'04/03/2024 10:00:00', which is not a time.* ISO 8601 such as 2024",
    ),
    "no time": (GOOD.replace("0.01", ""), {"time": "t"}, r"line 3: column 't' is empty"),
    "odd time": (GOOD.replace("0.01", "noon"), {"time": "t"}, r"line 3: .*'noon', which is not"),
    "one sample": ("t,RRY\n0,1\n", {"time": "t", "sfreq": None}, r"line 2: one sample"),
    "no subject": ("id,RRY\nA,1\n,2\n", {"subject": "id"}, r"line 3: column 'id' is empty"),
    "two groups": (
        "id,arm,RRY\nA,x,1\nB,y,1\nA,y,2\n", {"subject": "id", "group": "arm"},
        r"line 4: column 'arm' is 'y', but 'x' before",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_malformed_files_are_refused(write, name):
    text, options, message = BAD[name]
    folder = write(A="id,arm,t,RRX,RRY\nZ,z,0,0,0\nZ,z,0.01,0,0\n", B=text)
    with pytest.raises(UnreadableFileError, match=message) as caught:
        Cohort.from_csv(folder / "B.csv", **{"channels": ["RRY"], "sfreq": 100, **options})
    assert str(folder / "B.csv") in str(caught.value)
    assert isinstance(caught.value, PerCDLError)
    assert isinstance(caught.value, ValueError)


def test_one_bad_file_among_good_ones_loads_nothing(write):
    folder = write(A=GOOD, B=GOOD.replace("4", "four"), C=GOOD)
    cohort = None
    with pytest.raises(UnreadableFileError, match=r"B\.csv, line 3"):
        cohort = read(folder)
    assert cohort is None


def test_subjects_come_once(write):
    folder = write(A=GOOD)
    (folder / "again").mkdir()
    (folder / "again" / "A.csv").write_text(GOOD)
    with pytest.raises(
        UnreadableFileError, match=r"subject 'A' was read before, from .*A\.csv.*Rename"
    ):
        Cohort.from_csv(folder / "**" / "*.csv", channels="RRY", sfreq=100)
    told_apart = Cohort.from_csv(
        folder / "**" / "*.csv",
        channels="RRY",
        sfreq=100,
        subject_of=lambda path: f"{path.parent.name}-{path.stem}",
    )
    assert len(told_apart) == 2
    long = write(long1="id,RRY\nA,1\n", long2="id,RRY\nA,1\n")
    with pytest.raises(UnreadableFileError, match=r"long2\.csv: subject 'A' .*long1\.csv"):
        Cohort.from_csv(long / "long*.csv", channels="RRY", sfreq=100, subject="id")


def test_channels_must_be_the_same_in_all_files(write):
    folder = write(A=GOOD, B=GOOD.replace("RRX", "RRZ"))
    with pytest.raises(
        PerCDLError, match=r"B\.csv: its channels are 'RRZ', 'RRY', but .*A\.csv are 'RRX'"
    ):
        read(folder, channels=None, time="t", sfreq=None)


def test_rates_may_differ_until_one_is_needed(write):
    folder = write(A=GOOD, B=GOOD.replace("0.0", "0.00"))
    cohort = read(folder, time="t", sfreq=None)
    assert cohort.sfreqs.tolist() == [100, 1000]
    with pytest.raises(PerCDLError, match=r"'A' was sampled at 100 Hz.*cohort\.resample\(100\)"):
        _ = cohort.sfreq


def test_milliseconds_are_asked_about(write):
    folder = write(A=GOOD, B="t,RRY\n0,1\n10,2\n20,3\n")
    with pytest.warns(ClockUnitWarning, match=r"'t' gives 0.1 .* read as seconds.* sfreq=100"):
        cohort = read(folder, time="t", sfreq=None)
    with pytest.raises(PerCDLError, match=r"milliseconds were read as seconds"):
        _ = cohort.sfreq


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("Time", "0 1 2"),
        ("", "5 6 7"),
        ("timestamp", "2025-03-01 2025-03-02 2025-03-03"),
        ("time_ms", "0 16 31"),
        ("Zeit", "0.00 0.02 0.03"),
        ("t", "0 1 3"),
    ],
)
def test_clocks_and_counters_are_not_channels(write, name, cells):
    rows = zip(cells.split(), "936", strict=True)
    folder = write(A=f"{name},x\n" + "".join(f"{cell},{x}\n" for cell, x in rows))
    with pytest.warns(ClockColumnWarning, match=f"Column '{name}' counts time or samples"):
        cohort = read(folder, channels=None)
    assert (cohort.channels, cohort[0].values.ravel().tolist()) == (("x",), [9, 3, 6])


def test_a_column_that_is_named_in_part_is_suggested(write):
    folder = write(A="PPG (a.u.);temp\n1,5;2\n1,6;2\n")
    with pytest.raises(UnreadableFileError, match=r"mean 'PPG \(a.u.\)'\?.*skip_lines=\.$"):
        read(folder, channels=["ppg"], delimiter=";", decimal=",")


def test_signals_may_be_named_like_clocks(write):
    assert read(write(A="t,x\n3,1\n1,2\n2,3\n"), channels=None).channels == ("t", "x")
    assert read(write(A="t\n1\n2\n3\n"), channels=None).channels == ("t",)
    assert read(write(A="t,x\n1,1\n2,2\n"), channels=["t", "x"]).channels == ("t", "x")
    assert read(write(A="1,x\n1,1\n2,2\n"), channels=None).channels == ("1", "x")


def test_columns_without_name_and_cells_are_left_out(write):
    folder = write(A="Zeit;Gyro;;\n0,0;5;;\n0,1;6;;\n0,2;4;;\n")
    cohort = read(folder, time="Zeit", sfreq=10, delimiter=";", decimal=",", channels=None)
    assert (cohort.channels, cohort[0].values.ravel().tolist()) == (("Gyro",), [5, 6, 4])


def test_a_clock_with_decimal_commas_is_no_channel(write):
    folder = write(A="Zeit;Gyro\n0,00;5\n0,02;6\n0,03;4\n")
    with pytest.warns(ClockColumnWarning, match="Column 'Zeit'"):
        cohort = read(folder, sfreq=60, delimiter=";", decimal=",", channels=None)
    assert cohort.channels == ("Gyro",)


def test_dates_and_durations_may_be_slow(write):
    for first, second in (("2024-03-04", "2024-03-05"), ("00:01:00", "00:02:00")):
        folder = write(A=f"t,RRY\n{first},1\n{second},2\n")
        assert read(folder, time="t", sfreq=None).sfreq < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sfreq": None}, "sampling rate is unknown"),
        ({"delimiter": "; "}, "delimiter='; ' .*must be two different ASCII"),
        ({"delimiter": ",", "decimal": ","}, "must be two different ASCII"),
        ({"encoding": "utf-7b"}, "encoding='utf-7b' is unknown"),
    ],
)
def test_arguments_are_checked(write, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        read(write(A=GOOD), **options)


def test_files_must_be_there(tmp_path):
    for path in ("none.csv", "*.csv", "."):
        with pytest.raises(FileNotFoundError, match=r"(There is no|No file).*Check the path"):
            Cohort.from_csv(tmp_path / path, channels="x", sfreq=1)
    with pytest.raises(InvalidParameterError, match="list of files is empty"):
        Cohort.from_csv([], channels="x", sfreq=1)


@pytest.mark.realdata
def test_real_walks(real_gait):
    some = sorted(real_gait.glob("GaitData/*.csv"))[:3]
    cohort = Cohort.from_csv(some, channels={"RRY": "gyro"}, sfreq=100, units="deg/s")
    assert cohort.subjects == tuple(path.stem for path in some)
    for recording, path in zip(cohort, some, strict=True):
        expected = pd.read_csv(path)["RRY"]
        np.testing.assert_allclose(recording.values[:, 0], expected, rtol=1e-14)
