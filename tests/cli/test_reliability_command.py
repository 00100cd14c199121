"""``percdl reliability``: how well the numbers of a model repeat."""

import pandas as pd
from commands import refused, run, write_walks


def test_people_recorded_twice(model_file, tmp_path):
    rows, _ = [], (tmp_path / "new").mkdir()
    for visit in (1, 2):
        for path in sorted(write_walks(tmp_path / str(visit), seed=2 + visit).glob("*.csv")):
            recording = f"{path.stem}-{visit}"
            path.rename(tmp_path / "new" / f"{recording}.csv")
            rows.append((recording, path.stem, f"day {visit}"))
    table, out = tmp_path / "walks.csv", tmp_path / "reliability.csv"
    pd.DataFrame(rows, columns=["subject", "name", "day"]).to_csv(table, index=False)
    options = ("reliability", model_file, tmp_path / "new", "--metadata", table, "--out", out)
    result = run(*options, "--person", "name", "--visit", "day")
    assert result.exit_code == 0, result.output
    found = pd.read_csv(out, index_col="measure")
    assert {"warp 1", "deviation", "period, atom 0"} <= {*found.index}
    assert (found["sdc_low"] <= found["sdc_high"]).all()
    assert "column(s) nobody" in refused(*options, "--person", "nobody")
