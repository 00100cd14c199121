"""The command line on small recordings: how it is called, and files for it to read."""

import json

import pandas as pd
from small_models import SFREQ, spaced_cohort
from typer.testing import CliRunner

from percdl.cli import app

PLAIN = {"COLUMNS": "400", "TERM": "dumb", "NO_COLOR": "1"}
# The fit of the other tests, as a command has it: programs compiled for one serve the others.
MODEL = (
    "--n-atoms 2 --atom-length 16 --penalty 0.3 --population-rounds 2 --personal-rounds 2 "
    "--depth 1 --width 3 --no-realign --no-multistart"
).split()
READ = ["--channels", "x", "--sfreq", f"{SFREQ:g}"]


def run(*arguments):
    """Call the command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=PLAIN)


def refused(*arguments, code=2):
    """Call a command that must end with a message; return it on one line."""
    result = run(*arguments)
    assert result.exit_code == code, (result.output, result.exception)
    assert "Traceback" not in result.output
    return " ".join(result.output.replace("│", " ").split())


def events_of(result):
    """Return the objects that a command wrote as JSON lines."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def write_walks(folder, seed=3):
    """Write recordings as CSV files: a column of times, one of samples, one of something else."""
    folder.mkdir(parents=True, exist_ok=True)
    for recording in spaced_cohort(seed):
        x = recording.values[:, 0]
        table = pd.DataFrame({"t": [i / SFREQ for i in range(len(x))], "x": x, "other": x**2})
        table.to_csv(folder / f"{recording.subject}.csv", index=False)
    return folder


def contents(folder):
    """Return the names of all files under a folder, hidden ones too."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
