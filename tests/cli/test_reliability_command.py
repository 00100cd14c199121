"""``percdl reliability``: how well the numbers of a model repeat."""

import pandas as pd
import pytest
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


@pytest.mark.parametrize("column", ["name", "day"])
def test_people_and_visits_are_known(column, walks, model_file, tmp_path):
    table = tmp_path / "walks.csv"
    people = pd.DataFrame({"subject": ["Ada", "Bo", "Cy", "Di"], "name": list("aabb"), "day": 1})
    people.assign(**{column: ["1", "", "1", ""]}).to_csv(table, index=False)
    options = ["--metadata", table, "--person", "name", "--visit", "day"]
    message = refused("reliability", model_file, walks, *options, "--out", tmp_path / "out.csv")
    assert f"column '{column}' of the metadata is empty for Bo, Di" in message
